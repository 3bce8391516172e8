"""The two ways of `dragoman exec`: with an agent of its own, and in a session of the local host.

A test that takes `place` from here runs in both: what it promises does not depend on who runs the agent.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.exec_kit import Done, Place
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit

WAYS = ("plain", "session")


class SessionPlace(HostPlaceKit):
    """Runs every `exec` in a session of the local host, each in a new one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._sessions = 0

    def run(self, *words: str, odd: str | None = None, stdin: str | None = None, verb: str = "exec") -> Done:
        if verb == "exec":
            self._sessions += 1
            words = ("--session", f"session-{self._sessions}", *words)
        return super().run(*words, odd=odd, stdin=stdin, verb=verb)


@pytest.fixture(params=WAYS)
def place(request: pytest.FixtureRequest, tmp_path: Path, warm_python: WarmPython) -> Iterator[Place]:
    """Where a run happens, in one of the two ways; fails the test if something is left behind."""
    if request.param == "plain":
        plain = Place(tmp_path, warm_python)
        yield plain
        plain.assert_clean()
        return
    found = SessionPlace(tmp_path)
    try:
        yield found
    finally:
        found.end()
