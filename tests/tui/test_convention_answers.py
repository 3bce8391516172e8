"""The rows of the convention table about the start, the list of sessions and answers, in every form of the client."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from textual import events
from textual.pilot import Pilot

from dragoman.client.question_words import AlwaysDetails, answer_letters, option_words
from dragoman.schema import v1
from dragoman.tui.local_host.session_rows import words_at_start
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.questions.question_screen import QuestionScreen, ReasonScreen
from dragoman.tui.values import HOLD_SECONDS, AskedQuestion
from tests.cli.exec_kit import ODD_AGENT
from tests.host.local.kit import HostPlaceKit
from tests.tui.here import SCRIPTED, UserHere
from tests.tui.opened import FOLDER, row
from tests.tui.test_questions import Clock, detailed, settled
from tests.tui.test_screen import ask, painted, shown
from tests.tui.test_terminal import Terminal

# The start and the list of sessions


@pytest.mark.parametrize(
    ("states", "words"),
    [
        ((), ""),
        (("running",), "1 session runs: Ctrl+P"),
        (("running", "running", "waiting"), "2 sessions run, 1 asks you: Ctrl+P"),
        (("waiting",), "1 session asks you: Ctrl+P"),
        (("waiting", "waiting", "idle"), "2 sessions ask you: Ctrl+P"),
        (("idle",), "1 earlier session of this folder: Ctrl+P"),
        (("idle", "idle", "closed"), "2 earlier sessions of this folder: Ctrl+P"),
    ],
)
def test_one_line_says_what_runs_and_what_asks(states: tuple[str, ...], words: str) -> None:
    rows = [row(str(number), state, title="t") for number, state in enumerate(states)]
    assert words_at_start(rows, FOLDER, "Ctrl+P") == words
    assert words_at_start([row("never-used")], FOLDER, "Ctrl+P") == ""


@pytest.mark.convention("start", "full screen", "inline", "plain")
@pytest.mark.convention("sessions", "full screen", "inline", "plain")
async def test_a_second_start_is_a_prompt_and_the_sessions_are_on_a_key_in_every_form(user: UserHere) -> None:
    async with user.host_here() as host:
        async with user.screen(**SCRIPTED) as client:
            await client.until("F1 help")
            client.type("say the first thing\r")
            await client.until("│ the first thing\n  done · ")
            client.type("edit a.txt hello => bye\r")
            await client.until("needs your answer")

        # Full screen: what is typed at once is a prompt, whatever its letters are, and nothing is lost from sight.
        async with user.screen(**SCRIPTED) as client:
            await client.until("1 session asks you: Ctrl+P")
            client.type("say fix the bug\r")
            await client.until("│ fix the bug\n  done · ")
            assert len(host.live_sessions()) == 2, "no letter copied or ended a session"
            client.type("/resume first\r")
            await client.until("filter: first_")
            await client.until("❯ ◆ needs you  say the first")
            client.type("\r")
            await client.until("❯ edit a.txt hello => bye")
            await client.until("needs your answer")

        # Inline: the same line, and `/resume` by words that only one session has.
        async with user.inline(**SCRIPTED) as inline:
            await inline.until("note: 1 session asks you: /resume")
            inline.type("/resume first thing\r")
            await inline.until("question: edit: ")
            assert "│ the first thing" in inline.everything, "the history is before its question"

        # Plain: `--resume` lists them with numbers, words filter, a number goes on.
        async with user.plain(chooses=True, **SCRIPTED) as plain:
            await plain.until("1: needs you, say the first thing")
            await plain.until("2: done, say fix the bug")
            await plain.until("note: /resume N goes on with one")
            plain.type("/resume nothing has these words")
            await plain.until("note: no session is like nothing has these words")
            plain.type("/resume say")
            await plain.until("2: done, say fix the bug")
            plain.type("/resume 2")
            await plain.until("  fix the bug")
            plain.type("/resume the first")
            await plain.until("  the first thing")
            await plain.until("another line is a prompt")
            assert not any("host is gone" in line for line in plain.seen)
        assert (user.project / "a.txt").read_text() == "hello\n"


async def test_resume_without_a_session_opens_the_list_over_a_prompt(user: UserHere) -> None:
    async with user.host_here(), user.screen(**SCRIPTED) as client:
        await client.until("F1 help")
        client.type("say one\r")
        await client.until("│ one\n  done · ")
        async with user.screen(chooses=True, **SCRIPTED) as second:
            await second.until(" type: filter · Enter open · Ctrl+N new · Ctrl+F fork · Ctrl+X end · Ctrl+A all")
            second.type("\x1b")
            await second.until("F1 help")
            second.type("\x10")
            await second.until("Ctrl+N new")
            second.type("\r")
            await second.until("│ one")


async def test_continue_passes_by_a_session_to_which_nothing_was_sent(user: UserHere) -> None:
    async with user.host_here():
        async with user.screen(**SCRIPTED) as client:
            await client.until("F1 help")
            client.type("say one\r")
            await client.until("│ one\n  done · ")
            used = client.app.conversation.session_id
        async with user.screen(**SCRIPTED) as client:
            await client.wait_until(lambda: client.app.conversation.phase == "ready", lambda: client.text)
            assert client.app.conversation.session_id != used
        assert await user.find_session() == used


# Answers: the keys


def offered(*kinds: str) -> list[v1.PermissionOption]:
    """Options of these kinds, each with a name and an id of its own."""
    return [v1.PermissionOption(f"o{number}", f"Option {number}", kind) for number, kind in enumerate(kinds, 1)]


OURS = ("allow_once", "allow_always", "allow_always", "reject_once", "reject_always", "reject_always")


@pytest.mark.parametrize(
    ("kinds", "letters"),
    [
        (("allow_once", "allow_always", "reject_once"), ("y", "a", "n")),
        (("reject_once", "allow_once"), ("n", "y")),
        (("allow_once", "allow_once", "reject_once"), ("", "", "n")),
        (("allow_once", "allow_always", "allow_always", "reject_once", "reject_once"), ("y", "", "", "", "")),
        (("allow_sometimes", "reject_always"), ("", "")),
        (OURS, ("y", "", "", "n", "", "")),
    ],
)
def test_a_letter_stands_for_one_answer_and_other_kinds_have_a_number_only(
    kinds: tuple[str, ...], letters: tuple[str, ...]
) -> None:
    assert answer_letters(option_words(offered(*kinds), {})) == letters


def test_of_our_own_answers_a_is_the_one_for_the_project_and_an_agent_cannot_claim_that() -> None:
    options = offered(*OURS)
    scopes = {"o2": "session", "o3": "project", "o5": "session", "o6": "project"}
    for by, is_certain, letter in (("host", False, "a"), ("agent", True, "a"), ("agent", False, "")):
        always = {
            id: AlwaysDetails(action="allow", by=by, rule="edit", kept=kept, is_certain=is_certain)  # type: ignore[arg-type]
            for id, kept in scopes.items()
        }
        assert answer_letters(option_words(options, always)) == ("y", "", letter, "n", "", "")


async def answered(pilot: Pilot[None], asked: AskedQuestion) -> str | None:
    """The answer to a question, which comes when nothing followed the letter."""
    async with asyncio.timeout(30):
        while not asked.answer.done():
            await pilot.pause(0.02)
    return asked.answer.result()


@pytest.mark.parametrize(
    ("keys", "answer"),
    [("y", "yes"), ("a", "ever"), ("n", "no"), ("1", "yes"), ("2", "ever"), ("3", "no"), ("alt+1", "yes")],
)
@pytest.mark.parametrize("is_inside", [False, True])
async def test_one_key_answers_with_an_empty_input_and_in_the_card(
    monkeypatch: pytest.MonkeyPatch, keys: str, answer: str, is_inside: bool
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        await settled(app, pilot, asked)
        await pilot.press(*(("tab",) if is_inside else ()), keys)
        assert await answered(pilot, asked) == answer
        assert app.query_one(PromptInput).text == "", "a letter that answered is not typed"
        assert not app.conversation.prompts


async def test_what_may_be_the_beginning_of_a_text_is_typed_and_answers_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        clock, prompt = Clock(app), app.query_one(PromptInput)
        card = await ask(app, pilot, asked)
        await pilot.press("y")  # before the card was in sight for 0.4 seconds
        clock.now += 1
        await pilot.pause(HOLD_SECONDS * 2)
        assert prompt.text == "y"
        assert any(
            "there is a draft: Tab, then y, a, n or 1-3; or Alt+number" in line for line in await painted(app, pilot)
        )
        await pilot.press("y", "n", "a", "1")  # with a draft, letters belong to it
        await pilot.pause(HOLD_SECONDS * 2)
        assert prompt.text == "yyna1"
        await pilot.press("ctrl+u")
        assert any("press y, a, n or 1-3 to answer" in line for line in await painted(app, pilot))
        # At once, as a fast typist, or a paste without brackets.
        for key in (*"yes", "space", *"please"):
            app.post_message(events.Key(key, " " if key == "space" else key))
        await pilot.pause(HOLD_SECONDS * 2)
        assert prompt.text == "yes please"
        await pilot.press("ctrl+u")
        prompt.post_message(events.Paste("y"))
        await pilot.pause(HOLD_SECONDS * 2)
        assert prompt.text == "y"
        await pilot.press("ctrl+u", "x", "backspace", "Y", "backspace", "0", "backspace", "4")  # mean nothing
        await pilot.pause(HOLD_SECONDS * 2)
        assert not asked.answer.done()
        assert card.question is asked
        await pilot.press("backspace", "y", "enter")  # as in lines: Enter neither sends it nor is needed
        assert await answered(pilot, asked) == "yes"
        assert not app.conversation.prompts


async def test_a_letter_needs_the_end_of_the_question_and_page_down_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed(command="\n".join(f"echo {number}" for number in range(60)))
        card, _ = await settled(app, pilot, asked)
        assert any("PgDn: read on; then y, a, n or 1-3 answers" in line for line in await painted(app, pilot))
        await pilot.press("y")
        async with asyncio.timeout(30):
            while "scroll to the end" not in card.problem:
                await pilot.pause(0.02)
        assert not asked.answer.done()
        assert app.query_one(PromptInput).text == ""
        for _ in range(12):
            await pilot.press("pagedown")
            await painted(app, pilot)
        await pilot.press("y")
        assert await answered(pilot, asked) == "yes"


async def test_w_and_v_open_the_reason_and_the_whole_question(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        asked = detailed()
        _, clock = await settled(app, pilot, asked)
        for letter, kind in (("v", QuestionScreen), ("w", ReasonScreen)):
            await pilot.press(letter)
            async with asyncio.timeout(30):
                while not isinstance(app.screen, kind):
                    await pilot.pause(0.02)
            if letter == "v":
                clock.now += 1
                await pilot.press("escape")
                await pilot.pause()
                await painted(app, pilot)
        await pilot.press(*"use b", "enter")
        assert await answered(pilot, asked) == "no"
        assert asked.reason == "use b"


async def test_moving_up_from_reject_and_enter_is_never_an_always(monkeypatch: pytest.MonkeyPatch) -> None:
    for keys, answer in ((("up",), "yes"), (("up", "up", "up"), "yes"), (("up", "down"), "no"), (("down",), "no")):
        async with shown(monkeypatch) as (app, pilot):
            asked = detailed()
            card, _ = await settled(app, pilot, asked)
            await pilot.press("tab", *keys, "enter")
            assert await answered(pilot, asked) == answer, (keys, card.problem)


# Answers: every form, with a real host and agent

LIAR: dict[str, Any] = {"command": (sys.executable, str(Path(__file__).parents[1] / "client/lying_agent.py"))}
"""An agent that runs the commands of its prompt through the client, which asks with its six answers."""
SIX = ("y", "2", "a", "n", "5", "6")
"""A key for each: once, for the session, for the project; the same for no."""


def check_six(user: UserHere) -> None:
    made = [(user.project / f"made{number}").exists() for number in range(1, 7)]
    assert made == [True, True, True, False, False, False]
    kept = json.loads((user.home / "dragoman/config/rules.json").read_text())["projects"]
    ((_, rules),) = kept.items()
    assert [(rule["action"], rule["rule"]) for rule in rules] == [
        ("allow", "execute:touch made3"),
        ("deny", "execute:touch made6"),
    ]


@pytest.mark.parametrize("agent", [LIAR, SCRIPTED], ids=["client", "built-in"])
@pytest.mark.convention("answer a question", "full screen")
async def test_the_six_answers_in_the_full_screen(user: UserHere, agent: dict[str, Any]) -> None:
    async with user.host_here(), user.screen(**agent) as client:
        await client.until("F1 help")
        for number, key in enumerate(SIX, 1):
            client.type(f"run touch made{number}\r")
            await client.until(f"execute:touch made{number}")
            await client.until("needs your answer")
            client.clock.let_pass()
            await client.until("press y, a, n or 1-6 to answer")
            client.type(key)
            await client.until("answered: ")
            await client.until_gone("needs your answer")
            client.clock.let_pass()
            await client.until_gone("answered: ")
            await client.until("Enter send")
    check_six(user)


@pytest.mark.parametrize("agent", [LIAR, SCRIPTED], ids=["client", "built-in"])
@pytest.mark.convention("answer a question", "inline")
async def test_the_six_answers_inline(user: UserHere, agent: dict[str, Any]) -> None:
    async with user.host_here(), user.inline(**agent) as client:
        await client.until("Enter send")
        for number, key in enumerate(SIX, 1):
            client.type(f"run touch made{number}\r")
            await client.until(f"execute:touch made{number}")
            await client.until("needs your answer: y, a, n or 1-6, w: no, because, v: again; Esc stops")
            await client.answer(key, "Enter send")
    check_six(user)


@pytest.mark.parametrize("agent", [LIAR, SCRIPTED], ids=["client", "built-in"])
@pytest.mark.convention("answer a question", "plain")
async def test_the_six_answers_in_lines(user: UserHere, agent: dict[str, Any]) -> None:
    async with user.host_here(), user.plain(**agent) as client:
        for number, key in enumerate(SIX, 1):
            client.type(f"run touch made{number}")
            await client.answer(key)
            assert "answer with y, a, n or 1-6 and Enter (w WHY: no, because; v: see it again);" in client.seen
            await client.until("note: answered: ")
            await client.until("-- done")
    check_six(user)


async def test_a_reason_is_given_by_w_and_the_question_is_shown_again_by_v_in_lines(user: UserHere) -> None:
    script = "edit a.txt hello => bye\\", "say {result}"
    async with user.host_here():
        async with user.plain(**SCRIPTED) as plain:
            plain.type(*script)
            await plain.answer("v")
            await plain.until("question: edit: Edit a.txt")
            await plain.answer("w")
            await plain.until("note: w takes the reason, as w use ninja instead")
            plain.type("w use b.txt")
            await plain.until("The user refused this call and wrote: use b.txt")
            await plain.until("-- done")
        async with user.inline(**SCRIPTED) as inline:
            await inline.until("Enter send")
            inline.type("edit a.txt hello => bye\\\rsay {result}\r")
            await inline.until("needs your answer")
            inline.clock.let_pass()
            inline.type("v")
            await inline.wait_until(
                lambda: inline.everything.count("question: edit: Edit a.txt") == 2, lambda: inline.text
            )
            inline.clock.let_pass()
            inline.type("w")
            await inline.until("❯ /why")
            inline.type("use c.txt\r")
            await inline.until("The user refused this call and wrote: use c.txt")
            await inline.until("Enter send")
            inline.type("edit a.txt hello => bye\r")
            await inline.until("needs your answer")
            inline.clock.let_pass()
            inline.type("yes")  # a word, and with it a draft
            await inline.until("there is a draft: Tab, then y, a, n or 1-6; or Alt+number")
            inline.type("\x15\x1b")
            await inline.until("Cancelled")
    assert (user.project / "a.txt").read_text() == "hello\n"


async def test_a_change_is_shown_once(user: UserHere) -> None:
    async with user.host_here():
        async with user.screen(**SCRIPTED) as client:
            await client.until("F1 help")
            client.type("edit a.txt hello => bye\r")
            await client.until("needs your answer")
            await client.wait_until(lambda: len(re.findall(r"\+ ?bye", client.text)) == 1, lambda: client.text)
            client.clock.let_pass()
            client.type("y")
            await client.until("✔ edit")
            client.clock.let_pass()
            await client.until_gone("answered: ")
            assert re.search(r"│ +1 \+ bye", client.text), "the change moves into the conversation"
        async with user.inline(**SCRIPTED) as inline:
            await inline.until("Enter send")
            inline.type("edit a.txt bye => hello\r")
            await inline.until("needs your answer")
            await inline.answer("y", "✔ edit")
            await inline.until("Enter send")
            assert inline.everything.count("+hello") == 1
            assert inline.everything.count("hello") == 2, "the other one is the prompt"
        async with user.plain(**SCRIPTED) as plain:
            plain.type("edit a.txt hello => tulip")
            await plain.answer("y")
            await plain.until("-- done")
            assert [line for line in plain.seen if "tulip" in line] == ["  +tulip"]


CODE: dict[str, Any] = {
    "command": (sys.executable, "-IS", str(ODD_AGENT), "runs-the-prompt"),
    "allow": ("*",),
    "deny": ("execute:rm -rf *",),
}
"""An agent whose commands a wide rule allows; a rule that denies others does not see what code of the project does."""


async def test_code_of_the_project_is_asked_about_once_in_every_form(user: UserHere) -> None:
    for name in ("x.sh", "y.sh", "z.sh"):
        path = user.project / name
        path.write_text(f"#!/bin/sh\necho {name} >> ran\n")
        path.chmod(0o755)
    async with user.host_here():
        async with user.screen(**CODE) as client:
            await client.until("F1 help")
            client.type("./x.sh\\\r./x.sh again\r")
            assert "code of the project" in " ".join((await client.until("y 1: ")).split())
            client.clock.let_pass()
            client.type("y")
            await client.until("done · ")
        async with user.inline(**CODE) as inline:
            await inline.until("Enter send")
            inline.type("./y.sh\\\r./y.sh again\r")
            await inline.until("needs your answer")
            await inline.answer("y", "done · ")
        async with user.plain(**CODE) as plain:
            plain.type("./z.sh\\", "./z.sh again")
            await plain.answer("y")
            await plain.until("-- done")
            assert sum("question: " in line for line in plain.seen) == 1
    assert (user.project / "ran").read_text().split() == ["x.sh", "x.sh", "y.sh", "y.sh", "z.sh", "z.sh"]


# A real terminal


def test_one_key_at_a_real_terminal_and_no_word_and_no_paste(place: HostPlaceKit, terminals: list[Terminal]) -> None:
    terminals.append(terminal := Terminal(place, "attach", "-a", "dragoman", "--model", "scripted"))
    terminal.until("F1 help")
    terminal.type("edit a.txt hello => bye\r")
    terminal.until("press y, a, n or 1-6 to answer")
    terminal.type("\x1b[200~y\x1b[201~")
    terminal.until("there is a draft: Tab, then y")
    terminal.type("\x15")
    terminal.until("press y, a, n or 1-6 to answer")
    terminal.type("yes, do")
    terminal.until("there is a draft: Tab, then y")
    assert (place.project / "a.txt").read_text() == "hello\n"
    terminal.type("\x15")
    terminal.until("press y, a, n or 1-6 to answer")
    terminal.type("y")
    terminal.until("✔ edit")
    assert (place.project / "a.txt").read_text() == "bye\n"


async def test_a_line_of_which_not_all_can_be_seen_is_asked_about_once_if_the_answer_holds_longer(
    user: UserHere,
) -> None:
    for agent in (SCRIPTED, LIAR):
        async with user.host_here(), user.plain(**agent, deny=("execute:git push *",)) as client:
            for key, count in (("y", 2), ("2", 1)):
                for _ in range(count):  # once is once
                    client.type("run python3 -c 'print(1)'")
                    await client.until("and rule execute:git push")
                    await client.answer(key)
                    await client.until("-- done")
            client.type("run python3 -c 'print(1)'")
            await client.until("-- done")
            client.type("run python3 -c 'print(2)'")  # other words
            await client.answer("n")
            await client.until("-- done")
        assert sum("question: " in line for line in client.seen) == 4
