"""How much each token may use of a served host."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from dragoman.host.host import HostSettings
from dragoman.host.serving.acts import Act, HostActs
from dragoman.host.serving.limits import ServeLimits
from tests.host.serving.kit import FREELY, SECONDS, Served, served
from tests.host.serving.test_security import Raw, client
from tests.host.test_sessions import Steps
from tests.transports.raw_websocket import PING, PONG, TEXT, RawWebSocket, frame
from tests.transports.remote_kit import INITIALIZE


async def test_a_token_has_so_many_connections_and_others_have_their_own(tmp_path: Path) -> None:
    limits = ServeLimits(connections=2, requests_per_second=1e6, connections_per_minute=1e6)
    async with served(Steps(), tmp_path, limits=limits) as host:
        raw, other = Raw(host), host.add("other")
        async with client(host, host.secret), client(host, host.secret, "http"):
            assert (await raw.ask("POST", INITIALIZE))[0] == 429
            assert (await raw.upgrade())[0] == 429
            await raw.initialize(authorization=f"Bearer {other}")


async def test_a_user_has_so_many_sessions(tmp_path: Path) -> None:
    settings = HostSettings(sessions_per_principal=2)
    async with served(Steps(), tmp_path, settings=settings) as host, client(host, host.secret) as line:
        for _ in range(2):
            await line.open(str(tmp_path))
        error = await line.error("session/new", cwd=str(tmp_path), mcpServers=[])
        assert "the limit sessions of this host (2 of 2)" in error["message"]
        assert error["data"] == {"reason": "limit", "limit": "sessions", "value": 2, "used": 2}


async def test_at_the_limit_archived_and_then_the_oldest_idle_sessions_go_first(tmp_path: Path) -> None:
    settings = HostSettings(sessions_per_principal=3)
    async with served(Steps(), tmp_path, settings=settings) as host, client(host, host.secret) as line:
        first, second, third = [await line.open(str(tmp_path)) for _ in range(3)]
        for session in (first, second):
            await line.result("_dragoman/detach", sessionId=session)
        await describe(host, second, archivedAt=1)
        for gone in (second, first):
            kept = await line.open(str(tmp_path))
            rows = (await line.result("session/list"))["sessions"]
            assert gone not in {row["sessionId"] for row in rows}
            assert len(rows) == 3
        error = await line.error("session/new", cwd=str(tmp_path), mcpServers=[])  # each has a client now
        assert error["data"]["reason"] == "limit"
        for _ in range(5):  # as many as a user likes, one after the other
            await line.result("_dragoman/detach", sessionId=kept)
            kept = await line.open(str(tmp_path))
        rows = (await line.result("session/list"))["sessions"]
        assert {third, kept} <= {row["sessionId"] for row in rows}


async def describe(host: Served, session: str, **facts: object) -> None:
    """Change facts of a session that is in memory."""
    found = host.host.live(session)
    assert found is not None
    found.facts |= facts
    found.describe()
    await found.settle()


class Removals:
    """The sessions whose removal was noted."""

    def __init__(self) -> None:
        self.ids = asyncio.Queue[str]()

    def take(self, act: Act) -> None:
        if act.kind == "session_removed":
            self.ids.put_nowait(act.session)

    async def next(self, count: int) -> set[str]:
        async with asyncio.timeout(60):
            return {await self.ids.get() for _ in range(count)}


async def test_old_sessions_go_by_themselves_unless_they_are_in_use_or_continued(tmp_path: Path) -> None:
    removed, now, day = Removals(), 1_700_000_000.0, 86400.0
    limits = msgspec.structs.replace(FREELY, session_days=30.0)
    async with (
        served(Steps(), tmp_path, limits=limits, acts=HostActs([removed]), clock=lambda: now) as host,
        client(host, host.secret) as line,
        client(host, host.add("other")) as other,
    ):
        cwd = str(tmp_path)
        used, idle, archived, parent, child, recent = [await line.open(cwd) for _ in range(6)]
        foreign = await other.open(cwd)
        await other.result("_dragoman/detach", sessionId=foreign)
        await describe(host, archived, archivedAt=1)
        for session in (idle, archived, parent, child, recent):
            await line.result("_dragoman/detach", sessionId=session)
        now += 14 * day
        await describe(host, child, title="still needed", parent={"id": parent, "number": 1})
        await describe(host, recent, title="still needed")
        now += 16.1 * day
        assert await removed.next(3) == {idle, archived, foreign}
        rows = (await line.result("session/list", archived="include"))["sessions"]
        assert {row["sessionId"] for row in rows} == {used, parent, child, recent}
        assert (await other.result("session/list"))["sessions"] == []
        now += 14 * day
        assert await removed.next(3) == {parent, child, recent}
        assert [row["sessionId"] for row in (await line.result("session/list"))["sessions"]] == [used]


@pytest.mark.parametrize(
    ("limits", "calls"),
    [
        (ServeLimits(requests_per_second=1.0, connections_per_minute=1e6), 10),
        (ServeLimits(requests_per_second=1e6, connections_per_minute=2.0), 10),
    ],
)
async def test_a_token_that_asks_too_often_has_to_wait(limits: ServeLimits, calls: int, tmp_path: Path) -> None:
    async with served(Steps(), tmp_path, limits=limits) as host:
        raw, other = Raw(host), host.add("other")
        answers = [await raw.ask("POST", INITIALIZE) for _ in range(calls)]
        assert answers[0][0] == 200
        assert answers[-1][0] == 429
        assert int(answers[-1][1]["retry-after"]) >= 1
        await raw.initialize(authorization=f"Bearer {other}")


async def test_a_body_that_is_too_long_is_refused_by_its_head(tmp_path: Path) -> None:
    limits = ServeLimits(body_bytes=1000, requests_per_second=1e6, connections_per_minute=1e6)
    async with served(Steps(), tmp_path, limits=limits) as host:
        raw = Raw(host)
        head, _, _ = raw.request("POST", b"", content_length="1001").partition(b"\r\n\r\n")
        assert (await raw.send(head + b"\r\n\r\n"))[0] == 413
        chunked = raw.request("POST", b"800\r\n" + b" " * 2048, content_length="", transfer_encoding="chunked")
        assert (await raw.send(chunked))[0] == 413


FEW = ServeLimits(in_flight_bytes=3000, requests_per_second=1e6, connections_per_minute=1e6)


async def _begun(host: Served, data: bytes) -> asyncio.StreamWriter:
    """A socket on which something was sent that is not complete."""
    _, writer = await asyncio.open_connection("127.0.0.1", host.port)
    writer.write(data)
    await writer.drain()
    return writer


async def test_a_token_has_so_many_bytes_under_way_over_all_of_its_requests(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path, limits=FEW) as host:
        raw, other = Raw(host), host.add("other")
        head, _, _ = raw.request("POST", b"", content_length="2500").partition(b"\r\n\r\n")
        begun = await _begun(host, head + b"\r\n\r\n" + b" " * 2400)

        async def status(size: int, **headers: str) -> tuple[int, dict[str, str]]:
            """400 for a message that was read: it names no connection."""
            found = await raw.ask("POST", b'{"jsonrpc":"2.0","method":"x"}'.ljust(size), **headers)
            return found[0], found[1]

        async with asyncio.timeout(SECONDS):
            while (found := await status(900))[0] == 400:
                pass  # the first socket was not read yet
        assert found[0] == 429
        assert int(found[1]["retry-after"]) >= 1
        assert (await status(900, authorization=f"Bearer {other}"))[0] == 400, "each token has its own"
        assert (await status(300))[0] == 400, "what fits is served"
        chunked = raw.request("POST", b"384\r\n" + b" " * 900, content_length="", transfer_encoding="chunked")
        assert (await raw.send(chunked))[0] == 429
        begun.close()
        await begun.wait_closed()
        async with asyncio.timeout(SECONDS):
            while (await status(900))[0] == 429:
                pass  # the end of the socket was not seen yet


async def test_a_websocket_whose_message_does_not_end_counts_and_is_closed_with_1008(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path, limits=FEW) as host:
        raw = Raw(host)
        one, two = [await RawWebSocket.open(raw) for _ in range(2)]
        one.send(frame(TEXT, b"x" * 1400, fin=False), frame(PING))  # a part of a message
        assert (await one.next()).opcode == PONG, "the part was read"
        two.send(frame(TEXT, b"x" * 5000)[:1800])  # a part of a frame
        assert [found.code for found in await two.end()] == [1008]
        three = await RawWebSocket.open(raw)
        three.send(frame(TEXT, b"x" * 1400, fin=False), frame(PING))
        assert (await three.next()).opcode == PONG, "what the closed one held is free"
        for each in (one, two, three):
            await each.close()


async def test_an_address_has_so_many_sockets(tmp_path: Path) -> None:
    limits = ServeLimits(sockets_per_address=2, requests_per_second=1e6, connections_per_minute=1e6)
    async with (
        served(Steps(), tmp_path, limits=limits) as host,
        client(host, host.secret),
        client(host, host.secret),
    ):
        status, headers, _ = await Raw(host).ask("GET", path="/healthz")
        assert status == 503
        assert "retry-after" in headers
