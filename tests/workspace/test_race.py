"""Threat 3, the race between looking and opening: what is checked is what is opened.

Another process exchanges a file, and a folder, with links that lead out, as fast as it can. The naive way (resolve the
path, compare, open) runs beside ours as the control: as long as it escapes, the race was real.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from dragoman.workspace import Workspace, WorkspaceError
from tests.workspace.conftest import SECRET
from tests.workspace.kit import tree

RACE_SECONDS = 2.0
# The control needs one escape. A busy machine with one core may take long to interrupt us at the right moment.
CONTROL_SECONDS = 10.0

# RENAME_EXCHANGE (2) leaves no moment without a file at the name. Ends with its parent.
ATTACKER = """
import ctypes, os, sys
exchange = ctypes.CDLL(None, use_errno=True).renameat2
pairs = [(os.fsencode(a), os.fsencode(b)) for a, b in zip(sys.argv[1::2], sys.argv[2::2])]
print("ready" if not any(exchange(-100, a, -100, b, 2) for a, b in pairs) else "cannot exchange", flush=True)
parent = os.getppid()
while os.getppid() == parent:
    for _ in range(1000):
        for a, b in pairs:
            exchange(-100, a, -100, b, 2)
"""


@contextmanager
def attacked(*pairs: tuple[Path, Path]) -> Iterator[None]:
    """While this is open, the names of each pair change places all the time."""
    names = [str(name) for pair in pairs for name in pair]
    attacker = subprocess.Popen([sys.executable, "-c", ATTACKER, *names], stdout=subprocess.PIPE, text=True)
    try:
        assert attacker.stdout is not None
        answer = attacker.stdout.readline().strip()
        if answer != "ready":
            pytest.skip(f"this system cannot exchange two names at once ({answer}), so nothing can be raced")
        yield
    finally:
        attacker.kill()
        attacker.communicate()


class Naive:
    """What others do: resolve, compare, open by name."""

    def __init__(self, root: Path) -> None:
        self._root = str(root) + "/"

    def read_text(self, path: Path) -> str:
        if not os.path.realpath(path).startswith(self._root):
            raise PermissionError
        return path.read_text()

    def write_text(self, path: Path, text: str) -> None:
        if not os.path.realpath(path).startswith(self._root):
            raise PermissionError
        path.write_text(text)


@pytest.fixture
def battlefield(project: Path) -> Path:
    """`file` and `folder` beside links of the same kind that lead out; every file is the secret or harmless."""
    outside = project.parent / "elsewhere"
    (project / "file").write_text("harmless\n")
    (project / "file.link").symlink_to(outside / "secret.txt")
    (project / "folder").mkdir()
    (project / "folder" / "secret.txt").write_text("harmless\n")
    (project / "folder.link").symlink_to("../elsewhere")
    return project


def test_threat_3_no_read_escapes_in_a_race(battlefield: Path, workspace: Workspace) -> None:
    names = [battlefield / "file", battlefield / "folder" / "secret.txt"]
    control = Naive(battlefield)
    escapes = {"ours": 0, "naive": 0}
    reads = 0
    with attacked(
        (battlefield / "file", battlefield / "file.link"), (battlefield / "folder", battlefield / "folder.link")
    ):
        start = time.monotonic()
        while (spent := time.monotonic() - start) < RACE_SECONDS or (not escapes["naive"] and spent < CONTROL_SECONDS):
            for path in names:
                with suppress(WorkspaceError):
                    escapes["ours"] += workspace.read_text(path) == SECRET
                    reads += 1
                with suppress(OSError):
                    escapes["naive"] += control.read_text(path) == SECRET
    assert escapes["ours"] == 0
    assert reads > 0
    _require_control(escapes["naive"])


def test_threat_3_no_write_escapes_in_a_race(battlefield: Path, workspace: Workspace) -> None:
    outside = battlefield.parent / "elsewhere"
    names = [battlefield / "file", battlefield / "folder" / "secret.txt", battlefield / "folder" / "new.txt"]
    control = Naive(battlefield)
    writes = escapes = 0
    before = tree(outside)
    with attacked(
        (battlefield / "file", battlefield / "file.link"), (battlefield / "folder", battlefield / "folder.link")
    ):
        start = time.monotonic()
        while time.monotonic() - start < RACE_SECONDS:
            for path in names:
                with suppress(WorkspaceError):
                    workspace.write_text(path, f"ours {writes}\n")
                    writes += 1
        assert tree(outside) == before
        start = time.monotonic()
        while not escapes and time.monotonic() - start < CONTROL_SECONDS:
            for path in names:
                with suppress(OSError):
                    control.write_text(path, "naive\n")
            escapes += tree(outside) != before
    assert writes > 0
    _require_control(escapes)


def _require_control(escapes: int) -> None:
    if not escapes:
        pytest.skip(f"the naive way did not escape within {CONTROL_SECONDS:.0f} s: this machine could not race")
