"""The cards of questions, forms, logins and failures on the full screen, with a clock that the test moves."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("textual")

from textual import events
from textual.pilot import Pilot
from textual.widgets import Input

from dragoman.client.elicitation import pages
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.state import SessionState
from dragoman.tui.questions.failures import explain
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.card import QuestionCard
from dragoman.tui.screen.questions.form import FormScreen
from dragoman.tui.screen.questions.question_screen import QuestionScreen, ReasonScreen
from dragoman.tui.values import AskedQuestion
from dragoman.view.rails import ASCII
from tests.tui.test_screen import EVIL, ask, grid, painted, question, shown


class Clock:
    """The time of the cards. No machine is up that long, so that a card with a real clock next to it fails."""

    def __init__(self, app: TerminalApp) -> None:
        self.now = 1e9
        app.cards.clock = lambda: self.now


def detailed(*, reads: bool = False, command: str = "rm -rf build && cmake -B build") -> AskedQuestion:
    call = v1.ToolCallPatch("1", title="Run", kind="execute", raw_input={"command": command})
    options = [
        v1.PermissionOption("yes", "Allow once", "allow_once"),
        v1.PermissionOption("ever", "Allow for this project: cmake", "allow_always"),
        v1.PermissionOption("no", "Reject", "reject_once"),
    ]
    own: dict[str, Any] = {
        "questionId": "q",
        "why": "no rule allows it: rm is never allowed by a rule",
        "cwd": "/home/user/project",
        "commands": [command],
        "commandCount": 2,
        "options": {
            "ever": {"action": "allow", "rule": "execute:cmake *", "kept": "project", "by": "host", "file": "/r.json"}
        },
    }
    if reads:
        own["readsReasons"] = True
    return AskedQuestion("q", v1.RequestPermissionRequest("s", call, options, meta={"dragoman": own}), 0.0)


async def back(app: TerminalApp, pilot: Pilot[None]) -> bool:
    """Whether the screen above the conversation closes by itself."""
    for _ in range(100):
        await pilot.pause(0.02)
        if len(app.screen_stack) == 1:
            return True
    return False


async def settled(app: TerminalApp, pilot: Pilot[None], asked: AskedQuestion) -> tuple[QuestionCard, Clock]:
    clock = Clock(app)
    card = await ask(app, pilot, asked)
    clock.now += 0.5
    return card, clock


async def test_the_card_says_where_what_why_and_what_always_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        await settled(app, pilot, detailed())
        text = "\n".join(await painted(app, pilot))
        for part in (
            "◆ question: run: rm -rf build && cmake -B build",
            "shell: rm -rf build && cmake -B build",
            "in: /home/user/project",
            "2 commands run with this answer",
            "why: no rule allows it: rm is never allowed by a rule",
            "the agent calls it: Run",
            "y 1: Allow once",
            "a 2: Allow for this project: cmake",
            "       writes: allow execute:cmake *, in /r.json",
            "❯  n 3: Reject",
            "w: reject and say why   v: the whole question",
            "press y, a, n or 1-3 to answer; Tab: into the question",
        ):
            assert part in text, text


async def test_a_key_within_400_milliseconds_after_the_card_was_painted_never_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        clock, asked = Clock(app), detailed()
        card = await ask(app, pilot, asked)
        await pilot.press("alt+3", "tab", "3")
        clock.now += 0.39
        await pilot.press("3", "down", "enter", "w")
        assert not asked.answer.done()
        assert "too soon" in card.problem
        assert len(app.screen_stack) == 1
        clock.now += 0.02
        await pilot.press("3")
        assert asked.answer.result() == "no"


async def test_a_key_that_was_read_before_the_card_was_painted_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        card = await ask(app, pilot, asked)
        card.focus()
        await pilot.pause()
        early = events.Key("3", "3")  # it waited in a queue while the card was painted
        assert card._painted_at is not None
        card._painted_at = early.time - 0.1
        app.cards.question_key(card, early)
        assert not asked.answer.done()
        card._painted_at = early.time - 0.5
        app.cards.question_key(card, early)
        assert asked.answer.result() == "no"


async def test_reject_is_selected_and_enter_needs_a_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        card, _ = await settled(app, pilot, asked)
        await pilot.press("tab", "enter", "enter")
        assert not asked.answer.done()
        assert "choose an answer first" in card.problem
        await pilot.press("up", "down", "down", "enter")
        assert asked.answer.result() == "no"


async def test_a_paste_and_a_click_answer_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        card, _ = await settled(app, pilot, asked)
        await pilot.click(QuestionCard, offset=(5, 7))
        assert card.has_focus
        card.post_message(events.Paste("1\n1"))
        await pilot.pause()
        assert not asked.answer.done()


async def test_the_whole_question_fills_the_screen_and_keeps_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed(command="\n".join(f"echo {number}" for number in range(60)))
        _, clock = await settled(app, pilot, asked)
        await pilot.press("tab", "v")
        await pilot.pause()
        assert isinstance(app.screen, QuestionScreen)
        await pilot.press("1")
        assert "too soon" in app.screen.query_one(QuestionCard).problem
        clock.now += 0.5
        await pilot.press("1")
        assert not asked.answer.done()
        assert "scroll to the end" in app.screen.query_one(QuestionCard).problem
        await pilot.press("end")
        await pilot.pause()
        assert any("echo 59" in line for line in grid(app))
        await pilot.press("1")
        assert asked.answer.result() == "yes"
        app.conversation.questions.clear()
        assert await back(app, pilot), "a question that is gone is not shown any more"


@pytest.mark.parametrize("reads", [True, False])
async def test_reject_and_say_why_reaches_the_agent(monkeypatch: pytest.MonkeyPatch, reads: bool) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed(reads=reads)
        await settled(app, pilot, asked)
        await pilot.press("tab", "w")
        await pilot.pause()
        assert isinstance(app.screen, ReasonScreen)
        await pilot.press("enter")
        assert not asked.answer.done(), "without a reason nothing is rejected"
        await pilot.press(*"use ninja", "enter")
        await pilot.pause()
        assert asked.answer.result() == "no"
        assert asked.reason == "use ninja"
        assert [each.text for each in app.conversation.queued] == ([] if reads else ["use ninja"])


async def test_several_questions_are_counted_and_one_that_is_gone_leaves_its_place_empty(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        first, second = detailed(), question("Another", "ls")
        clock = Clock(app)
        app.conversation.questions.append(second)
        card = await ask(app, pilot, first)
        app.conversation.questions[:] = [first, second]
        card.question = None
        card._gone_at = 0.0
        assert any("1 of 2, question:" in line for line in await painted(app, pilot))
        card.focus()
        app.conversation.questions.remove(first)
        app.withdrawn(first, "allowed by web, 10:02")
        lines = await painted(app, pilot)
        assert any("allowed by web, 10:02" in line for line in lines)
        assert card.question is None
        clock.now += 0.9
        await painted(app, pilot)
        await pilot.press("1", "2")
        assert not second.answer.done()
        assert app.query_one(PromptInput).text == "", "a key that was meant for the question is not typed either"
        clock.now += 0.2
        await painted(app, pilot)
        assert card.question is second


async def test_an_answer_of_another_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asking, asked = app.conversation.asking, detailed()
        session: Any = SimpleNamespace(state=SessionState())
        task = asyncio.ensure_future(asking.permission(asked.request, session))
        await pilot.pause()
        await painted(app, pilot)
        task.cancel()  # the host withdraws it first, and says by whom it was answered afterwards
        with pytest.raises(asyncio.CancelledError):
            await task
        await painted(app, pilot)  # the card is gone before it is known by whom it was answered
        asking.answered({"questionId": "q", "option": "yes", "who": "local/web", "by": "c-1"})
        assert "the question is closed: allowed by web, " in app.notes[-1][1]
        assert any("◆ allowed by web, " in line for line in await painted(app, pilot))


@pytest.mark.parametrize("size", [(80, 24), (40, 10), (160, 50)])
async def test_cards_work_at_every_size(monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        asked = detailed()
        card, clock = await settled(app, pilot, asked)
        lines = grid(app)
        assert any("question: run: rm -rf" in line for line in lines)
        assert any("[y]" in line or "1: Allow once" in line for line in lines), lines
        assert any(line.startswith(" Enter") for line in lines), "the footer stays in sight"
        await pilot.press("tab")
        for _ in range(12):
            await pilot.press("j")
            await painted(app, pilot)
        assert card.is_read
        await pilot.press("1")
        assert asked.answer.result() == "yes"
        app.conversation.questions.clear()
        await painted(app, pilot)
        clock.now += 2
        app.conversation.trouble = explain(RequestError(-32603, "boom"), is_fatal=False)
        lines = await painted(app, pilot)
        assert any("the turn failed: boom" in line for line in lines), lines
        assert all(line.isprintable() for line in lines)


async def test_a_card_is_ascii_where_the_terminal_is(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        card = app.query_one("#card", QuestionCard)
        card.glyphs = ASCII
        await ask(app, pilot, detailed())
        own = [line for line in grid(app) if "question:" in line or "Allow once" in line]
        assert own
        assert all(line.isascii() for line in own)


# Forms


def form(message: str = "Who are you?") -> v1.ElicitationFormMode:
    properties: dict[str, Any] = {
        "name": v1.StringPropertySchema(title="Name", min_length=2),
        "age": v1.IntegerPropertySchema(title="Age", minimum=0),
        "colour": v1.StringPropertySchema(title="Colour", enum=["red", "green"], default="red"),
        "tags": v1.MultiSelectPropertySchema(v1.StringMultiSelectItems(["a", "b", "c"]), title="Tags", min_items=2),
        "subscribe": v1.BooleanPropertySchema(title="Subscribe", default=False),
    }
    schema = v1.ElicitationSchema(title="About you", properties=properties, required=["name", "tags"])
    return v1.ElicitationFormMode(message=message, requested_schema=schema, session_id="s")


async def asked_form(app: TerminalApp, pilot: Pilot[None], request: Any) -> tuple[asyncio.Task[Any], Clock]:
    clock = Clock(app)
    task = asyncio.ensure_future(app.conversation.asking.ask_form(request))
    await pilot.pause()
    await painted(app, pilot)
    clock.now += 1
    return task, clock


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_a_form_is_filled_in_and_checked_field_by_field(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        task, _ = await asked_form(app, pilot, form())
        assert app.query_one(PromptInput).has_focus, "a form does not take the keyboard"
        assert any("asks you to fill in a form" in line for line in grid(app))
        await pilot.press("f")
        assert app.query_one(PromptInput).text == "f"
        await pilot.press("tab", "f")
        await pilot.pause()
        assert isinstance(app.screen, FormScreen)
        await pilot.press("x", "enter")
        await pilot.pause()
        assert any("is too short: at least 2 letters" in line for line in grid(app)), grid(app)
        await pilot.press("backspace", *"Ada", "enter", *"-1", "enter")
        await pilot.pause()
        assert any("-1 is less than 0" in line for line in grid(app))
        await pilot.press("backspace", "backspace", *"36", "enter")  # now on the row of Colour
        await pilot.press("down", "down", "space")  # red, green
        await pilot.press("down", "down", "space", "ctrl+s")  # Tags, a
        await pilot.pause()
        assert any("too few: choose at least 2" in line for line in grid(app)), grid(app)
        assert not task.done()
        await pilot.press("down", "down", "down", "space", "ctrl+s")
        answer = await asyncio.wait_for(task, 10)
        expected: dict[str, Any] = {"name": "Ada", "age": 36, "colour": "green", "tags": ["a", "c"], "subscribe": False}
        assert answer == v1.AcceptElicitation(expected)


async def test_keys_that_come_at_once_are_taken_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """From a paste without brackets, or on a slow line: letters belong to the field in which they were typed."""
    texts: dict[str, Any] = {name: v1.StringPropertySchema(title=name) for name in ("a", "b", "c")}
    schema = v1.ElicitationSchema(title="Three", properties=texts)
    request = v1.ElicitationFormMode(message="Three?", requested_schema=schema, session_id="s")
    async with shown(monkeypatch) as (app, pilot):
        task, _ = await asked_form(app, pilot, request)
        await pilot.press("tab", "f")
        await pilot.pause()
        for key in (*"one", "tab", *"two", "enter", *"three", "ctrl+s"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        answer = await asyncio.wait_for(task, 10)
        assert answer == v1.AcceptElicitation({"a": "one", "b": "two", "c": "three"})


@pytest.mark.parametrize(("key", "outcome"), [("d", v1.DeclineElicitation()), ("x", v1.CancelElicitation())])
async def test_declining_and_cancelling_are_different_answers(
    monkeypatch: pytest.MonkeyPatch, key: str, outcome: Any
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        task, clock = await asked_form(app, pilot, form())
        clock.now -= 1
        await pilot.press("tab", key)
        assert not task.done(), "too soon"
        clock.now += 1
        await pilot.press(key)
        assert await asyncio.wait_for(task, 10) == outcome


async def test_escape_leaves_a_form_open_and_an_ending_is_a_row_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        task, _ = await asked_form(app, pilot, form())
        await pilot.press("tab", "f")
        await pilot.pause()
        await pilot.press("escape")
        await pilot.pause()
        assert not task.done()
        assert not isinstance(app.screen, FormScreen)
        await pilot.press("f")
        await pilot.pause()
        for _ in range(20):
            await pilot.press("down")
        await pilot.press("up", "enter")
        assert await asyncio.wait_for(task, 10) == v1.DeclineElicitation()


async def test_a_form_that_the_agent_takes_back_closes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        task, _ = await asked_form(app, pilot, form())
        await pilot.press("tab", "f")
        await pilot.pause()
        task.cancel()
        assert await back(app, pilot)
        assert app.conversation.forms == []


async def test_a_page_is_opened_by_a_key_only_and_its_host_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []

    def open_page(url: str) -> bool:
        opened.append(url)
        return True

    monkeypatch.setattr("dragoman.tui.screen.questions.form.open_in_browser", open_page)
    url = "https://login.xn--exmple-cua.org/start?state=1"
    async with shown(monkeypatch) as (app, pilot):
        request = v1.ElicitationUrlMode(message="Please look", session_id="s", elicitation_id="e", url=url)
        task, _ = await asked_form(app, pilot, request)
        text = "\n".join(grid(app))
        assert url in text
        assert "host: login.xn--exmple-cua.org" in text
        assert "letters that look like other letters" in text
        await pilot.press("o", "enter")
        assert opened == []
        await pilot.press("tab", "o")
        assert await asyncio.wait_for(task, 10) == v1.AcceptElicitation()
        assert opened == [url]
        app.conversation.asking.page_done("unknown")
        app.conversation.asking.page_done("e")
        app.conversation.asking.page_done("e")
        assert [text for _, text in app.notes].count("the page that you opened is done") == 1


async def test_a_page_that_is_not_of_the_web_cannot_be_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not pages.is_web("file:///etc/passwd")
    async with shown(monkeypatch) as (app, pilot):
        request = v1.ElicitationUrlMode(message="", session_id="s", elicitation_id="e", url="file:///etc/passwd")
        task, _ = await asked_form(app, pilot, request)
        assert not any("open it in the browser" in line for line in grid(app))
        await pilot.press("tab", "o", "x")
        assert await asyncio.wait_for(task, 10) == v1.CancelElicitation()


async def test_hostile_forms_and_failures_do_not_act_on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = v1.ElicitationSchema(
        title=EVIL,
        description=EVIL,
        properties={
            EVIL: v1.StringPropertySchema(title=EVIL, description=EVIL, pattern=EVIL),
            "x": v1.StringPropertySchema(title="[bold]x[/bold]", one_of=[v1.EnumOption(const="a", title=EVIL)]),
        },
    )
    async with shown(monkeypatch) as (app, pilot):
        task, _ = await asked_form(
            app, pilot, v1.ElicitationFormMode(message=EVIL, requested_schema=schema, session_id="s")
        )
        assert all(line.isprintable() for line in grid(app))
        await pilot.press("tab", "f")
        await pilot.pause()
        lines = grid(app)
        assert all(line.isprintable() for line in lines)
        assert any("[bold]x[/bold]" in line for line in lines)
        task.cancel()
        await pilot.press("escape")
        data = {"reason": "agent_exited", "exitCode": 1, "stderr": [EVIL], "unfinished": [EVIL]}
        app.conversation.trouble = explain(RequestError(-32603, EVIL, data), is_fatal=False, agent=EVIL)
        assert all(line.isprintable() for line in await painted(app, pilot))


async def test_a_pasted_line_is_a_value_and_sends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        task, _ = await asked_form(app, pilot, form())
        await pilot.press("tab", "f")
        await pilot.pause()
        app.screen.query_one(Input).post_message(events.Paste("Ada\nLovelace\n"))
        await pilot.pause()
        assert not task.done()
        task.cancel()
