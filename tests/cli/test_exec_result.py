"""The result of a run, put together from the state of its session."""

from __future__ import annotations

import pytest

from dragoman.cli.exec.result import FileChange, files_changed, final_text
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.workspace import Change


def said(text: str, message_id: str | None = None) -> v1.AgentMessageChunk:
    content = v1.TextContent(text)
    return v1.AgentMessageChunk(content) if message_id is None else v1.AgentMessageChunk(content, message_id=message_id)


def thought(text: str) -> v1.AgentThoughtChunk:
    return v1.AgentThoughtChunk(v1.TextContent(text))


def called(id: str = "t") -> v1.ToolCall:
    return v1.ToolCall(id, "Reading", status="completed")


def turned(*updates: v1.SessionUpdate) -> SessionState:
    state = SessionState()
    state.begin_turn([v1.TextContent("x")])
    for update in updates:
        fold(state, update)
    state.end_turn("end_turn")
    return state


@pytest.mark.parametrize(
    ("updates", "text"),
    [
        ((), ""),
        ((thought("hm"),), ""),
        ((said("Hello"), said(" there")), "Hello there"),
        ((said("Let me look."), called(), said("Done.")), "Done."),
        ((said("All done."), called()), "All done."),
        ((said("All done."), called(), said(" \n")), "All done."),
        ((said("a"), called("1"), said("b"), called("2"), called("3")), "b"),
        ((said("one, "), thought("hm"), said("two")), "one, two"),
        ((said("First.", "1"), said("Second.", "2")), "First.\n\nSecond."),
        ((said("Fi", "1"), said("Second.", "2"), said("rst.", "1")), "First.\n\nSecond."),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_the_final_text_is_what_was_said_after_the_last_tool_call(
    updates: tuple[v1.SessionUpdate, ...], text: str
) -> None:
    state = turned(*updates)
    assert final_text(state, state.turns[-1]) == text


def test_a_message_that_goes_on_from_the_history_counts_from_this_turn_on() -> None:
    """Some agents number their messages anew in each process."""
    state = SessionState()
    fold(state, said("old", "1"))
    state.begin_turn([v1.TextContent("x")])
    fold(state, said(" new", "1"))
    state.end_turn("end_turn")
    assert state.turns[-1].texts == (" new",)
    assert final_text(state, state.turns[-1]) == " new"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([("a", None, b"1")], "created"),
        ([("a", b"1", b"2")], "modified"),
        ([("a", b"1", None)], "deleted"),
        ([("a", None, b"1"), ("a", b"2", b"3")], "created"),
        ([("a", b"1", b"2"), ("a", b"3", None)], "deleted"),
    ],
)
def test_a_file_is_listed_once_with_what_became_of_it(
    changes: list[tuple[str, bytes | None, bytes | None]], expected: str
) -> None:
    state = turned()
    [found] = files_changed([Change(*change) for change in changes], state, state.turns[-1])
    assert found == FileChange(path="a", change=expected, seen_by=["workspace"])  # type: ignore[arg-type]


def test_a_write_that_a_tool_call_shows_too_is_one_change() -> None:
    diff = v1.Diff("a", "new\n", old_text="old\n")
    state = turned(v1.ToolCall("t", "Edit", status="completed", content=[diff]))
    [found] = files_changed([Change("a", b"old\n", b"new\n")], state, state.turns[-1])
    assert found.seen_by == ["workspace", "tool_call"]
