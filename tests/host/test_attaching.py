"""Clients that attach while a turn runs: they get the turn and then what follows, once, in order, and its end."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from tests.host.folding import folded
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted
from tests.host.test_joined_text import JOINED, updates_of

END: dict[str, Any] = {"stopReason": "end_turn"}


async def working(host: Hosted, source: OnTheWire, **kind: Any) -> tuple[Client, str, dict[str, Any]]:
    """A client with an older turn, and one that runs and has said something."""
    line, session = await host.opened(kind or None)
    old = line.prompt(session, "before")
    prompt = await source.agent.prompted()
    source.agent.say("an older answer")
    source.agent.reply(prompt, END)
    await line.answer_to(old)
    _ = line.prompt(session, "now")
    prompt = await source.agent.prompted()
    source.agent.say("one ")
    source.agent.update("tool_call", toolCallId="t", title="look", status="in_progress")
    await line.until_update("tool_call")
    return line, session, prompt


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [update["content"]["text"] for update in updates_of(messages) if "content" in update]


@pytest.mark.rule(112)
@pytest.mark.parametrize("kind", [{}, OURS, JOINED])
async def test_resume_sends_the_turn_that_runs_behind_its_answer(kind: dict[str, Any]) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session, prompt = await working(host, source)
        other = await host.client(kind)
        await other.resume(session)  # nothing stands before the answer
        source.agent.update("tool_call_update", toolCallId="t", status="completed")
        source.agent.say("two")
        source.agent.reply(prompt, END)
        found: list[dict[str, Any]] = []
        while texts(found)[-1:] != ["two"]:
            found.append(await other.expect("session/update"))
        assert texts(found) == ["now", "one ", "two"], "the turn that runs, and nothing older"
        calls = [update["status"] for update in updates_of(found) if "toolCallId" in update]
        assert calls == ["in_progress", "completed"]
        if kind:
            assert (await other.next())["method"] == "_dragoman/turn_ended"
        last = await host.client(kind)
        await last.resume(session)
        assert await last.everything() == [], "nothing runs, so that nothing is handed over"


async def test_a_client_that_names_its_place_gets_what_is_behind_it_only() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session, prompt = await working(host, source)
        other = await host.client(OURS)
        answer = await other.resume(session, after=host.session(session).head)
        assert answer["_meta"]["dragoman"]["after"] == host.session(session).head
        source.agent.say("two")
        assert (await other.update())["content"]["text"] == "two"
        source.agent.reply(prompt, END)


@pytest.mark.rule(106)
@pytest.mark.rule(107)
async def test_load_sends_the_history_then_the_turn_that_runs_then_what_follows() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session, prompt = await working(host, source)
        other = await host.client()
        before, _ = await other.load(session)
        assert [update["content"]["text"] for update in before if "content" in update] == [
            *("before", "an older answer", "now", "one "),
        ]
        source.agent.say("two")
        assert (await other.update())["content"]["text"] == "two"
        source.agent.reply(prompt, END)


@pytest.mark.parametrize("method", ["session/resume", "session/load"])
async def test_a_client_that_attaches_again_gets_the_answer_to_its_prompt_behind_the_turn(method: str) -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        asked = line.prompt(session, "now")
        prompt = await source.agent.prompted()
        source.agent.say("one")
        again = line.ask(method, sessionId=session, cwd="/tmp", mcpServers=[])
        source.agent.say("two")
        source.agent.reply(prompt, END)
        got = [await line.next()]
        while got[-1].get("id") != asked:
            got.append(await line.next())
        after = [message for message in got if message.get("method") == "session/update"]
        assert "".join(texts(after)).endswith("onetwo")
        assert [message["id"] for message in got if "id" in message] == [again, asked]
        assert len(host.session(session).attachments) == 1
        assert await line.everything() == []


async def test_a_prompt_that_is_sent_while_a_session_is_loaded_is_answered_once_and_shown_once() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session, prompt = await working(host, source)
        other = await host.client(OURS)
        loaded = other.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
        asked = other.prompt(session, "next")
        source.agent.reply(prompt, END)
        prompt = await source.agent.prompted()
        source.agent.say("answer")
        source.agent.reply(prompt, END)
        got = [await other.next()]
        while got[-1].get("id") != asked:
            got.append(await other.next())
        assert [message["id"] for message in got if "id" in message] == [loaded, asked]
        updates = [message for message in got if message.get("method") == "session/update"]
        assert texts(updates) == ["before", "an older answer", "now", "one ", "answer"]


@pytest.mark.parametrize("method", ["session/resume", "session/load"])
@pytest.mark.parametrize("steps", range(14))
async def test_a_client_that_attaches_in_the_moment_a_turn_ends_gets_the_turn_and_its_end(
    method: str, steps: int
) -> None:
    """Wherever in the end of a turn a client comes, what the answer says of the turn fits what it gets of it."""
    source = OnTheWire()
    async with hosted(source) as host:
        _, session, prompt = await working(host, source)
        other = await host.client(OURS)
        source.agent.say("two")
        source.agent.reply(prompt, END)
        for _ in range(steps):
            await asyncio.sleep(0)
        before, answer = await other.answer_to(other.ask(method, sessionId=session, cwd="/tmp", mcpServers=[]))
        running = answer["result"]["_meta"]["dragoman"]["turn"]
        before_turns, turns = await other.answer_to(other.ask("_dragoman/turns", sessionId=session))
        behind = [*before_turns]
        while (running is not None and behind[-1:] == []) or (
            running is not None and behind[-1].get("method") != "_dragoman/turn_ended"
        ):
            behind.append(await other.next())
        behind += await other.everything()
        ends = [message["params"] for message in behind if message.get("method") == "_dragoman/turn_ended"]
        assert [end["promptId"] for end in ends] == ([running["promptId"]] if running else [])
        shown = [message for message in (*before, *behind) if message.get("method") == "session/update"]
        if method == "session/load":
            assert "".join(texts(shown)) == "beforean older answernowone two"
            known = [turn["messageId"] for turn in turns["result"]["ended"]]
            assert len(known) == len(set(known))
            assert len(known) == 2 or turns["result"]["running"] == running["promptId"]
            assert all(turn["seconds"] >= 0 for turn in turns["result"]["ended"])
        else:
            assert "".join(texts(shown)) == ("nowone two" if running else "")


class Viewer:
    """A client that shows a session, and whose line breaks."""

    def __init__(self, host: Hosted, session: str, kind: dict[str, Any], *, loads: bool = False) -> None:
        self.updates: list[dict[str, Any]] = []
        self.is_over = False
        self._host, self._session, self._kind, self._loads = host, session, kind, loads
        self._last = 0
        self._line: Client | None = None

    async def connect(self) -> None:
        if self._line is not None:
            await self._host.leave(self._line)
        line = self._line = await self._host.client(self._kind)
        asked = {"sessionId": self._session, "cwd": "/tmp", "mcpServers": []}
        if self._loads:  # as the terminal client does it
            self.updates = []
            before, answer = await line.answer_to(line.ask("session/load", **asked))
        else:
            own = {"_meta": {"dragoman": {"after": self._last}}} if self._last else {}
            before, answer = await line.answer_to(line.ask("session/resume", **asked, **own))
        assert "result" in answer, answer
        for message in before:
            self.take(message)

    def take(self, message: dict[str, Any]) -> None:
        params = message["params"]
        if message["method"] == "_dragoman/turn_ended":
            self.is_over = True
        elif message["method"] == "session/update":
            place = params["_meta"]["dragoman"]
            assert self._loads or place.get("from", place["seq"]) > self._last, "nothing twice"
            self._last = place["seq"]
            self.updates.append(params["update"])

    async def read(self, count: int) -> None:
        """Show so many messages of those that have come; the rest is lost with the line."""
        assert self._line is not None
        while count and not self._line.lines.empty():
            self.take(await self._line.next())
            count -= 1

    async def read_all(self) -> None:
        assert self._line is not None
        while not self.is_over:
            self.take(await self._line.next())


@pytest.mark.parametrize("seed", range(3))
async def test_clients_show_the_same_after_100_cuts_in_a_turn_of_200_updates(seed: int) -> None:
    """Joined and not joined, by their place and by a new load, as the terminal client; one is never cut."""
    numbers = random.Random(seed)
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        asked = line.prompt(session, "count")
        prompt = await source.agent.prompted()
        await line.everything()
        whole = Viewer(host, session, OURS)
        cut = [Viewer(host, session, kind) for kind in (OURS, JOINED, JOINED)]
        cut.append(Viewer(host, session, OURS, loads=True))
        for viewer in (whole, *cut):
            await viewer.connect()
        sent = 0
        for _ in range(100):
            for _ in range(2):
                sent += 1
                _send_one(source, numbers, sent)
            for _ in range(numbers.randrange(4)):
                await asyncio.sleep(0)
            viewer = numbers.choice(cut)
            await viewer.read(numbers.randrange(6))
            await viewer.connect()
        source.agent.reply(prompt, END)
        await line.answer_to(asked)
        expected = None
        for viewer in (whole, *cut):
            await viewer.read_all()
            shown = folded(viewer.updates)
            expected = expected or shown
            assert shown == expected
        assert expected is not None
        found = "".join(item[2] for item in expected[:-3] if item[0] == "agent")
        assert [int(word) for word in found.split()] == [number for number in range(1, 201) if number % 10 >= 3]


def _send_one(source: OnTheWire, numbers: random.Random, number: int) -> None:
    """One update of many kinds; most are text."""
    match number % 10:
        case 0:
            source.agent.update("tool_call", toolCallId=f"t{number}", title=f"call {number}", status="pending")
        case 1 if number > 10:
            source.agent.update("tool_call_update", toolCallId=f"t{number - 1}", status="completed")
        case 1 | 2:
            source.agent.update("agent_thought_chunk", content={"type": "text", "text": f"thought {number} "})
        case _:
            source.agent.say(f"{number} ")
