"""`replace_file`: the whole content or none of it, and everything else about the file stays."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from threading import Thread

import pytest

from dragoman.workspace.atomic import replace_file
from tests.workspace.kit import tree

UNPRIVILEGED = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file.txt").write_bytes(b"old\n")
    return tmp_path


@pytest.mark.parametrize(
    ("umask", "given", "mode"), [(0o022, None, 0o644), (0o077, None, 0o600), (0o002, 0o600, 0o600)]
)
def test_a_new_file_gets_the_mode_that_the_umask_gives(folder: Path, umask: int, given: int | None, mode: int) -> None:
    before = os.umask(umask)
    try:
        assert replace_file(folder / "new.txt", b"new\n", mode=given) == str(folder / "new.txt")
    finally:
        os.umask(before)
    assert (folder / "new.txt").read_bytes() == b"new\n"
    assert stat.S_IMODE((folder / "new.txt").stat().st_mode) == mode


@pytest.mark.parametrize("given", [None, 0o600])
def test_an_existing_file_keeps_its_mode(folder: Path, given: int | None) -> None:
    (folder / "file.txt").chmod(0o751)
    replace_file(folder / "file.txt", b"new\n", mode=given)
    assert (folder / "file.txt").read_bytes() == b"new\n"
    assert stat.S_IMODE((folder / "file.txt").stat().st_mode) == 0o751


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
def test_an_existing_file_keeps_its_owner(folder: Path) -> None:
    os.chown(folder / "file.txt", 1234, 2345)
    replace_file(folder / "file.txt", b"new\n")
    assert ((folder / "file.txt").stat().st_uid, (folder / "file.txt").stat().st_gid) == (1234, 2345)


@pytest.mark.parametrize(
    "target", ["file.txt", "{folder}/file.txt", "sub/../file.txt", "second", "new.txt", "sub/new.txt"]
)
def test_a_link_stays_and_the_file_it_leads_to_changes(folder: Path, target: str) -> None:
    (folder / "sub").mkdir()
    (folder / "second").symlink_to("file.txt")
    (folder / "link").symlink_to(target.format(folder=folder))
    real = os.path.realpath(folder / "link")
    assert replace_file(folder / "link", b"new\n") == real
    assert (folder / "link").is_symlink()
    assert (folder / "second").is_symlink()
    assert Path(real).read_bytes() == b"new\n"


def test_a_path_through_a_linked_folder_changes_the_real_file(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "alias").symlink_to("sub")
    assert replace_file(folder / "alias" / "new.txt", b"new\n") == str(folder / "sub" / "new.txt")
    assert (folder / "sub" / "new.txt").read_bytes() == b"new\n"


@pytest.mark.timeout(60)
def test_what_is_not_a_regular_file_is_refused(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "circle").symlink_to("circle")
    os.mkfifo(folder / "pipe")
    names = sorted(os.listdir(folder))
    for name in ("sub", "circle", "pipe", "missing/file.txt", "file.txt/file.txt"):
        with pytest.raises(OSError, match=name.partition("/")[0]):
            replace_file(folder / name, b"new\n")
    assert sorted(os.listdir(folder)) == names
    with pytest.raises(OSError, match="Not a regular file"):
        replace_file("/dev/null", b"new\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to act as a user who is not")
def test_a_write_protected_file_is_not_replaced() -> None:
    with tempfile.TemporaryDirectory() as name:  # not pytest's folder, which other users cannot enter
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "file.txt").write_bytes(b"old\n")
        (folder / "file.txt").chmod(0o444)
        os.seteuid(UNPRIVILEGED)
        try:
            with pytest.raises(PermissionError):
                replace_file(folder / "file.txt", b"new\n")
            replace_file(folder / "new.txt", b"new\n")
        finally:
            os.seteuid(0)
        assert (folder / "file.txt").read_bytes() == b"old\n"


@pytest.mark.parametrize("moment", ["write", "fsync", "rename", "fchmod"])
def test_a_write_that_fails_leaves_the_old_file_and_no_other(
    folder: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    before = tree(folder)
    monkeypatch.setattr(os, moment, fail)
    with pytest.raises(OSError, match="No space left"):
        replace_file(folder / "file.txt", b"new\n")
    assert tree(folder) == before


def test_a_reader_sees_the_old_content_or_the_new_one(folder: Path) -> None:
    contents = [letter * 200_000 for letter in (b"a", b"b")]
    path = folder / "file.txt"
    replace_file(path, contents[0])
    seen: set[bytes] = set()

    def write() -> None:
        for number in range(20):
            replace_file(path, contents[number % 2])

    writer = Thread(target=write)
    writer.start()
    while writer.is_alive():
        seen.add(path.read_bytes())
    writer.join()
    assert seen <= set(contents)


def test_two_writers_at_once_both_succeed_and_one_of_them_stays(folder: Path) -> None:
    contents = [letter * 100_000 for letter in (b"a", b"b")]
    threads = [Thread(target=replace_file, args=(folder / "file.txt", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (folder / "file.txt").read_bytes() in contents
    assert os.listdir(folder) == ["file.txt"]
