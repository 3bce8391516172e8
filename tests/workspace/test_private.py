"""`write_private`: the whole content or none of it, and no other user reads it at any moment."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.settings.documents import write_document
from dragoman.workspace.private import write_private

OLD, NEW = b"old" * 1000, b"new" * 100_000

# Ends itself, without a chance to clean up, at one moment of the write.
KILLED = """
import os, signal, sys
from dragoman.workspace.private import write_private

path, moment = sys.argv[1:]
real = getattr(os, moment)

def last(*given, **named):
    if moment == "write":
        real(given[0], bytes(given[1])[:1000])
    os.kill(os.getpid(), signal.SIGKILL)

setattr(os, moment, last)
write_private(path, b"new" * 100_000, is_synced=True)
"""

# The system ends the file in the middle, as a disk does that is full.
FULL = """
import resource, signal, sys
from pathlib import Path
from dragoman.settings.documents import write_document

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
write_document(Path(sys.argv[1]), {"text": "x" * 100_000})
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "file"
    path.write_bytes(OLD)
    path.chmod(0o600)
    return path


def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("moment", ["open", "write", "fsync", "rename"])
def test_a_writer_that_is_killed_leaves_the_old_content_and_nothing_that_others_can_read(
    file: Path, moment: str
) -> None:
    assert run(KILLED, str(file), moment).returncode == -9
    assert file.read_bytes() == OLD
    assert {stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()} == {0o600}
    write_private(file, NEW, is_synced=True)
    assert file.read_bytes() == NEW, "what was left is not in the way"


def test_settings_stay_as_they_are_on_a_disk_that_is_full(file: Path) -> None:
    failed = run(FULL, str(file))
    assert failed.returncode == 1
    assert "cannot be written: File too large" in failed.stderr
    assert file.read_bytes() == OLD
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("mode", [0o644, 0o666, None])
def test_only_the_owner_can_read_it_from_the_first_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int | None
) -> None:
    path = tmp_path / "file"
    if mode is not None:
        path.write_bytes(b"")
        path.chmod(mode)
    seen: list[int] = []
    real = os.write

    def slowly(fd: int, data: Any) -> int:
        seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
        return real(fd, data[:1000])

    before = os.umask(0)
    try:
        monkeypatch.setattr(os, "write", slowly)
        write_private(path, OLD, is_synced=False)
    finally:
        os.umask(before)
    assert seen == [0o600] * 3
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes() == OLD


@pytest.mark.parametrize("call", ["write", "fsync", "rename", "fchmod"])
def test_what_fails_changes_nothing_and_leaves_nothing(file: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space left"):
        write_private(file, NEW, is_synced=True)
    monkeypatch.undo()
    assert (file.read_bytes(), list(file.parent.iterdir())) == (OLD, [file])


@pytest.mark.parametrize("is_synced", [True, False])
def test_the_disk_has_the_content_before_the_name_and_then_the_name(
    file: Path, monkeypatch: pytest.MonkeyPatch, is_synced: bool
) -> None:
    order: list[str] = []
    sync, rename = os.fsync, os.rename

    def synced(fd: int) -> None:
        order.append("folder" if stat.S_ISDIR(os.fstat(fd).st_mode) else "content")
        sync(fd)

    def renamed(*given: Any, **named: Any) -> None:
        order.append("rename")
        rename(*given, **named)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "rename", renamed)
    write_private(file, NEW, is_synced=is_synced)
    assert order == (["content", "rename", "folder"] if is_synced else ["rename"])


def test_a_link_to_settings_stays_and_one_in_place_of_our_own_file_goes(tmp_path: Path) -> None:
    target, settings, ours = tmp_path / "target", tmp_path / "settings.json", tmp_path / "ours"
    target.write_bytes(OLD)
    settings.symlink_to(target)
    ours.symlink_to(target)
    write_private(ours, NEW, is_synced=False)
    assert (ours.is_symlink(), ours.read_bytes(), target.read_bytes()) == (False, NEW, OLD)
    write_document(settings, {"a": 1})
    assert settings.is_symlink()
    assert target.read_text() == '{\n  "a": 1\n}\n'
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


def test_a_folder_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_private(tmp_path / "folder", NEW, is_synced=False)
    with pytest.raises(ConfigError, match="cannot be written"):
        write_document(tmp_path / "folder", {})
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]
