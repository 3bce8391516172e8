"""Clients that take text joined: fewer messages, the same conversation in the same order."""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import Any

import msgspec
import pytest

from dragoman.host.clients.client_kind import read_client
from dragoman.schema import decode, v1
from tests.host.folding import folded
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted
from tests.host.test_updates import _note_posts

END = {"stopReason": "end_turn"}
JOINED: dict[str, Any] = {"_meta": {"dragoman": {"batch": {"ms": 16}}}}
MOST_BYTES = 64 * 1024


def chunk(text: str, kind: str = "agent_message_chunk", **members: Any) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, **members}


def write(source: OnTheWire, updates: list[dict[str, Any]]) -> None:
    """Send updates of the agent in one piece."""
    agent = source.agent
    notes = [agent.note("session/update", sessionId=agent.session, update=update) for update in updates]
    agent.transport.write(b"".join(msgspec.json.encode(note) + b"\n" for note in notes))


async def turn(source: OnTheWire, line: Client, session: str, updates: list[dict[str, Any]], *, size: int) -> int:
    """A turn with these updates, written in pieces of `size`; gives the id of its prompt."""
    id = line.prompt(session)
    prompt = await source.agent.prompted()
    for start in range(0, len(updates), size):
        write(source, updates[start : start + size])
        await asyncio.sleep(0)
    source.agent.reply(prompt, END)
    return id


async def until_end(line: Client) -> list[dict[str, Any]]:
    """The updates of a turn of another client, as messages, up to its end."""
    found = []
    while (message := await line.next()).get("method") != "_dragoman/turn_ended":
        if message.get("method") == "session/update":
            found.append(message)
    return found


def updates_of(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [message["params"]["update"] for message in messages]


def own(message: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = message["params"]["_meta"]["dragoman"]
    return found


MIXED = [
    chunk("a "),
    chunk("b \u00e4\U0001f409 "),
    chunk('"c"\n'),
    chunk("thinks ", "agent_thought_chunk"),
    chunk("more", "agent_thought_chunk"),
    chunk("d", messageId="m1"),
    chunk("e", messageId="m1"),
    chunk("f", messageId="m2"),
    {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "look", "status": "pending"},
    chunk("g", messageId="m2"),
    chunk("h", messageId="m2", _meta={"vendor": 1}),
    chunk("i", messageId="m2", _meta={"vendor": 1}),
    chunk("j", messageId="m2", _meta={"vendor": 2}),
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "image", "data": "", "mimeType": "image/png"}},
    chunk("k"),
    {"sessionUpdate": "usage_update", "used": 1, "size": 2},
    chunk("l"),
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "m", "annotations": {"priority": 1}}},
    {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "n", "annotations": {"priority": 1}}},
    chunk("o"),
]
TEXTS = ['a b ä🐉 "c"\n', "thinks more", "de", "f", "g", "hi", "j", "k", "l", "mn", "o"]


async def test_only_pieces_of_one_message_that_follow_each_other_are_joined() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        joined, plain = await host.client(JOINED), await host.client(OURS)
        for other in (joined, plain):
            await other.resume(session)
        _ = await turn(source, line, session, MIXED, size=100)
        singly, together = await until_end(plain), await until_end(joined)
        assert [update for update in updates_of(singly) if "user" not in update["sessionUpdate"]] == MIXED
        assert folded(updates_of(together)) == folded(updates_of(singly))
        texts = [message for message in together if "text" in message["params"]["update"].get("content", {})]
        assert [message["params"]["update"]["content"]["text"] for message in texts if "from" in own(message)] == TEXTS
        _assert_complete(singly, together)


def _assert_complete(singly: list[dict[str, Any]], together: list[dict[str, Any]]) -> None:
    """Each event is in one message, in order; a joined message has the number and the time of its last one."""
    times = {own(message)["seq"]: own(message)["at"] for message in singly}
    last = own(singly[0])["seq"] - 1
    for message in together:
        place = own(message)
        assert place.get("from", place["seq"]) == last + 1, (place, last)
        last = place["seq"]
        assert place["at"] == times[last]
    assert last == own(singly[-1])["seq"]


async def test_clients_with_the_same_announcement_are_written_the_same_bytes() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        lines = [await host.client(JOINED) for _ in range(3)]
        for other in lines:
            await other.resume(session)
        posts: list[list[bytes]] = []
        for attachment in host.session(session).attachments:
            if attachment.client.kind.batch_ms:
                posts.append([])
                _note_posts(attachment.client.peer, posts[-1])
        _ = await turn(source, line, session, [chunk("x") for _ in range(400)], size=20)
        for other in lines:
            assert "".join(update["content"]["text"] for update in updates_of(await until_end(other))[1:]) == "x" * 400
        pieces = [[id(piece) for piece in found if b"agent_message" in piece] for found in posts]
        assert pieces[0] == pieces[1] == pieces[2]
        assert len(pieces[0]) < 40


async def test_a_client_that_comes_back_goes_on_behind_a_joined_message_and_gets_at_most_64_kib_in_one() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        text = "\u00e4x" * 50
        updates = [chunk(f"{number:04} {text}") for number in range(3000)]
        asked = await turn(source, line, session, updates, size=3000)
        await line.answer_to(asked)
        expected = "".join(update["content"]["text"] for update in updates)
        after, found = 1, ""
        for count in (2, 1, 3, 1000):  # messages that arrive before the line breaks
            again = await host.client(JOINED)
            await again.resume(session, after=after)
            for _ in range(count):
                message = await again.next()
                if message.get("method") != "session/update":
                    break
                assert len(msgspec.json.encode(message)) <= MOST_BYTES
                if message["params"]["update"]["sessionUpdate"] == "agent_message_chunk":
                    found += message["params"]["update"]["content"]["text"]
                after = own(message)["seq"]
            await host.leave(again)
        assert found == expected


@pytest.mark.parametrize(
    ("batch", "ms"),
    [
        *(({"ms": 40}, 40), ({"ms": 1}, 16), ({"ms": 9999}, 250), ({}, 16), ({"ms": 33.4}, 33)),
        *((None, 0), (True, 0), (16, 0), ([], 0), ({"ms": True}, 0), ({"ms": "16"}, 0), ({"ms": None}, 0)),
        ({"ms": -1}, 0),
    ],
)
def test_an_announcement_is_brought_into_its_range_and_a_wrong_one_is_none(batch: Any, ms: int) -> None:
    hello = {"protocolVersion": 1, "clientCapabilities": {"_meta": {"dragoman": {"batch": batch}}}}
    assert read_client(decode(v1.InitializeRequest, msgspec.json.encode(hello))).batch_ms == ms


async def test_a_question_stands_behind_the_text_before_it_at_once() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened({"_meta": {"dragoman": {"batch": {"ms": 250}}}})
        _ = line.prompt(session)
        prompt = await source.agent.prompted()
        write(source, [chunk("one "), chunk("two")])
        option = {"optionId": "y", "name": "Yes", "kind": "allow_once"}
        _ = source.agent.call("session/request_permission", toolCall={"toolCallId": "t"}, options=[option])
        got = []
        while (message := await line.next()).get("method") != "session/request_permission":
            got.append(message)
        texts = [found["content"]["text"] for found in updates_of(got[1:])]
        assert "".join(texts) == "one two"
        source.agent.reply(prompt, END)


@pytest.mark.alone
@pytest.mark.parametrize("count", [5_000, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_updates_are_at_most_63_messages_a_second_and_take_half_the_time(count: int) -> None:
    """The time is what a client needs to get and fold what it was sent, of one session in one run."""
    source = OnTheWire()
    updates = [chunk(f"{number % 10000:04} ") for number in range(count)]
    async with hosted(source) as host:
        line, session = await host.opened()
        joined, plain = await host.client(JOINED), await host.client(OURS)
        for other in (joined, plain):
            await other.resume(session)
        begun = perf_counter()
        _ = await turn(source, line, session, updates, size=100)
        together = await until_end(joined)
        seconds = perf_counter() - begun
        singly = await until_end(plain)
        assert len(together) / seconds <= 63, (len(together), seconds)
        assert len(singly) > count
        assert folded(updates_of(together)) == folded(updates_of(singly))
        _assert_complete(singly, together)
        took = [await _catch_up(host, session, kind) for kind in (OURS, JOINED, OURS, JOINED)]
        assert took[1] + took[3] <= (took[0] + took[2]) / 2, took


async def _catch_up(host: Hosted, session: str, kind: dict[str, Any]) -> float:
    """How long a client needs that comes back after a whole turn."""
    line = await host.client(kind)
    begun = perf_counter()
    await line.resume(session, after=1)
    _ = folded(updates_of(await until_end(line)))
    return perf_counter() - begun
