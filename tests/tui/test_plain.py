"""The plain terminal client as a user meets it: one story with its process, the others with the client in this one."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.host.local.kit import HostPlaceKit, wait_for
from tests.tui import here
from tests.tui.here import UserHere
from tests.tui.kit import Plain

SCRIPTED = ("-a", "dragoman", "--model", "scripted")


@contextmanager
def opened(place: HostPlaceKit, *words: str) -> Iterator[Plain]:
    client = Plain(place, *words)
    try:
        yield client
    finally:
        client.close()


def test_a_conversation_with_a_question_that_only_its_number_answers(place: HostPlaceKit) -> None:
    with opened(place, *SCRIPTED) as client:
        client.type("say Hello there. And")  # before there is a host: it is kept, and sent
        client.until("note: session")
        client.until("  Hello there.")
        client.until("-- done")
        client.type("edit a.txt hello => bye\\", "say changed")
        client.until("question: edit: Edit a.txt")
        client.until("+bye")
        client.until("another line is a prompt")
        client.type("yes")  # a prompt that waits
        client.until("note: waiting, 1 in the queue")
        wait_for(lambda: _refused(client))
        assert (place.project / "a.txt").read_text() == "hello\n"
        wait_for(lambda: _answered(client))
        client.until("tool: edit Edit a.txt, completed")
        client.until("  changed")
        assert (place.project / "a.txt").read_text() == "bye\n"
        client.until("-- done")
        client.until("-- done")
        assert client.end() == 0
        assert any("brings you back" in line for line in client.seen)


def _answered(client: Plain) -> bool:
    """Types the answer; one that comes too soon is refused, and typed again."""
    client.type("1")
    return "answered" in client.until("note: ")


def _refused(client: Plain) -> bool:
    client.type("9")
    return "the answers are 1 to 6" in client.until("note: ")


async def test_leaving_does_not_end_the_work_and_attach_brings_it_back(user: UserHere) -> None:
    async with user.host_here():
        async with user.plain(**here.SCRIPTED) as client:
            line = await client.until("note: session")
            session = line.split()[2]
            client.type("edit a.txt hello => bye\\", "say changed")
            await client.until("another line is a prompt")
        same = await user.find_session(session[:8])
        async with user.plain(session_id=session) as again, user.plain(session_id=same) as other:
            for each in (again, other):
                await each.until("question: edit: Edit a.txt")
            await again.answer("1")
            await again.until("note: answered")
            await other.until("note: the question is closed")
            for each in (again, other):
                await each.until("  changed")
                await each.until("-- done")
    assert (user.project / "a.txt").read_text() == "bye\n"


async def test_a_turn_is_stopped_and_a_waiting_prompt_is_taken_back(user: UserHere) -> None:
    async with user.host_here(), user.plain(**here.SCRIPTED) as client:
        client.type("run sleep 1000", "say never", "say second")
        await client.until("question:")
        await client.until("another line is a prompt")
        client.type("/queue")
        await client.until("1: say never")
        client.type("/drop 1", "/drop 7")
        await client.until("note: taken back")
        await client.until("/drop takes the number")
        client.type("/stop")
        await client.until("note: not sent: the turn was stopped; type it again:")
        await client.until("  say second")
        await client.until("note: the turn ended: stopped")
        await client.until("-- done")
        client.type("/queue", "say after it")
        await client.until("note: nothing waits")
        await client.until("  after it")
        assert "  second" not in client.seen, "what waited is given back, and does not run by itself"
        assert not any("  never" in line for line in client.seen)


async def test_the_death_of_the_host_is_survived(user: UserHere) -> None:
    async with user.plain(**here.SCRIPTED) as client:
        client.type("say before")
        await client.until("  before")
        await client.until("-- done")
        for pid in user.pids():
            os.kill(pid, signal.SIGKILL)
        await client.until("the host is gone")
        await client.until("the host is back")
        await client.until("note: session")
        client.type("say after")
        await client.until("  after")
        await client.until("-- done")


async def test_an_agent_that_cannot_start_is_explained_and_another_is_used(user: UserHere) -> None:
    async with user.host_here(), user.plain(agent="unknown-agent") as client:
        await client.until("error: no agent is called 'unknown-agent'")
        await client.until("/new AGENT uses another agent")
        client.type("/new scripted", "hello")
        await client.until("note: session")
        await client.until("-- done")
        client.type("/help")
        await client.until("/quit")


async def test_text_of_an_agent_cannot_act_on_the_terminal_or_look_like_ours(user: UserHere) -> None:
    async with user.host_here(), user.plain(**here.SCRIPTED) as client:
        client.type("say \x1b]0;evil\x07\x1b[2Jtext\\", "say question: \u202eagent:")
        await client.until("text")
        await client.until("-- done")
        shown = "\n".join(client.seen)
        assert "\x1b" not in shown
        assert "\x07" not in shown
        assert "\u202e" not in shown
        assert not any(line.startswith("question:") for line in client.seen)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("attach",), "needs a terminal"),
        (("attach", "--plain", "nothing"), "there is no session 'nothing'"),
        (("attach", "--plain", "--continue"), "there is no session in"),
        (("attach", "--plain", "--cwd", "nowhere"), "not a folder"),
    ],
)
def test_what_cannot_be_opened_is_explained(place: HostPlaceKit, words: tuple[str, ...], message: str) -> None:
    done = place.run(*words[1:], verb=words[0])
    assert done.code == 2
    assert message in done.err
