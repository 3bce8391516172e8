"""The rows of the convention table about the start, the list of sessions and answers, in every form of the client."""

from __future__ import annotations

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from dragoman.tui.local_host.session_rows import words_at_start
from tests.tui.here import SCRIPTED, UserHere
from tests.tui.opened import FOLDER, row

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
            await client.until("│ the first thing")
            await client.until("needs your answer")

        # Inline: the same line, and `/resume` by words that only one session has.
        async with user.inline(**SCRIPTED) as inline:
            await inline.until("note: 1 session asks you: /resume")
            inline.type("/resume first thing\r")
            await inline.until("│ the first thing")
            await inline.until("needs your answer")

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
            await plain.until("answer with a number")
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
