"""`grep` finds lines, with ripgrep and without, and both find the same."""

import asyncio
import random
import threading
from pathlib import Path

import pytest

from dragoman.builtin.tools import search as search_module
from dragoman.builtin.tools import walk
from dragoman.builtin.tools.files import SearchScope
from dragoman.builtin.tools.search import Query, search
from dragoman.builtin.tools.tool import Location
from dragoman.policy import Rule
from dragoman.testing import ScriptedClient
from dragoman.workspace.wildcards import GlobPattern
from tests.builtin.tools.fixtures import TOOLS, FakeContext, with_editor
from tests.builtin.tools.searching import both, lay_out, needs_ripgrep

TREE: dict[str, str | bytes] = {
    ".gitignore": "*.log\nbuild/\n",
    ".git/config": "needle\n",
    ".hidden": "needle\n",
    "a.py": "import os\n\ndef needle():\n    return 1\n# needle again\n",
    "b/c.txt": "no\r\nNeedle\r\nneedle$\r\n",
    "binary": b"needle\0needle\n",
    "build/out.py": "needle\n",
    "latin.txt": b"caf\xe9 needle\n",
    "x.log": "needle\n",
    "z.md": "a.b\naxb\n",
}


@both
async def test_matches_are_shown_by_file_with_their_lines(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, TREE)
    output = await FakeContext(tmp_path).call("grep", pattern="needle")
    assert output.text == (
        "a.py\n  3: def needle():\n  5: # needle again\nb/c.txt\n  3: needle$\nlatin.txt\n  1: caf\ufffd needle\n"
        "[4 matches in 3 files]"
    )
    assert output.locations[0] == Location(str(tmp_path / "a.py"), 3)
    assert not output.is_truncated


@both
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "^needle"}, "b/c.txt|  3: needle$"),
        ({"pattern": "Needle$"}, "b/c.txt|  2: Needle"),
        ({"pattern": r"def \w+\("}, "a.py|  3: def needle():"),
        ({"pattern": "needle$", "literal": True}, "b/c.txt|  3: needle$"),
        ({"pattern": "NEEDLE", "insensitive": True, "path": "b"}, "b/c.txt|  2: Needle|  3: needle$"),
        ({"pattern": "needle", "include": "*.py"}, "a.py|  3: def needle():|  5: # needle again"),
        ({"pattern": "needle", "include": "b/**"}, "b/c.txt|  3: needle$"),
        ({"pattern": "needle", "include": "*.log"}, "No match for needle. Hidden and ignored files were left out."),
        ({"pattern": "needle", "include": "*.log", "ignored": True}, "x.log|  1: needle"),
        ({"pattern": "needle", "include": ".hidden"}, ".hidden|  1: needle"),
        ({"pattern": "needle", "files": True}, "a.py|b/c.txt|latin.txt"),
        ({"pattern": "needle", "files": True, "include": "*.{py,txt}"}, "a.py|b/c.txt|latin.txt"),
        (
            {"pattern": "needle", "files": True, "hidden": True, "ignored": True},
            ".hidden|a.py|b/c.txt|build/out.py|latin.txt|x.log",
        ),
        ({"pattern": "return", "context": 1}, "a.py|  3- def needle():|  4:     return 1|  5- # needle again"),
        (
            {"pattern": "import|again", "context": "1"},
            "a.py|  1: import os|  2- |  --|  4-     return 1|  5: # needle again",
        ),
        ({"pattern": "a.b"}, "z.md|  1: a.b|  2: axb"),
        ({"pattern": "-x"}, "No match for -x. Hidden and ignored files were left out."),
        ({"pattern": "needle(?= again)"}, "a.py|  5: # needle again"),
        ({"pattern": r"(?<!\n)# needle"}, "a.py|  5: # needle again"),
        ({"pattern": r"needle\$\Z"}, "b/c.txt|  3: needle$"),
        ({"pattern": "x", "path": "build"}, "No match for x. Hidden and ignored files were left out."),
        ({"pattern": "needle", "path": "build"}, "build/out.py|  1: needle"),
    ],
)
async def test_what_a_search_finds(tmp_path: Path, engine: str, arguments: dict[str, object], lines: str) -> None:
    lay_out(tmp_path, TREE)
    *found, total = (await FakeContext(tmp_path).text("grep", **arguments)).split("\n")
    if lines.startswith("No match"):
        assert (found, total) == ([], lines)
        return
    assert found == lines.split("|")
    matches, files = sum(line[:5].rstrip().endswith(":") for line in found), sum(line[0] != " " for line in found)
    stated = _count(files, "file") if "files" in arguments else f"{_count(matches, 'match')} in {_count(files, 'file')}"
    assert total == f"[{stated}]"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 'es' if noun == 'match' else 's'}"


@both
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"pattern": "needle", "count": True}, "a.py: 2|b/c.txt: 1|latin.txt: 1|[4 matches in 3 files]"),
        ({"pattern": "needle", "type": "py"}, "a.py|  3: def needle():|  5: # needle again|[2 matches in 1 file]"),
        ({"pattern": "return", "before": 1}, "a.py|  3- def needle():|  4:     return 1|[1 match in 1 file]"),
        ({"pattern": "return", "after": 1}, "a.py|  4:     return 1|  5- # needle again|[1 match in 1 file]"),
        (
            {"pattern": "needle", "limit": 2, "offset": 1},
            "a.py|  5: # needle again|b/c.txt|  3: needle$"
            "|[matches 2 to 3 of 4 matches in 3 files; continue with offset=3]",
        ),
        (
            {"pattern": "needle", "offset": 3},
            "latin.txt|  1: caf\ufffd needle|[matches 4 to 4 of 4 matches in 3 files]",
        ),
        ({"pattern": "needle", "offset": 9}, "[there are 4 matches in 3 files; offset=9 is behind the last]"),
        ({"pattern": "needle", "files": True, "limit": 1}, "a.py|[files 1 to 1 of 3 files; continue with offset=1]"),
        (
            {"pattern": "needle", "count": True, "limit": 1, "offset": 1},
            "b/c.txt: 1|[files 2 to 2 of 4 matches in 3 files; continue with offset=2]",
        ),
        (
            {"pattern": r"os.*def", "multiline": True},
            "a.py|  1: import os|  2: |  3: def needle():|[1 match in 1 file]",
        ),
        (
            {"pattern": r"Needle\nneedle", "multiline": True, "before": 1},
            "b/c.txt|  1- no|  2: Needle|  3: needle$|[1 match in 1 file]",
        ),
    ],
)
async def test_which_part_is_shown_and_how_much_there_is(
    tmp_path: Path, engine: str, arguments: dict[str, object], lines: str
) -> None:
    lay_out(tmp_path, TREE)
    assert (await FakeContext(tmp_path).text("grep", **arguments)).split("\n") == lines.split("|")


@both
async def test_pages_together_are_all_matches(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {f"{name}.txt": "match\nother\n" * 30 for name in "abcd"})
    seen: list[str] = []
    for offset in range(0, 120, 50):
        text = await FakeContext(tmp_path).text("grep", pattern="match", limit=50, offset=offset)
        name = ""
        for line in text.splitlines()[:-1]:
            if line.startswith("  "):
                seen.append(name + line)
            else:
                name = line
    assert seen == [f"{name}.txt  {number}: match" for name in "abcd" for number in range(1, 60, 2)]


@both
async def test_counting_ends_somewhere(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {f"{name}.txt": "match\n" * 6_000 for name in "abcd"})
    text = await FakeContext(tmp_path).text("grep", pattern="match", limit=1)
    assert "of more than 12000 matches in 2 files; continue with offset=1]" in text


async def test_a_type_that_is_none_and_two_filters_are_refused(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    assert "is not a type of files" in await context.refusal("grep", pattern="x", type="*/")
    assert "not both" in await context.refusal("grep", pattern="x", type="py", include="*.py")


@both
async def test_no_more_than_a_hundred_matches_are_shown(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {f"{name}.txt": "match\nother\n" * 30 for name in "abcd"})
    output = await FakeContext(tmp_path).call("grep", pattern="match")
    lines = output.text.splitlines()
    assert sum(": match" in line for line in lines) == 100
    assert lines[-2:] == ["  19: match", "[matches 1 to 100 of 120 matches in 4 files; continue with offset=100]"]
    assert output.is_truncated
    lay_out(tmp_path, {"d.txt": "match\n" * 10})
    assert not (await FakeContext(tmp_path).call("grep", pattern="match")).is_truncated


@both
async def test_no_more_than_a_hundred_files_are_named(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {f"{number:03}": "match" for number in range(101)})
    lines = (await FakeContext(tmp_path).text("grep", pattern="match", files=True)).splitlines()
    assert (lines[0], lines[99]) == ("000", "099")
    assert lines[100:] == ["[files 1 to 100 of 101 files; continue with offset=100]"]


@both
async def test_of_long_lines_the_part_around_the_match_is_shown(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {"a.js": "é" * 50_000 + "needle" + "x" * 50_000})
    text = await FakeContext(tmp_path).text("grep", pattern="needle")
    assert len(text) < 600
    assert "éneedlex" in text


@both
async def test_many_long_lines_stay_below_50_kb(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {f"{number:03}": ("é" * 400 + "\n") * 21 for number in range(200)})
    lay_out(tmp_path, {f"{number:03}": ("é" * 400 + "\n") * 20 + "x\n" for number in range(200)})
    output = await FakeContext(tmp_path).call("grep", pattern="x", context=20)
    assert len(output.text.encode()) < 51 * 1024
    assert output.is_truncated


@both
async def test_a_pattern_that_is_none_is_refused(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {"a": "x"})
    context = FakeContext(tmp_path)
    assert "is not a regular expression" in await context.refusal("grep", pattern="(")
    assert "is not a regular expression" in await context.refusal("grep", pattern="(", path="a")
    assert "is not a regular expression" in await context.refusal("grep", pattern="x{99999999999999999999}")
    assert "the pattern is empty" in await context.refusal("grep", pattern="")
    assert "is not a glob" in await context.refusal("grep", pattern="x", include="[")
    assert "there is no file none" in await context.refusal("grep", pattern="x", path="none")
    assert "line by line" in await context.text("grep", pattern=r"x\ny")
    assert "No match" in await context.text("grep", pattern="x\0y")


@both
async def test_a_thousand_folders_are_searched_by_a_name(tmp_path: Path, engine: str) -> None:
    for folder in range(100):
        (tmp_path / f"f{folder:02}").mkdir()
        for number in range(100):
            (tmp_path / f"f{folder:02}" / f"{'long' * 20}{number:02}.txt").write_text("" if number else "needle\n")
    text = await FakeContext(tmp_path).text("grep", pattern="needle", include="*.txt")
    assert text.count("1: needle") == 100


@both
async def test_what_may_not_be_read_is_not_found_by_searching_around_it(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {"a": "password = 1\n", "secrets/b": "password = 2\n"})
    context = FakeContext(tmp_path)
    context.rules.append(Rule("deny", "read:secrets/**", "project"))
    left_out = "[1 files with matches left out: a rule denies reading them]"
    assert await context.text("grep", pattern="password") == (
        f"a\n  1: password = 1\n{left_out}\n[2 matches in 2 files]"
    )
    hidden = await context.text("grep", pattern="password", path="secrets", files=True)
    assert hidden == f"{left_out}\n[1 file]"


async def test_unsaved_text_of_one_file_is_searched(tmp_path: Path) -> None:
    path = str(tmp_path / "a.py")
    (tmp_path / "a.py").write_text("on the disk\n")
    async with with_editor(tmp_path, ScriptedClient(files={path: "typed\n"})) as context:
        assert await context.text("grep", pattern="typed", path="a.py") == "a.py\n  1: typed\n[1 match in 1 file]"
        assert await context.text("grep", pattern="typed", path="a.py", files=True) == "a.py\n[1 file]"


def test_who_searches_one_file_asks_to_read_it(tmp_path: Path) -> None:
    context = FakeContext(tmp_path)
    context.write("a")
    [request] = context.requests("grep", pattern="x", path="a")
    assert (request.kind, request.paths) == ("read", (str(tmp_path / "a"),))
    [request] = context.requests("grep", pattern="x")
    assert (request.kind, request.paths) == ("search", (str(tmp_path),))


async def test_a_cancelled_search_leaves_no_thread_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, {f"{number:04}": "x" for number in range(300)})
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    reading, may_go_on, is_over = asyncio.Event(), threading.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    looked: list[str] = []

    def read(path: str, largest_bytes: int) -> bytes:
        looked.append(path)
        loop.call_soon_threadsafe(reading.set)
        may_go_on.wait(60)
        return b"x"

    by_ourselves = search_module._by_ourselves

    def watched(*arguments: object) -> object:
        try:
            return by_ourselves(*arguments)  # type: ignore[arg-type]  # passed on as they came
        finally:
            is_over.set()

    monkeypatch.setattr(search_module, "read_plain", read)
    monkeypatch.setattr(search_module, "_by_ourselves", watched)
    searching = asyncio.ensure_future(FakeContext(tmp_path).call("grep", pattern="y"))
    await reading.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching
    may_go_on.set()
    assert await asyncio.to_thread(is_over.wait, 10)
    assert len(looked) == 1


@needs_ripgrep
async def test_a_cancelled_search_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lay_out(tmp_path, {f"{number:04}": "needle\n" * 100_000 for number in range(50)})
    running = asyncio.Event()
    feed = search_module._Reader.feed

    def watched(reader: search_module._Reader, record: bytes) -> None:
        running.set()
        feed(reader, record)  # and nothing found, so that it goes on

    monkeypatch.setattr(search_module._Reader, "feed", watched)
    searching = asyncio.ensure_future(FakeContext(tmp_path).call("grep", pattern="needle"))
    await running.wait()
    searching.cancel()
    with pytest.raises(asyncio.CancelledError):
        await searching


@both
async def test_a_search_that_takes_too_long_shows_what_it_found(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    lay_out(tmp_path, {"a": "x"})
    monkeypatch.setattr(walk.Stop.__init__, "__defaults__", (-1.0,))
    monkeypatch.setattr("dragoman.builtin.tools.search_ripgrep.SEARCH_SECONDS", -1.0)
    for name in ("grep", "glob"):
        output = await FakeContext(tmp_path).call(name, pattern="x")
        assert "ended after 30 s" in output.text
        assert output.is_truncated


@needs_ripgrep
@pytest.mark.parametrize("seed", range(8))
async def test_both_searches_find_the_same_in_the_same_order(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(seed)
    names = ("a", "b.py", "c.txt", ".d", "e-f", "E", "é", "build", "a.py", "_x")
    rules = ("*.txt", "build", "/a", "!c.txt", "a/", "**/E", "!.d", "b*", "e-f/*", "[ab].py")
    files: dict[str, str | bytes] = {}
    for _ in range(120):
        path = "/".join(f"{chance.choice(names)}{depth}" for depth in range(chance.randint(0, 3)))
        text = "".join(chance.choice(("x\n", "xy\n", "\r\n", "é x\n", "xx xx\n")) for _ in range(chance.randint(0, 9)))
        files[f"{path}/{chance.choice(names)}".lstrip("/")] = text
        if chance.random() < 0.1:
            files[f"{path}/.gitignore".lstrip("/")] = "\n".join(chance.choices(rules, k=2))
    lay_out(tmp_path, files)
    for hidden, ignored, glob in (
        (False, False, None),
        (True, False, None),
        (True, True, None),
        (False, False, "*.py"),
    ):
        scope = SearchScope(str(tmp_path), None if glob is None else GlobPattern(glob), hidden, ignored)
        for query in (
            Query("x+y?", before=1, after=2),
            Query("X$", ignores_case=True, most=7, offset=3),
            Query("é", only_files=True, most=5),
            Query("x", only_counts=True, offset=2),
            Query(r"y\nx+", is_multiline=True, before=1),
        ):
            theirs = await search(query, scope)
            with monkeypatch.context() as without:
                without.setenv("PATH", "/nonexistent")
                ours = await search(query, scope)
            assert theirs == ours


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Search"),
        ({"pattern": [], "include": 3, "path": 1.5}, "Search"),
        ({"pattern": "a\nb"}, "Search `a b`"),
        ({"pattern": "x", "path": "/w/src"}, "Search `x` in src"),
        ({"pattern": "x", "include": "*.py", "path": "src"}, "Search `x` in *.py below src"),
        ({"pattern": "x", "include": "*.py"}, "Search `x` in *.py"),
    ],
)
def test_a_title_names_the_pattern_and_the_folder(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["grep"].preview(arguments, "/w").title == title
