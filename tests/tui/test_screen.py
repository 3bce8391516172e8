"""The full screen, as text grids and keys, with Textual's own pilot. The host is not there: states are given."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")

from textual.pilot import Pilot

from dragoman.schema import v1
from dragoman.state import fold
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.card import QuestionCard
from dragoman.tui.values import AskedQuestion
from tests.tui.grids import grid
from tests.tui.screens_kit import shown

__all__ = ["grid", "shown"]  # with what is below, what tests of other screens begin with

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e"
OPTIONS = [
    v1.PermissionOption(option_id=id, name=name, kind=kind)
    for id, name, kind in (("yes", "Allow", "allow_once"), ("no", "Reject", "reject_once"))
]


async def painted(app: TerminalApp, pilot: Pilot[None]) -> list[str]:
    app.changed()
    app._paint()
    await pilot.pause()
    await pilot.pause()
    return grid(app)


def question(title: str = "Run a command", command: str = "rm -rf build") -> AskedQuestion:
    call = v1.ToolCallPatch("1", title=title, kind="execute", raw_input={"command": command})
    request = v1.RequestPermissionRequest(session_id="s", tool_call=call, options=OPTIONS)
    return AskedQuestion("q", request, 0.0)


async def ask(app: TerminalApp, pilot: Pilot[None], asked: AskedQuestion) -> QuestionCard:
    app.conversation.questions.append(asked)
    app.asked(asked)
    await painted(app, pilot)
    return app.query_one(QuestionCard)


async def test_a_conversation_at_80_by_24(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        state = app.conversation.state
        state.begin_turn([v1.TextContent("why does the importer drop the last row?")])
        for update in (
            v1.AgentThoughtChunk(v1.TextContent("hm")),
            v1.AgentMessageChunk(v1.TextContent("The loop ends one row early: `range(n - 1)`. I will change it.")),
            v1.ToolCall(
                "1",
                "importer.py",
                kind="edit",
                status="completed",
                content=[v1.Diff("importer.py", "for i in range(n):\n", old_text="for i in range(n - 1):\n")],
            ),
            v1.ToolCall("2", "pytest -q", kind="execute", status="in_progress"),
        ):
            fold(state, update)
        lines = await painted(app, pilot)
        assert lines[0].startswith(" project")
        assert lines[0].endswith("claude")
        assert lines[1:8] == [
            "❯ why does the importer drop the last row?",
            "┊ thought, 1 word, Ctrl+T to read",
            "│ The loop ends one row early: `range(n - 1)`. I will change it.",
            "▸ ✔ edit    importer.py  +1 -1",
            "│      1 - for i in range(n - 1):",
            "│      1 + for i in range(n):",
            "▸ ● run     pytest -q",
        ]
        assert lines[21] == "─" * 80
        assert "Enter send" in lines[23]
        await pilot.press("ctrl+t")
        assert "┊ hm" in await painted(app, pilot)


async def test_what_is_typed_is_never_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = question()
        card = await ask(app, pilot, asked)
        assert app.query_one(PromptInput).has_focus, "the card does not take the keyboard"
        assert any("shell: rm -rf build" in line for line in grid(app))
        await pilot.press("1", "y", "enter", "space", "escape", "up")
        assert not asked.answer.done()
        await pilot.press("tab", "enter", "space", "x")
        assert card.has_focus
        assert not asked.answer.done()
        card._painted_at = None  # as if it had not been painted yet
        await pilot.press("1")
        assert not asked.answer.done()
        assert "too soon" in card.problem
        card._painted_at = 0.0  # long ago
        await pilot.press("9")
        assert "the answers are 1 to 2" in card.problem
        await pilot.press("2")
        assert asked.answer.result() == "no"


async def test_alt_and_a_number_answers_from_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = question()
        card = await ask(app, pilot, asked)
        card._painted_at = 0.0
        await pilot.press("alt+1")
        assert asked.answer.result() == "yes"


async def test_a_question_that_is_longer_than_its_card_must_be_read_to_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = question(command="\n".join(f"echo {number}" for number in range(60)))
        card = await ask(app, pilot, asked)
        card._painted_at = 0.0
        assert any("line 1-" in line and "of 63" in line for line in grid(app))
        await pilot.press("tab", "1")
        assert not asked.answer.done()
        assert "scroll to the end" in card.problem
        for _ in range(8):
            await pilot.press("pagedown")
            await painted(app, pilot)
        card._painted_at = 0.0
        await pilot.press("1")
        assert asked.answer.result() == "yes"


async def test_the_next_question_waits_until_the_place_was_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        first, second = question(), question("Another", "ls")
        card = await ask(app, pilot, first)
        app.conversation.questions.remove(first)
        app.conversation.questions.append(second)
        card.show(None)
        await painted(app, pilot)
        assert card.question is None, "a key that was meant for the first one would answer this one"
        card._gone_at = 0.0
        await painted(app, pilot)
        assert card.question is second


@pytest.mark.parametrize("size", [(80, 24), (160, 50), (40, 10)])
async def test_no_text_of_an_agent_acts_on_the_terminal(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        state = app.conversation.state
        for update in (
            v1.AgentMessageChunk(v1.TextContent(f"text {EVIL}\n```{EVIL}\n{EVIL}")),
            v1.AgentThoughtChunk(v1.TextContent(EVIL)),
            v1.ToolCall("1", EVIL, kind=EVIL, status="failed", raw_input={"command": EVIL}, raw_output=EVIL),
            v1.ToolCall("2", "x", status="completed", content=[v1.Diff(EVIL, EVIL, old_text=EVIL)]),
            v1.Plan([v1.PlanEntry(EVIL, "high", "in_progress")]),
            v1.SessionInfoUpdate(title=EVIL),
        ):
            fold(state, update)
        app.conversation.agent = EVIL
        app.note(EVIL)
        await ask(app, pilot, question(EVIL, EVIL))
        await pilot.press("ctrl+t")
        lines = await painted(app, pilot)
        assert all(line.isprintable() for line in lines)
        assert any("<U+001B>]0;evil" in line for line in lines) or size[1] < 24, "what will run is spelled out"


async def test_scrolled_up_means_frozen(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("".join(f"line {n}\n" for n in range(200)))))
        assert "│ line 199" in await painted(app, pilot)
        await pilot.press("pageup")
        before = [line[:20].rstrip() for line in (await painted(app, pilot))[1:20]]
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("more\nand more\n")))
        lines = await painted(app, pilot)
        assert [line[:20].rstrip() for line in lines[1:20]] == before
        assert "2 new lines, End to follow" in lines[23]
        app.query_one(Transcript).follow()
        assert "│ and more" in await painted(app, pilot)


async def test_a_failure_and_a_queue_are_shown_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        await pilot.press(*"hello", "enter")
        assert [prompt.text for prompt in app.conversation.queued] == ["hello"]
        await pilot.press("ctrl+q")
        await pilot.press("enter")
        await pilot.pause()
        assert app.conversation.queued == []
        assert app.query_one(PromptInput).text == "hello"
        app.conversation.phase, app.conversation.failure = "failed", "no agent is called 'x'"
        lines = await painted(app, pilot)
        assert any("✘ no agent is called 'x'" in line for line in lines)
