"""What inline mode prints, and its live region, without a terminal."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.text.colour import Painter
from dragoman.tui.inline.coloured import text_of_line
from dragoman.tui.inline.printed import PrintedBlocks
from dragoman.tui.lines.answers import LineAnswers
from dragoman.tui.lines.client import resume_place
from dragoman.tui.lines.commands import COMMANDS, client_command, help_lines
from dragoman.tui.screen.keys.actions import ACTIONS
from dragoman.tui.values import AskedQuestion
from dragoman.view.rails import ASCII, RailView
from dragoman.view.watched import WatchedSession

ANSWER = """# A title

The first *paragraph* of
two lines.

- one
- two

  with a part

```python
print("text")

print("more")
```

| a | b |
|---|---|
| 1 | 2 |

The end."""


def printer() -> PrintedBlocks:
    return PrintedBlocks(lambda: RailView(60, ASCII, is_side_by_side=False), has_colour=False)


def chunk(text: str) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(v1.TextContent(text))


def test_an_answer_is_the_same_lines_in_whatever_pieces_it_came() -> None:
    whole = SessionState()
    fold(whole, chunk(ANSWER))
    wanted = list(printer().feed(whole, is_over=True))
    assert '| print("more")' in "\n".join(wanted).replace("|   ", "| ")
    for size in (1, 3, 7, 50):
        found: list[str] = []
        state, blocks = SessionState(), printer()
        for at in range(0, len(ANSWER), size):
            fold(state, chunk(ANSWER[at : at + size]))
            found += blocks.feed(state)
        early = len(found)
        found += blocks.feed(state, is_over=True)
        assert found == wanted, size
        assert 0 < early < len(found), "closed parts come before the end"
        assert list(blocks.feed(state, is_over=True)) == [], "nothing is printed twice"


def test_a_call_is_printed_when_it_is_over_and_shown_below_until_then() -> None:
    state, blocks = SessionState(), printer()
    fold(state, v1.ToolCall("c1", "pytest -q", kind="execute", status="in_progress"))
    fold(state, v1.ToolCall("c2", "ls", kind="execute", status="in_progress"))
    assert list(blocks.feed(state)) == []
    shown = ["".join(text for text, _ in line) for line in blocks.open_lines(state, 3)]
    assert [line[:13] for line in shown] == ["# * run     p", "# * run     l"]
    fold(state, v1.ToolCallUpdate("c2", status="completed"))
    assert [line[:14] for line in blocks.feed(state)] == ["# + run     ls"]
    fold(state, v1.ToolCallUpdate("c1", status="failed"))
    assert ["x run" in line for line in blocks.feed(state)] == [True]
    assert blocks.open_lines(state, 3) == []


def test_a_session_that_is_loaded_again_goes_on_where_it_was() -> None:
    before, after = SessionState(), SessionState()
    for state, text in ((before, "one\n\ntw"), (after, "one\n\ntwo and more")):
        fold(state, v1.UserMessageChunk(v1.TextContent("hello")))
        fold(state, chunk(text))
    first = list(printer().feed(before, is_over=True))
    assert first[-1] == "| tw"
    again = printer()
    place = resume_place(before, after)
    assert place == (1, len("one\n\ntw"))
    again.resume(after, *place)
    assert [line for line in again.feed(after, is_over=True) if "one" in line or "hello" in line] == []
    assert resume_place(SessionState(), after) == (-1, 0)
    fold(after, v1.ToolCall("c1", "ls"))
    assert resume_place(before, after)[0] == 1, "what is new is printed"


def test_colours_are_ours_and_none_without_them() -> None:
    line = (("a\x1b]0;evil\x07b", "bad"), ("c", "sgr:1;31"), ("d", "sgr:2J"), ("e", "unknown"))
    assert text_of_line(line, has_colour=False) == "abcde"
    assert text_of_line(line, has_colour=True) == "\x1b[31;1mab\x1b[0m\x1b[1;31mc\x1b[0mde"


def asked(id: str) -> AskedQuestion:
    options = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]
    call = v1.ToolCallPatch(id, title=f"run {id}")
    return AskedQuestion(id, v1.RequestPermissionRequest("s", call, options), 0.0)


@pytest.mark.parametrize("by_line", [True, False])
async def test_an_answer_counts_once_and_never_too_soon(by_line: bool) -> None:
    now = [1000.0]
    conversation: Any = SimpleNamespace(questions=[asked("q1"), asked("q2")], forms=[], clock=lambda: now[0])
    conversation.watched = WatchedSession()
    conversation.answer = lambda question, option: question.answer.set_result(option)
    lines: list[str] = []
    answers = LineAnswers(conversation, lambda *new: lines.extend(new), lambda: 80, Painter(False), by_line=by_line)
    first, second = conversation.questions
    answers.asked(first)
    answers.answer(first, 1)
    assert not first.answer.done(), "nothing that was typed before it could be read counts"
    now[0] += 10.0
    assert await answers.take("1") is by_line, "a typed number is an answer in plain mode only"
    if not by_line:
        answers.answer(first, 1)
    assert first.answer.result() == "yes"
    assert "  the agent calls it: run q2" in lines[-5:], "the next one is asked again"
    if by_line:
        assert await answers.take("1")
    else:
        answers.answer(second, 1)
    assert not second.answer.done(), "a number that is typed twice does not answer two questions"


def test_commands_have_the_names_of_the_full_screen_and_yield_to_the_agents() -> None:
    screen = {action.name for action in ACTIONS}
    names = {command.name for command in COMMANDS}
    assert names & screen >= {"stop", "queue", "steer", "copy", "diff", "rewind", "model", "mode", "sessions", "leave"}
    assert len({word for command in COMMANDS for word in (command.name, *command.aliases)}) == sum(
        1 + len(command.aliases) for command in COMMANDS
    )
    assert client_command("diff", ["diff"]) is None
    assert client_command("dragoman:diff", ["diff"]) is client_command("diff", [])
    assert client_command("quit", ["quit", "leave"]) is not None, "a user can always leave"
    shown = "\n".join(help_lines([("Key", "what it does")]))
    assert all(f"/{command.name}" in shown for command in COMMANDS)


def test_inline_mode_does_not_import_textual() -> None:
    code = (
        "import sys, dragoman.tui.inline.terminal; print([m for m in sys.modules if m.startswith(('textual', 'rich'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
