"""`--mcp-config FILE`: MCP servers in the form editors and agents share, converted to the protocol's form.

Reads `{"mcpServers": {name: {...}}}`. Whether an agent supports a kind of server is checked by `dragoman.client`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal

from msgspec import Struct, ValidationError, convert, field, json

from dragoman.cli.exits import CliError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping

_HINT = '{"mcpServers": {"NAME": {"command": "...", "args": []}, "OTHER": {"type": "http", "url": "..."}}}'


class _Server(Struct):
    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    url: str = ""
    headers: dict[str, str] = {}
    kind: Literal["stdio", "http", "streamable-http", "sse", ""] = field(default="", name="type")


class _Document(Struct):
    mcp_servers: dict[str, _Server] | None = field(default=None, name="mcpServers")
    servers: dict[str, _Server] | None = None


def read_servers(path: str) -> list[v1.McpServer]:
    """Read the servers in a file.

    Raises:
        CliError: the file cannot be read, or has another form.
    """
    try:
        with open(path, "rb") as file:
            document = json.decode(file.read(), type=_Document)
    except OSError as error:
        raise CliError(f"--mcp-config {path}: {error.strerror}", hint="name a file that can be read") from None
    except (ValidationError, ValueError) as error:
        raise CliError(f"--mcp-config {path}: {error}", hint=f"it should look like {_HINT}") from None
    servers = document.servers if document.mcp_servers is None else document.mcp_servers
    if servers is None:
        raise CliError(f"--mcp-config {path}: no mcpServers in it", hint=f"it should look like {_HINT}")
    for name, server in servers.items():
        if bool(server.command) == bool(server.url):
            raise CliError(f"--mcp-config {path}: {name} needs either a command or a url", hint=f"like {_HINT}")
    return [_server(f"--mcp-config {path}", name, server) for name, server in servers.items()]


def configured_servers(servers: Mapping[str, Mapping[str, Any]]) -> list[v1.McpServer]:
    """Convert the servers of the settings, whose form was checked when they were read.

    Raises:
        CliError: a server has an unknown type, or its program is not installed.
    """
    where = "mcp_servers of the settings"
    try:
        return [_server(where, name, convert(dict(server), _Server)) for name, server in servers.items()]
    except ValidationError as error:
        raise CliError(f"{where}: {error}", hint=f"like {_HINT}") from None


def _server(where: str, name: str, server: _Server) -> v1.McpServer:
    if server.command:
        program = _absolute(where, name, server.command)
        return v1.McpServerStdio(name, program, server.args, _pairs(v1.EnvVariable, server.env))
    headers = _pairs(v1.HttpHeader, server.headers)
    if server.kind == "sse":
        return v1.McpServerSse(name, server.url, headers)
    return v1.McpServerHttp(name, server.url, headers)


def _absolute(where: str, name: str, command: str) -> str:
    """Find the program: the protocol requires its path (rule 98), people write its name."""
    from shutil import which

    found = which(os.path.expanduser(command))
    if found is None:
        raise CliError(
            f"{where}: the program of {name} is not found: {command}", hint="install it, or give its full path"
        )
    return os.path.abspath(found)


def _pairs(kind: Any, values: Mapping[str, str]) -> list[Any]:
    return [kind(name, value) for name, value in values.items()]
