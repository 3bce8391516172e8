"""The result of a run, put together from the state of its session."""

from __future__ import annotations

import pytest

from dragoman.runs.result import FileChange, files_changed, final_text
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.workspace import Change


def message(text: str, message_id: str | None = None) -> v1.AgentMessageChunk:
    content = v1.TextContent(text)
    return v1.AgentMessageChunk(content) if message_id is None else v1.AgentMessageChunk(content, message_id=message_id)


def thought(text: str) -> v1.AgentThoughtChunk:
    return v1.AgentThoughtChunk(v1.TextContent(text))


def tool_call(id: str = "t") -> v1.ToolCall:
    return v1.ToolCall(id, "Reading", status="completed")


def state_after(*updates: v1.SessionUpdate) -> SessionState:
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
        ((message("Hello"), message(" there")), "Hello there"),
        ((message("Let me look."), tool_call(), message("Done.")), "Done."),
        ((message("All done."), tool_call()), "All done."),
        ((message("All done."), tool_call(), message(" \n")), "All done."),
        ((message("a"), tool_call("1"), message("b"), tool_call("2"), tool_call("3")), "b"),
        ((message("one, "), thought("hm"), message("two")), "one, two"),
        ((message("First.", "1"), message("Second.", "2")), "First.\n\nSecond."),
        ((message("Fi", "1"), message("Second.", "2"), message("rst.", "1")), "First.\n\nSecond."),
    ],
    ids=lambda value: repr(value) if isinstance(value, str) else "",
)
def test_the_final_text_is_the_text_after_the_last_tool_call(updates: tuple[v1.SessionUpdate, ...], text: str) -> None:
    state = state_after(*updates)
    assert final_text(state, state.turns[-1]) == text


def test_of_a_message_continued_from_the_history_only_the_text_of_this_turn_counts() -> None:
    """Some agents start to number their messages again in each process."""
    state = SessionState()
    fold(state, message("old", "1"))
    state.begin_turn([v1.TextContent("x")])
    fold(state, message(" new", "1"))
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
def test_a_file_is_listed_once_with_its_final_change(
    changes: list[tuple[str, bytes | None, bytes | None]], expected: str
) -> None:
    state = state_after()
    [found] = files_changed([Change(*change) for change in changes], state, state.turns[-1])
    assert found == FileChange(path="a", change=expected, seen_by=["workspace"])  # type: ignore[arg-type]


def test_a_write_that_a_tool_call_also_reports_is_one_change() -> None:
    diff = v1.Diff("a", "new\n", old_text="old\n")
    state = state_after(v1.ToolCall("t", "Edit", status="completed", content=[diff]))
    [found] = files_changed([Change("a", b"old\n", b"new\n")], state, state.turns[-1])
    assert found.seen_by == ["workspace", "tool_call"]
