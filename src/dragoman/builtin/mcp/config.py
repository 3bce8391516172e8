"""Reads the MCP servers of a session, sent by the client or configured by the user, into one form.

Owns the reading and the message about an entry that cannot be used. Starts no server and checks no address.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class ServerSpec(Struct, frozen=True):
    """One server: a command to start, or an address to connect to."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    is_sse: bool = False

    @property
    def where(self) -> str:
        """The command, or the address without user name, password and query, for messages."""
        if self.command:
            return self.command[0]
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Problem(Struct, frozen=True):
    """An entry that cannot be used, and why."""

    name: str
    why: str


class _Entry(Struct):
    """A server as most programs write it in their configuration, with its name as the key."""

    command: str | list[str] = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    type: str | None = None
    transport: str | None = None
    enabled: bool = True
    disabled: bool = False


def read_servers(
    sent: Sequence[v1.McpServer], configured: Mapping[str, Any]
) -> tuple[tuple[ServerSpec, ...], tuple[Problem, ...]]:
    """Return the servers of a session. One that the client sent replaces a configured one of the same name."""
    found: list[ServerSpec | Problem | None] = [_sent(server) for server in sent]
    names = {each.name for each in found if each is not None}
    found += [_configured(name, entry) for name, entry in configured.items() if name not in names]
    specs = tuple(each for each in found if isinstance(each, ServerSpec))
    return specs, tuple(each for each in found if isinstance(each, Problem))


def _sent(server: v1.McpServer) -> ServerSpec | Problem:
    if isinstance(server, v1.McpServerStdio):
        env = {variable.name: variable.value for variable in server.env}
        return ServerSpec(server.name, (server.command, *server.args), env)
    if isinstance(server, (v1.McpServerHttp, v1.McpServerSse)):
        headers = {header.name: header.value for header in server.headers}
        return ServerSpec(server.name, url=server.url, headers=headers, is_sse=isinstance(server, v1.McpServerSse))
    name = server.name if isinstance(server, v1.McpServerAcp) else "of an unknown kind"
    return Problem(name, "the client sent a kind of server that this agent cannot reach; send it as stdio, http or sse")


def _configured(name: str, entry: Any) -> ServerSpec | Problem | None:
    """Return None for a server that is switched off."""
    try:
        read = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        return Problem(name, f"its configuration cannot be read: {error}; correct it")
    if read.disabled or not read.enabled:
        return None
    kind = read.type or read.transport or ("stdio" if read.command else "http")
    if kind == "stdio" and read.command:
        words = (read.command,) if isinstance(read.command, str) else tuple(read.command)
        return ServerSpec(name, (*words, *read.args), read.env, read.cwd)
    if kind in ("http", "streamable-http", "streamable_http", "sse") and read.url:
        return ServerSpec(name, url=read.url, headers=read.headers, is_sse=kind == "sse")
    return Problem(name, "its configuration has neither a command nor a url that fits its type; add one")
