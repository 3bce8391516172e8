"""Session state as blocks."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.view import Block, MessageBlock, ToolBlock, TurnBlock, blocks_of
from dragoman.view.blocks import DiffPiece, ShownTerminal
from dragoman.view.diffs import diff_piece
from dragoman.view.labels import outcome
from tests.trace.kit import RECORDINGS
from tests.view.conversation import TERMINALS, conversation


def tool(state: SessionState, id: str, terminals: dict[str, ShownTerminal] | None = None) -> ToolBlock:
    return next(block for block in blocks_of(state, terminals) if isinstance(block, ToolBlock) and block.id == id)


def test_every_item_is_one_block_in_order_and_the_turn_ends_behind_them() -> None:
    blocks = blocks_of(conversation())
    assert [type(block).__struct_config__.tag for block in blocks] == [
        *("message", "message", "plan", "tool_call", "tool_call", "tool_call", "note", "note", "message", "turn_end"),
    ]
    assert [block.position for block in blocks] == list(range(10))
    end = blocks[-1]
    assert isinstance(end, TurnBlock)
    assert (end.stop_reason, end.input_tokens, end.output_tokens) == ("end_turn", 1000, 200)


def test_blocks_are_written_as_json_and_read_again() -> None:
    blocks = blocks_of(conversation(), TERMINALS)
    assert msgspec.json.decode(msgspec.json.encode(blocks), type=list[Block]) == blocks


def test_two_turns_end_where_they_end() -> None:
    state = conversation()
    state.begin_turn([v1.TextContent("again")])
    state.lose_agent()
    ends = [(block.position, block.is_lost) for block in blocks_of(state) if isinstance(block, TurnBlock)]
    assert ends == [(9, False), (10, True)]


def test_tool_call_shows_its_command_and_its_terminal_and_a_failed_command_is_a_failure() -> None:
    call = tool(conversation(), "t2", TERMINALS)
    assert call.command == "npm test"
    assert call.content == (TERMINALS["term"],)
    assert (call.status, outcome(call)) == ("completed", "exit 1")
    unknown = tool(conversation(), "t2")
    assert unknown.content == (ShownTerminal("term"),)
    assert outcome(unknown) == "completed"


def test_raw_output_is_shown_only_if_there_is_no_content() -> None:
    state = conversation()
    assert tool(state, "t3").output == "found it\n"
    fold(state, v1.ToolCallUpdate("t3", content=[v1.Content(v1.TextContent("nice"))]))
    assert tool(state, "t3").output is None


def test_image_is_shown_without_its_data() -> None:
    [message, *_] = blocks_of(conversation())
    assert isinstance(message, MessageBlock)
    assert b"AAAA" not in msgspec.json.encode(message)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (None, "a\nb\n", ["+a", "+b"]),
        ("a\nb\n", "a\nc\n", [" a", "-b", "+c"]),
        ("a\n", "a\n", []),
        ("a\r\nb\r\n", "a\nb\n", []),
        ("", "x", ["+x"]),
        ("x\ny", "", ["-x", "-y"]),
    ],
)
def test_diff_has_the_changed_lines_with_context(old: str | None, new: str, expected: list[str]) -> None:
    piece = diff_piece("p", old, new)
    assert [line.sign + line.text for hunk in piece.hunks for line in hunk.lines] == expected
    assert (piece.added, piece.removed) == (
        sum(line[0] == "+" for line in expected),
        sum(line[0] == "-" for line in expected),
    )


def test_far_changes_are_two_hunks_with_their_line_numbers() -> None:
    before = [f"line {n}" for n in range(100)]
    after = [*before]
    after[10], after[80] = "ten", "eighty"
    piece = diff_piece("p", "\n".join(before), "\n".join(after))
    assert [(hunk.old_line, hunk.new_line, len(hunk.lines)) for hunk in piece.hunks] == [(8, 8, 8), (78, 78, 8)]


def test_very_long_change_is_cut_and_counted() -> None:
    before = "\n".join(f"a{n}" for n in range(50_000))
    after = "\n".join(f"b{n}" for n in range(50_000))
    piece = diff_piece("p", before, after)
    shown = sum(len(hunk.lines) for hunk in piece.hunks)
    assert (piece.added, piece.removed) == (50_000, 50_000)
    assert shown + piece.left_out == 100_000
    assert isinstance(piece, DiffPiece)
    assert shown <= 2_000


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents next to the project")
def test_sessions_of_real_agents_become_blocks_and_every_form() -> None:
    from dragoman.text.colour import Painter
    from dragoman.trace import open_trace
    from dragoman.trace.inspect.folding import FoldedSessions
    from dragoman.trace.inspect.timeline import read_timeline
    from dragoman.view.html import page_of
    from dragoman.view.lines import lines_of
    from dragoman.view.markdown import to_markdown

    for path in RECORDINGS:
        trace, sessions = open_trace(path), FoldedSessions()
        read_timeline(trace.entries, header=trace.header, watch=sessions.feed)
        for state in sessions.states.values():
            blocks = blocks_of(state)
            assert page_of(blocks, "x", [])
            assert to_markdown(blocks, "x")
            assert all(len(line) <= 80 for line in lines_of(blocks, 80, Painter(False)))
