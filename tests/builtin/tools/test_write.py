"""`write` makes files, and overwrites only what the model has seen."""

import os
from pathlib import Path

import pytest

from dragoman.builtin.tools.tool import FileDiff, Location
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor


async def test_a_new_file_is_made_with_its_folders(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    output = await context.call("write", path="a/b/c.py", text="x = 1\ny = 2\n")
    path = str(tmp_path / "a/b/c.py")
    assert context.read("a/b/c.py") == "x = 1\ny = 2\n"
    assert output.text == "Created a/b/c.py (2 lines)."
    assert output.diffs == (FileDiff(path, None, "x = 1\ny = 2\n"),)
    assert output.locations == (Location(path, 1),)


async def test_a_file_never_read_is_not_overwritten(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "theirs\n")
    assert "you have not read it" in await context.refusal("write", path="a", text="mine\n")
    assert context.read("a") == "theirs\n"


async def test_a_file_that_was_read_is_overwritten(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    path = context.write("a", "one\ntwo\n")
    await context.call("read", path="a", limit=1)
    output = await context.call("write", path="a", text="one\n2\n")
    assert context.read("a") == "one\n2\n"
    assert output.text == "Overwrote a (2 lines)."
    assert output.diffs == (FileDiff(path, "one\ntwo\n", "one\n2\n"),)
    assert output.locations == (Location(path, 2),)
    await context.call("write", path="a", text="again")
    assert context.read("a") == "again"


async def test_a_file_that_changed_since_it_was_read_is_not_overwritten(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\n")
    await context.call("read", path="a")
    context.write("a", "other text\n")
    assert "has changed since you last read it" in await context.refusal("write", path="a", text="mine\n")
    assert context.read("a") == "other text\n"
    await context.call("read", path="a")
    await context.call("write", path="a", text="mine\n")
    assert context.read("a") == "mine\n"


async def test_an_empty_file_can_be_filled_without_reading_it(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a")
    await context.call("write", path="a", text="x")
    assert context.read("a") == "x"


async def test_writing_what_is_there_changes_nothing(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    path = context.write("a", "same")
    before = os.stat(path)
    output = await context.call("write", path="a", text="same")
    assert "nothing was written" in output.text
    assert output.diffs == ()
    assert os.stat(path) == before


async def test_binary_files_and_folders_are_not_overwritten(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("binary", b"\0\1")
    context.write("folder/a")
    assert "is not overwritten" in await context.refusal("write", path="binary", text="x")
    assert "folder" in await context.refusal("write", path="folder", text="x")
    assert "names a folder" in await context.refusal("write", path="new/", text="x")


@pytest.mark.parametrize("folder", ["project", "elsewhere"])
async def test_a_change_through_a_link_changes_and_reports_the_file_it_leads_to(tmp_path: Path, folder: str) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / folder / "src").mkdir(parents=True)
    target, link = tmp_path / folder / "src" / "target.txt", tmp_path / folder / "link.txt"
    target.write_text("one\n")
    link.symlink_to("src/target.txt")
    context = FakeContext(tmp_path / "project")
    edited = await context.call("edit", path=str(link), old="one", new="two")
    await context.call("read", path=str(link))
    written = await context.call("write", path=str(link), text="three\n")
    for output in (edited, written):
        assert [place.path for place in output.locations] == [str(target)]
        assert [diff.path for diff in output.diffs] == [str(target)]
    assert target.read_text() == "three\n"
    assert link.is_symlink()


async def test_a_file_with_crlf_keeps_it_and_stays_known(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\r\ntwo\r\n")
    await context.call("read", path="a")
    await context.call("write", path="a", text="one\n2\n")
    assert context.read("a") == "one\r\n2\r\n"
    await context.call("write", path="a", text="three\n")
    assert context.read("a") == "three\r\n"


async def test_the_editor_writes_and_its_unsaved_text_counts(tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("on the disk")
    client = ScriptedClient(files={path: "typed\n"})
    async with with_editor(tmp_path, client) as context:
        assert "you have not read it" in await context.refusal("write", path="a.py", text="mine")
        await context.call("read", path="a.py")
        client.files.files[path] = "typed on\n"
        assert "has changed" in await context.refusal("write", path="a.py", text="mine")
        await context.call("read", path="a.py")
        output = await context.call("write", path="a.py", text="mine")
        assert output.diffs == (FileDiff(path, "typed on\n", "mine"),)
        await context.call("write", path="new.py", text="new")
    assert client.files.files == {path: "mine", str(tmp_path / "new.py"): "new"}
    assert context.read("a.py") == "on the disk"


async def test_of_a_large_file_the_diff_is_the_part_that_changed(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    lines = [f"line {number} of a long file\n" for number in range(20_000)]
    context.write("a", "".join(lines))
    await context.call("read", path="a")
    lines[10_000] = "changed\n"
    [diff] = (await context.call("write", path="a", text="".join(lines))).diffs
    assert diff.old is not None
    assert diff.new == "".join(lines[9_980:10_021])
    assert diff.old.splitlines()[20] == "line 10000 of a long file"


@pytest.mark.parametrize(
    ("arguments", "title", "diffs"),
    [
        ({}, "Write", ()),
        ({"path": None, "text": "x"}, "Write", ()),
        ({"path": "src/a"}, "Write src/a", ()),
        ({"path": "src/a", "text": 3}, "Write src/a", ()),
        ({"path": "src/a", "text": "x = "}, "Write src/a", (FileDiff("/w/src/a", None, "x = "),)),
    ],
)
def test_a_preview_grows_with_the_arguments(
    arguments: dict[str, object], title: str, diffs: tuple[FileDiff, ...]
) -> None:
    preview = TOOLS["write"].preview(arguments, "/w")
    assert (preview.title, preview.diffs) == (title, diffs)


@pytest.mark.parametrize(("name", "given"), [("write", {"text": "x"}), ("edit", {"old": "x", "new": "y"})])
def test_a_request_to_change_a_file_warns_of_links(tmp_path: Path, name: str, given: dict[str, str]) -> None:
    context = FakeContext(tmp_path)
    [request] = context.requests(name, path="new", **given)
    assert (request.kind, request.paths, request.caution) == ("edit", (str(tmp_path / "new"),), "")
    assert request.home == os.path.expanduser("~")
    os.link(context.write("a"), tmp_path / "b")
    assert "hard link" in context.requests(name, path="b", **given)[0].caution
    (tmp_path / "folder").symlink_to("/etc")
    [request] = context.requests(name, path="folder/x", **given)
    assert "symbolic link to /etc/x" in request.caution
    assert request.paths == (str(tmp_path / "folder/x"), "/etc/x")


async def test_a_link_out_of_the_folder_is_followed_to_the_file_that_was_judged(tmp_path: Path) -> None:
    context = FakeContext(tmp_path / "root")
    context.folder.mkdir()
    outside = tmp_path / "outside.txt"
    outside.write_text("")
    (context.folder / "link").symlink_to(outside)
    assert "link" in await context.refusal("write", path="link", text="one\n")
    [request] = context.requests("write", path="link", text="one\n")
    assert str(outside) in request.caution
    await context.call("write", path="link", text="one\n")
    assert (outside.read_text(), (context.folder / "link").is_symlink()) == ("one\n", True)
    context.requests("edit", path="link", old="one", new="two")
    await context.call("edit", path="link", old="one", new="two")
    assert outside.read_text() == "two\n"
    context.requests("edit", path="link", old="two", new="three")
    (context.folder / "link").unlink()
    (context.folder / "link").symlink_to(tmp_path / "other.txt")
    assert "leads elsewhere now" in await context.refusal("edit", path="link", old="two", new="three")
    assert outside.read_text() == "two\n"
