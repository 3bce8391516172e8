"""Text files: the client's when offered, the disk otherwise, and the same manners on both."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent import Agent, ClientError, Turn
from dragoman.errors import LocalProtocolError
from tests.agent.fixtures import Link, connected


class Reader:
    """An agent whose prompt is a call of `read_file` or `write_file`, and what came of it."""

    def __init__(self) -> None:
        self.agent = Agent("test")
        self.results: list[Any] = []
        self.calls: list[tuple[Any, ...]] = []

        @self.agent.prompt
        async def reply(turn: Turn) -> None:
            verb, *arguments = self.calls.pop(0)
            try:
                self.results.append(await getattr(turn, verb)(*arguments))
            except (ClientError, LocalProtocolError) as error:
                self.results.append(error)

    async def locally(self, cwd: Path, *call: Any) -> Any:
        """The result of one call on the disk."""
        self.calls.append(call)
        async with connected(self.agent) as line:
            updates, _ = await line.turn(await line.open(str(cwd)))
            assert updates == []
        return self.results.pop()


LINES = "one\ntwo\r\nthree\u2028still\n\nlast"


@pytest.mark.rule(89, 190, 272, 273, 274, 275)
async def test_a_file_is_read_from_the_client_that_offers_it(link: Link) -> None:
    reader = Reader()
    reader.calls = [("read_file", "src/a.py"), ("read_file", Path("/b.py"), 3, 2)]
    async with connected(reader.agent, link, {"fs": {"readTextFile": True}}) as line:
        session_id = await line.open("/work")
        for expected in ({"path": "/work/src/a.py"}, {"path": "/b.py", "line": 3, "limit": 2}):
            request_id = line.prompt(session_id)
            params = await line.answer_next("fs/read_text_file", {"content": "unsaved"})
            assert params == {"sessionId": session_id, **expected}
            await line.answer_to(request_id)
    assert reader.results == ["unsaved", "unsaved"]


@pytest.mark.rule(190, 272, 279)
@pytest.mark.parametrize("result", [{}, None, {"_meta": None}])
async def test_a_file_is_written_by_the_client_that_offers_it(result: object, tmp_path: Path) -> None:
    reader = Reader()
    reader.calls = [("write_file", "a.py", "x\n")]
    async with connected(reader.agent, capabilities={"fs": {"writeTextFile": True}}) as line:
        session_id = await line.open(str(tmp_path))
        request_id = line.prompt(session_id)
        params = await line.answer_next("fs/write_text_file", result)
        assert params == {"sessionId": session_id, "path": f"{tmp_path}/a.py", "content": "x\n"}
        await line.answer_to(request_id)
    assert reader.results == [None]
    assert os.listdir(tmp_path) == []


@pytest.mark.rule(272)
async def test_reading_and_writing_are_judged_each_by_its_own_flag(tmp_path: Path) -> None:
    reader = Reader()
    (tmp_path / "a").write_text("from the disk")
    reader.calls = [("read_file", "a"), ("write_file", "b", "to the disk")]
    async with connected(reader.agent, capabilities={"fs": {"readTextFile": False, "writeTextFile": True}}) as line:
        session_id = await line.open(str(tmp_path))
        assert (await line.turn(session_id))[0] == []
        line.prompt(session_id)
        await line.answer_next("fs/write_text_file", {})
        await line.next()
    assert reader.results == ["from the disk", None]


@pytest.mark.rule(280)
async def test_a_refusal_of_the_client_can_be_caught(link: Link) -> None:
    reader = Reader()
    reader.calls = [("read_file", "gone")]
    async with connected(reader.agent, link, {"fs": {"readTextFile": True}}) as line:
        line.prompt(await line.open())
        await line.refuse("fs/read_text_file", -32002, "Resource not found")
        assert (await line.next())["result"] == {"stopReason": "end_turn"}
    assert (reader.results[0].code, reader.results[0].message) == (-32002, "Resource not found")


@pytest.mark.rule(274, 277)
@pytest.mark.parametrize(
    ("line", "limit", "expected"),
    [
        (None, None, LINES),
        (1, None, LINES),
        (2, 1, "two\r\n"),
        (3, 2, "three\u2028still\n\n"),
        (None, 1, "one\n"),
        (5, 10, "last"),
        (6, None, ""),
        (100, 5, ""),
        (2, 0, ""),
    ],
)
async def test_the_disk_gives_the_same_windows_of_lines(
    line: int | None, limit: int | None, expected: str, tmp_path: Path
) -> None:
    (tmp_path / "a.txt").write_bytes(LINES.encode())
    assert await Reader().locally(tmp_path, "read_file", "a.txt", line, limit) == expected


@pytest.mark.rule(274)
@pytest.mark.parametrize(("line", "limit"), [(0, None), (-1, 1), (1, -1)])
async def test_a_window_that_cannot_be_is_refused(line: int, limit: int | None, tmp_path: Path) -> None:
    assert isinstance(await Reader().locally(tmp_path, "read_file", "a.txt", line, limit), LocalProtocolError)


@pytest.mark.rule(280)
async def test_a_missing_file_fails_as_a_client_would(tmp_path: Path) -> None:
    error = await Reader().locally(tmp_path, "read_file", "gone.txt")
    assert (error.code, error.data) == (-32002, {"path": f"{tmp_path}/gone.txt"})


async def test_a_path_that_is_not_a_text_file_fails_with_its_path(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    for name in ("binary", ".", "nul\0byte"):
        error = await Reader().locally(tmp_path, "read_file", name)
        assert isinstance(error, ClientError)
        assert error.code == -32603
        assert str(tmp_path) in error.message


@pytest.mark.rule(278)
async def test_writing_creates_or_replaces_a_file_and_keeps_what_it_was(tmp_path: Path) -> None:
    script = tmp_path / "script.sh"
    script.write_text("old")
    script.chmod(0o751)
    link = tmp_path / "link"
    link.symlink_to(script)
    umask = os.umask(0o027)
    try:
        assert await Reader().locally(tmp_path, "write_file", "new.txt", "a\r\nb\u2028") is None
        assert await Reader().locally(tmp_path, "write_file", "link", "new") is None
    finally:
        os.umask(umask)
    assert (tmp_path / "new.txt").read_bytes() == "a\r\nb\u2028".encode()
    assert stat.S_IMODE((tmp_path / "new.txt").stat().st_mode) == 0o640
    assert link.is_symlink()
    assert script.read_text() == "new"
    assert stat.S_IMODE(script.stat().st_mode) == 0o751
    assert sorted(os.listdir(tmp_path)) == ["link", "new.txt", "script.sh"]


async def test_a_write_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for name, text in (("folder", "x"), ("no/such/folder.txt", "x"), ("a.txt", "\ud800")):
        assert isinstance(await Reader().locally(tmp_path, "write_file", name, text), ClientError)
    assert os.listdir(tmp_path) == ["folder"]
