"""The page of a comparison: its policy, its tree and changes, and the commands that lead on."""

from __future__ import annotations

import re

import pytest

from dragoman.cli.commands.compare import _show
from dragoman.cli.compare.page import page_of
from dragoman.cli.compare.runs import ComparedChange, ComparedRun
from dragoman.workspace.patch_text import PatchSide, file_patch
from tests.view.test_writers import EVIL, assert_harmless


def compared(name: str, **fields: object) -> ComparedRun:
    before, after = (PatchSide("src/app.py", "100644", text) for text in (b"x = 1\n", b"x = 2\nreturn\n"))
    values: dict[str, object] = {
        "name": name,
        "agent": name,
        "model": None,
        "worktree": f"compare-1-{name}",
        "exit_code": 0,
        "error": None,
        "text": "done",
        "seconds": 2.0,
        "tool_calls": 1,
        "input_tokens": None,
        "output_tokens": None,
        "total_tokens": None,
        "cost": None,
        "currency": None,
        "version": None,
        "files": [ComparedChange("src/app.py", "modified")],
        "added": 2,
        "removed": 1,
        "patch": file_patch(before, after).decode(),
    }
    return ComparedRun(**(values | fields))  # type: ignore[arg-type]  # fields by their names


FAILED = compared("gemini", exit_code=1, error="no key", seconds=0.1, files=[], patch="", added=0, removed=0)


def test_the_quickest_good_run_is_first_and_each_has_the_commands_that_follow() -> None:
    page = page_of("Fix it", "/p", [compared("claude"), FAILED, compared("codex", seconds=1.0)])
    assert re.findall(r"<h3>(\w+)", page) == ["codex", "claude", "gemini"]
    assert page.count("quickest with changes") == 1
    commands = re.findall("<code>(dragoman [^<]*)</code>", page)
    assert commands == [
        f"dragoman worktrees {words}"
        for name in ("codex", "claude")
        for words in (
            f"diff compare-1-{name}",
            f"merge compare-1-{name}",
            f"discard compare-1-{name} --yes",
        )
    ]
    targets, places = re.findall('href="#([^"]*)"', page), re.findall('id="([^"]*)"', page)
    assert set(targets) == set(places)
    assert len(places) == len(set(places)) == 5  # three agents, two changes
    assert '+<span class="c-keyword">return</span>\n' in page


def test_the_table_names_the_commands_that_follow(capsys: pytest.CaptureFixture[str]) -> None:
    _show([compared("claude"), FAILED, compared("codex", seconds=1.0)])
    note = "look: dragoman worktrees diff compare-1-codex; take over: dragoman worktrees merge compare-1-codex\n"
    assert note in capsys.readouterr().err
    _show([FAILED])
    assert "look:" not in capsys.readouterr().err


def test_nothing_is_chosen_where_there_is_no_choice() -> None:
    for runs in ([compared("claude")], [FAILED, FAILED]):
        assert "quickest" not in page_of("x", "/p", runs)


@pytest.mark.parametrize("evil", EVIL)
def test_hostile_text_is_text_in_the_page(evil: str) -> None:
    patch = f"diff --git a/{evil} b/{evil}\n--- a/{evil}\n+++ b/{evil}\n@@ -1 +1 @@\n-{evil}\n+{evil}x\n"
    fields = {"text": evil, "error": evil, "version": evil, "worktree": evil, "patch": patch}
    page = page_of(evil, evil, [compared(evil, **fields), compared("x", patch=evil)])
    assert_harmless(page)
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", page)
    assert "default-src 'none'; style-src 'sha256-" in page
    assert "unsafe-inline" not in page
