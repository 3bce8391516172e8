"""A write puts a whole file in place or leaves everything as it was, and keeps what is the file's own."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from threading import Thread

import pytest

from dragoman.workspace import Workspace, WorkspaceError
from tests.workspace.kit import refused, tree

UNPRIVILEGED = 65534


@pytest.mark.rule(278)
def test_a_missing_file_is_created_with_the_folders_it_needs(workspace: Workspace, project: Path) -> None:
    change = workspace.write_text(project / "a" / "b" / "new.txt", "new\n")
    assert (project / "a" / "b" / "new.txt").read_text() == "new\n"
    assert (change.before, change.after) == (None, b"new\n")
    assert change.folders == (str(project / "a"), str(project / "a" / "b"))
    umask = os.umask(0)
    os.umask(umask)
    assert stat.S_IMODE((project / "a" / "b" / "new.txt").stat().st_mode) == 0o666 & ~umask


@pytest.mark.parametrize("mode", [0o755, 0o600, 0o664])
def test_the_mode_of_a_file_stays(workspace: Workspace, project: Path, mode: int) -> None:
    path = project / "tool.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    workspace.write_text(path, "#!/bin/sh\nexit 0\n")
    assert stat.S_IMODE(path.stat().st_mode) == mode


def test_set_user_id_does_not_survive_a_write(workspace: Workspace, project: Path) -> None:
    path = project / "tool.sh"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o6755)
    workspace.write_text(path, "#!/bin/sh\nid\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o755


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to somebody else")
def test_the_owner_of_a_file_stays(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    os.chown(path, 1234, 2345)
    workspace.write_text(path, "print(2)\n")
    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 2345)


def test_attributes_of_a_file_stay(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    try:
        os.setxattr(path, "user.origin", b"elsewhere")
    except OSError as error:
        pytest.skip(f"this file system keeps no attributes: {error}")
    workspace.write_text(path, "print(2)\n")
    assert os.getxattr(path, "user.origin") == b"elsewhere"


MARK = b"\xef\xbb\xbf"


@pytest.mark.parametrize(
    ("existing", "text", "stored"),
    [
        (b"a\r\nb\r\n", "a\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nc\n", b"a\r\nc\r\n"),
        (b"a\r\nb\r\n", "a\r\nc\r\n", b"a\r\nc\r\n"),
        (b"a\r\nb\n", "a\nc\r\n", b"a\nc\r\n"),
        (b"a\nb\n", "a\nc\r\n", b"a\nc\r\n"),
        (b"a\r\n", "", b""),
        (b"no newline", "a\n", b"a\n"),
        (b"", "a\n", b"a\n"),
        (None, "a\r\n", b"a\r\n"),
        (MARK + b"a\r\n", "b\n", MARK + b"b\r\n"),
        (MARK + b"a\n", "\ufeffb\n", MARK + b"b\n"),
        (MARK, "", MARK),
        (b"a\n", "\ufeffb\n", MARK + b"b\n"),
    ],
)
def test_line_endings_and_byte_order_mark_of_a_file_stay(
    workspace: Workspace, project: Path, existing: bytes | None, text: str, stored: bytes
) -> None:
    path = project / "text.txt"
    if existing is not None:
        path.write_bytes(existing)
    assert workspace.preview(path, text).after == stored
    assert workspace.write_text(path, text).after == stored
    assert path.read_bytes() == stored


def test_a_preview_changes_and_records_nothing(workspace: Workspace, project: Path) -> None:
    before = tree(project)
    change = workspace.preview(project / "a" / "new.txt", "new\n")
    assert (change.before, change.after) == (None, b"new\n")
    assert workspace.preview(project / "src" / "main.py", "x\n").before == b"print(1)\n"
    assert tree(project) == before
    assert not (project / "a").exists()
    assert workspace.journal.changes() == ()


def test_a_write_that_was_decided_on_something_else_is_refused(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    agreed = workspace.preview(path, "theirs\n").before
    path.write_text("the user was faster\n")
    with refused("changed"):
        workspace.write_text(path, "theirs\n", expected=agreed)
    with refused("changed"):
        workspace.write_text(path, "theirs\n", expected=None)
    assert path.read_text() == "the user was faster\n"
    workspace.write_text(path, "theirs\n", expected=b"the user was faster\n")


@pytest.mark.parametrize("moment", ["fsync", "rename"])
def test_a_write_that_fails_leaves_everything_as_it_was(
    workspace: Workspace, project: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = tree(project)
    monkeypatch.setattr(os, moment, fail)
    for path in ("src/main.py", "new.txt", "deep/er/new.txt"):
        with pytest.raises(WorkspaceError, match="No space left"):
            workspace.write_text(project / path, "x\n")
    assert tree(project) == before
    assert not (project / "deep").exists()
    assert workspace.journal.changes() == ()


def test_a_file_that_changes_while_it_is_written_is_not_lost(
    workspace: Workspace, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project / "src" / "main.py"
    sync = os.fsync

    def interfere(fd: int) -> None:
        sync(fd)
        path.write_text("saved by the user\n")

    monkeypatch.setattr(os, "fsync", interfere)
    for name in (path, project / "src" / "new.py"):
        path = name
        with refused("changed"):
            workspace.write_text(name, "from the agent\n")
        assert name.read_text() == "saved by the user\n"
    assert sorted(os.listdir(project / "src")) == ["main.py", "new.py"]


def test_writing_what_stands_there_already_touches_nothing(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    before = path.stat()
    assert workspace.write_text(path, "print(1)\n").is_empty
    assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as somebody who is not")
def test_a_file_protected_from_writing_is_not_replaced(workspace: Workspace, project: Path) -> None:
    path = project / "fixed.txt"
    path.write_text("fixed\n")
    project.chmod(0o777)  # nothing above matters: the root is held by its descriptor
    path.chmod(0o444)
    os.seteuid(UNPRIVILEGED)
    try:
        with refused("denied"):
            workspace.write_text(path, "changed\n")
        workspace.write_text(project / "new.txt", "own\n")
    finally:
        os.seteuid(0)
    assert path.read_text() == "fixed\n"


def test_readers_see_the_old_text_or_the_new_one_and_never_half_of_it(workspace: Workspace, project: Path) -> None:
    path = project / "text.txt"
    texts = [letter * 200_000 + "\n" for letter in "ab"]
    workspace.write_text(path, texts[0])
    seen: set[str] = set()

    def write() -> None:
        for number in range(20):
            workspace.write_text(path, texts[number % 2])

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        seen.add(workspace.read_text(path))
    writer.join()
    assert seen <= set(texts)
