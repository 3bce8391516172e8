"""Files that tools read and write on this machine, below the session's folders and outside of them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dragoman.builtin.access import LocalAccess


@pytest.fixture
def access(tmp_path: Path) -> LocalAccess:
    (tmp_path / "project").mkdir()
    (tmp_path / "elsewhere").mkdir()
    return LocalAccess([str(tmp_path / "project")])


@pytest.mark.parametrize("folder", ["project", "elsewhere"])
async def test_a_new_file_gets_the_mode_that_the_umask_gives(access: LocalAccess, tmp_path: Path, folder: str) -> None:
    path = tmp_path / folder / "deep" / "new.txt"
    umask = os.umask(0o027)
    try:
        await access.write_text(str(path), "new\n")
    finally:
        os.umask(umask)
    assert path.read_text() == "new\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@pytest.mark.parametrize("folder", ["project", "elsewhere"])
async def test_a_write_through_a_link_changes_its_target_and_keeps_the_link(
    access: LocalAccess, tmp_path: Path, folder: str
) -> None:
    target, link = tmp_path / folder / "target.sh", tmp_path / folder / "link.sh"
    target.write_text("old\n")
    target.chmod(0o751)
    link.symlink_to("target.sh")
    await access.write_text(str(link), "new\n")
    assert link.is_symlink()
    assert target.read_text() == "new\n"
    assert stat.S_IMODE(target.stat().st_mode) == 0o751
