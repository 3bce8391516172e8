"""The connection of a run: the agent, the services it gets (files, terminals, permission, forms) and its session.

A service is offered only if it can be used: without a user at a terminal there are no forms, and a quirk of an agent
may withhold a service that the agent cannot handle. Does not depend on the output form.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import console
from dragoman.cli.exec import result as results
from dragoman.cli.exec.permission import RunPermissions, mode_rules
from dragoman.cli.exec.rules import remember_rule
from dragoman.cli.exec.violations import ViolationWatch
from dragoman.cli.exits import CliError
from dragoman.cli.named_agent import is_built_in
from dragoman.client.connect import connect
from dragoman.client.files import WorkspaceFiles, open_workspace
from dragoman.client.terminals import LocalTerminals
from dragoman.errors import METHOD_NOT_FOUND, RequestError
from dragoman.process.child import Child
from dragoman.schema import is_advertised, v1
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.cli.exec.output import Output
    from dragoman.cli.exec.request import RunRequest
    from dragoman.cli.prompt.user import UserPrompt
    from dragoman.client import RemoteAgent, Session
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.policy import Rule
    from dragoman.process.launch import Launched
    from dragoman.rpc import Observer
    from dragoman.state.turns import TurnState
    from dragoman.text.secrets import Secrets
    from dragoman.workspace import Workspace

# A history is replayed from a file; in the recordings that takes less than a tenth of a second.
HISTORY_SECONDS: Final = 5.0


class RunConnection:
    """The agent of a run, its session and the services it uses."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.agent: RemoteAgent | None = None
        self.session: Session | None = None
        self.is_resumed = request.options.resume is not None
        self.is_scripted = request.entry.is_scripted
        self.permissions: RunPermissions
        self.violations: ViolationWatch
        self.workspaces: list[Workspace] = []
        self.terminals: LocalTerminals | None = None
        self.models: LegacyModels | None = None
        self.transport: ProcessTransport
        self.statuses: dict[str, str] = {}
        """The status of each tool call, as the agent reported it."""

    def note(self, update: v1.SessionUpdate) -> None:
        """Record the reported status of a tool call: the session state marks open calls as failed when a turn ends."""
        if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            known = self.statuses.get(update.tool_call_id, "pending")
            self.statuses[update.tool_call_id] = update.status or known

    def note_end(self, response: v1.PromptResponse) -> None:
        """Record whether a script produced the answer; the built-in agent reports this with each response."""
        self.is_scripted = self.is_scripted or _is_marked_scripted(response.meta)

    def described(self) -> results.RunAgent:
        """Describe the agent for the result."""
        return describe_agent(self.request, self.agent)

    def files_changed(self, turn: TurnState | None) -> list[results.FileChange]:
        """Return the files that differ from before the turn."""
        if self.session is None:
            return []
        changes = [change for workspace in self.workspaces for change in workspace.journal.net()]
        return results.files_changed(changes, self.session.state, turn)

    def open_workspace(self, session: Session) -> Workspace:
        """Open the files of a session; called when the agent first uses one."""
        workspace = open_workspace(session)
        self.workspaces.append(workspace)
        return workspace


def describe_agent(request: RunRequest, agent: RemoteAgent | None = None) -> results.RunAgent:
    info = None if agent is None else agent.info
    return results.RunAgent(
        name=None if request.entry.source == "command" else request.entry.name,
        command=list(request.entry.command),
        title=None if info is None else info.title or info.name,
        version=None if info is None else info.version,
    )


@asynccontextmanager
async def connect_agent(conn: RunConnection, program: Launched, output: Output) -> AsyncIterator[RemoteAgent]:
    """Yield the initialized agent; on exit, the agent and all processes it started have ended.

    Raises:
        ConnectionClosed: the agent ended before it answered.
    """
    entry, options = conn.request.entry, conn.request.options
    services = _services(conn, output)
    observers = _observers(conn, output)
    on_stderr = partial(_write_through, output.secrets) if options.is_verbose else None
    conn.transport = ProcessTransport(Child(program, spare=entry.quirks.spare, on_stderr=on_stderr))
    try:
        async with connect(conn.transport, observers=observers, **services) as agent:
            conn.agent = agent
            conn.is_scripted = conn.is_scripted or _is_marked_scripted(agent.capabilities.meta)
            yield agent
    finally:
        if conn.terminals is not None:
            await conn.terminals.close()


async def open_session(agent: RemoteAgent, request: RunRequest) -> Session:
    """Open a new session, or the one to resume.

    Raises:
        CliError: the agent cannot resume, or has no session to resume.
        RequestError: the agent refuses.
    """
    options = request.options
    given: dict[str, Any] = {"mcp_servers": request.servers, "additional_directories": options.directories}
    if options.resume is None:
        return await agent.new_session(options.cwd, **given)
    session_id = await _last_session(agent, options.cwd) if options.resume == "last" else options.resume
    return await _reopen(agent, session_id, request, given)


async def _reopen(agent: RemoteAgent, session_id: str, request: RunRequest, given: dict[str, Any]) -> Session:
    """Reopen a session, without its history if the agent can: the history is not shown."""
    cwd = request.options.cwd
    can_load = is_advertised(agent.capabilities, "loadSession")
    if is_advertised(agent.capabilities, "sessionCapabilities.resume"):
        try:
            return await agent.resume_session(session_id, cwd, **given)
        except RequestError as error:  # one real agent offers it and does not have it
            if error.code != METHOD_NOT_FOUND or not can_load:
                raise
    if not can_load:
        raise CliError("--resume: this agent can neither resume nor load a session", hint="leave --resume out")
    session = await agent.load_session(session_id, cwd, **given)
    if request.entry.quirks.replays_late:
        await _end_of_history(session)
    return session


async def _end_of_history(session: Session) -> None:
    """Wait until the agent has sent its commands, which it does after the history."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HISTORY_SECONDS):
            if not session.state.commands:
                async for received in session.updates():
                    if isinstance(received.update, v1.AvailableCommandsUpdate):
                        return


async def _last_session(agent: RemoteAgent, cwd: str) -> str:
    if not is_advertised(agent.capabilities, "sessionCapabilities.list"):
        raise CliError("--resume last: this agent does not list its sessions", hint="name the session: --resume ID")
    # Some agents list all sessions, whatever folder they are asked for.
    found = [info async for info in agent.sessions(cwd=cwd) if _is_same_folder(info.cwd, cwd)]
    if not found:
        raise CliError(f"--resume last: this agent has no session in {cwd}", hint="leave --resume out for a new one")
    # Agents list the newest first; if they report times, the latest time decides.
    return max(found, key=lambda info: info.updated_at or "").session_id


def _is_same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _services(conn: RunConnection, output: Output) -> dict[str, Any]:
    entry, request = conn.request.entry, conn.request
    user = _user_prompt(entry.name, output)
    built_in, allows_all = is_built_in(entry), request.options.allows_all

    def rules() -> list[Rule]:
        return [*request.rules, *mode_rules(conn.session, request.options.roots)] if built_in else request.rules

    conn.permissions = permissions = RunPermissions(
        rules,
        agent=entry.name,
        asker=user,
        # An "always" that no user chose must not outlive the run.
        remember=None if allows_all else lambda text, action, _: remember_rule(request.project, text, action),
        on_decision=output.decided,
        root=request.project,
        reads_reasons=lambda: conn.agent is not None and _own_meta(conn.agent.capabilities.meta) is not None,
        allows_all=allows_all,
    )
    conn.violations = ViolationWatch(permissions, request.project)
    files = WorkspaceFiles(
        permissions=permissions, missing=entry.quirks.missing_file, open_workspace=conn.open_workspace
    )
    if "terminal" not in entry.quirks.withhold:
        conn.terminals = LocalTerminals(
            permissions=permissions, on_output=lambda terminal_id, _, data: output.terminal_output(terminal_id, data)
        )
        if output.progress is not None:
            output.progress.look = conn.terminals.look
    return {
        "permission": permissions.permission,
        "files": _withhold(files, entry.quirks.withhold),
        "terminals": conn.terminals,
        "elicitation": user,
    }


def _user_prompt(agent: str, output: Output) -> UserPrompt | None:
    if not sys.stderr.isatty():  # spares the import
        return None
    from dragoman.cli.prompt.user import UserPrompt

    if not UserPrompt.is_available():
        return None
    return UserPrompt(agent=agent, colour=console.uses_colour(sys.stderr), progress=output.progress)


class _ReadsOnly:
    def __init__(self, files: WorkspaceFiles) -> None:
        self.read_text_file = files.read_text_file


class _WritesOnly:
    def __init__(self, files: WorkspaceFiles) -> None:
        self.write_text_file = files.write_text_file


def _withhold(files: WorkspaceFiles, withheld: frozenset[str]) -> object:
    match "fs.readTextFile" in withheld, "fs.writeTextFile" in withheld:
        case (True, True):
            return None
        case (True, False):
            return _WritesOnly(files)
        case (False, True):
            return _ReadsOnly(files)
        case _:
            return files


def _observers(conn: RunConnection, output: Output) -> list[Observer]:
    observers, options = output.frames(), conn.request.options
    if options.model is not None:
        from dragoman.client.legacy_models import LegacyModels

        conn.models = LegacyModels()
        observers.append(conn.models)
    if conn.request.recorder is not None:
        observers.append(conn.request.recorder)
    return observers


def _is_marked_scripted(meta: object) -> bool:
    own = _own_meta(meta)
    return own is not None and own.get("scripted") is True


def _own_meta(meta: object) -> dict[str, Any] | None:
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return own if isinstance(own, dict) else None


def _write_through(secrets: Secrets, data: bytes) -> None:
    """Show what the agent logs (`--verbose`)."""
    from dragoman.text.terminal import plain

    sys.stderr.write(plain(secrets.mask(data.decode(errors="replace"))))
