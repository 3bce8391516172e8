"""A server of ours on loopback for an agent, and clients of every kind for it."""

from __future__ import annotations

import asyncio
import os
import socket
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

from dragoman.transports.remote.connect import connect_url
from dragoman.transports.remote.gate import GateRules, Principal
from dragoman.transports.remote.server import NewConnection, RemoteServer
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix, connect_unix

if TYPE_CHECKING:
    import ssl

    from dragoman.agent import Agent
    from dragoman.rpc import Transport

TOKEN = "the-token-of-the-tests"
SECONDS = 30.0


class Serving:
    """What an agent serves now, and whether it ended."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.tasks: list[asyncio.Task[None]] = []
        self.opened: list[Any] = []

    def __call__(self, opened: NewConnection | UnixTransport) -> None:
        self.opened.append(opened)
        transport = opened.transport if isinstance(opened, NewConnection) else opened
        self.tasks.append(asyncio.get_running_loop().create_task(self._agent.serve(transport)))

    async def over(self) -> None:
        async with asyncio.timeout(SECONDS):
            for task in self.tasks:
                await task


@asynccontextmanager
async def remote_server(
    opened: Callable[[NewConnection], None],
    principals: dict[str, Principal] | None = None,
    *,
    tls: ssl.SSLContext | None = None,
    **options: Any,
) -> AsyncIterator[tuple[RemoteServer, int]]:
    """A server, and its port."""
    sock = socket.create_server(("127.0.0.1", 0))
    port = sock.getsockname()[1]
    known = {TOKEN: Principal("tests")} if principals is None else principals
    rules = {
        "hosts": {b"127.0.0.1:%d" % port},
        "find_principal": known.get,
        **options.pop("rules", {}),
    }
    server = RemoteServer(opened, GateRules(**rules), **options)
    await server.listen(sock, ssl=tls)
    try:
        yield server, port
    finally:
        async with asyncio.timeout(SECONDS):
            await server.close()


@asynccontextmanager
async def over_network(
    agent: Agent, scheme: str, *, tls: ssl.SSLContext | None = None, authority: str | None = None
) -> AsyncIterator[Transport]:
    serving = Serving(agent)
    async with remote_server(serving, tls=tls) as (_, port):
        transport = await connect_url(f"{scheme}://127.0.0.1:{port}/acp", token=TOKEN, tls=authority)
        yield transport
        transport.close()
        await transport.wait_closed()
        await serving.over()


@asynccontextmanager
async def over_unix(agent: Agent) -> AsyncIterator[Transport]:
    serving = Serving(agent)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "socket")
        server = UnixServer(bind_unix(path), serving)
        transport = await connect_unix(path)
        yield transport
        transport.close()
        await transport.wait_closed()
        await serving.over()
        server.close()


class Http:
    """A client that sends exactly the bytes a test gives it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: list[asyncio.StreamWriter] = []

    async def close_streams(self) -> None:
        for writer in self.streams:
            writer.transport.abort()
            with suppress(OSError):
                await writer.wait_closed()

    async def send(self, data: bytes, *, until_end: bool = False) -> tuple[int, dict[str, str], bytes]:
        """Send bytes on a socket of their own; gives status, headers and body of the first answer.

        Args:
            until_end: Read until the server closes; the body is then everything behind the head.
        """
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        try:
            writer.write(data)
            async with asyncio.timeout(SECONDS):
                return await _answer(reader, until_end=until_end)
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()

    async def ask(
        self, method: str, body: bytes = b"", *, path: str = "/acp", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        return await self.send(self.request(method, body, path=path, **headers))

    def request(self, method: str, body: bytes = b"", *, path: str = "/acp", **headers: str) -> bytes:
        """A request that is right unless a header says otherwise; an empty value leaves one out."""
        sent = {
            "host": f"127.0.0.1:{self.port}",
            "authorization": f"Bearer {TOKEN}",
            "accept": "text/event-stream",
            "content-type": "application/json",
            "content-length": str(len(body)),
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        head = "".join(f"{name}: {value}\r\n" for name, value in sent.items() if value)
        return f"{method} {path} HTTP/1.1\r\n{head}\r\n".encode() + body

    async def initialize(self, **headers: str) -> str:
        """The id of a new connection."""
        status, found, body = await self.ask("POST", INITIALIZE, **headers)
        assert status == 200, body
        assert b'"protocolVersion":1' in body
        return found["acp-connection-id"]


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}'


async def _answer(reader: asyncio.StreamReader, *, until_end: bool) -> tuple[int, dict[str, str], bytes]:
    head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if until_end:
        return int(first.split()[1]), headers, await reader.read()
    return int(first.split()[1]), headers, await reader.readexactly(int(headers.get("content-length", "0")))


class CutProxy:
    """Between a client and a server: passes bytes, and cuts connections when it is told to."""

    def __init__(self, server: RemoteServer, port: int) -> None:
        self._server_behind = server
        self._port = port
        self._pairs: set[tuple[asyncio.StreamWriter, asyncio.StreamWriter]] = set()
        self._server: asyncio.Server
        self._frozen: set[asyncio.StreamWriter] = set()
        self.port = 0
        self.cuts = 0

    async def __aenter__(self) -> CutProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        hosts = self._server_behind.rules.hosts
        assert isinstance(hosts, set)
        hosts.add(b"127.0.0.1:%d" % self.port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        """Break every connection, with what is on its way."""
        for one, other in self._pairs:
            self.cuts += 1
            one.transport.abort()
            other.transport.abort()

    def freeze(self) -> None:
        """Pass nothing more on the connections that are open now, as a machine does that lost its network."""
        self._frozen.update(writer for pair in self._pairs for writer in pair)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there_reader, there_writer = await asyncio.open_connection("127.0.0.1", self._port)
        pair = (writer, there_writer)
        self._pairs.add(pair)
        await asyncio.wait(
            [
                asyncio.ensure_future(self._pass_on(reader, there_writer)),
                asyncio.ensure_future(self._pass_on(there_reader, writer)),
            ]
        )
        self._pairs.discard(pair)
        for each in pair:
            each.transport.abort()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                if writer not in self._frozen:
                    writer.write(data)
                    await writer.drain()
        except OSError:
            pass
        finally:
            if writer not in self._frozen:
                writer.close()
