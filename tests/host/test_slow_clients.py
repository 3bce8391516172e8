"""A client that does not read is a cursor that stands still: it costs no memory, slows nobody, and is cut off."""

from __future__ import annotations

import asyncio
from typing import Any

from dragoman.host.host import HostSettings
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}


async def stuck_client(host: Hosted, session: str) -> Client:
    line = await host.client(OURS)
    await line.resume(session)
    line.transport.pause_reading()
    return line


def unsent(host: Hosted, line: Client) -> int:
    other: Any = line.transport
    found: int = other._other.unsent_bytes
    return found


async def flood(source: OnTheWire, line: Client, session: str, count: int) -> None:
    """A turn with many updates, read to its end by its client."""
    id = line.prompt(session)
    prompt = await source.agent.prompted()
    for number in range(count):
        source.agent.say(f"{number} " + "x" * 1000)
    source.agent.reply(prompt, END)
    while (await line.next()).get("id") != id:
        pass


async def test_what_a_slow_client_has_not_read_stays_in_the_log_and_it_misses_nothing() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        slow = await stuck_client(host, session)
        await flood(source, line, session, 2000)
        assert unsent(host, slow) < 400_000, "2 MB of updates do not wait in memory"
        slow.transport.resume_reading()
        texts: list[int] = []
        while len(texts) < 2000:
            message = await slow.until("session/update")
            update = message["params"]["update"]
            if update["sessionUpdate"] == "agent_message_chunk":
                texts.append(int(update["content"]["text"].split()[0]))
        assert texts == list(range(2000))


async def test_a_client_that_is_too_far_behind_is_cut_off_and_may_resume() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(behind_bytes=300_000)) as host:
        line, session = await host.opened(OURS)
        slow = await stuck_client(host, session)
        await flood(source, line, session, 1000)
        slow.transport.resume_reading()
        last = 0
        async with asyncio.timeout(30):
            await slow.ended
        while not slow.lines.empty():
            meta = slow.lines.get_nowait().get("params", {}).get("_meta", {})
            last = meta.get("dragoman", {}).get("seq", last)
        assert last
        again = await host.client(OURS)
        await again.resume(session, after=last)
        message = await again.until("session/update")
        assert message["params"]["_meta"]["dragoman"]["seq"] == last + 1
        assert len(host.session(session).attachments) == 2, "the other client is still there"


async def test_a_client_that_reads_nothing_for_long_is_cut_off() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(behind_seconds=0.05)) as host:
        line, session = await host.opened(OURS)
        slow = await stuck_client(host, session)
        await line.result("_dragoman/detach", sessionId=session)  # it shall not be judged by the clock of this test
        for number in range(1000):
            source.agent.say(f"{number} " + "x" * 1000)
        async with asyncio.timeout(60):
            while host.session(session).attachments:
                await line.everything()
        slow.transport.resume_reading()
        async with asyncio.timeout(60):
            await slow.ended


async def test_loading_a_long_history_slowly_does_not_count_as_being_behind() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(behind_bytes=100_000)) as host:
        line, session = await host.opened()
        await flood(source, line, session, 1000)
        reader = await host.client(OURS)
        await reader.resume(session, after=0)
        count = 0
        while count < 1000:
            message = await reader.until("session/update")
            count += message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
