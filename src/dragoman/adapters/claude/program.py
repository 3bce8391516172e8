"""Where the program `claude` is, and the command line that starts it for one session.

Owns its options, and the file that passes the client's MCP servers: a command line can be read by every user of the
machine, and servers come with keys.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.adapters.values import AdapterError
from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_STREAM: Final = (
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
)
# Where its installers put it. An editor that was started from a desktop has not the search path of a shell.
_PLACES: Final = ("~/.local/bin/claude", "~/.claude/local/claude")
# These run every tool without asking the program that started them.
_NEVER_ASKS: Final = ("2.1.73", "2.1.74")


class ClaudeStart(Struct, frozen=True):
    """How a session is started: a new one, one that goes on, or a copy of another."""

    session_id: str
    source_id: str | None = None
    """The session to continue; another one than `session_id` is copied."""

    @property
    def words(self) -> list[str]:
        if self.source_id is None:
            return ["--session-id", self.session_id]
        if self.source_id == self.session_id:
            return ["--resume", self.session_id]
        return ["--resume", self.source_id, "--fork-session", "--session-id", self.session_id]


def find_program(program: str | os.PathLike[str] | None) -> str:
    """Return the program's path. Raises: AdapterError if it is not installed."""
    wanted = "claude" if program is None else os.fspath(program)
    found = shutil.which(os.path.expanduser(wanted))
    if found is None and program is None:
        found = next((path for place in _PLACES if (path := shutil.which(os.path.expanduser(place)))), None)
    if found is None:
        raise AdapterError(
            f"Claude Code is not installed: there is no program {wanted!r}. Install it with "
            "`npm install -g @anthropic-ai/claude-code`, or correct PATH, then run `claude` once to log in"
        )
    return os.path.abspath(found)


def command_line(
    program: str, start: ClaudeStart, *, roots: Sequence[str], arguments: Sequence[str], mcp_config: str | None
) -> list[str]:
    """Return the command that starts the program for a session. `roots` are the session's folders, its own first."""
    words = [program, *_STREAM, *start.words]
    for root in roots[1:]:
        words += ["--add-dir", root]
    if mcp_config is not None:
        words += ["--mcp-config", mcp_config]
    return [*words, *arguments]


def write_mcp_config(servers: Sequence[v1.McpServer]) -> str | None:
    """Write the client's MCP servers to a file that only this user can read; None if there are none."""
    known = {name: entry for server in servers for name, entry in _server(server)}
    if not known:
        return None
    fd, path = tempfile.mkstemp(prefix="dragoman-mcp-", suffix=".json")
    with os.fdopen(fd, "wb") as file:
        file.write(msgspec.json.encode({"mcpServers": known}))
    return path


def remove_mcp_config(path: str | None) -> None:
    if path is not None:
        with suppress(OSError):
            Path(path).unlink()


def check_version(version: Any) -> None:
    """Raises: AdapterError for a version that would run tools without permission."""
    if version in _NEVER_ASKS:
        raise AdapterError(
            f"Claude Code {version} runs tools without asking for permission when another program starts it; "
            "update it with `claude update`"
        )


def _server(server: v1.McpServer) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the name and the settings of a server; none for a kind that Claude does not know."""
    match server:
        case v1.McpServerStdio():
            env = {variable.name: variable.value for variable in server.env or ()}
            yield server.name, {"type": "stdio", "command": server.command, "args": list(server.args or ()), "env": env}
        case v1.McpServerHttp():
            yield server.name, {"type": "http", "url": server.url, "headers": _headers(server.headers)}
        case v1.McpServerSse():
            yield server.name, {"type": "sse", "url": server.url, "headers": _headers(server.headers)}


def _headers(headers: Any) -> dict[str, str]:
    return {header.name: header.value for header in headers or ()}
