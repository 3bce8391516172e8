"""Folders of their own for tests of the terminal client: the input keeps its history and its drafts on disk."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place
from tests.idle import wait_until_idle
from tests.tui.here import UserHere


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    return home


@pytest.fixture(autouse=True)
def idle_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let Textual's pilot wait for the event loop, not for a time without CPU time."""
    for module in ("textual.app", "textual.pilot"):
        if module in sys.modules:
            monkeypatch.setattr(f"{module}.wait_for_idle", wait_until_idle)


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    """A user with a host of their own, and a project with one file."""
    with local_place(tmp_path, warm_python) as found:
        (found.project / "a.txt").write_text("hello\n")
        yield found


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserHere]:
    """A user whose clients run in this process, and a project with one file."""
    found = UserHere(tmp_path, monkeypatch)
    (found.project / "a.txt").write_text("hello\n")
    try:
        yield found
    finally:
        found.end()


@pytest.fixture
def terminals() -> Iterator[list[Any]]:
    """A list of terminals; the programs in those that a test adds are ended with it."""
    opened: list[Any] = []
    yield opened
    for each in opened:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(each.pid, signal.SIGKILL)
            os.waitpid(each.pid, 0)
        with suppress(OSError):
            each.close()
