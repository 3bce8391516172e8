"""A running session as lines that are only appended."""

from __future__ import annotations

import random

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.text.colour import Painter
from dragoman.view.appended import AppendedLines

PLAIN = Painter(False)


def say(text: str) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(v1.TextContent(text))


def test_a_message_is_written_by_sentences_and_never_twice() -> None:
    state, lines = SessionState(), AppendedLines(80, PLAIN)
    fold(state, say("One sentence. Half a"))
    assert list(lines.feed(state)) == ["agent:", "  One sentence."]
    fold(state, say(" sentence"))
    assert list(lines.feed(state)) == []
    assert list(lines.feed(state, is_over=True)) == ["  Half a sentence"]
    assert list(lines.feed(state, is_over=True)) == []


def test_a_tool_call_is_written_when_it_runs_and_when_it_ends_whatever_came_between() -> None:
    state, lines = SessionState(), AppendedLines(80, PLAIN)
    fold(state, v1.ToolCall("1", "Edit", kind="edit", status="pending"))
    assert list(lines.feed(state)) == []
    fold(state, v1.ToolCallUpdate("1", title="Edit a.txt", status="in_progress"))
    fold(state, say("Meanwhile."))
    assert list(lines.feed(state)) == ["tool: edit Edit a.txt, in_progress"]
    fold(state, v1.ToolCallUpdate("1", status="completed"))
    assert "tool: edit Edit a.txt, completed" in list(lines.feed(state, is_over=True))


def test_the_pieces_do_not_matter_and_long_lines_are_broken_between_words() -> None:
    text = "# Title\n\nSome words and " + "more " * 60 + "\n- a list. With two! sentences\n" + "x" * 300 + "\nend"
    whole, lines = SessionState(), AppendedLines(60, PLAIN)
    fold(whole, say(text))
    expected = " ".join(" ".join(lines.feed(whole, is_over=True)).replace("⤷ ", "").split())
    numbers = random.Random(7)
    for _ in range(20):
        state, lines, at = SessionState(), AppendedLines(60, PLAIN), 0
        found: list[str] = []
        while at < len(text):
            step = numbers.randint(1, 40)
            fold(state, say(text[at : at + step]))
            at += step
            found += lines.feed(state)
        found += lines.feed(state, is_over=True)
        assert all(len(line) <= 60 for line in found)
        assert all(line.startswith(("  ", "agent:")) or not line for line in found)
        assert " ".join(" ".join(found).replace("⤷ ", "").split()).replace(" ", "") == expected.replace(" ", "")


def test_the_lines_are_the_same_however_the_pieces_came() -> None:
    """One sentence a line; lists, values behind a name, code and tables are not broken inside."""
    text = (
        "\nOne sentence. Another (in brackets.) Third: a value, e.g. this one.\n\n\n"
        "1. first. Second part\n2. colour: red\n"
        "```\nprint('Done now. Really. ')\n\n\nend. of it\n```\nAfter it. Last\n\n"
        "| a | b |\n|---|---|\n| Yes. No | 2 |\n\nend\n\n"
    )
    state, lines = SessionState(), AppendedLines(60, PLAIN)
    fold(state, say(text))
    whole = list(lines.feed(state, is_over=True))
    assert whole == [
        "agent:",
        *("  One sentence.", "  Another (in brackets.)", "  Third: a value, e.g. this one.", "", ""),
        *("  1. first.", "  Second part", "  2. colour: red"),
        *("  ```", "  print('Done now. Really. ')", "", "", "  end. of it", "  ```"),
        *("  After it.", "  Last", "", "  a: Yes. No", "  b: 2", "", "  end"),
    ]
    for size in range(1, len(text)):
        state, lines = SessionState(), AppendedLines(60, PLAIN)
        found: list[str] = []
        for at in range(0, len(text), size):
            fold(state, say(text[at : at + size]))
            found += lines.feed(state)
        found += lines.feed(state, is_over=True)
        assert found == whole, f"in pieces of {size}"


def test_a_line_that_is_almost_the_rule_of_a_table_is_read_at_once() -> None:
    """As Org mode and psql draw it; a pattern that tries every way to cut the dashes would take years."""
    state, lines = SessionState(), AppendedLines(200, PLAIN)
    rule = f"|{'-' * 60}+{'-' * 60}|"
    fold(state, say(f"| a | b |\n{rule}\n| 1 | 2 |\n"))
    assert list(lines.feed(state, is_over=True)) == ["agent:", "  | a | b |", f"  {rule}", "  | 1 | 2 |"]


def test_controls_and_words_of_ours_in_a_text_stay_text() -> None:
    state, lines = SessionState(), AppendedLines(80, PLAIN)
    fold(state, say("question: 1\x1b[2J\x9b31m\nagent: \u202eevil"))
    found = list(lines.feed(state, is_over=True))
    assert found[0] == "agent:"
    assert all(line.startswith("  ") for line in found[1:])
    assert not any(letter in "".join(found) for letter in "\x1b\x9b\u202e")


def test_a_plan_is_written_when_its_step_changes() -> None:
    def plan(*statuses: str) -> v1.Plan:
        return v1.Plan([v1.PlanEntry(f"step {n}", "medium", status) for n, status in enumerate(statuses, 1)])

    state, lines = SessionState(), AppendedLines(80, PLAIN)
    fold(state, plan("in_progress", "pending"))
    assert list(lines.feed(state)) == ["plan: 0 of 2 done; now: step 1"]
    fold(state, plan("in_progress", "pending"))
    assert list(lines.feed(state)) == []
    fold(state, plan("completed", "in_progress"))
    assert list(lines.feed(state)) == ["plan: 1 of 2 done; now: step 2"]
