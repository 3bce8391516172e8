"""The wire of Streamable HTTP and WebSocket, byte by byte: statuses, headers, routing, and what is refused."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.errors import ConnectionClosed
from dragoman.schema import v1
from dragoman.transports.remote.gate import Principal
from dragoman.transports.remote.server import NewConnection, PortListener
from tests.transports.remote_kit import INITIALIZE, SECONDS, TOKEN, Http, Serving, remote_server

OTHER = "the-token-of-another"
HANDSHAKE: dict[str, Any] = {
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
    "sec_websocket_version": "13",
    "content_length": "",
    "content_type": "",
}


def make_agent() -> Agent:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        if turn.text == "ask":
            async with turn.tool("x") as tool:
                await tool.ask([v1.PermissionOption("yes", "Yes", "allow_once")])
        await turn.say("hello")

    @agent.load_session
    async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
        for number in range(500):
            await session.say(f"{number} ")

    return agent


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Http]:
    serving = Serving(make_agent())
    principals = {TOKEN: Principal("tests"), OTHER: Principal("another")}
    async with remote_server(serving, principals, **options) as (_, port):
        http = Http(port)
        try:
            yield http
        finally:
            await http.close_streams()
    await serving.over()


def message(method: str, **params: object) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).encode()


class Events:
    """An open stream of events."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
        self._reader = reader
        self._writer = writer
        self.head = head.decode("latin-1")
        self._rest = b""

    async def next(self) -> tuple[str | None, dict[str, Any]]:
        """The next event that is not a comment: its id and its message."""
        async with asyncio.timeout(SECONDS):
            while True:
                while b"\n\n" not in self._rest:
                    size = int(await self._reader.readuntil(b"\r\n"), 16)
                    self._rest += await self._reader.readexactly(size)
                    await self._reader.readexactly(2)
                event, _, self._rest = self._rest.partition(b"\n\n")
                lines = dict(line.split(b": ", 1) for line in event.split(b"\n") if not line.startswith(b":"))
                if b"data" in lines:
                    return lines.get(b"id", b"").decode() or None, json.loads(lines[b"data"])

    def close(self) -> None:
        self._writer.transport.abort()


async def events(http: Http, connection: str, *, buffer_bytes: int = 0, **headers: Any) -> Events:
    """Open a stream.

    Args:
        buffer_bytes: What the client's kernel takes of it before it is read; 0: as much as it likes.
    """
    reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
    if buffer_bytes:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
    writer.write(http.request("GET", acp_connection_id=connection, content_type="", content_length="", **headers))
    async with asyncio.timeout(SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    http.streams.append(writer)
    return Events(reader, writer, head)


async def new_session(http: Http, connection: str, stream: Events) -> str:
    asked = message("session/new", cwd="/tmp", mcpServers=[])
    assert (await http.ask("POST", asked, acp_connection_id=connection))[0] == 202
    answer = (await stream.next())[1]
    session: str = answer["result"]["sessionId"]
    return session


async def test_initialize_is_answered_in_place_and_names_the_connection() -> None:
    async with served() as http:
        status, headers, body = await http.ask("POST", INITIALIZE)
        assert status == 200
        assert headers["content-type"] == "application/json"
        assert json.loads(body)["result"]["protocolVersion"] == 1
        assert len(headers["acp-connection-id"]) >= 32


async def test_messages_of_a_session_come_on_its_stream_and_others_on_the_connections() -> None:
    async with served() as http:
        connection = await http.initialize()
        whole = await events(http, connection)
        assert "content-type: text/event-stream" in whole.head.lower()
        session = await new_session(http, connection, whole)
        own = await events(http, connection, acp_session_id=session)
        prompt = message("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "hi"}])
        status, _, body = await http.ask("POST", prompt, acp_connection_id=connection, acp_session_id=session)
        assert (status, body) == (202, b"")
        number, update = await own.next()
        assert update["method"] == "session/update"
        assert number == "1"
        number, answer = await own.next()
        assert answer == {"jsonrpc": "2.0", "id": 7, "result": {"stopReason": "end_turn"}}
        assert number == "2"


async def test_the_answer_to_a_load_comes_on_the_connections_stream_after_the_replay() -> None:
    async with served() as http:
        connection = await http.initialize()
        whole = await events(http, connection)
        own = await events(http, connection, acp_session_id="old")
        load = message("session/load", sessionId="old", cwd="/tmp", mcpServers=[])
        assert (await http.ask("POST", load, acp_connection_id=connection, acp_session_id="old"))[0] == 202
        assert (await whole.next())[1]["id"] == 7
        for number in range(500):
            assert (await own.next())[1]["params"]["update"]["content"]["text"] == f"{number} "


async def test_a_client_that_loads_without_a_stream_gets_the_replay_on_the_connections() -> None:
    async with served() as http:
        connection = await http.initialize()
        whole = await events(http, connection)
        load = message("session/load", sessionId="old", cwd="/tmp", mcpServers=[])
        assert (await http.ask("POST", load, acp_connection_id=connection))[0] == 202
        for number in range(500):
            assert (await whole.next())[1]["params"]["update"]["content"]["text"] == f"{number} "
        assert (await whole.next())[1]["id"] == 7
        own = await events(http, connection, acp_session_id="old")
        prompt = message("session/prompt", sessionId="old", prompt=[{"type": "text", "text": "hi"}])
        prompt = prompt.replace(b'"id": 7', b'"id": 8')
        assert (await http.ask("POST", prompt, acp_connection_id=connection, acp_session_id="old"))[0] == 202
        assert (await own.next())[1]["method"] == "session/update"
        assert (await own.next())[1]["id"] == 8


async def test_a_client_of_ours_gets_the_answer_to_a_load_in_order_on_one_stream() -> None:
    async with served() as http:
        connection = await http.initialize()
        own = await events(http, connection, acp_session_id="old", dragoman_client="1")
        load = message("session/load", sessionId="old", cwd="/tmp", mcpServers=[])
        assert (await http.ask("POST", load, acp_connection_id=connection, acp_session_id="old"))[0] == 202
        for _ in range(500):
            assert "method" in (await own.next())[1]
        assert (await own.next())[1]["id"] == 7


async def test_an_answer_of_the_client_must_not_name_another_session() -> None:
    async with served() as http:
        connection = await http.initialize()
        session = await new_session(http, connection, await events(http, connection))
        own = await events(http, connection, acp_session_id=session)
        prompt = message("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "ask"}])
        await http.ask("POST", prompt, acp_connection_id=connection, acp_session_id=session)
        while (asked := (await own.next())[1])["method"] != "session/request_permission":
            pass
        result = {"outcome": {"outcome": "selected", "optionId": "yes"}}
        answer = json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}).encode()
        status, _, why = await http.ask("POST", answer, acp_connection_id=connection, acp_session_id="other")
        assert (status, why) == (400, b"Mismatched Acp-Session-Id")
        # The Python SDK sends no header with it, the TypeScript SDK does.
        assert (await http.ask("POST", answer, acp_connection_id=connection))[0] == 202
        while "result" not in (last := (await own.next())[1]):
            pass
        assert last["id"] == 7


async def test_a_stream_that_breaks_goes_on_behind_the_last_event() -> None:
    async with served() as http:
        connection = await http.initialize()
        own = await events(http, connection, acp_session_id="old", dragoman_client="1")
        load = message("session/load", sessionId="old", cwd="/tmp", mcpServers=[])
        await http.ask("POST", load, acp_connection_id=connection, acp_session_id="old")
        numbers = [(await own.next())[0] for _ in range(10)]
        own.close()
        again = await events(http, connection, acp_session_id="old", dragoman_client="1", last_event_id="10")
        numbers += [(await again.next())[0] for _ in range(491)]
        assert numbers == [str(number) for number in range(1, 502)]


async def test_a_second_receiver_is_refused_unless_it_knows_where_it_was() -> None:
    async with served() as http:
        connection = await http.initialize()
        first = await events(http, connection)
        head = http.request("GET", acp_connection_id=connection)
        status, _, why = await http.send(head)
        assert (status, why) == (409, b"Outbound stream already has an active receiver")
        second = await events(http, connection, last_event_id="0")
        await new_session(http, connection, second)
        first.close()


async def test_events_that_are_gone_are_410_with_what_is_there() -> None:
    async with served() as http:
        connection = await http.initialize()
        status, _, body = await http.ask("GET", acp_connection_id=connection, last_event_id="99")
        assert status == 410
        assert json.loads(body) == {"oldest": 1, "head": 0}


async def test_delete_ends_the_connection() -> None:
    async with served() as http:
        connection = await http.initialize()
        assert (await http.ask("DELETE", acp_connection_id=connection))[0] == 202
        assert (await http.ask("DELETE", acp_connection_id=connection))[0] == 404
        assert (await http.ask("DELETE"))[0] == 400


async def test_a_request_that_is_posted_again_runs_once() -> None:
    async with served() as http:
        connection = await http.initialize()
        stream = await events(http, connection)
        asked = message("session/new", cwd="/tmp", mcpServers=[])
        for _ in range(3):
            assert (await http.ask("POST", asked, acp_connection_id=connection))[0] == 202
        assert (await stream.next())[1]["id"] == 7
        other = message("session/new", cwd="/var", mcpServers=[]).replace(b'"id": 7', b'"id": 8')
        await http.ask("POST", other, acp_connection_id=connection)
        assert (await stream.next())[1]["id"] == 8


BAD_POSTS = {
    "not JSON": (b"{", {}, 400, b"Invalid JSON"),
    "a number": (b"1", {}, 400, b"Invalid JSON-RPC message"),
    "no connection": (message("session/list"), {}, 400, b"Missing Acp-Connection-Id"),
    "unknown connection": (message("session/list"), {"acp_connection_id": "x"}, 404, b"Unknown Acp-Connection-Id"),
    "form": (INITIALIZE, {"content_type": "application/x-www-form-urlencoded"}, 415, b"Unsupported Media Type"),
    "nearly JSON": (INITIALIZE, {"content_type": "application/jsonx"}, 415, b"Unsupported Media Type"),
    "compressed": (INITIALIZE, {"content_encoding": "gzip"}, 415, b"Compressed bodies"),
    "too long": (INITIALIZE, {"content_length": "999999999"}, 413, b"longer than"),
    "no id": (INITIALIZE.replace(b'"id":1,', b'"id":null,'), {}, 400, b"must include an ID"),
}


@pytest.mark.parametrize(("body", "headers", "status", "why"), BAD_POSTS.values(), ids=list(BAD_POSTS))
async def test_bad_posts_get_their_status_and_a_sentence(
    body: bytes, headers: dict[str, Any], status: int, why: bytes
) -> None:
    async with served() as http:
        found, _, said = await http.ask("POST", body, **headers)
        assert found == status
        assert why in said
        await http.initialize()  # the server lives


async def test_a_batch_is_answered_with_an_error_of_json_rpc() -> None:
    async with served() as http:
        status, _, body = await http.ask("POST", b"[]")
        assert status == 400
        assert json.loads(body)["error"]["code"] == -32600


async def test_a_second_initialize_and_a_missing_session_header_are_refused() -> None:
    async with served() as http:
        connection = await http.initialize()
        status, _, why = await http.ask("POST", INITIALIZE, acp_connection_id=connection)
        assert (status, why) == (400, b"Initialize not allowed on existing connection")
        status, _, why = await http.ask("POST", message("session/prompt", prompt=[]), acp_connection_id=connection)
        assert (status, why) == (400, b"Missing Acp-Session-Id")
        status, _, why = await http.ask("POST", message("x", sessionId="a" * 2000), acp_connection_id=connection)
        assert status == 400


ENTRIES: dict[str, tuple[dict[str, Any], int]] = {
    "no token": ({"authorization": ""}, 401),
    "wrong token": ({"authorization": "Bearer wrong"}, 401),
    "other scheme": ({"authorization": f"Basic {TOKEN}"}, 401),
    "other host": ({"host": "evil.example"}, 403),
    "other port": ({"host": "127.0.0.1:1"}, 403),
    "no host": ({"host": ""}, 400),
    "page of another origin": ({"origin": "https://evil.example"}, 403),
    "page of this host": ({"origin": "http://127.0.0.1"}, 403),
    "null origin": ({"origin": "null"}, 403),
}


@pytest.mark.parametrize("method", ["POST", "GET", "DELETE", "upgrade"])
@pytest.mark.parametrize(("headers", "status"), ENTRIES.values(), ids=list(ENTRIES))
async def test_strangers_are_refused_on_every_way_in(method: str, headers: dict[str, Any], status: int) -> None:
    async with served() as http:
        connection = await http.initialize()
        more = {"acp_connection_id": connection} if method != "upgrade" else HANDSHAKE
        verb = "GET" if method == "upgrade" else method
        body = INITIALIZE if method == "POST" else b""
        sent = http.request(verb, body, **{**more, **headers})
        found, _, why = await http.send(sent)
        assert found == status
        assert why
        assert TOKEN.encode() not in why


async def test_the_connection_of_another_principal_is_unknown() -> None:
    async with served() as http:
        connection = await http.initialize()
        theirs: dict[str, Any] = {"authorization": f"Bearer {OTHER}", "acp_connection_id": connection}
        assert (await http.ask("POST", message("session/list"), **theirs))[0] == 404
        assert (await http.ask("GET", **theirs))[0] == 404
        assert (await http.ask("DELETE", **theirs))[0] == 404
        assert (await http.ask("DELETE", acp_connection_id=connection))[0] == 202


def _two(http: Http, name: str, value: str) -> bytes:
    return http.request("POST", INITIALIZE).replace(b"\r\n\r\n", f"\r\n{name}: {value}\r\n\r\n".encode(), 1)


TRICKS: dict[str, Callable[[Http], bytes]] = {
    "two hosts": lambda http: _two(http, "Host", "evil.example"),
    "two tokens": lambda http: _two(http, "Authorization", "Bearer x"),
    "two lengths": lambda http: _two(http, "Content-Length", "3"),
    "length and chunks": lambda http: _two(http, "Transfer-Encoding", "chunked"),
    "other encoding": lambda http: http.request("POST", content_length="", transfer_encoding="gzip, chunked"),
    "whole URL": lambda http: http.request("POST", INITIALIZE, path=f"http://127.0.0.1:{http.port}/acp"),
    "dots": lambda http: http.request("GET", path="/acp/%2e%2e/x"),
    "old HTTP": lambda http: http.request("POST", INITIALIZE).replace(b"HTTP/1.1", b"HTTP/1.0", 1),
    "upgrade by POST": lambda http: http.request("POST", **HANDSHAKE),
    "upgrade with a body": lambda http: http.request("GET", b"hello", **{**HANDSHAKE, "content_length": "5"}),
    "other upgrade": lambda http: http.request("GET", **{**HANDSHAKE, "upgrade": "h2c"}),
    "HEAD": lambda http: http.request("HEAD"),
    "PUT": lambda http: http.request("PUT"),
    "TRACE": lambda http: http.request("TRACE"),
    "other path": lambda http: http.request("GET", path="/"),
    "wants no events": lambda http: http.request("GET", accept="text/html"),
    "huge head": lambda http: http.request("GET", x="a" * 50_000),
}


@pytest.mark.parametrize("make", TRICKS.values(), ids=list(TRICKS))
async def test_tricks_are_refused_and_the_socket_is_closed(make: Any) -> None:
    async with served() as http:
        status, _, rest = await http.send(make(http), until_end=True)
        assert 400 <= status < 600
        assert rest.count(b"HTTP/1.1 ") - rest.count(b"HTTP/1.1 is") == 0, "what followed was read as another request"
        await http.initialize()


async def test_a_refusal_does_not_wait_for_the_body_and_continues_nothing() -> None:
    async with served() as http:
        head = http.request("POST", authorization="", content_length="60000000", expect="100-continue")
        status, headers, _ = await http.send(head, until_end=True)
        assert status in (401, 413)
        assert headers["connection"] == "close"


async def test_a_head_that_never_ends_is_cut_off() -> None:
    from dragoman.transports.remote.server import ServerLimits

    async with served(limits=ServerLimits(header_seconds=0.2)) as http:
        status, _, _ = await http.send(b"GET /acp HTTP/1.1\r\nHost: ", until_end=True)
        assert status == 408


async def test_a_preflight_is_answered_for_listed_origins_only() -> None:
    page = "https://page.example"
    async with served(rules={"origins": frozenset((page.encode(),))}) as http:
        asked: dict[str, Any] = {"origin": page, "access_control_request_method": "POST", "authorization": ""}
        status, headers, _ = await http.ask("OPTIONS", **asked)
        assert status == 204
        assert headers["access-control-allow-origin"] == page
        assert (await http.ask("OPTIONS", **{**asked, "origin": "https://evil.example"}))[0] == 403
        status, headers, _ = await http.ask("POST", INITIALIZE, origin=page)
        assert (status, headers["access-control-allow-origin"]) == (200, page)


async def test_a_bomb_of_nested_json_is_answered_at_once() -> None:
    async with served() as http:
        async with asyncio.timeout(30):
            status, _, _ = await http.ask("POST", b"[" * 1_000_000)
        assert status == 400
        await http.initialize()


async def test_more_connections_than_a_principal_may_have_are_refused() -> None:
    from dragoman.transports.remote.server import ServerLimits

    async with served(limits=ServerLimits(connections_per_principal=2)) as http:
        first = await http.initialize()
        await http.initialize()
        assert (await http.ask("POST", INITIALIZE))[0] == 429
        assert (await http.ask("POST", INITIALIZE, authorization=f"Bearer {OTHER}"))[0] == 200
        await http.ask("DELETE", acp_connection_id=first)
        await http.initialize()


async def test_a_question_that_is_withdrawn_is_withdrawn_on_its_own_stream() -> None:
    """On the stream of the connection, the withdrawal could overtake the question."""
    opened: asyncio.Future[NewConnection] = asyncio.get_running_loop().create_future()
    async with remote_server(opened.set_result) as (_, port):
        http = Http(port)
        initializing = asyncio.ensure_future(http.initialize())
        transport = (await opened).transport
        transport.start(RawReceiver())
        transport.write(b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}\n')
        connection = await initializing
        own = await events(http, connection, acp_session_id="s")
        asked = {"jsonrpc": "2.0", "id": "q", "method": "session/request_permission", "params": {"sessionId": "s"}}
        taken_back = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": "q"}}
        transport.write(b"%b\n%b\n" % (json.dumps(asked).encode(), json.dumps(taken_back).encode()))
        assert [(await own.next())[1] for _ in range(2)] == [asked, taken_back]
        await http.close_streams()
        transport.close()


class RawReceiver:
    """Drops what comes."""

    def feed(self, data: bytes) -> None:
        pass

    def end(self, reason: ConnectionClosed) -> None:
        pass

    def drained(self) -> None:
        pass


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
async def test_a_small_answer_leaves_a_served_socket_at_once(address: str) -> None:
    """Without TCP_NODELAY a small answer behind another one waits for the acknowledgement of the client, 40 ms."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if ":" in address and not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    accepted: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    class Asked(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            served: socket.socket = transport.get_extra_info("socket")
            accepted.set_result(bool(served.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)))
            transport.close()

    try:
        sock = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip("this machine has no such loopback address")
    listener = PortListener(sock, Asked)
    async with asyncio.timeout(SECONDS):
        _, writer = await asyncio.open_connection(*sock.getsockname()[:2])
        assert await accepted
        writer.close()
        await writer.wait_closed()
        await listener.finish()
