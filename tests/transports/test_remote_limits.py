"""What the server bounds, and what keeps connections alive: deadlines, keep-alive, slow and silent peers."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from typing import Any

import pytest

from dragoman.agent import Agent, Turn
from dragoman.client import connect
from dragoman.errors import ConnectionClosed
from dragoman.transports.remote.connect import connect_url
from dragoman.transports.remote.server import RemoteServer, ServerLimits
from tests.transports.raw_websocket import PING, PONG, TEXT, RawWebSocket, frame
from tests.transports.remote_kit import INITIALIZE, TOKEN, CutProxy, Http, Serving, remote_server
from tests.transports.test_remote_wire import Events, events, message, new_session

SECONDS = 60.0
BIG = "x" * 4096


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for number in range(int(turn.text)):
            await turn.say(f"{number} {BIG} ")

    return agent


@asynccontextmanager
async def served(**limits: Any) -> AsyncIterator[tuple[RemoteServer, Http]]:
    serving = Serving(make_agent())
    async with remote_server(serving, limits=ServerLimits(**limits)) as (server, port):
        http = Http(port)
        try:
            yield server, http
        finally:
            await http.close_streams()
    await serving.over()


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not holds():  # noqa: ASYNC110 - the server reports no such event
            await asyncio.sleep(0.01)


async def _status(reader: asyncio.StreamReader) -> int:
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        await reader.readexactly(int(length or b"0"))
    return int(head.split()[1])


async def test_many_requests_use_one_socket() -> None:
    async with served() as (_, http):
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        for _ in range(3):
            writer.write(http.request("POST", INITIALIZE))
            assert await _status(reader) == 200
        writer.write(http.request("POST", b"{") + http.request("DELETE"))  # the next one may follow at once
        assert [await _status(reader), await _status(reader)] == [400, 400]


async def test_an_unused_socket_is_closed_without_a_word() -> None:
    async with served(idle_seconds=0.2) as (_, http):
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        writer.write(http.request("POST", b"{"))
        assert await _status(reader) == 400
        async with asyncio.timeout(SECONDS):
            assert await reader.read() == b""


async def test_the_head_of_every_request_has_a_deadline_not_only_that_of_the_first() -> None:
    async with served() as (server, http):
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        writer.write(http.request("POST", b"{"))
        assert await _status(reader) == 400
        server.limits = ServerLimits(header_seconds=0.2)
        writer.write(b"POST /acp HT")
        assert await _status(reader) == 408


async def test_a_body_that_never_ends_is_cut_off() -> None:
    async with served(body_seconds=0.2) as (_, http):
        status, headers, _ = await http.send(http.request("POST", b"{", content_length="99"), until_end=True)
        assert (status, headers["connection"]) == (408, "close")


async def test_a_client_that_waits_gets_100_only_when_it_may_enter() -> None:
    async with served() as (_, http):
        head = http.request("POST", content_length=str(len(INITIALIZE)), expect="100-continue")
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        writer.write(head)
        async with asyncio.timeout(SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 100 ")
        writer.write(INITIALIZE)
        assert await _status(reader) == 200
        refused = await http.send(head.replace(TOKEN.encode(), b"wrong"), until_end=True)
        assert refused[0] == 401


async def test_a_silent_stream_is_kept_alive() -> None:
    async with served(keep_alive_seconds=0.05) as (_, http):
        connection = await http.initialize()
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        writer.write(http.request("GET", acp_connection_id=connection, content_type="", content_length=""))
        async with asyncio.timeout(SECONDS):
            for _ in range(2):
                await reader.readuntil(b"3\r\n:\n\n\r\n")


async def test_connections_that_are_not_used_end() -> None:
    async with served(idle_seconds=0.2) as (server, http):
        await http.initialize()
        await until(lambda: server.connections == 0)


async def test_too_many_sockets_of_one_address_are_sent_away() -> None:
    async with served(sockets_per_address=2) as (server, http):
        held = [await asyncio.open_connection("127.0.0.1", http.port) for _ in range(2)]
        status, headers, _ = await http.send(b"", until_end=True)
        assert (status, headers["retry-after"]) == (503, "5")
        for _, writer in held:
            http.streams.append(writer)
        await http.close_streams()
        await until(lambda: server.sockets == 0)
        assert (await http.send(http.request("POST", b"{")))[0] == 400


async def _prompt(http: Http, connection: str, session: str, count: int) -> None:
    asked = message("session/prompt", sessionId=session, prompt=[{"type": "text", "text": str(count)}])
    assert (await http.ask("POST", asked, acp_connection_id=connection, acp_session_id=session))[0] == 202


def _numbers(found: list[tuple[str | None, dict[str, Any]]]) -> list[int]:
    texts = [each["params"]["update"]["content"]["text"] for _, each in found if "method" in each]
    return [int(text.split()[0]) for text in texts]


async def _until_cut(stream: Events, found: list[tuple[str | None, dict[str, Any]]]) -> None:
    try:
        while True:
            found.append(await stream.next())
    except (asyncio.IncompleteReadError, ConnectionError):
        pass


async def test_a_stream_that_is_not_read_is_cut_and_its_client_comes_back_for_the_rest() -> None:
    """Another client goes on meanwhile."""
    count = 1000
    async with served() as (server, http):
        slow, quick = await http.initialize(), await http.initialize()
        one, two = await events(http, slow), await events(http, quick)
        first, second = await new_session(http, slow, one), await new_session(http, quick, two)
        other = await events(http, quick, acp_session_id=second)
        server.limits = ServerLimits(stall_seconds=0.5)
        stuck = await events(http, slow, buffer_bytes=65536, acp_session_id=first)
        await _prompt(http, slow, first, count)
        await _prompt(http, quick, second, count)
        assert _numbers([await other.next() for _ in range(count)]) == list(range(count))
        await until(lambda: server.sockets == 3)  # it is cut
        found: list[tuple[str | None, dict[str, Any]]] = []
        await _until_cut(stuck, found)
        assert 0 < len(found) < count
        again = await events(http, slow, acp_session_id=first, last_event_id=found[-1][0] or "0")
        while len(found) <= count:
            found.append(await again.next())
        assert _numbers(found) == list(range(count))


async def test_a_slow_reader_gets_everything_at_its_own_pace() -> None:
    count = 1000
    async with served() as (_, http):
        connection = await http.initialize()
        session = await new_session(http, connection, await events(http, connection))
        own = await events(http, connection, buffer_bytes=65536, acp_session_id=session)
        await _prompt(http, connection, session, count)
        found = []
        for number in range(count):
            found.append(await own.next())
            if number % 100 == 0:
                await asyncio.sleep(0.05)
        assert _numbers(found) == list(range(count))


async def test_a_websocket_whose_client_does_not_answer_pings_is_cut_and_others_are_not() -> None:
    """A client that is gone without a word, and one that does not read: both answer no ping."""
    async with served(ping_seconds=0.5) as (server, http):
        lost = await RawWebSocket.open(http)
        stuck = await RawWebSocket.open(http)
        well = await RawWebSocket.open(http)
        stuck.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
        reading = stuck.writer.transport
        assert isinstance(reading, asyncio.Transport)
        reading.pause_reading()
        asked = {"jsonrpc": "2.0", "id": 5, "method": "session/new", "params": {"cwd": "/tmp", "mcpServers": []}}
        well.send(frame(TEXT, json.dumps(asked).encode()))
        pings = 0
        async with asyncio.timeout(SECONDS):
            while server.connections > 1:
                found = await well.next()
                if found.opcode == PING:
                    pings += 1
                    well.send(frame(PONG, found.data))
        assert pings >= 3
        assert server.connections == 1
        for each in (lost, stuck, well):
            await each.close()


async def test_a_client_notices_a_websocket_that_went_silent() -> None:
    serving = Serving(make_agent())
    async with remote_server(serving) as (server, port), CutProxy(server, port) as proxy:
        transport = await connect_url(f"ws://127.0.0.1:{proxy.port}/acp", token=TOKEN, ping_seconds=0.1)
        async with connect(transport) as remote:
            session = await remote.new_session("/tmp")
            proxy.freeze()
            with pytest.raises(ConnectionClosed, match="the agent is gone"):
                async with asyncio.timeout(SECONDS):
                    await session.prompt("1")
        proxy.cut()
    await serving.over()


async def test_a_client_notices_a_stream_that_went_silent_and_opens_it_again() -> None:
    serving = Serving(make_agent())
    limits = ServerLimits(keep_alive_seconds=0.1)
    async with remote_server(serving, limits=limits) as (server, port), CutProxy(server, port) as proxy:
        transport = await connect_url(f"http://127.0.0.1:{proxy.port}/acp", token=TOKEN, ping_seconds=0.2)
        async with connect(transport) as remote:
            session = await remote.new_session("/tmp")
            await session.prompt("1")
            proxy.freeze()  # what is open now passes nothing any more; new connections do
            async with asyncio.timeout(SECONDS):
                await session.prompt("3")
            assert [each for each in session.state.text.split() if each.isdigit()] == ["0", "1", "2"]
        proxy.cut()
    await serving.over()


async def test_a_half_open_stream_is_taken_over() -> None:
    async with served() as (_, http):
        connection = await http.initialize()
        whole = await events(http, connection)
        session = await new_session(http, connection, whole)
        first = await events(http, connection, acp_session_id=session)
        await _prompt(http, connection, session, 3)
        assert (await first.next())[0] == "1"
        second = await events(http, connection, acp_session_id=session, last_event_id="1")
        assert [(await second.next())[0] for _ in range(3)] == ["2", "3", "4"]
        found: list[tuple[str | None, dict[str, Any]]] = []
        await _until_cut(first, found)
        assert [number for number, _ in found] in ([], ["2"], ["2", "3"], ["2", "3", "4"])


@pytest.mark.parametrize("turns", range(6))
async def test_a_connection_that_comes_while_the_server_ends_is_closed(turns: int) -> None:
    """In whichever turn of the loop it was accepted: a socket that is left behind is a warning, which is an error."""
    sockets = [socket.socket() for _ in range(3)]
    async with remote_server(Serving(Agent("test"))) as (server, port):
        for sock in sockets:
            sock.setblocking(False)
            sock.connect_ex(("127.0.0.1", port))
        for _ in range(turns):
            await asyncio.sleep(0)
    assert server.sockets == 0
    for sock in sockets:
        with closing(sock):
            sock.settimeout(SECONDS)
            with suppress(ConnectionError):
                while await asyncio.to_thread(sock.recv, 4096):
                    pass  # it may have been answered that the server is busy
    gc.collect()
