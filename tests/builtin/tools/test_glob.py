"""`glob` finds files by name, newest first, with ripgrep and without."""

import os
from pathlib import Path

import pytest

from dragoman.builtin.tools.tool import Location
from tests.builtin.tools.fixtures import TOOLS, FakeContext
from tests.builtin.tools.searching import both, lay_out


@both
async def test_the_last_changed_file_comes_first(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {"src/b.py": "", "a.py": "", "src/deep/c.py": "", "d.txt": ""})
    output = await FakeContext(tmp_path).call("glob", pattern="**/*.py")
    assert output.text == "src/deep/c.py\na.py\nsrc/b.py\n[3 files]"
    assert output.locations[0] == Location(str(tmp_path / "src/deep/c.py"))


@both
@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"pattern": "*.py"}, {"a.py", "src/b.py", "src/x/c.py"}),
        ({"pattern": "*.py", "path": "src"}, {"src/b.py", "src/x/c.py"}),
        ({"pattern": "src/*.py"}, {"src/b.py"}),
        ({"pattern": "src/b.py"}, {"src/b.py"}),
        ({"pattern": "./src/*.py"}, {"src/b.py"}),
        ({"pattern": "src/"}, {"src/b.py", "src/x/c.py", "src/x/d.ts"}),
        ({"pattern": "*.{py,ts}", "path": "src/x"}, {"src/x/c.py", "src/x/d.ts"}),
        ({"pattern": "../src/x/*", "path": "src"}, {"src/x/c.py", "src/x/d.ts"}),
        ({"pattern": "*.log"}, set()),
        ({"pattern": "*.log", "ignored": True}, {"x.log", "build/y.log"}),
        ({"pattern": "build/*.log"}, set()),
        ({"pattern": "*.yml"}, set()),
        ({"pattern": "*.yml", "hidden": True}, {".github/ci.yml"}),
        ({"pattern": ".github/**"}, {".github/ci.yml"}),
        ({"pattern": "**/.github/**"}, {".github/ci.yml"}),
        ({"pattern": "config", "hidden": True, "ignored": True}, set()),
    ],
)
async def test_what_a_pattern_finds(tmp_path: Path, engine: str, arguments: dict[str, str], found: set[str]) -> None:
    lay_out(
        tmp_path,
        {
            ".gitignore": "*.log\n",
            ".git/config": "",
            "a.py": "",
            "src/b.py": "",
            "src/x/c.py": "",
            "src/x/d.ts": "",
            "x.log": "",
            "build/y.log": "",
            ".github/ci.yml": "",
        },
    )
    text = await FakeContext(tmp_path).text("glob", **arguments)
    *lines, total = text.splitlines()
    assert {*lines} == found
    assert total.startswith(f"[{len(found)} file") if found else total.startswith("No file")


@both
async def test_an_absolute_pattern_starts_at_its_own_folder(tmp_path: Path, engine: str) -> None:
    lay_out(tmp_path, {"work/a.py": "", "other/b.py": ""})
    context = FakeContext(tmp_path / "work")
    pattern = f"{tmp_path}/other/*.py"
    assert await context.text("glob", pattern=pattern) == f"{tmp_path}/other/b.py\n[1 file]"
    assert context.requests("glob", pattern=pattern)[0].paths == (str(tmp_path / "other"),)


@both
async def test_a_large_tree_is_shown_in_pages(tmp_path: Path, engine: str) -> None:
    for folder in range(100):
        (tmp_path / f"{folder:02}").mkdir()
        for number in range(110):
            os.close(os.open(tmp_path / f"{folder:02}" / f"{number}.txt", os.O_CREAT))
    os.utime(tmp_path / "50" / "7.txt", (2e9, 2e9))
    output = await FakeContext(tmp_path).call("glob", pattern="*.txt")
    lines = output.text.splitlines()
    assert lines[0] == "50/7.txt"
    assert len(lines) == 101
    assert lines[-1] == "[files 1 to 100 of 11000, the last changed first; continue with offset=100]"
    assert output.is_truncated
    page = (await FakeContext(tmp_path).text("glob", pattern="*.txt", offset=100)).splitlines()
    assert not {*page} & {*lines}
    last = await FakeContext(tmp_path).call("glob", pattern="*.txt", offset=10_990)
    assert last.text.splitlines()[10:] == ["[files 10991 to 11000 of 11000, the last changed first]"]
    assert not last.is_truncated
    behind = await FakeContext(tmp_path).text("glob", pattern="*.txt", offset=11_000)
    assert behind == "[there are 11000 files; offset=11000 is behind the last]"


@both
async def test_an_empty_result_names_what_was_left_out(tmp_path: Path, engine: str) -> None:
    context = FakeContext(tmp_path)
    assert await context.text("glob", pattern="*.x") == "No file matches *.x; hidden and ignored files were left out."
    assert await context.text("glob", pattern="*.x", hidden=True, ignored=True) == "No file matches *.x."


@both
async def test_a_file_name_that_is_not_utf_8_is_shown_with_replacements(tmp_path: Path, engine: str) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("")
    assert await FakeContext(tmp_path).text("glob", pattern="*.txt") == "caf?.txt\n[1 file]"


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"pattern": " "}, "the pattern is empty"),
        ({"pattern": "a\0"}, "NUL"),
        ({"pattern": "[a"}, "is not a glob"),
        ({"pattern": "*", "path": "none"}, "there is no folder none"),
        ({"pattern": "none/*"}, "there is no folder none"),
    ],
)
async def test_what_cannot_be_searched_is_refused(tmp_path: Path, arguments: dict[str, str], why: str) -> None:
    assert why in await FakeContext(tmp_path).refusal("glob", **arguments)


@pytest.mark.parametrize(
    ("arguments", "title"),
    [
        ({}, "Find files"),
        ({"pattern": 1, "path": {}}, "Find files"),
        ({"pattern": "*.py"}, "Find `*.py`"),
        ({"pattern": "*.py", "path": "/w"}, "Find `*.py`"),
        ({"pattern": "*.py", "path": "src"}, "Find `*.py` in src"),
    ],
)
def test_a_title_names_the_glob(arguments: dict[str, object], title: str) -> None:
    assert TOOLS["glob"].preview(arguments, "/w").title == title
