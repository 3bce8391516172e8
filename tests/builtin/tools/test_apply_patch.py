"""`apply_patch` changes all files of a patch, or none."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.tools.apply_patch import ApplyPatchTool
from dragoman.builtin.tools.patch_format import PatchError, apply_chunks, parse_patch
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from tests.builtin.tools.fixtures import FakeContext

TOOL = ApplyPatchTool()


def patch(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


async def apply(context: FakeContext, *lines: str) -> ToolOutput:
    return await TOOL.run(TOOL.arguments(patch(*lines)), context)


async def refusal(context: FakeContext, *lines: str) -> str:
    with pytest.raises(ToolError) as error:
        await apply(context, *lines)
    return str(error.value)


async def test_files_are_added_changed_moved_and_deleted_by_one_patch(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write(
        "a.py", "import os\n\n\nclass A:\n    def f(self):\n        return 1\n\n    def g(self):\n        return 1\n"
    )
    context.write("old.txt", "x\n")
    context.write("moved.txt", "one\ntwo\n")
    output = await apply(
        context,
        *("*** Add File: sub/new.txt", "+first", "+", "+last"),
        *("*** Update File: a.py", "@@ class A:", "@@     def g(self):", "-        return 1", "+        return 2"),
        *("*** Delete File: old.txt", "*** Update File: moved.txt", "*** Move to: sub/other.txt", " one", "-two", "+2"),
    )
    assert context.read("sub/new.txt") == "first\n\nlast\n"
    assert context.read("a.py").endswith("def f(self):\n        return 1\n\n    def g(self):\n        return 2\n")
    assert context.read("sub/other.txt") == "one\n2\n"
    assert not (tmp_path / "old.txt").exists()
    assert not (tmp_path / "moved.txt").exists()
    assert output.text.splitlines() == [
        *("Applied the patch:", "A sub/new.txt", "M a.py", "D old.txt", "D moved.txt", "A sub/other.txt")
    ]
    assert [(diff.old is None, diff.new) for diff in output.diffs][2:4] == [(False, ""), (False, "")]


@pytest.mark.parametrize(
    ("text", "chunk", "result"),
    [
        ("a\nb\n", ["@@", "-a", "+A"], "A\nb\n"),
        ("a\nb\n", [" a", "+x", " b"], "a\nx\nb\n"),  # the first chunk needs no @@
        ("a\nb\na\nb\n", ["@@", " b", "-a", "+A"], "a\nb\nA\nb\n"),
        ("a\nb\na\n", ["@@", "-a", "+z", "*** End of File"], "a\nb\nz\n"),
        ("a\n", ["@@", "+b"], "a\nb\n"),  # a pure insertion goes to the end
        ("a\nc\n", ["@@ a", "+b"], "a\nb\nc\n"),  # or after the line that is named
        ("a\r\nb\r\n", ["@@", "-a", "+A"], "A\r\nb\r\n"),
        ("a", ["@@", "-a", "+A"], "A\n"),
        ("  a  \nb\n", ["@@", " a", "-b", "+B"], "  a  \nB\n"),  # unchanged lines stay as they are in the file
        ("f(“x”)\nb\n", ["@@", ' f("x")', "-b", "+B"], "f(“x”)\nB\n"),
        ("a\n\nb\n", ["@@", " a", "", "-b", "+B"], "a\n\nB\n"),
        ("a\nb\nc\nd\n", ["@@", "-a", "+A", "@@", "-c", "+C"], "A\nb\nC\nd\n"),
    ],
)
def test_a_chunk_is_found_and_replaced(text: str, chunk: list[str], result: str) -> None:
    (file,) = parse_patch(patch("*** Update File: f", *chunk))
    assert apply_chunks(text, file.chunks, "f")[0] == result


@pytest.mark.parametrize(
    "wrapped",
    [
        "apply_patch <<'EOF'\n{}\nEOF",
        '<<"EOF"\n{}\nEOF\n',
        "<<EOF\n{}\nEOF",
        "apply_patch\n{}",
        "  {}  \n\n",
    ],
)
def test_what_models_put_around_a_patch_is_ignored(wrapped: str) -> None:
    (file,) = parse_patch(wrapped.format(patch("*** Delete File: a b.txt")))
    assert (file.action, file.path) == ("delete", "a b.txt")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "the first line of a patch"),
        ("*** Begin Patch\n*** Delete File: a", "the last line of a patch"),
        (patch(), "names no file"),
        (patch("*** Rename File: a"), "line 2 of the patch: a file section has to begin here"),
        (patch("*** Add File: a"), "that begins with + has to be here; it is the end of the patch"),
        (patch("*** Update File: a"), "a change of a has to be here"),
        (patch("*** Update File: a", "@@", "text"), "line 4 of the patch: a line that begins with a blank"),
        (patch("*** Update File: a", "-x", "text"), "@@ has to begin the next chunk"),
        (patch("*** Delete File: "), "the path is missing"),
    ],
)
def test_a_patch_that_cannot_be_read_names_the_line(text: str, why: str) -> None:
    with pytest.raises(PatchError) as error:
        parse_patch(text)
    assert why in str(error.value)


@pytest.mark.parametrize(
    ("lines", "why"),
    [
        (["*** Add File: a", "+x"], "a exists already"),
        (["*** Delete File: missing"], "there is no file missing"),
        (["*** Update File: a", "-zero", "+0"], "a: these lines are not there, so nothing was changed:\nzero"),
        (["*** Update File: a", "@@ nowhere", "-one", "+1"], "there is no line 'nowhere'"),
        (["*** Update File: a", "*** Move to: b", "-one", "+1"], "b exists already"),
        (["*** Update File: c", "-  x", "+y"], "occur 2 times if white space"),
    ],
)
async def test_if_one_part_cannot_be_applied_nothing_is_changed(tmp_path: Path, lines: list[str], why: str) -> None:
    context = FakeContext(tmp_path)
    for name, text in (("a", "one\ntwo\n"), ("b", "b\n"), ("c", " x\n x\n")):
        context.write(name, text)
    assert why in await refusal(context, "*** Update File: b", "-b", "+B", *lines)
    assert [context.read(name) for name in "abc"] == ["one\ntwo\n", "b\n", " x\n x\n"]


async def test_what_was_written_before_a_failure_gets_its_old_text_back(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\n")
    why = await refusal(context, "*** Update File: a", "-one", "+1", "*** Add File: a/below", "+text")
    assert why.startswith("nothing was changed: ")
    assert "a part of the path is a file" in why
    assert context.read("a") == "one\n"


async def test_a_patch_that_changes_nothing_is_refused(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\ntwo\n")
    assert "changes nothing" in await refusal(context, "*** Update File: a", "@@", " one", "-two", "+two")


def test_permission_is_asked_for_every_file_and_the_title_names_them(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    text = patch("*** Update File: a", "*** Move to: b", "-x", "+y", "*** Delete File: c", "*** Add File: d", "+x")
    requests = TOOL.requests(TOOL.arguments(text), context)
    assert [Path(request.paths[0]).name for request in requests] == ["a", "b", "c", "d"]
    assert TOOL.preview({"patch": text}, str(tmp_path)).title == "Patch a, c, d"
    cut: dict[str, Any] = {"patch": text[:40]}
    assert TOOL.preview(cut, str(tmp_path)).title == "Apply patch"
