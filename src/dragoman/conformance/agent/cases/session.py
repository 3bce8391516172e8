"""Opening a session: ids, the folder it works in, MCP servers, and what comes first."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import TYPE_CHECKING, Any

from dragoman.conformance.case import Fail, Inconclusive, case
from dragoman.conformance.expect import is_same_path

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.conformance.agent.probe import AgentProbe

_SECRET = "dragoman-check-secret-5f1c"


@case("agent/session/new", rules=(53, 85))
async def new(probe: AgentProbe) -> None:
    """session/new is answered with a session id.

    Sends session/new with an absolute folder and no MCP servers; expects a string as sessionId.
    """
    answer = await probe.call("session/new", probe.session_params())
    if answer.code == -32000:
        raise Inconclusive("the agent wants a login first")
    if answer.is_error:
        raise Fail(f"session/new was answered with {answer}")
    session_id = answer.fields.get("sessionId")
    if not isinstance(session_id, str) or not session_id:
        raise Fail(f"the sessionId is {session_id!r}")


@case("agent/session/unique-ids", rules=(85,))
async def unique_ids(probe: AgentProbe) -> None:
    """Every new session has an id of its own.

    Opens three sessions; expects three ids.
    """
    ids = [await probe.new_session() for _ in range(3)]
    if len(set(ids)) < len(ids):
        raise Fail(f"two sessions have the same id: {ids}")


@case("agent/session/params-missing", rules=(337,), level="SHOULD", provokes=True)
async def params_missing(probe: AgentProbe) -> None:
    """session/new without its folder is refused with -32602.

    Sends session/new without `cwd`, then with a number for it; expects -32602.
    """
    wrong: tuple[dict[str, object], ...] = ({"mcpServers": []}, {"cwd": 5, "mcpServers": []})
    for params in wrong:
        answer = await probe.call("session/new", params)
        if answer.code != -32602:
            raise Fail(f"session/new with the params {params} was answered with {answer}")


@case("agent/session/params-array", rules=(337,), level="SHOULD", provokes=True)
async def params_array(probe: AgentProbe) -> None:
    """params that are an array are refused with -32602.

    Sends session/new with an array as its params; expects -32602.
    """
    answer = await probe.call("session/new", [probe.cwd, []])
    if answer.code not in (-32602, -32600):
        raise Fail(f"session/new with an array as its params was answered with {answer}")


@case("agent/session/null-lists", rules=(100,), level="SHOULD", provokes=True)
async def null_lists(probe: AgentProbe) -> None:
    """A list that is null reads as an empty one.

    Sends session/new with `mcpServers` null; expects a session.
    """
    await _expect_accepted(probe, "null for mcpServers", mcpServers=None)


@case("agent/session/malformed-server", rules=(100, 337), level="SHOULD", provokes=True)
async def malformed_server(probe: AgentProbe) -> None:
    """A malformed MCP server is refused with -32602, not dropped in silence.

    Sends session/new with an MCP server whose command is a number; expects -32602.
    """
    answer = await probe.call("session/new", probe.session_params(mcpServers=[{"name": "broken", "command": 5}]))
    if answer.code != -32602:
        raise Fail(f"a malformed MCP server was answered with {answer}")


@case("agent/session/no-secret-in-error", rules=(345,), level="SHOULD", provokes=True)
async def no_secret_in_error(probe: AgentProbe) -> None:
    """An error does not repeat the secrets of the request it is about.

    Sends session/new with a secret in the environment of a malformed MCP server; expects an error without it.
    """
    env = [{"name": "TOKEN", "value": _SECRET}]
    server = {"name": "broken", "command": 5, "args": [], "env": env}
    mark = probe.mark
    answer = await probe.call("session/new", probe.session_params(mcpServers=[server]))
    if not answer.is_error:
        raise Inconclusive("a malformed MCP server was accepted, so there is nothing to look at")
    if any(_SECRET.encode() in message.line for message in probe.since(mark)):
        raise Fail("the error repeats the value of an environment variable")


@case("agent/session/response-first", rules=(102,), level="SHOULD")
async def response_first(probe: AgentProbe) -> None:
    """The first update of a new session is sent after the answer that names the session.

    Opens a session; expects none of its updates before the answer.
    """
    mark = probe.mark
    opened = await probe.open_session()
    await probe.settle()
    early = [
        message
        for message in probe.since(mark)
        if message.index < opened.index and message.params.get("sessionId") == opened.fields["sessionId"]
    ]
    if early:
        raise Fail(f"an update came before the answer that names its session: {early[0]}")


@case("agent/session/folder", rules=(88, 89, 90))
async def folder(probe: AgentProbe) -> None:
    """Relative paths belong to the session's cwd, wherever the agent was started.

    Opens a session in a new folder and leads the agent to write a file by its bare name; expects it there.
    """
    await _write_relative(probe, probe.folder, "made-in-folder.txt")


@case("agent/session/folder-of-each", rules=(88, 89))
async def folder_of_each(probe: AgentProbe) -> None:
    """Two sessions of one agent work in two folders.

    Opens two sessions in two folders and leads the agent to write a file in each; expects each in its own.
    """
    for name in ("left", "right"):
        there = probe.folder / name
        there.mkdir(exist_ok=True)
        await _write_relative(probe, there, f"made-{name}.txt")


@case("agent/session/command-folder", rules=(88, 90))
async def command_folder(probe: AgentProbe) -> None:
    """Commands run in the session's cwd.

    Opens a session in a new folder and leads the agent to run pwd; expects that folder.
    """
    there = probe.folder / "commands"
    there.mkdir(exist_ok=True)
    probe.services.cwd = str(there)
    turn = await probe.acted("run", await probe.new_session(cwd=str(there)), command="pwd")
    created = turn.sent("terminal/create")
    if not created:
        raise Inconclusive("the agent ran no command in the client's terminal")
    for request in created:
        cwd = request.params.get("cwd")
        if cwd is not None and not is_same_path(cwd, there):
            raise Fail(f"the session's cwd is {there}, the command's is {cwd}")


@case("agent/session/mcp-stdio", rules=(94,))
async def mcp_stdio(probe: AgentProbe) -> None:
    """A stdio MCP server in session/new is accepted.

    Sends session/new with a stdio MCP server; expects a session.
    """
    await _expect_accepted(probe, "a stdio MCP server", mcpServers=[_server(probe.folder / "mcp-1")])


@case("agent/session/mcp-connected", rules=(97,), level="SHOULD")
async def mcp_connected(probe: AgentProbe) -> None:
    """The agent connects to every MCP server of a session.

    Opens a session with two stdio MCP servers and prompts; expects both servers to receive initialize.
    """
    marks = [probe.folder / "mcp-2", probe.folder / "mcp-3"]
    session_id = await probe.new_session(mcpServers=[_server(mark) for mark in marks])
    await probe.acted("say", session_id)
    for mark in marks:
        if not await _appears(mark, probe.settings.timeout_seconds):
            raise Fail("an MCP server of the session was never contacted")


@case("agent/session/mcp-http", rules=(95,), level="SHOULD")
async def mcp_http(probe: AgentProbe) -> None:
    """MCP servers over HTTP are supported.

    Looks at mcpCapabilities; expects http.
    """
    if not probe.offers("mcpCapabilities.http"):
        raise Fail("the agent does not advertise mcpCapabilities.http")


@case("agent/session/additional-directories", rules=(56, 144, 145), level="SHOULD")
async def additional_directories(probe: AgentProbe) -> None:
    """Additional directories are accepted by an agent that advertises them.

    Sends session/new with an additional directory; expects a session.
    """
    probe.require("sessionCapabilities.additionalDirectories")
    other = probe.folder / "additional"
    other.mkdir(exist_ok=True)
    await _expect_accepted(probe, "an additional directory", additionalDirectories=[str(other)])


@case("agent/session/meta-ignored", rules=(327, 328))
async def meta_ignored(probe: AgentProbe) -> None:
    """Unknown members of _meta do not change the session that is opened.

    Sends session/new with _meta members named like parameters; expects a session as ever.
    """
    meta = {"cwd": "/", "self": 1, "mcp_servers": 5, "mcpServers": 5, "example.com/x": {"y": [None]}}
    await _expect_accepted(probe, "_meta", _meta=meta)


async def _expect_accepted(probe: AgentProbe, what: str, **changes: object) -> None:
    """Expect that session/new with these changes succeeds, or needs a login first."""
    answer = await probe.call("session/new", probe.session_params(**changes))
    if answer.is_error and answer.code != -32000:
        raise Fail(f"session/new with {what} was answered with {answer}")


async def _write_relative(probe: AgentProbe, there: Path, name: str) -> None:
    turn = await probe.act("write", await probe.new_session(cwd=str(there)), file=name)
    await turn.end()
    for path in (request.params.get("path") for request in turn.sent("fs/write_text_file")):
        if os.path.basename(str(path)) == name and not is_same_path(path, there / name):
            raise Fail(f"{name} of a session in {there} was written as {path}")
    if not (there / name).exists():
        raise Inconclusive(f"the agent did not write {name}")


def _server(mark: Path) -> dict[str, Any]:
    mark.unlink(missing_ok=True)
    args = ["-P", "-m", "dragoman.conformance.agent.mcp_stub", str(mark)]
    # An agent may pass its server no more environment than it was given.
    env = [{"name": "PYTHONPATH", "value": os.pathsep.join(path for path in sys.path if path)}]
    return {"name": mark.name, "command": sys.executable, "args": args, "env": env}


async def _appears(mark: Path, patience: float) -> bool:
    """Poll for a file, because it is written by a process that only the agent knows."""
    for _ in range(int(patience / 0.05) + 1):
        if _exists(mark):
            return True
        await asyncio.sleep(0.05)
    return False


def _exists(mark: Path) -> bool:
    return mark.exists()
