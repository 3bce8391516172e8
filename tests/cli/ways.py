"""The two ways of `dragoman exec`: with an agent of its own, and in a session of the local host.

A test that takes `place` from here runs in both: what it promises does not depend on who runs the agent. The tests of a
file share one host. Each has a project of its own, and the settings and the environment as they were; the ledger and
the data folder are shared.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
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

    def run(self, *words: str, odd: str | None = None, stdin: str | None = None, verb: str = "exec") -> Done:
        if verb == "exec":
            self._sessions += 1
            words = ("--session", f"session-{self._sessions}", *words)
        return super().run(*words, odd=odd, stdin=stdin, verb=verb)

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


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path, warm_python: WarmPython) -> Iterator[Place]:
    """Where a run happens, in one of the two ways; fails the test if something is left behind."""
    if request.param == "plain":
        plain = Place(tmp_path, warm_python)
        yield plain
        plain.assert_clean()
        return
    found: SessionPlace = request.getfixturevalue("shared_host")
    found.begin(tmp_path)
    yield found
