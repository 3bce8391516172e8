"""Text for the turn that runs, and prompts that wait, with a real host and the built-in agent: none of it is lost.

Where the host is killed, it and its agent are programs, and the client runs in this process.
"""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

pytest.importorskip("textual")
pytest.importorskip("prompt_toolkit")
pytest.importorskip("pyte")

from tests.host.local.kit import wait_for
from tests.tui.here import SCRIPTED, UserHere

READY = "Enter send"  # for the next prompt


async def kill_host(user: UserHere, text: str) -> None:
    """Ends the host, once it has passed a text to the agent: what was sent until then is in its log."""

    def kill() -> None:
        client = user.connect()
        session = client.call("session/list")["sessions"][0]["sessionId"]
        wait_for(lambda: text in str(client.call("_dragoman/traffic", sessionId=session)))
        for pid in user.pids():
            os.kill(pid, signal.SIGKILL)

    await asyncio.to_thread(kill)


async def test_steered_text_is_given_back_when_its_turn_is_stopped_in_plain_mode(user: UserHere) -> None:
    async with user.host_here(), user.plain(**SCRIPTED) as client:
        client.type("run sleep 1000")
        await client.until("another line is a prompt")
        client.type("/steer say after the stop", "/queue")
        await client.until("note: passed to the turn that runs")
        await client.until("1: say after the stop (passed to the turn that runs)")
        client.type("/drop 1", "/stop")
        await client.until("note: the agent has it for the turn that runs")
        await client.until("note: not sent: the turn was stopped; type it again:")
        await client.until("  say after the stop")
        await client.until("-- done")
        client.type("/queue")
        await client.until("note: nothing waits")


async def test_text_that_a_lost_host_did_not_run_is_shown_again_in_plain_mode(user: UserHere) -> None:
    async with user.plain(**SCRIPTED) as client:
        client.type("run sleep 1000")
        await client.until("another line is a prompt")
        client.type("say waits", "/steer say not taken")
        await kill_host(user, "say not taken")
        for _ in range(2):
            await client.until("note: not sent: the host ended before the turn; type it again:")
            await client.until("  say ")
        client.type("say goes on")
        await client.until("  goes on")
        await client.until("-- done")


async def test_steered_text_is_in_the_turn_or_given_back_in_inline_mode(user: UserHere) -> None:
    async with user.host_here(), user.inline(**SCRIPTED) as client:
        await client.until(READY)
        client.type("edit a.txt hello => bye\\\rsay then\r")
        await client.until("needs your answer")
        client.type("say taken\x13")
        await client.until("passed to the turn that runs")
        await client.answer("\x1b1", "answered: Allow once")
        await client.until("note: added to the turn that runs")
        await client.until("❯ say taken")
        await client.until(READY)
        client.type("run sleep 1000\r")
        await client.until("needs your answer")
        client.type("say after the stop\x13")
        await client.until("it is the next prompt if")
        client.type("\x1b")
        await client.until("❯ say after the stop")
        await client.until(READY)
        client.type("\r")
        await client.until("│ after the stop")


async def test_text_that_a_lost_host_did_not_run_is_before_the_draft_in_inline_mode(user: UserHere) -> None:
    async with user.inline(**SCRIPTED) as client:
        await client.until(READY)
        client.type("run sleep 1000\r")
        await client.until("needs your answer")
        client.type("say not lost\x13")
        client.type("the draft")
        await client.until("❯ the draft")
        await kill_host(user, "say not lost")
        await client.until("❯ say not lost\nthe draft")


async def test_after_the_end_of_the_host_the_text_and_the_ends_of_the_turns_are_back(user: UserHere) -> None:
    async with user.screen(**SCRIPTED) as client:
        await client.until("F1 help")
        client.type("say one\r")
        await client.until("│ one\n  done · ")
        client.type("run sleep 1000\r")
        await client.until("needs your answer")
        client.type("say not lost\x13")
        await kill_host(user, "say not lost")
        await client.until_gone("needs your answer")  # the words for it depend on what is noticed first
        client.clock.let_pass()
        await client.until("the host ended in the middle of the turn")
        shown = await client.until("say not lost\n")
        assert "│ one\n  done · " in shown, "from the log of the host"
        assert shown.count("❯ run sleep 1000") == 1, "the prompt is there once"
        client.type("\r")
        await client.until("│ not lost\n  done · ")
