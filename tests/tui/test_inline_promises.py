"""Promises of the line modes that depend on the time or on one key: each with a clock that the test drives."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from dragoman.schema import v1
from dragoman.state import fold
from dragoman.text.colour import Painter
from dragoman.tui.inline import keys
from dragoman.tui.inline import terminal as inline
from dragoman.tui.lines import client as lines
from dragoman.tui.plain import PlainTerminal
from dragoman.tui.values import AskedQuestion


class Nowhere:
    cwd = "/home/user/project"
    worktree = ""
    is_temporary = False
    mode = ""

    def choose(self, agent: str, model: str) -> None:
        raise NotImplementedError

    def new(self, agent: str | None) -> dict[str, Any]:
        raise NotImplementedError


START = 1e9
"""No machine is up that long: whatever goes by a real clock, next to the one that is driven, fails."""


class Clock:
    """The time, which goes on when the code under test sleeps."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now

    def sleep(self, until: float) -> Callable[[float], Awaitable[None]]:
        """A sleep that lets the time pass, and ends the loop at a time."""

        async def sleep(seconds: float) -> None:
            if self.now + seconds > until:
                raise asyncio.CancelledError
            self.now += seconds

        return sleep


@pytest.fixture
def clock() -> Clock:
    return Clock()


async def beats(client: lines.LineClient, clock: Clock, monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """Lets the client work for some seconds."""
    with monkeypatch.context() as patched:
        patched.setattr(lines, "asyncio", SimpleNamespace(sleep=clock.sleep(clock.now + seconds)))
        with pytest.raises(asyncio.CancelledError):
            await client._beat()


async def test_a_quiet_turn_says_so_every_20_seconds_in_plain_mode(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    client = lines.LineClient(Nowhere(), PlainTerminal(Painter(False)), None, clock)

    async def written(seconds: float) -> list[str]:
        await beats(client, clock, monkeypatch, seconds)
        return capsys.readouterr().out.splitlines()

    assert await written(60) == [], "no turn runs"
    client.conversation.is_foreign_turn, client.conversation.started_at = True, clock.now
    client.write("tool: execute make test, in_progress")
    _ = capsys.readouterr()
    assert await written(19) == []
    assert await written(1) == ["note: still working, 20.0s"]
    assert await written(41) == ["note: still working, 40.0s", "note: still working, 60.0s"]
    client.write("agent:")
    _ = capsys.readouterr()
    assert await written(19) == [], "something came"
    assert len(await written(1)) == 1


@pytest.fixture
def terminal(clock: Clock) -> Iterator[inline.InlineTerminal]:
    with create_pipe_input() as keyboard, create_app_session(input=keyboard, output=DummyOutput()):
        yield inline.InlineTerminal(Nowhere(), None, has_colour=False, clock=clock)


def key(terminal: inline.InlineTerminal, *names: str) -> None:
    """Does what a key is bound to."""
    found = [each for each in keys.key_bindings(terminal).bindings if each.keys == names and each.filter()]
    assert len(found) == 1, (names, found)
    found[0].handler(SimpleNamespace(app=terminal._app))  # type: ignore[arg-type]


async def test_the_time_of_a_turn_is_in_the_status_line_and_not_printed_in_inline_mode(
    terminal: inline.InlineTerminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = _printed(terminal, monkeypatch)
    terminal.client.conversation.is_foreign_turn, terminal.client.conversation.started_at = True, clock.now
    await beats(terminal.client, clock, monkeypatch, 70)
    assert printed == []


def _printed(terminal: inline.InlineTerminal, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []
    monkeypatch.setattr(terminal, "write", found.extend)
    return found


async def test_ctrl_t_prints_the_last_thought_or_long_output_whole(
    terminal: inline.InlineTerminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = _printed(terminal, monkeypatch)
    key(terminal, "c-t")
    assert printed == ["note: nothing was shortened"]
    state = terminal.client.conversation.state
    thought = "\n".join(f"idea {number}" for number in range(30))
    fold(state, v1.AgentThoughtChunk(v1.TextContent(thought)))
    fold(state, v1.AgentMessageChunk(v1.TextContent("The answer, which is printed whole.")))
    printed.clear()
    key(terminal, "c-t")
    assert [line.split()[-1] for line in printed if "idea" in line] == [str(number) for number in range(30)]
    assert "The answer" not in "".join(printed)
    output = "\n".join(f"row {number}" for number in range(40))
    fold(state, v1.ToolCall("1", "make", kind="execute", status="completed", raw_output=output))
    printed.clear()
    key(terminal, "c-t")
    assert sum("row " in line for line in printed) == 40
    assert "idea" not in "".join(printed), "the last one only"


async def test_for_a_second_after_a_question_was_closed_elsewhere_every_answer_is_refused(
    terminal: inline.InlineTerminal, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = _printed(terminal, monkeypatch)
    conversation, answered = terminal.client.conversation, []
    options = [v1.PermissionOption("yes", "Allow", "allow_once"), v1.PermissionOption("no", "Reject", "reject_once")]
    request = v1.RequestPermissionRequest("s", v1.ToolCallPatch("1", title="rm -rf /"), options)
    for id in ("first", "second"):
        conversation.asking.questions.append(AskedQuestion(id, request, clock.now - 10.0))
    monkeypatch.setattr(conversation.asking, "answer", lambda question, option: answered.append((question.id, option)))
    closed = conversation.asking.questions.pop(0)
    terminal.client.withdrawn(closed, "allowed by web, 10:02")
    assert printed[-1] == "note: the question is closed: allowed by web, 10:02"
    for ways in (("escape", "1"), ("tab", "1")):
        clock.now = START
        for passed in (0.0, 0.5, 0.99):
            clock.now = START + passed
            _press(terminal, ways)
            assert answered == [], "the key was meant for the question before"
            assert "just closed" in terminal._hint[0]
    clock.now = START + 1.01
    _press(terminal, ("escape", "1"))
    assert answered == [("second", "yes")]


def _press(terminal: inline.InlineTerminal, ways: tuple[str, ...]) -> None:
    if ways[0] == "tab":
        terminal.is_answering = False
        key(terminal, "c-i")
        assert terminal.is_answering
        key(terminal, ways[1])
        terminal.is_answering = False
    else:
        key(terminal, *ways)
