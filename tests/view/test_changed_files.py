"""Changed files on pages: colours of code, marks within lines, the tree of files, and patches read back."""

from __future__ import annotations

import re
from time import thread_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.view.blocks import DiffPiece
from dragoman.view.changed_files import DiffElements, LinkedChange, file_tree
from dragoman.view.code import MOST_CHARACTERS, code_lines
from dragoman.view.diffs import diff_piece, read_patched_files
from dragoman.view.elements import make, write
from dragoman.view.prose import prose
from dragoman.workspace.patch_text import PatchSide, file_patch
from tests.view.test_writers import EVIL, assert_harmless

NAMES = ("a.py", "a.ts", "a.rs", "a.sh", "a.yaml", "a.json", "a.sql", "a.html", "a.css")


@pytest.mark.parametrize(
    ("name", "line", "classes"),
    [
        ("src/a.py", 'def f(): return "x", 12, None  # why', "keyword keyword string value value comment"),
        ("A.TS", "const x = `a` // b", "keyword string comment"),
        ("a.go", "func f() { /* x */ }", "keyword comment"),
        ("a.rs", "fn f<'a>(x: &'a str) { 'x' }", "keyword string"),
        ("run.sh", 'if [ "$x" ]; then # y', "keyword string keyword comment"),
        ("a.toml", 'key = "v" # c', "keyword string comment"),
        ("a.json", '{"a": [1, true, "x"]}', "keyword value value string"),
        ("a.sql", "SELECT 1 -- x", "keyword value comment"),
        ("a.html", '<a href="x">', "keyword string keyword"),
        ("a.css", "a { color: #fff; }", "keyword value"),
        ("Makefile", "x: # y", "comment"),
        ("python", "import os", "keyword"),
    ],
)
def test_words_of_code_have_classes(name: str, line: str, classes: str) -> None:
    lines = code_lines(name, [line])
    assert lines is not None
    assert [kind for _, kind in lines[0] if kind] == classes.split()


def test_a_text_over_several_lines_keeps_its_class() -> None:
    lines = code_lines("a.py", ['x = """a', 'b"""', "y"])
    assert lines == [[("x = ", ""), ('"""a', "string")], [('b"""', "string")], [("y", "")]]
    # Quotes that end a text which began above are not the beginning of one.
    assert (code_lines("a.py", ['the end."""', "y = 1"]) or [])[1] == [("y = ", ""), ("1", "value")]


def test_what_is_not_known_has_no_colours() -> None:
    assert code_lines("notes.txt", ["if x"]) is None
    assert code_lines("", ["if x"]) is None
    assert code_lines("a.py", ["x" * (MOST_CHARACTERS + 1)]) is None


@given(st.sampled_from(NAMES), st.lists(st.text("\"'`/*#<!->\\\n\t ab1:=@[]{}$_", max_size=40), max_size=6))
def test_colours_never_change_the_text(name: str, lines: list[str]) -> None:
    lines = [line for text in lines for line in text.split("\n")] or [""]
    runs = code_lines(name, lines)
    assert runs is not None
    assert ["".join(text for text, _ in line) for line in runs] == lines


@pytest.mark.parametrize("name", NAMES)
def test_code_is_read_in_linear_time(name: str) -> None:
    marks = ('"""', "/* ", "<!-- ", "' ", '"\\', "`", "- ", "a: ", "\n", " ", '"a" ', "-", "_", "'''", "[", "x= ")

    def seconds(count: int) -> float:
        start = thread_time()  # what other tests do meanwhile does not count
        for mark in marks:
            code_lines(name, (mark * (count // len(mark))).split("\n"))
        return thread_time() - start

    seconds(100)
    small, large = max(0.01, seconds(2_000)), seconds(20_000)
    assert large < 60 * small  # ten times as much text; a square would be a hundred


def test_a_change_has_colours_and_marks_what_differs_within_a_line() -> None:
    html = write([DiffElements().of(diff_piece("a.py", "x = old_name\n", "x = new_name\n"), "change-1")])
    assert '<div class="diff" id="change-1"><div class="path">a.py ' in html
    assert re.search('<span class="removed">-x = <span class="changed">old_name</span>\n</span>', html)
    assert re.search('<span class="added">\\+x = <span class="changed">new_name</span>\n</span>', html)
    html = write([DiffElements().of(diff_piece("a", "say hello, x\n", "say good day, x\n"), "a")])
    assert '-say <span class="changed">hello</span>, x' in html
    assert '+say <span class="changed">good day</span>, x' in html
    html = write([DiffElements().of(diff_piece("a.py", None, "return None\n"), "change-1")])
    assert '+<span class="c-keyword">return</span> <span class="c-value">None</span>\n' in html
    assert '<span class="aside">new file</span>' in html


def test_code_in_messages_has_colours_too() -> None:
    html = write(prose("```py\nif x:\n    return 1\n```\n\n```\nif x\n```"))
    assert '<code><span class="c-keyword">if</span> x:\n    <span class="c-keyword">return</span> ' in html
    assert "<code>if x</code>" in html


def test_very_long_changes_are_shown_without_colours() -> None:
    diffs = DiffElements()
    line = f"return {'x' * 80}\n"
    long = diff_piece("a.py", None, line * 2_000)
    pages = [write([diffs.of(long, "a")]) for _ in range(10)]
    assert "c-keyword" in pages[0]
    assert "c-keyword" not in pages[-1]
    assert pages[-1].count(f"+{line}") == 2_000


def test_marks_within_very_many_lines_end_some_time() -> None:
    diffs = DiffElements()
    old, new = "".join(f"{n} {'x' * 90}\n" for n in range(200)), "".join(f"{n} {'x' * 89}y\n" for n in range(200))
    pages = [write([diffs.of(diff_piece("a.txt", old, new), "a")]) for _ in range(5)]
    assert pages[0].count('"changed"') == 400
    assert '"changed"' not in pages[-1]
    assert pages[-1].count('"added"') == 200


def test_the_tree_has_folders_and_leads_to_each_change() -> None:
    files = [
        LinkedChange("/p/src/app/a.py", 3, 1, ("change-1-0",)),
        LinkedChange("/p/src/app/b.py", 1, 0, ("change-2-0",), "new"),
        LinkedChange("/p/README", 1, 1, ("change-3-0",)),
        LinkedChange("/p/src/app/a.py", 1, 1, ("change-4-0",)),
    ]
    html = write([file_tree(files)])
    assert re.findall("<summary>(.*?)</summary>", html) == ["/p/", "src/app/"]
    links = [("change-1-0", "a.py"), ("change-4-0", "2"), ("change-2-0", "b.py"), ("change-3-0", "README")]
    assert re.findall('href="#([^"]*)">([^<]*)<', html) == links
    assert '<span class="plus">+4</span> <span class="minus">-2</span>' in html


@pytest.mark.parametrize("path", [*EVIL, "", "/", "//", "a//b", "a/", "../x", "x/" * 3_000 + "y", "/" + "x/" * 3_000])
def test_no_name_of_a_file_is_more_than_text(path: str) -> None:
    rows = [
        LinkedChange(path, 1, 1, ("a",)),
        LinkedChange(f"{path}/inner", 1, 1, ("b",)),
        LinkedChange("x", 1, 1, ("c",)),
    ]
    assert_harmless(write([file_tree(rows), DiffElements().of(diff_piece(path, path, f"{path}\n{path}x"), "a")]))


def test_a_tree_of_very_many_files_is_cut() -> None:
    html = write([file_tree([LinkedChange(f"f{n}", 1, 1, ("a",)) for n in range(2_000)])])
    assert html.count("<a ") == 500
    assert "… 1500 more files" in html


def test_a_place_has_a_name_that_no_text_can_be() -> None:
    for wrong in ("", "A", "a b", '"', "a" * 50):
        with pytest.raises(ValueError, match="place"):
            make("a", {"href": f"#{wrong}"}, "x")
        with pytest.raises(ValueError, match="place"):
            make("div", {"id": wrong}, "x")


def side(name: str, content: bytes, mode: str = "100644") -> PatchSide:
    return PatchSide(name=name, mode=mode, content=content)


def test_a_patch_is_read_as_the_files_it_changes() -> None:
    odd = 'a "b"\n ü.py'
    patch = b"".join(
        (
            file_patch(side("a.py", b"one\n--- two\n"), side("a.py", b"one\n+++ two\n")),
            file_patch(None, side("dir/new file.txt", b"x")),
            file_patch(side("gone", b"x\n"), None),
            file_patch(side("old", b"x\n"), side("moved", b"x\n", "100755")),
            file_patch(side("logo.png", b"\0a"), side("logo.png", b"\0b")),
            file_patch(side(odd, b"x\n"), side(odd, b"y\n")),
            file_patch(None, side("empty", b"")),
        )
    ).decode()
    files = read_patched_files(patch)
    assert [(file.piece.path, file.piece.added, file.piece.removed, file.what) for file in files] == [
        ("a.py", 1, 1, ""),
        ("dir/new file.txt", 1, 0, ""),
        ("gone", 0, 1, "deleted"),
        ("moved", 0, 0, "mode 100644 to 100755, renamed from old"),
        ("logo.png", 0, 0, "binary"),
        (odd, 1, 1, ""),
        ("empty", 0, 0, ""),
    ]
    assert [file.piece.is_new for file in files] == [False, True, False, False, False, False, True]
    assert [(line.sign, line.text) for line in files[0].piece.hunks[0].lines] == [(" ", "one"), ("-", "--- two"), ("+", "+++ two")]  # fmt: skip # noqa: E501


def test_a_long_patch_is_cut_and_counted() -> None:
    patch = file_patch(None, side("a", b"line\n" * 100)).decode() + file_patch(None, side("b", b"x" * 5_000)).decode()
    first, second = (file.piece for file in read_patched_files(patch, most=30))
    assert (first.added, first.left_out, len(first.hunks[0].lines)) == (100, 70, 30)
    first, second = (file.piece for file in read_patched_files(patch, most_chars=700))
    assert first.left_out == 0
    assert second.hunks[0].lines[0].text == "x" * 200 + "…"
    first, second = (file.piece for file in read_patched_files(patch, most=0))
    assert (first.added, first.hunks, second.added) == (100, (), 1)


@given(st.text('diff -git@+\n\\,0123ab/"', max_size=200))
def test_no_patch_is_too_odd_to_be_read(text: str) -> None:
    for file in read_patched_files(f"diff --git {text}"):
        assert isinstance(file.piece, DiffPiece)
