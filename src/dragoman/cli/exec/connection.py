"""Connects the agent of a run with everything dragoman offers it: files, terminals, consent, a person.

Owns which services an agent gets and the session it works in. A service exists only if it can be used: without a
person there are no forms, and a quirk may withhold what an agent cannot live with. Knows no output form.
"""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import console
from dragoman.cli.exec import result as results
from dragoman.cli.exec.rules import remember_rule
from dragoman.cli.exits import Failure
from dragoman.client.connect import connect
from dragoman.client.files import WorkspaceFiles, open_workspace
from dragoman.client.permission import ClientPermissions
from dragoman.client.terminals import LocalTerminals
from dragoman.errors import METHOD_NOT_FOUND, RequestError
from dragoman.process.child import Child
from dragoman.schema import is_advertised, v1
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.cli.exec.output import Output
    from dragoman.cli.exec.request import Plan
    from dragoman.cli.prompt.person import Person
    from dragoman.client import RemoteAgent, Session
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.process.launch import Launched
    from dragoman.rpc import Observer
    from dragoman.state.turns import TurnState
    from dragoman.workspace import Workspace

# A history is replayed from a file; in the recordings that takes less than a tenth of a second.
HISTORY_SECONDS: Final = 5.0


class Connected:
    """The agent of a run and what it works with."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.agent: RemoteAgent | None = None
        self.session: Session | None = None
        self.is_resumed = plan.options.resume is not None
        self.is_scripted = plan.entry.is_scripted
        self.consent: ClientPermissions
        self.workspaces: list[Workspace] = []
        self.terminals: LocalTerminals | None = None
        self.models: LegacyModels | None = None
        self.transport: ProcessTransport
        self.told: dict[str, str] = {}
        """The status of each tool call, as the agent told it."""

    def note(self, update: v1.SessionUpdate) -> None:
        """Keeps what the state of a session does not."""
        if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            known = self.told.get(update.tool_call_id, "pending")
            self.told[update.tool_call_id] = update.status or known

    def note_end(self, response: v1.PromptResponse) -> None:
        """The built-in agent says with each answer whether a script gave it."""
        self.is_scripted = self.is_scripted or _says_scripted(response.meta)

    def described(self) -> results.Agent:
        """Whom the run talks to."""
        return describe_agent(self.plan, self.agent)

    def files_changed(self, turn: TurnState | None) -> list[results.FileChange]:
        """What is not as it was before."""
        if self.session is None:
            return []
        changes = [change for workspace in self.workspaces for change in workspace.journal.net()]
        return results.files_changed(changes, self.session.state, turn)

    def open_workspace(self, session: Session) -> Workspace:
        """The files of a session, opened when the agent first wants one."""
        workspace = open_workspace(session)
        self.workspaces.append(workspace)
        return workspace


def describe_agent(plan: Plan, agent: RemoteAgent | None = None) -> results.Agent:
    info = None if agent is None else agent.info
    return results.Agent(
        name=None if plan.entry.source == "command" else plan.entry.name,
        command=list(plan.entry.command),
        title=None if info is None else info.title or info.name,
        version=None if info is None else info.version,
    )


@asynccontextmanager
async def connected(to: Connected, program: Launched, output: Output) -> AsyncIterator[RemoteAgent]:
    """The agent, initialized; when this is left, it and all it started are gone.

    Raises:
        ConnectionClosed: it ended before it answered.
    """
    entry, options = to.plan.entry, to.plan.options
    services = _services(to, output)
    observers = _observers(to, output)
    on_stderr = _write_through if options.is_verbose else None
    to.transport = ProcessTransport(Child(program, spare=entry.quirks.spare, on_stderr=on_stderr))
    try:
        async with connect(to.transport, observers=observers, **services) as agent:
            to.agent = agent
            to.is_scripted = to.is_scripted or _says_scripted(agent.capabilities.meta)
            yield agent
    finally:
        if to.terminals is not None:
            await to.terminals.close()


async def open_session(agent: RemoteAgent, plan: Plan) -> Session:
    """The session of the run: a new one, or the one to resume.

    Raises:
        Failure: the agent cannot resume, or has nothing to resume.
        RequestError: it refuses.
    """
    options = plan.options
    given: dict[str, Any] = {"mcp_servers": plan.servers, "additional_directories": options.directories}
    if options.resume is None:
        return await agent.new_session(options.cwd, **given)
    session_id = await _last_session(agent, options.cwd) if options.resume == "last" else options.resume
    return await _reopen(agent, session_id, plan, given)


async def _reopen(agent: RemoteAgent, session_id: str, plan: Plan, given: dict[str, Any]) -> Session:
    """Without its history where the agent can: nobody looks at it."""
    cwd = plan.options.cwd
    can_load = is_advertised(agent.capabilities, "loadSession")
    if is_advertised(agent.capabilities, "sessionCapabilities.resume"):
        try:
            return await agent.resume_session(session_id, cwd, **given)
        except RequestError as error:  # one real agent offers it and does not have it
            if error.code != METHOD_NOT_FOUND or not can_load:
                raise
    if not can_load:
        raise Failure("--resume: this agent can neither resume nor load a session", hint="leave --resume out")
    session = await agent.load_session(session_id, cwd, **given)
    if plan.entry.quirks.replays_late:
        await _end_of_history(session)
    return session


async def _end_of_history(session: Session) -> None:
    """Returns when the agent has told its commands, which it does after the history."""
    with suppress(TimeoutError):
        async with asyncio.timeout(HISTORY_SECONDS):
            if not session.state.commands:
                async for received in session.updates():
                    if isinstance(received.update, v1.AvailableCommandsUpdate):
                        return


async def _last_session(agent: RemoteAgent, cwd: str) -> str:
    if not is_advertised(agent.capabilities, "sessionCapabilities.list"):
        raise Failure("--resume last: this agent does not list its sessions", hint="name the session: --resume ID")
    # Some agents list everything, whatever folder they are asked for.
    found = [info async for info in agent.sessions(cwd=cwd) if _is_same_folder(info.cwd, cwd)]
    if not found:
        raise Failure(f"--resume last: this agent has no session in {cwd}", hint="leave --resume out for a new one")
    # Agents list the newest first; where they say when, that counts.
    return max(found, key=lambda info: info.updated_at or "").session_id


def _is_same_folder(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _services(to: Connected, output: Output) -> dict[str, Any]:
    entry, plan = to.plan.entry, to.plan
    person = _person(entry.name, output)
    to.consent = consent = ClientPermissions(
        plan.rules,
        agent=entry.name,
        asker=person,
        remember=lambda text, action, _: remember_rule(plan.project, text, action),
        on_decision=output.decided,
        root=plan.project,
    )
    files = WorkspaceFiles(permissions=consent, missing=entry.quirks.missing_file, open_workspace=to.open_workspace)
    if "terminal" not in entry.quirks.withhold:
        to.terminals = LocalTerminals(
            permissions=consent, on_output=lambda terminal_id, _, data: output.terminal_output(terminal_id, data)
        )
        if output.progress is not None:
            output.progress.look = to.terminals.look
    return {
        "permission": consent.permission,
        "files": _withhold(files, entry.quirks.withhold),
        "terminals": to.terminals,
        "elicitation": person,
    }


def _person(agent: str, output: Output) -> Person | None:
    if not sys.stderr.isatty():  # spares the import
        return None
    from dragoman.cli.prompt.person import Person

    if not Person.is_there():
        return None
    return Person(agent=agent, colour=console.uses_colour(sys.stderr), progress=output.progress)


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


def _observers(to: Connected, output: Output) -> list[Observer]:
    observers, options = output.frames(), to.plan.options
    if options.model is not None:
        from dragoman.client.legacy_models import LegacyModels

        to.models = LegacyModels()
        observers.append(to.models)
    if to.plan.recorder is not None:
        observers.append(to.plan.recorder)
    return observers


def _says_scripted(meta: object) -> bool:
    mark = meta.get("dragoman") if isinstance(meta, dict) else None
    return isinstance(mark, dict) and mark.get("scripted") is True


def _write_through(data: bytes) -> None:
    """What the agent logs, for whoever wants to see everything."""
    from dragoman.text.terminal import plain

    sys.stderr.write(plain(data.decode(errors="replace")))
