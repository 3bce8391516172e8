"""The two ways of `dragoman exec`: with an agent of its own, and in a session of the local host.

A test that takes `place` from here runs in both: what it promises does not depend on who runs the agent. The tests of a
file share one host. Each has a project of its own, and the settings and the environment as they were; the ledger and
the data folder are shared.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.exec_kit import ODD_AGENT, Done, Place
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit

WAYS = ("plain", "session")


class SessionPlace(HostPlaceKit):
    """Runs every `exec` in a session of the local host, each in a new one."""

    def __init__(self, folder: Path, warm: WarmPython) -> None:
        super().__init__(folder)
        self._warm = warm
        self._sessions = 0
        self._environment = dict(self.environment)

    def begin(self, folder: Path) -> None:
        """Prepares it for the next test, which has this folder."""
        self.project = folder / "project"
        self.project.mkdir()
        self.agent, self.environment = ODD_AGENT, dict(self._environment)
        shutil.rmtree(self.home / "dragoman" / "config", ignore_errors=True)

    def named(self, words: tuple[str, ...]) -> tuple[str, ...]:
        """The words of an `exec`, in a session of its own."""
        self._sessions += 1
        return ("--session", f"session-{self._sessions}", *words)

    def run(self, *words: str, odd: str | None = None, stdin: str | None = None, verb: str = "exec") -> Done:
        return super().run(*(self.named(words) if verb == "exec" else words), odd=odd, stdin=stdin, verb=verb)

    @contextmanager
    def started(self, *words: str, odd: str | None = None) -> Iterator[subprocess.Popen[str]]:
        with super().started(*self.named(words), odd=odd) as process:
            yield process

    def run_plainly(self, *words: str, odd: str | None = None) -> Done:
        """Runs it with an agent of its own."""
        return super().run(*words, odd=odd)


@pytest.fixture(scope="module")
def shared_host(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Iterator[SessionPlace]:
    """One host for the tests of a file."""
    found = SessionPlace(tmp_path_factory.mktemp("host"), warm_python)
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def plain_place(tmp_path: Path, warm_python: WarmPython) -> Iterator[Place]:
    """Where a run with an agent of its own happens; fails the test if something is left behind."""
    found = Place(tmp_path, warm_python)
    yield found
    found.assert_clean()


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path, warm_python: WarmPython) -> Iterator[Place]:
    """Where a run happens, in one of the two ways; fails the test if something is left behind."""
    if request.param == "plain":
        yield request.getfixturevalue("plain_place")
        return
    found: SessionPlace = request.getfixturevalue("shared_host")
    found.begin(tmp_path)
    yield found
