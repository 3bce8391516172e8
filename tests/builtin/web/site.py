"""Fixtures for the web tools: a server on loopback with scripted answers, and a web that leads every name to it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.builtin.web.fetch import Web
from dragoman.policy import parse_rule
from tests.builtin.tools.fixtures import FakeContext

PUBLIC = "93.184.216.34"
Writing = Callable[[asyncio.StreamWriter], Awaitable[None]]
HttpResponse = bytes | Writing


def reply(
    body: str | bytes = b"", status: str = "200 OK", type: str | None = "text/html; charset=utf-8", **headers: str
) -> bytes:
    """A whole answer."""
    data = body.encode() if isinstance(body, str) else body
    lines = {name.replace("_", "-"): value for name, value in headers.items()}
    if type is not None:
        lines["Content-Type"] = type
    lines.setdefault("Content-Length", str(len(data)))
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"HTTP/1.1 {status}\r\n{head}\r\n".encode() + data


def redirect(location: str, status: str = "302 Found") -> bytes:
    return reply(status=status, Location=location)


class Site:
    """Answers by host and path, or by path alone; records its requests."""

    def __init__(self) -> None:
        self.answers: dict[str, HttpResponse] = {}
        self.asked: list[str] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.hung_up = asyncio.Event()
        self.port = 0

    def url(self, path: str = "/") -> str:
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
            self.heads.append(headers)
            self.bodies.append(await reader.readexactly(int(headers.get("content-length", "0"))))
            path = head[0].split(" ")[1]
            self.asked.append(headers["host"] + path)
            bare = path.partition("?")[0]
            host = headers["host"].partition(":")[0]
            answer = self.answers.get(host + bare) or self.answers.get(bare) or reply("nothing here", "404 Not Found")
            if isinstance(answer, bytes):
                writer.write(answer)
                await writer.drain()
            else:
                await answer(writer)
        except (ConnectionError, asyncio.IncompleteReadError):
            self.hung_up.set()
        finally:
            writer.close()


@asynccontextmanager
async def serving(ssl: Any = None) -> AsyncIterator[Site]:
    site = Site()
    server = await asyncio.start_server(site.serve, "127.0.0.1", 0, ssl=ssl)
    site.port = server.sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        server.close()
        await server.wait_closed()


class Names:
    """Addresses by name: one answer for each lookup, the last one for all later lookups."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(found) for name, found in answers.items()}
        self.looked_up: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.looked_up.append(host)
        found = self._answers.get(host, [[PUBLIC]])
        return found.pop(0) if len(found) > 1 else found[0]


class Wires:
    """Connects every address to the site, and records the addresses."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self.reached: list[tuple[str, int]] = []

    async def __call__(
        self, address: str, port: int, *, tls: Any, name: str
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.reached.append((address, port))
        options = {} if tls is None else {"ssl": tls, "server_hostname": name}
        return await asyncio.open_connection("127.0.0.1", self._site.port, **options)


class WebContext(FakeContext):
    """The context of a call with these permission rules."""

    def __init__(self, folder: Path, *allowed: str, deny: Sequence[str] = (), ask: Sequence[str] = ()) -> None:
        super().__init__(folder)
        for action, texts in (("allow", allowed), ("deny", deny), ("ask", ask)):
            self.rules += [parse_rule(text, action, "project") for text in texts]

    async def use(self, tool: Any, **arguments: Any) -> ToolOutput:
        """Run a tool that has permission."""
        output = await tool.run(tool.arguments(**arguments), self)
        assert isinstance(output, ToolOutput)
        return output

    async def why_not(self, tool: Any, **arguments: Any) -> str:
        try:
            output = await self.use(tool, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"it gave {output.text!r} instead of refusing")


def pretended(site: Site, names: Names | None = None, **options: Any) -> tuple[Web, Names, Wires]:
    """Return a web in which every name is a public host served by this site."""
    names, wires = names or Names(), Wires(site)
    return Web(resolve=names, connect=wires, **options), names, wires


def env(**variables: str) -> Mapping[str, str]:
    return variables
