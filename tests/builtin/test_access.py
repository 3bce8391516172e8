"""Where tools read and write: files of this machine, in the session's folders and outside, and those of the client."""

from __future__ import annotations

import asyncio
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.access import LocalAccess
from dragoman.client import Session
from dragoman.schema import v1
from dragoman.store.sessions import Store
from dragoman.testing.scripted_client import FilesInMemory, RealTerminals
from tests.builtin.http_service import Service, ask


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


async def test_a_client_knows_the_call_before_it_is_asked_for_a_file_or_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the store is slow: nothing is shown before it is stored."""
    append = Store.append_log

    async def slowly(self: Store, *given: Any) -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        await append(self, *given)

    monkeypatch.setattr(Store, "append_log", slowly)
    service = Service(tmp_path, mode="full")
    known: list[set[str]] = []

    class Files(FilesInMemory):
        async def read_text_file(self, request: v1.ReadTextFileRequest, session: Session) -> str:
            known.append({str(call.kind) for call in session.state.tool_calls.values()})
            return await super().read_text_file(request, session)

        async def write_text_file(self, request: v1.WriteTextFileRequest, session: Session) -> None:
            known.append({str(call.kind) for call in session.state.tool_calls.values()})
            await super().write_text_file(request, session)

    class Terminals(RealTerminals):
        async def create(self, request: v1.CreateTerminalRequest, session: Session) -> str:
            known.append({str(call.kind) for call in session.state.tool_calls.values()})
            return await super().create(request, session)

    files = Files({str(service.project / "a.txt"): "text\n"})
    async with service.session(files=files, terminals=Terminals()) as session:
        await ask(session, "read a.txt", "edit a.txt text => new", "run true")
    assert known[0] == {"read"}
    assert all("edit" in each for each in known[1:]), known
    assert "execute" in known[-1]
