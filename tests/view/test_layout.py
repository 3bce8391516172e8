"""The lines of a session at any place: whatever the order of updates, the layout is that of the whole session."""

from __future__ import annotations

import random

import pytest

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.text.terminal import cells
from dragoman.view.build import blocks_of
from dragoman.view.layout import SessionLayout, text_of
from dragoman.view.rails import ASCII, RailView, rail_lines

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e"


def random_update(numbers: random.Random, calls: list[str]) -> v1.SessionUpdate:
    text = numbers.choice(["word ", "Some longer text. ", "\n", "# Head\n", "```\ncode\n```\n", "x" * 90, "漢字", EVIL])
    match numbers.randrange(8):
        case 0 | 1 | 2:
            return v1.AgentMessageChunk(v1.TextContent(text))
        case 3:
            return v1.AgentThoughtChunk(v1.TextContent(text))
        case 4:
            calls.append(str(len(calls)))
            return v1.ToolCall(calls[-1], f"Run {text}", kind="execute", status="in_progress")
        case 5 if calls:
            diff = v1.Diff("a.txt", "new\nlines\n" * numbers.randrange(30), old_text="old\n")
            status = numbers.choice(["in_progress", "completed", "failed"])
            return v1.ToolCallUpdate(numbers.choice(calls), status=status, content=[diff])
        case 6:
            return v1.Plan([v1.PlanEntry(text, "medium", numbers.choice(["pending", "completed"]))])
    return v1.UserMessageChunk(v1.TextContent(text))


@pytest.mark.parametrize("seed", range(8))
def test_a_layout_that_grew_is_that_of_the_whole_session(seed: int) -> None:
    numbers, calls = random.Random(seed), list[str]()
    view = RailView(numbers.choice([20, 40, 80]), is_open=numbers.random() < 0.5)
    state, layout = SessionState(), SessionLayout(view)
    for _ in range(200):
        fold(state, random_update(numbers, calls))
        if numbers.random() < 0.5:
            layout.update(state)
        if numbers.random() < 0.05:
            view = view._replace(width=numbers.choice([20, 40, 80]))
            layout.set_view(view, state)
    layout.update(state)
    layout.settle(state, 1_000)
    whole = [line for block in blocks_of(state) for line in rail_lines(block, view)]
    assert layout.height == len(whole)
    for _ in range(30):
        start, count = numbers.randrange(layout.height + 3), numbers.randrange(40)
        assert layout.lines(start, count, state) == whole[start : start + count]
    for line in whole:
        text = "".join(part for part, _ in line)
        assert cells(text) <= view.width
        assert text.isprintable(), "nothing acts on the terminal"


def test_nothing_is_laid_out_again_without_a_change() -> None:
    state, layout = SessionState(), SessionLayout(RailView(80))
    fold(state, v1.AgentMessageChunk(v1.TextContent("text")))
    assert layout.update(state)
    assert not layout.update(state)
    fold(state, v1.AgentMessageChunk(v1.TextContent(" more")))
    assert layout.update(state)
    assert "".join(text for text, _ in layout.lines(0, 1, state)[0]) == "│ text more"


def test_a_session_as_text_has_words_for_everything() -> None:
    state = SessionState()
    state.begin_turn([v1.TextContent("why?")])
    for update in (
        v1.AgentThoughtChunk(v1.TextContent("let me think")),
        v1.AgentMessageChunk(v1.TextContent("Because `x` is **two**.")),
        v1.ToolCall(
            "1", "Edit a.txt", kind="edit", status="completed", content=[v1.Diff("a.txt", "b\n", old_text="a\n")]
        ),
        v1.ToolCall("2", "pytest", kind="execute", status="failed", raw_input={"command": "pytest -q"}),
    ):
        fold(state, update)
    state.end_turn("cancelled")
    assert text_of(state, RailView(80, ASCII)).splitlines() == [
        "> why?",
        ": thought, 3 words, Ctrl+T to read",
        "| Because `x` is two.",
        "# + edit    Edit a.txt  +1 -1",
        "|      1 - a",
        "|      1 + b",
        "# x run     pytest  failed",
        "|    $ pytest -q",
        "- Cancelled",
    ]
