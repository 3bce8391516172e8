"""Folders of their own for tests of the terminal client: the input keeps its history and its drafts on disk."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.host.local.kit import HostPlaceKit, local_place


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("DRAGOMAN_HOME", str(home))
    return home


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlaceKit]:
    """A user with a host of their own, and a project with one file."""
    with local_place(tmp_path) as found:
        (found.project / "a.txt").write_text("hello\n")
        yield found


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
