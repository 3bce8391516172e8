"""`edit` replaces exactly the given text, or nothing."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.tools.edit import EditPiece, plan_edit
from dragoman.builtin.tools.edit_match import find
from dragoman.builtin.tools.tool import FileDiff, Location
from dragoman.testing import ScriptedClient
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor


async def test_the_only_occurrence_is_replaced(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    path = context.write("a.py", "one\ntwo\nthree\n")
    output = await context.call("edit", path="a.py", old="two", new="2")
    assert context.read("a.py") == "one\n2\nthree\n"
    assert output.text == "Edited a.py (line 2)."
    assert output.diffs == (FileDiff(path, "one\ntwo\nthree\n", "one\n2\nthree\n"),)
    assert output.locations == (Location(path, 2),)


async def test_an_ambiguous_text_is_refused_with_its_lines(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "x\ny\nx\n" * 6)
    why = await context.refusal("edit", path="a", old="x", new="z")
    assert "occurs 12 times in a (lines 1, 3, 4, 6, 7, 9, 10, 12, 13, 15 and 2 more)" in why
    assert context.read("a") == "x\ny\nx\n" * 6


async def test_overlapping_occurrences_are_ambiguous(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "aaa")
    assert "occurs 2 times" in await context.refusal("edit", path="a", old="aa", new="b")
    assert "(line 1)" in await context.text("edit", path="a", old="aa", new="b", all=True)
    assert context.read("a") == "ba"


async def test_every_occurrence_is_replaced_if_all_is_set(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "x\ny\nx\n")
    assert (
        await context.text("edit", path="a", old="x", new="zx", all="true") == "Edited a (2 replacements, lines 1, 3)."
    )
    assert context.read("a") == "zx\ny\nzx\n"


@pytest.mark.parametrize(
    ("old", "hint"),
    [
        ("import  os", "It is there with other white space:\n1\timport os"),
        ("1\timport os\n3\tdef f():", "begins with line numbers"),
        ("    return 1 + value", "The most similar lines are:\n3\t    return 1\n"),
        ("something else altogether", "Read the file again"),
        ("import sys", "The most similar lines are:\n1\timport os"),
    ],
)
async def test_a_missing_text_is_refused_with_what_may_be_meant(tmp_path: Path, old: str, hint: str) -> None:
    context = FakeContext(tmp_path)
    context.write("a.py", "import os\ndef f():\n    return 1\n")
    why = await context.refusal("edit", path="a.py", old=old, new="done!")
    assert why.startswith("old does not occur in a.py, so nothing was changed.")
    assert hint in why


@pytest.mark.parametrize(
    ("old", "new", "line", "ignored"),
    [
        ("def f():\n  return 1", "def f():\n  x = 2\n  return x", "def f():\n    x = 2\n    return x", "at both ends"),
        ("1\timport os\n2\tdef f():", "1\timport sys\n2\tdef f():", "import sys\ndef f():", "pasted line numbers"),
        ("return 1\n", "return 2\n", "    return 2\n", ""),
        ("    def f():\n        return 1", "    def f():\n        return 2", "def f():\n    return 2", "indentation"),
        ("def f():\\n    return 1", "def f():\\n    return 2", "def f():\n    return 2", "escapes"),
        ("import os  \ndef f():\t", "import sys\ndef f():", "import sys\ndef f():", "white space at line ends"),
    ],
)
async def test_harmless_differences_are_accepted_and_stated(
    tmp_path: Path, old: str, new: str, line: str, ignored: str
) -> None:
    context = FakeContext(tmp_path)
    context.write("a.py", "import os\ndef f():\n    return 1\n")
    text = await context.text("edit", path="a.py", old=old, new=new)
    assert line in context.read("a.py")
    assert ("matched after ignoring" in text) == bool(ignored)
    assert ignored in text


async def test_several_edits_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\ntwo\nthree\n")
    edits = [{"old": "one", "new": "1\n1"}, {"old": "three", "new": "3"}]
    assert await context.text("edit", path="a", edits=edits) == "Edited a (2 replacements, lines 1, 4)."
    assert context.read("a") == "1\n1\ntwo\n3\n"
    why = await context.refusal("edit", path="a", edits=[{"old": "two", "new": "2"}, {"old": "four", "new": "4"}])
    assert why.startswith("edit 2 of 2: old does not occur in a, so nothing was changed.")
    why = await context.refusal("edit", path="a", edits=[{"old": "two", "new": "2 2"}, {"old": "2 2\n3", "new": "4"}])
    assert "changes text that an edit before it has changed" in why
    assert context.read("a") == "1\n1\ntwo\n3\n"


async def test_an_edit_that_was_made_already_is_reported_as_such(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a.py", "a\nnew_name = 1\n")
    assert "already there (line 2)" in await context.refusal("edit", path="a.py", old="%%%%", new="new_name = 1")


async def test_a_failed_edit_reports_that_the_file_changed_since_it_was_read(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "one\n")
    await context.call("read", path="a")
    context.write("a", "other\n")
    assert "has changed since you last read it" in await context.refusal("edit", path="a", old="one", new="1")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"path": "a", "old": "x", "new": "x"}, "the same"),
        ({"path": "a", "old": "", "new": "x"}, "old is empty"),
        ({"path": "a", "new": "x"}, "old is missing"),
        ({"path": "a", "edits": []}, "edits is empty"),
        ({"path": "a", "old": "x", "new": "y", "edits": [{"old": "x", "new": "y"}]}, "not both"),
        ({"path": "b", "old": "x", "new": "y"}, "create it with write"),
        ({"path": "a", "old": "x\n", "new": "x\r\n"}, "differ only in their line ends"),
    ],
)
async def test_what_makes_no_sense_is_refused(tmp_path: Path, arguments: dict[str, Any], why: str) -> None:
    context = FakeContext(tmp_path)
    context.write("a", "x\n")
    assert why in await context.refusal("edit", **arguments)
    assert context.read("a") == "x\n"


@pytest.mark.parametrize(
    ("text", "old", "new", "result"),
    [
        ("a\r\nb\r\nc\r\n", "a\nb", "A\nB\nC", "A\r\nB\r\nC\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "\nb", "\nB", "a\r\nB\r\nc\r\n"),
        ("a\nb\n", "a\r\nb\r\n", "A\r\n", "A\n"),
        ("a\nb\r\nc\nd\n", "b\nc", "B\nC", "a\nB\nC\nd\n"),
    ],
)
async def test_line_ends_make_no_difference_and_stay_those_of_the_file(
    tmp_path: Path, text: str, old: str, new: str, result: str
) -> None:
    context = FakeContext(tmp_path)
    context.write("a", text)
    await context.call("edit", path="a", old=old, new=new)
    assert context.read("a") == result


async def test_an_edit_keeps_a_file_known_and_makes_no_other_known(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("read", "one\n")
    context.write("unread", "one\n")
    await context.call("read", path="read")
    for name in ("read", "unread"):
        await context.call("edit", path=name, old="one", new="two")
    await context.call("write", path="read", text="three\n")
    assert "you have not read it" in await context.refusal("write", path="unread", text="three\n")


async def test_unsaved_text_is_what_is_edited(tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("on the disk")
    client = ScriptedClient(files={path: "typed\nhere\n"})
    async with with_editor(tmp_path, client) as context:
        await context.call("edit", path="a.py", old="typed", new="edited")
        assert "does not occur" in await context.refusal("edit", path="a.py", old="disk", new="x")
        assert "there is no file" in await context.refusal("edit", path="b.py", old="disk", new="x")
    assert client.files.files == {path: "edited\nhere\n"}
    assert context.read("a.py") == "on the disk"


@pytest.mark.parametrize(
    ("arguments", "title", "diffs"),
    [
        ({}, "Edit", ()),
        ({"path": ["a"], "old": 1}, "Edit", ()),
        ({"path": "a", "old": "x"}, "Edit a", ()),
        ({"path": "a", "old": "x", "new": "y"}, "Edit a", (FileDiff("/w/a", "x", "y"),)),
    ],
)
def test_a_preview_shows_the_diff_when_both_sides_are_there(
    arguments: dict[str, object], title: str, diffs: tuple[FileDiff, ...]
) -> None:
    preview = TOOLS["edit"].preview(arguments, "/w")
    assert (preview.title, preview.diffs) == (title, diffs)


@given(st.text("ab\n", max_size=30), st.text("ab\n", min_size=1, max_size=4), st.text("xy\n", max_size=4))
def test_in_a_crlf_file_the_same_is_replaced_as_in_one_with_lf(text: str, old: str, new: str) -> None:
    spots = find(text, old)
    in_crlf = text.replace("\n", "\r\n")
    assert len(find(in_crlf, old)) == len(spots)
    if len(spots) == 1 and "\n" in text and old != new:
        plan = plan_edit("a", text, [EditPiece(old, new)])
        assert plan_edit("a", in_crlf, [EditPiece(old, new)]).changed == plan.changed.replace("\n", "\r\n")
