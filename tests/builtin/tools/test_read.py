"""`read` shows a part of a text file, or explains why it cannot."""

from pathlib import Path

import pytest

from dragoman.builtin.tools.tool import Location
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor


async def test_lines_are_shown_after_their_numbers(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    path = context.write("src/a.py", "import os\r\n\r\nprint(os.name)\r\n")
    output = await context.call("read", path="src/a.py")
    assert output.text == "1\timport os\n2\t\n3\tprint(os.name)"
    assert output.locations == (Location(path),)
    assert not output.is_truncated


async def test_a_window_names_the_line_to_continue_with(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    path = context.write("a", "".join(f"{number}\n" for number in range(1, 11)))
    output = await context.call("read", path=path, line="3", limit="2")
    assert output.text == "3\t3\n4\t4\n[lines 3 to 4 of 10; continue with line=5]"
    assert output.is_truncated
    assert output.locations == (Location(path, 3),)
    assert (await context.text("read", path=path, line=0, limit=1)).startswith("1\t1\n")
    assert await context.text("read", path=path, line=9) == "9\t9\n10\t10"
    assert await context.text("read", path=path, line=-1) == "10\t10"
    assert (await context.text("read", path=path, line=-99, limit=None)).startswith("1\t1\n")


async def test_a_line_past_the_end_is_refused_with_the_number_of_lines(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "1\n2\n")
    assert "has 2 lines" in await context.refusal("read", path="a", line=3)


async def test_what_is_read_stays_below_50_kb(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", ("x" * 999 + "\n") * 1500)
    output = await context.call("read", path="a")
    assert 50_000 < len(output.text) < 51_300
    assert output.text.endswith("of 1500; continue with line=52]")
    rest = await context.text("read", path="a", line=52, limit=1)
    assert rest.startswith("52\txxx")


async def test_a_very_long_line_is_cut_and_reported_as_cut(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a.json", "x" * 100_000)
    output = await context.call("read", path="a.json")
    assert len(output.text) < 3000
    assert "98000 more characters" in output.text
    assert output.is_truncated


async def test_an_empty_file_differs_from_one_with_an_empty_line(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("empty")
    context.write("line", "\n")
    assert await context.text("read", path="empty") == "[the file is empty]"
    assert await context.text("read", path="line") == "1\t"


async def test_a_folder_gives_the_names_in_it(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("src/b.py")
    context.write("src/a/c.py")
    context.write("src/.env")
    assert await context.text("read", path="src") == ".env\na/\nb.py"
    (tmp_path / "none").mkdir()
    assert "is empty" in await context.text("read", path="none")


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("a.PNG", b"no image", "is not a PNG, JPEG, GIF or WebP image"),
        ("a.tiff", b"II*\0", "convert it to PNG"),
        ("a.pdf", b"%PS", "is not a PDF file"),
        ("a.dat", b"a\0b", "not text"),
        ("latin", b"caf\xe9", "not UTF-8"),
    ],
)
async def test_a_body_that_is_not_text_is_refused(tmp_path: Path, name: str, content: bytes, why: str) -> None:
    context = FakeContext(tmp_path)
    context.write(name, content)
    assert why in await context.refusal("read", path=name)


async def test_a_missing_file_is_answered_with_names_like_it(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("src/parser.py")
    why = await context.refusal("read", path="src/parsr.py")
    assert why == "there is no file src/parsr.py; find its right name with glob. Did you mean src/parser.py?"
    assert "Did you mean" not in await context.refusal("read", path="/nonexistent/parsr.py")


@pytest.mark.parametrize("path", ["", "  ", "a\0b"])
async def test_what_names_no_file_is_refused(tmp_path: Path, path: str) -> None:
    assert "the path is empty" in await FakeContext(tmp_path).refusal("read", path=path)


async def test_a_link_out_of_the_folder_is_not_followed(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root")
    context.folder.mkdir()
    (tmp_path / "secret").write_text("hush")
    (context.folder / "link").symlink_to(tmp_path / "secret")
    assert "hush" not in await context.refusal("read", path="link")


async def test_a_link_out_of_the_folder_is_followed_to_the_file_that_was_judged(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root")
    context.folder.mkdir()
    (tmp_path / "a").write_text("hello")
    (tmp_path / "secret").write_text("hush")
    link = context.folder / "link"
    link.symlink_to(tmp_path / "a")
    [request] = context.requests("read", path="link")
    assert request.paths == (str(link), str(tmp_path / "a"))
    assert "hello" in await context.text("read", path="link")
    assert "hello" not in await context.refusal("read", path="link"), "a permission is for one call"
    context.requests("read", path="link")
    link.unlink()
    link.symlink_to(tmp_path / "secret")
    assert "leads elsewhere now" in await context.refusal("read", path="link")
    context.requests("grep", pattern="hush", path="link")
    assert "hush" in await context.text("grep", pattern="hush", path="link")


async def test_unsaved_text_is_what_is_read(tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("on the disk\n")
    client = ScriptedClient(files={path: "in the editor\n"})
    async with with_editor(tmp_path, client) as context:
        assert await context.text("read", path="a.py") == "1\tin the editor"
        assert "there is no file b.py" in await context.refusal("read", path="b.py")
        client.files.files[path] = "a\0b"
        assert "is binary" in await context.refusal("read", path="a.py")


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Read"),
        ({"path": 3}, "Read"),
        ({"path": "src/a.py"}, "Read src/a.py"),
        ({"path": "/w/src/a.py", "line": 10, "limit": 11}, "Read src/a.py (lines 10-20)"),
        ({"path": "/w/src/a.py", "line": "10"}, "Read src/a.py (from line 10)"),
        ({"path": "a", "limit": 5}, "Read a (lines 1-5)"),
        ({"path": "a", "line": 5, "limit": 1}, "Read a (line 5)"),
        ({"path": "a", "line": -5}, "Read a (last 5 lines)"),
        ({"path": "a", "line": [], "limit": {}}, "Read a"),
        ({"path": "a", "line": True}, "Read a"),
        ({"path": "/etc/hosts"}, "Read /etc/hosts"),
        ({"path": "."}, "Read ."),
    ],
)
def test_a_title_names_the_file_and_the_lines(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["read"].preview(arguments, "/w").title == title


def test_permission_is_requested_for_the_file_and_its_link_target(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    [request] = context.requests("read", path="src/../a")
    assert (request.agent, request.kind, request.paths) == ("dragoman", "read", (str(tmp_path / "a"),))
    assert (request.root, request.caution) == (str(tmp_path), "")
    (tmp_path / "link").symlink_to("/etc/hosts")
    [request] = context.requests("read", path="link")
    assert request.paths == (str(tmp_path / "link"), "/etc/hosts")


def test_a_root_behind_a_link_is_still_the_root(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "real")
    [request] = FakeContext(tmp_path / "root").requests("read", path="a")
    assert request.paths == (str(tmp_path / "root" / "a"),)


def test_reading_a_file_of_kept_output_needs_no_permission(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root")
    assert context.requests("read", path=f"{context.overflow_dir}/call_1.txt") == ()
    assert len(context.requests("read", path=f"{context.overflow_dir}/../x")) == 1
    context.overflow_dir = str(tmp_path)
    assert len(context.requests("read", path="a")) == 1
