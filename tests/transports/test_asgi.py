"""The ASGI application in a real server: the same gate and the same wire as our own server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from dragoman.agent import Agent, Turn
from dragoman.client import Session, connect
from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.host.host import Host, Visitor
from dragoman.schema import v1
from dragoman.transports.remote.connect import connect_url
from dragoman.transports.remote.gate import Entered, GateRefusal, Principal
from dragoman.transports.remote.server import NewConnection, ServerLimits
from tests.host.kit import InProcess, make_log
from tests.transports.asgi_kit import application, uvicorn_server
from tests.transports.remote_kit import INITIALIZE, TOKEN, Http, Serving
from tests.transports.test_remote_wire import (
    BAD_POSTS,
    ENTRIES,
    HANDSHAKE,
    OTHER,
    TRICKS,
    events,
    make_agent,
    message,
    new_session,
)

both = pytest.mark.parametrize("scheme", ["http", "ws"])


@asynccontextmanager
async def served(**options: Any) -> AsyncIterator[Http]:
    serving = Serving(make_agent())
    principals = {TOKEN: Principal("tests"), OTHER: Principal("another")}
    async with uvicorn_server(lambda port: application(serving, port, principals, **options)) as port:
        http = Http(port)
        try:
            yield http
        finally:
            await http.close_streams()
    await serving.over()


async def allow(request: v1.RequestPermissionRequest, session: Session) -> str:
    return "yes"


@both
async def test_a_client_of_ours_has_turns_questions_and_loads(scheme: str) -> None:
    async with served() as http:
        transport = await connect_url(f"{scheme}://127.0.0.1:{http.port}/acp", token=TOKEN)
        async with connect(transport, permission=allow) as remote:
            session = await remote.new_session("/tmp")
            await session.prompt("ask")
            assert session.state.text == "hello"
            loaded = await remote.load_session("old", "/tmp")
            assert loaded.state.messages[-1].text.split() == [str(number) for number in range(500)]


@both
async def test_an_agent_makes_its_own_application(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async with uvicorn_server(lambda port: make_agent().asgi(hosts=[f"127.0.0.1:{port}"], token="t")) as port:
        async with connect(await connect_url(f"{scheme}://127.0.0.1:{port}", token="t")) as remote:
            session = await remote.new_session("/tmp")
            await session.prompt("hi")
            assert session.state.text == "hello"
        with pytest.raises(ConnectionClosed, match="401"):
            async with connect(await connect_url(f"{scheme}://127.0.0.1:{port}", token="wrong")):
                raise AssertionError("it was let in")
    monkeypatch.delenv("DRAGOMAN_TOKEN", raising=False)
    with pytest.raises(ConfigError, match="needs a token"):
        make_agent().asgi(hosts=["a"])
    with pytest.raises(ConfigError, match="hosts="):
        make_agent().asgi(hosts=[], token="t")


@both
async def test_it_can_be_mounted_in_another_application(scheme: str) -> None:
    serving = Serving(make_agent())

    def make(port: int) -> Starlette:
        return Starlette(routes=[Mount("/agents", app=application(serving, port))])

    async with uvicorn_server(make) as port:
        for path in ("agents/", "agents/acp"):
            async with connect(await connect_url(f"{scheme}://127.0.0.1:{port}/{path}", token=TOKEN)) as remote:
                await remote.new_session("/tmp")
    await serving.over()


@both
async def test_a_host_is_served_like_an_agent(scheme: str) -> None:
    source = InProcess(make_agent)
    host = Host(make_log(), [source])
    serving: set[asyncio.Task[None]] = set()

    def opened(connection: NewConnection) -> None:
        visitor = Visitor(connection.principal.name, connection.principal.rights)
        serving.add(asyncio.get_running_loop().create_task(host.serve(connection.transport, visitor)))

    async with uvicorn_server(lambda port: application(opened, port)) as port:
        async with connect(await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN)) as remote:
            session = await remote.new_session("/tmp")
            await session.prompt("hi")
            assert session.state.text == "hello"
        async with connect(await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN)) as remote:
            again = await remote.load_session(session.id, "/tmp")
            assert again.state.messages[-1].text == "hello"
        await host.close()
        for task in serving:
            await task


async def test_strangers_are_refused_on_every_way_in() -> None:
    async with served() as http:
        connection = await http.initialize()
        for headers, status in ENTRIES.values():
            for verb, body, more in (
                ("POST", INITIALIZE, {}),
                ("GET", b"", {"acp_connection_id": connection}),
                ("DELETE", b"", {"acp_connection_id": connection}),
                ("GET", b"", HANDSHAKE),
            ):
                found, _, why = await http.send(http.request(verb, body, **{**more, **headers}))
                assert found == status, (verb, headers, why)
                assert TOKEN.encode() not in why


async def test_tricks_are_refused() -> None:
    """But for two that never get here: this ASGI server closes an upgrade with a body, and takes HTTP/1.0."""
    async with served() as http:
        for name in TRICKS.keys() - {"upgrade with a body", "old HTTP"}:
            status, _, rest = await http.send(TRICKS[name](http), until_end=True)
            assert 400 <= status < 600, name
            assert rest.count(b"HTTP/1.1 ") == 0, f"{name}: what followed was read as another request"
        await http.initialize()


async def test_bad_posts_get_their_status_and_a_sentence() -> None:
    async with served() as http:
        for body, headers, status, why in BAD_POSTS.values():
            found, _, said = await http.ask("POST", body, **headers)
            assert found == status
            assert why in said


async def test_a_body_that_never_ends_is_cut_off() -> None:
    async with served(limits=ServerLimits(body_seconds=0.2)) as http:
        status, _, _ = await http.send(http.request("POST", b"{", content_length="99"), until_end=True)
        assert status == 408


async def test_the_stream_is_numbered_and_goes_on_behind_the_last_event() -> None:
    async with served() as http:
        connection = await http.initialize()
        own = await events(http, connection, acp_session_id="old", dragoman_client="1")
        load = message("session/load", sessionId="old", cwd="/tmp", mcpServers=[])
        assert (await http.ask("POST", load, acp_connection_id=connection, acp_session_id="old"))[0] == 202
        numbers = [(await own.next())[0] for _ in range(10)]
        own.close()
        again = await events(http, connection, acp_session_id="old", dragoman_client="1", last_event_id="10")
        numbers += [(await again.next())[0] for _ in range(491)]
        assert numbers == [str(number) for number in range(1, 502)]
        assert (await http.ask("GET", acp_connection_id=connection, last_event_id="99"))[0] == 410
        assert (await http.ask("GET", acp_connection_id="x"))[0] == 404


async def test_a_second_receiver_and_another_principal_are_refused() -> None:
    async with served() as http:
        connection = await http.initialize()
        stream = await events(http, connection)
        assert (await http.ask("GET", acp_connection_id=connection))[0] == 409
        theirs: dict[str, Any] = {"authorization": f"Bearer {OTHER}", "acp_connection_id": connection}
        assert (await http.ask("POST", message("session/list"), **theirs))[0] == 404
        await new_session(http, connection, stream)
        assert (await http.ask("DELETE", acp_connection_id=connection))[0] == 202
        assert (await http.ask("DELETE", acp_connection_id=connection))[0] == 404


@pytest.mark.parametrize("fails", [False, True])
async def test_a_stream_of_a_session_that_the_application_does_not_admit_is_refused(fails: bool) -> None:
    async def admit(entered: Entered, session: str) -> GateRefusal | None:
        if fails:
            raise RuntimeError("the password is swordfish")
        return GateRefusal(404, "There is no such session.") if session == "theirs" else None

    async with served(rules={"admit_stream": admit}) as http:
        connection = await http.initialize()
        status, _, body = await http.ask("GET", acp_connection_id=connection, acp_session_id="theirs")
        assert status == (500 if fails else 404)
        assert b"swordfish" not in body
        if not fails:
            await events(http, connection, acp_session_id="ours")


async def test_a_request_that_cannot_be_decided_yet_is_examined_once_more() -> None:
    ready, asked = asyncio.Event(), 0

    def find(token: str) -> Principal | GateRefusal:
        nonlocal asked
        asked += 1
        ready.set()
        return Principal("tests") if asked == 2 else GateRefusal(401, "Not yet.", again=asyncio.ensure_future(wait()))

    async def wait() -> None:
        await ready.wait()

    async with served(rules={"find_principal": find}) as http:
        assert (await http.ask("POST", INITIALIZE))[0] == 200
        assert (asked, (await http.ask("POST", INITIALIZE))[0]) == (2, 401)  # twice, and no more
        assert asked == 4


async def test_a_silent_stream_is_kept_alive() -> None:
    async with served(limits=ServerLimits(keep_alive_seconds=0.02)) as http:
        connection = await http.initialize()
        reader, writer = await asyncio.open_connection("127.0.0.1", http.port)
        http.streams.append(writer)
        writer.write(http.request("GET", acp_connection_id=connection, content_type="", content_length=""))
        async with asyncio.timeout(60):
            await reader.readuntil(b"\r\n:\n\n\r\n")
            await reader.readuntil(b"\r\n:\n\n\r\n")


async def test_a_websocket_must_begin_with_initialize() -> None:
    from websockets.asyncio.client import connect as websocket
    from websockets.exceptions import ConnectionClosed as Closed

    head = {"Authorization": f"Bearer {TOKEN}"}
    async with served() as http:
        url = f"ws://127.0.0.1:{http.port}/acp"
        async with websocket(url, additional_headers=head) as line:
            assert line.response is not None
            assert len(line.response.headers["acp-connection-id"]) >= 32
            await line.send("{")
            assert json.loads(await line.recv())["error"]["code"] == -32700
            await line.send("[]")
            assert json.loads(await line.recv())["error"]["code"] == -32600
            await line.send(message("session/list").decode())
            with pytest.raises(Closed) as closed:
                await line.recv()
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1002, "First message must be initialize")
        async with websocket(url, additional_headers=head) as line:
            for wanted in ('"protocolVersion":1', "Initialize not allowed on existing connection"):
                await line.send(INITIALIZE.decode())
                assert wanted in str(await line.recv())
    async with (
        served(limits=ServerLimits(initialize_seconds=0.3)) as http,
        websocket(f"ws://127.0.0.1:{http.port}/acp", additional_headers=head) as line,
    ):
        with pytest.raises(Closed) as closed:
            await line.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


@both
async def test_a_shut_down_ends_open_turns(scheme: str) -> None:
    started = asyncio.Event()
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        started.set()
        await asyncio.Event().wait()

    serving = Serving(agent)
    async with uvicorn_server(lambda port: application(serving, port)) as port:
        transport = await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN, reconnect_seconds=0.1)
        connection = connect(transport)
        remote = await connection.__aenter__()
        session = await remote.new_session("/tmp")
        turn = asyncio.ensure_future(_whole(session))
        await started.wait()
    with pytest.raises(ConnectionClosed):
        await turn
    await connection.__aexit__(None, None, None)
    await serving.over()


async def _whole(session: Session) -> None:
    await session.prompt("wait")
