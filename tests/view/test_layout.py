"""The lines of a session at any place: whatever the order of updates, the layout is that of the whole session."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dragoman.schema import v1
from dragoman.state import SessionState, TimelineItem, fold
from dragoman.text.terminal import cells
from dragoman.view.build import block_of, blocks_of
from dragoman.view.layout import SessionLayout, text_of
from dragoman.view.rails import ASCII, RailView, rail_lines
from dragoman.view.watched import WatchedSession

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


def test_a_subagents_session_is_shown_inside_of_its_parent() -> None:
    state, layout, watched = SessionState(), SessionLayout(RailView(80)), WatchedSession()
    fold(state, v1.SubagentUpdate("child", title="Look for callers"))
    fold(state, v1.AgentMessageChunk(v1.TextContent("meanwhile")))
    layout.update(state, watched)
    for number in range(8):
        watched.note_child("child", v1.ToolCall(str(number), f"grep {number}", kind="search", status="completed"))
    assert layout.update(state, watched), "without a change of the parent"
    assert not layout.update(state, watched)
    shown = ["".join(text for text, _ in line) for line in layout.lines(0, 20, state)]
    assert shown[:3] == [
        "! subagent: Look for callers",
        "  │ … 3 blocks before, Enter or Ctrl+T to read",
        "  ▸ ✔ search  grep 3",
    ]
    assert shown[6:] == ["  ▸ ✔ search  grep 7", "│ meanwhile"]
    assert layout.toggle(0, state)
    assert layout.height == 10


@pytest.mark.parametrize(
    ("state", "word"),
    [
        (v1.RunningStateUpdate(), "running"),
        (v1.RequiresActionStateUpdate(), "needs an answer"),
        (v1.IdleStateUpdate(stop_reason="end_turn"), "done"),
        (v1.IdleStateUpdate(), "done"),
        (v1.IdleStateUpdate(stop_reason="cancelled"), "cancelled"),
    ],
)
def test_the_line_of_a_subagent_says_what_it_does(state: v1.StateUpdate, word: str) -> None:
    session, layout = SessionState(), SessionLayout(RailView(80))
    fold(session, v1.SubagentUpdate("child", title="Look for callers", state=state))
    layout.update(session)
    assert [text for text, _ in layout.lines(0, 1, session)[0]] == ["! ", f"subagent: Look for callers ({word})"]


def test_the_end_of_a_turn_is_drawn_with_its_time_and_tokens_when_it_comes() -> None:
    state, layout, watched = SessionState(), SessionLayout(RailView(80)), WatchedSession()
    state.begin_turn([v1.TextContent("why?")])
    watched.begin_turn(0, 1.0)
    layout.update(state, watched)
    state.end_turn("end_turn", v1.Usage(1200, 1000, 200))
    watched.end_turn(0, 15.0)
    assert layout.update(state, watched)
    assert "".join(text for text, _ in layout.lines(1, 1, state)[0]) == "  done · 14.0 s · 1.0k tokens in, 200 out"


def test_an_update_looks_only_at_what_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    state, layout = SessionState(), SessionLayout(RailView(80))
    for number in range(2_000):
        fold(state, v1.ToolCall(str(number), f"call {number}"))
    layout.update(state)
    layout.settle(state, 5_000)
    looked: list[int] = []

    def counted(item: TimelineItem, position: int, *others: Any) -> Any:
        looked.append(position)
        return block_of(item, position, *others)

    monkeypatch.setattr("dragoman.view.layout.block_of", counted)
    fold(state, v1.ToolCallUpdate("7", status="completed"))
    fold(state, v1.AgentMessageChunk(v1.TextContent("text")))
    layout.update(state)
    assert sorted(looked) == [7, 2_000]
    for _ in range(3):
        looked.clear()
        fold(state, v1.AgentMessageChunk(v1.TextContent("more")))
        layout.update(state)
        assert looked == [2_000]
    for number in range(600):  # more changes than are remembered: everything is looked at, and nothing is missed
        fold(state, v1.ToolCallUpdate(str(number), title="changed"))
    layout.update(state)
    assert "".join(text for text, _ in layout.lines(599, 1, state)[0]).endswith("changed")


def test_older_items_have_negative_positions_and_what_is_below_stays() -> None:
    state, layout, older = SessionState(), SessionLayout(RailView(80)), SessionState()
    for number in range(3):
        fold(state, v1.ToolCall(f"live {number}", f"live {number}"))
        fold(older, v1.ToolCall(f"old {number}", f"old {number}"))
    layout.update(state)
    assert layout.prepend(list(older.timeline), state) == 3
    assert layout.positions == range(-3, 3)
    assert layout.place_of(0) == (3, 1)
    assert "".join(text for text, _ in layout.lines(2, 1, state)[0]).endswith("old 2")
    fold(state, v1.ToolCallUpdate("live 1", title="changed"))
    layout.update(state)
    assert "".join(text for text, _ in layout.lines(4, 1, state)[0]).endswith("changed")


def test_the_last_lines_of_a_session_are_those_of_its_text() -> None:
    state, view = SessionState(), RailView(60)
    for number in range(300):
        fold(state, v1.ToolCall(str(number), f"call {number}"))
        fold(state, v1.AgentMessageChunk(v1.TextContent(f"# {number}\n\n" + "words " * number)))
    assert text_of(state, view, last=12).splitlines() == text_of(state, view).splitlines()[-12:]
