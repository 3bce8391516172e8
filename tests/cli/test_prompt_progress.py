"""The progress of a turn as people read it: golden lines, hostile output, and every recording of a real agent."""

from __future__ import annotations

import asyncio
import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.prompt.progress import Progress
from dragoman.client.terminals import LocalTerminals, Look
from dragoman.policy.decide import Decision
from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold
from dragoman.testing import linked, scripted_agent
from dragoman.text.secrets import known_keys
from tests.cli.prompt_kit import ATTACKS, acts, screen
from tests.state.test_transcripts import FILES, messages, read


class Shown:
    """A progress and what it wrote."""

    def __init__(self, *, colour: bool = False, verbose: bool = False, **options: Any) -> None:
        self.stream = io.StringIO()
        self.progress = Progress(self.stream, colour, verbose, **options)
        self.state = SessionState()
        self.state.begin_turn([])

    def see(self, *updates: v1.SessionUpdate) -> Shown:
        for update in updates:
            fold(self.state, update)
            self.progress.update(update, self.state)
        return self

    @property
    def text(self) -> str:
        return self.stream.getvalue()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()


def message(text: str, message_id: str | None = None) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(v1.TextContent(text), message_id=message_id)


def thought(text: str) -> v1.AgentThoughtChunk:
    return v1.AgentThoughtChunk(v1.TextContent(text))


async def play(*words: str, verbose: bool = False) -> str:
    """Progress of turns with the scripted agent, one update after another whatever the pace they came at."""
    shown = Shown(verbose=verbose, root="/tmp")
    shown.state = SessionState()

    async def allow(request: v1.RequestPermissionRequest, session: object) -> str:
        return request.options[0].option_id

    async with linked(scripted_agent(), permission=allow) as agent:
        session = await agent.new_session(cwd="/tmp")
        for word in words:
            shown.state.begin_turn([])
            async for update in session.prompt(word):
                shown.see(update)
            shown.state.end_turn(session.state.stop_reason)
            shown.progress.end(session.state.stop_reason, shown.state, seconds=1.5)
    return shown.text


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> str:
    value = "sk-test-0123456789abcdefghijklmnop"
    monkeypatch.setattr(known_keys, "_masks", [])
    monkeypatch.setattr(known_keys, "_masks_bytes", [])
    known_keys.learn({"OPENAI_API_KEY": value})
    return value


@pytest.mark.parametrize("cut", range(1, 34))
@pytest.mark.parametrize("chunk", [message, thought])
def test_a_line_of_the_log_inside_a_key_of_the_answer_does_not_show_the_key(
    key: str, chunk: Callable[[str], v1.SessionUpdate], cut: int
) -> None:
    shown = Shown(verbose=True)
    for letter in f"is {key[:cut]}":
        shown.see(chunk(letter))
    shown.progress.log("retrying\n")
    for letter in f"{key[cut:]} it?":
        shown.see(chunk(letter))
    shown.progress.end("end_turn")
    assert "retrying\n" in shown.text
    assert "[OPENAI_API_KEY] it?\n" in shown.text
    assert key[:8] not in shown.text
    assert key[8:] not in shown.text


def test_an_answer_that_ends_with_the_beginning_of_a_key_stays_in_its_line(key: str) -> None:
    shown = Shown(verbose=True).see(message("see "), message(key[:20]))
    shown.see(v1.ToolCall("t", "Run", kind="execute", status="in_progress"))
    assert shown.lines == [f"see {key[:20]}", "→ execute  Run"]


@pytest.mark.parametrize("after", ["a tool call", "the end"])
def test_an_answer_that_stops_with_the_beginning_of_a_key_is_shown_whole(key: str, after: str) -> None:
    shown = Shown(verbose=True).see(message("see "), message(key[:20]))
    shown.progress.log("retrying\n")
    if after == "a tool call":
        shown.see(v1.ToolCall("t", "Run", kind="execute", status="in_progress"))
        assert shown.lines == ["see ", "retrying", key[:20], "→ execute  Run"]
    else:
        shown.progress.end("end_turn")
        assert shown.lines == ["see ", "retrying", key[:20], "end_turn"]


def test_a_word_that_begins_like_a_key_stays_in_its_line(key: str) -> None:
    shown = Shown(verbose=True).see(message("the test"), message("s"))
    shown.progress.log("retrying\n")
    shown.see(message(" pass"))
    shown.progress.end("end_turn")
    assert shown.lines == ["the tests", "retrying", " pass", "end_turn"]


def test_a_note_inside_a_key_of_a_thought_does_not_show_the_key(key: str) -> None:
    shown = Shown().see(thought("is "), thought(key[:30]))
    shown.progress.note("still waiting")
    shown.see(thought(f"{key[30:]} it?\n"), message("yes"))
    shown.progress.end("end_turn")
    assert shown.lines[:2] == ["~ is …", "still waiting"]
    assert key[:8] not in shown.text


async def test_a_turn_reads_as_a_tidy_log() -> None:
    assert await play("think hard", "plan", "diff", "permission x", "notice", "usage") == (
        "~ The user wants hard. Thinking about it.\n"
        "Thought about it.\n"
        "end_turn · 1.5s\n"
        "plan 0/3\n"
        "  › Read\n"
        "  · Change\n"
        "  · Test\n"
        "plan 1/3\n"
        "  ✓ Read\n"
        "  › Change\n"
        "plan 2/3\n"
        "  ✓ Change\n"
        "  › Test\n"
        "plan 3/3\n"
        "  ✓ Test\n"
        "end_turn · 1.5s\n"
        "→ edit     Editing\n"
        "  ✓ completed  +2 -1\n"
        "  main.py\n"
        "  @@ -1 +1 @@\n"
        "  -print('hi')\n"
        "  +print('hello')\n"
        "  new.py (new file)\n"
        "  @@ -0,0 +1 @@\n"
        "  +pass\n"
        "end_turn · 1 tool call · 1.5s\n"
        "→ delete   Deleting x\n"
        "allowed (allow)\n"
        "✓ delete   Deleting x\n"
        "end_turn · 1 tool call · 1.5s\n"
        "warning: Mind the gap\n"
        "  This is what a notice looks like.\n"
        "end_turn · 1.5s\n"
        "end_turn · context 1.2k of 200k · 0.0125 USD · 1.5s\n"
    )


@pytest.mark.rule(295)
async def test_output_of_a_command_is_shown_live_and_an_exit_code_other_than_0_is_a_failure() -> None:
    shown = Shown()
    came = asyncio.Event()

    def show(name: str, _: object, data: bytes) -> None:
        shown.progress.terminal_output(name, data)
        if "│ one\n" in shown.text:  # it may come in pieces
            came.set()

    terminals = LocalTerminals(permissions=None, on_output=show)
    shown.progress.look = terminals.look
    async with linked(scripted_agent(), terminals=terminals) as agent:
        session = await agent.new_session(cwd="/tmp")
        async with session.prompt("terminal printf 'one\\ntwo'; read answer; exit 7") as turn:
            await came.wait()  # the command does not end by itself
            async for update in turn:
                shown.progress.update(update, session.state)
                if isinstance(update, v1.ToolCallUpdate) and session.state.is_running:
                    break
            await session.cancel()
    shown = Shown()
    shown.progress.look = lambda name: _ended(name, 7)
    shown.progress.terminal_output("t", b"one\ntwo")
    shown.see(
        v1.ToolCall("1", "make", kind="execute", content=[v1.Terminal("t")]),
        v1.ToolCallUpdate("1", status="completed"),
    )
    assert shown.lines == ["│ one", "→ execute  make", "│ two", "✗ execute  make  exit 7"]


def _ended(terminal_id: str, exit_code: int) -> Look:
    return Look(terminal_id, "s", "make", "/tmp", "", False, False, False, exit_code, None)


async def test_everything_is_shown_on_request() -> None:
    text = await play("tool", "commands", "title A title", "unknown", "user hello", verbose=True)
    for line in ("  # A project", "commands: /review, /find", "title: A title", "unknown update: _scripted", "> hello"):
        assert f"{line}\n" in text


def test_a_first_line_is_finished_below_if_nothing_came_between() -> None:
    shown = Shown(root="/p")
    shown.see(
        v1.ToolCall("1", "Look", kind="read", status="in_progress", locations=[v1.ToolCallLocation("/p/a.py", line=3)]),
        v1.ToolCallUpdate("1", status="completed"),
        v1.ToolCall("2", "Edit a.py", kind="edit", status="in_progress"),
        message("Meanwhile"),
        v1.ToolCallUpdate("2", status="failed", content=[v1.Content(v1.TextContent("no such line\n"))]),
        v1.ToolCallUpdate("2", status="failed"),
    )
    assert shown.lines == [
        "→ read     Look  a.py:3",
        "  ✓ completed",
        "→ edit     Edit a.py",
        "Meanwhile",
        "✗ edit     Edit a.py  failed",
        "  no such line",
    ]


def test_a_call_is_shown_with_its_title_once_that_is_known() -> None:
    shown = Shown().see(v1.ToolCall("1", "Run a command", kind="execute", status="pending"))
    assert shown.lines == []
    shown.see(v1.ToolCallUpdate("1", title="`make`", raw_input={"command": "make"}))
    shown.see(v1.ToolCallUpdate("1", status="completed"))
    assert shown.lines == ["→ execute  `make`", "  ✓ completed"]


@pytest.mark.rule(193)
def test_a_call_cut_off_by_a_cancel_is_neither_a_success_nor_a_failure() -> None:
    shown = Shown().see(v1.ToolCall("1", "Wait", status="in_progress"))
    shown.state.cancel_turn()
    shown.see(v1.ToolCallUpdate("1", status="failed"))
    assert shown.lines == ["→ other    Wait", "  – cancelled"]


def test_a_call_that_was_already_over_takes_one_line() -> None:
    shown = Shown()
    fold(shown.state, v1.ToolCall("1", "Look", kind="read"))
    fold(shown.state, v1.ToolCallUpdate("1", status="completed"))
    shown.progress.update(v1.ToolCall("1", "Look", kind="read"), shown.state)
    shown.progress.update(v1.ToolCallUpdate("1", status="completed"), shown.state)
    assert shown.lines == ["✓ read     Look"]


@pytest.mark.parametrize(
    "ending",
    [
        {"raw_output": {"exit_code": 7}},
        {"raw_output": {"exitCode": 7}},
        {"raw_output": {"contents": [{"type": "shell_exit", "exitCode": 7}]}},
        {"meta": {"terminal_exit": {"terminal_id": "x", "exit_code": 7, "signal": None}}},
    ],
)
def test_an_exit_code_that_an_agent_reports_overrides_the_status_completed(ending: dict[str, Any]) -> None:
    shown = Shown(colour=True).see(
        v1.ToolCall("1", "make", kind="execute"), v1.ToolCallUpdate("1", status="completed", **ending)
    )
    assert "\x1b[31m✗ exit 7\x1b[0m" in shown.text or "\x1b[31mexit 7\x1b[0m" in shown.text
    assert "✓" not in shown.text


def test_an_exit_code_of_zero_or_an_invalid_one_is_not_a_failure() -> None:
    for code in (0, None, True, "7"):
        shown = Shown().see(
            v1.ToolCall("1", "make", kind="execute", status="completed", raw_output={"exit_code": code})
        )
        assert shown.lines == ["✓ execute  make"]


def test_output_of_a_command_the_agent_runs_itself_is_shown() -> None:
    meta = {"terminal_output_delta": {"terminal_id": "x", "data": "\x1b[31mred\x1b[0m\n\x1b[2J"}}
    shown = Shown().see(v1.ToolCall("1", "make", kind="execute"), v1.ToolCallUpdate("1", meta=meta))
    assert shown.lines == ["→ execute  make", "│ red"]


def test_a_long_change_is_cut_unless_everything_is_wanted() -> None:
    call = v1.ToolCall(
        "1", "Write", kind="edit", status="completed", content=[v1.Diff("/a", "".join(f"{n}\n" for n in range(100)))]
    )
    assert Shown().see(call).lines[-1] == "  … 62 more lines"
    assert Shown(verbose=True).see(call).lines[-1] == "  +99"


def test_only_the_first_line_of_a_thought_is_shown_unless_everything_is_wanted() -> None:
    updates = (
        thought("First"),
        thought(" line\nsecond"),
        thought("\nthird"),
        message("Answer"),
        thought("More"),
        message("."),
    )
    assert Shown().see(*updates).lines == ["~ First line", "Answer", "~ More", "."]
    assert Shown(verbose=True).see(*updates).lines == ["~ First line", "~ second", "~ third", "Answer", "~ More", "."]


def test_messages_with_different_ids_are_kept_apart() -> None:
    assert Shown().see(message("one ", "a"), message("more", "a"), message("two", "b")).lines == ["one more", "two"]


def test_the_answer_can_be_left_to_stdout() -> None:
    assert Shown(shows_text=False).see(message("Answer"), thought("Hm\n")).lines == ["~ Hm"]


def test_other_updates_take_a_line_each() -> None:
    shown = Shown().see(
        v1.CurrentModeUpdate("code"),
        v1.CompactionUpdate("c", "failed", error="too long"),
        v1.SubagentUpdate("child", title="Search", state=v1.RunningStateUpdate()),
        v1.SubagentUpdate("child", state=v1.RunningStateUpdate()),
        v1.SubagentUpdate("child", state=v1.IdleStateUpdate(stop_reason="end_turn")),
        v1.PlanUpdate(v1.PlanFile("p", "file:///plan.md")),
        v1.PlanUpdate(v1.PlanMarkdown("p", "# one\ntwo")),
        v1.PlanUpdate(v1.PlanItems("p", [v1.PlanEntry("step", "high", "pending")])),
    )
    assert shown.lines == [
        "mode: code",
        "compaction of the context: failed: too long",
        "subagent Search: running",
        "subagent Search: end_turn",
        "plan file:///plan.md",
        "plan",
        "  # one",
        "  two",
        "plan 0/1",
        "  · step",
    ]


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS)
def test_nothing_an_agent_sends_acts_on_the_terminal(attack: str, verbose: bool) -> None:
    shown = Shown(verbose=verbose).see(
        message(attack, attack),
        thought(attack),
        v1.UserMessageChunk(v1.TextContent(attack)),
        v1.ToolCall(
            attack,
            attack,
            kind=attack,
            locations=[v1.ToolCallLocation(attack)],
            content=[
                v1.Diff(attack, attack, old_text="x" + attack),
                v1.Content(v1.TextContent(attack)),
                v1.Content(v1.ImageContent(attack, attack)),
                v1.Content(v1.ResourceLink(attack, attack)),
                v1.Terminal(attack),
            ],
            meta={"terminal_exit": {"terminal_id": attack, "signal": attack}},
        ),
        v1.ToolCallUpdate(attack, status="completed"),
        v1.ToolCall("2", attack, kind="execute", status="failed", content=[v1.Content(v1.TextContent(attack))]),
        v1.Plan([v1.PlanEntry(attack, "high", attack)]),
        v1.PlanUpdate(v1.PlanFile(attack, attack)),
        v1.PlanUpdate(v1.PlanMarkdown(attack, attack)),
        v1.PlanRemoved(attack),
        v1.CurrentModeUpdate(attack),
        v1.SessionInfoUpdate(title=attack),
        v1.AvailableCommandsUpdate([v1.AvailableCommand(attack, attack)]),
        v1.UsageUpdate(1, 2, cost=v1.Cost(1.0, attack)),
        v1.Notice(attack, attack, description=attack),
        v1.CompactionUpdate(attack, attack, error=attack),
        v1.SubagentUpdate(attack, title=attack, state=Unknown(attack, {})),
        Unknown(attack, {}),
        message("\x1b"),
        message("[31m]0;x\x07"),
    )
    shown.progress.terminal_output(attack, attack.encode(errors="replace"))
    shown.progress.terminal_exit(attack, 1, attack)
    shown.progress.decision(Decision(action="deny", decided_by=attack, title=attack, kind=attack))
    shown.progress.note(attack)
    shown.progress.end(attack, shown.state)
    unsafe = acts(shown.text) - {"\t"}
    # In running text marks that are merely invisible may stay: joined letters and emoji are made of them.
    assert {
        letter for letter in unsafe if letter not in "\u200b\u200d\u2060\ufeff\u00ad\u3164\u2800\uffa0\u115f"
    } == set()


def test_a_flood_is_cut_and_its_last_lines_are_shown() -> None:
    shown = Shown()
    shown.progress.terminal_output("t", b"".join(b"%d\n" % n for n in range(10_000)))
    shown.progress.terminal_exit("t", 2)
    assert shown.lines[199:202] == ["│ 199", "│ … 9780 lines not shown", "│ 9980"]
    assert shown.lines[-2:] == ["│ 9999", "│ exit 2"]
    shown = Shown(verbose=True)
    shown.progress.terminal_output("t", b"".join(b"%d\n" % n for n in range(10_000)))
    assert len(shown.lines) == 10_000


def test_output_of_commands_that_run_at_once_is_labelled() -> None:
    shown = Shown()
    shown.progress.terminal_output("one", b"a\n")
    shown.progress.terminal_output("two", b"b\n")
    shown.progress.terminal_output("two", b"c\n")
    shown.progress.terminal_output("one", b"d\n")
    assert shown.lines == ["│ a", "│ terminal two:", "│ b", "│ c", "│ terminal one:", "│ d"]


def test_a_stream_that_is_gone_is_left_alone() -> None:
    shown = Shown()
    shown.stream.close()
    shown.see(message("hello"))
    shown.progress.end("end_turn", shown.state)


def test_output_kept_while_a_question_is_open_is_limited() -> None:
    shown = Shown()
    shown.progress.hold()
    for n in range(1000):
        shown.progress.note(f"{n} {'x' * 1000}")
    assert shown.text == ""
    shown.progress.release()
    assert shown.lines[0].startswith("… ")
    assert shown.lines[-1].startswith("999 ")
    assert len(shown.text) < 300_000


@pytest.mark.skipif(not FILES, reason="no recordings next to the project")
@pytest.mark.parametrize("path", FILES, ids=[path.name for path in FILES])
@pytest.mark.parametrize("verbose", [False, True])
def test_every_recording_of_a_real_agent_can_be_shown(path: Path, verbose: bool) -> None:
    states: dict[str, SessionState] = {}
    stream = io.StringIO()
    progress = Progress(stream, False, verbose)
    for message in messages(path):
        params = message.get("params")
        if not isinstance(params, dict) or not isinstance(params.get("sessionId"), str):
            continue
        state = states.setdefault(params["sessionId"], SessionState())
        if message.get("method") == "session/update":
            update = read(v1.SessionNotification, params).update
            fold(state, update)
            progress.update(update, state)
        elif message.get("method") == "session/request_permission":
            state.note_permission(read(v1.RequestPermissionRequest, params).tool_call)
    for state in states.values():
        progress.end("end_turn", state)
    assert acts(stream.getvalue()) - {"\t"} == set()


PROGRAM = """
import sys
from dragoman.cli.console import uses_colour
from dragoman.cli.prompt.progress import Progress
progress = Progress(sys.stderr, uses_colour(sys.stderr), False)
progress.terminal_output("t", b"\\x1b[35mout\\x1b[0m\\n")
progress.end("refusal")
"""


@pytest.mark.parametrize(
    ("environment", "is_terminal", "is_coloured"),
    [({}, True, True), ({"NO_COLOR": "1"}, True, False), ({"TERM": "dumb"}, True, False), ({}, False, False)],
)
async def test_colour_is_for_terminals_unless_it_is_not_wanted(
    environment: dict[str, str], is_terminal: bool, is_coloured: bool
) -> None:
    async with screen() as terminal:
        child = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM,
            stderr=terminal.descriptor if is_terminal else asyncio.subprocess.PIPE,
            env={"PATH": "/bin", "TERM": "xterm", "PYTHONIOENCODING": "utf-8", **environment},
        )  # fmt: skip
        _, piped = await child.communicate()
        if is_terminal:
            await terminal.everything()
        text = terminal.text if is_terminal else piped.decode()
        assert ("\x1b[" in text) is is_coloured
        assert "out" in text
