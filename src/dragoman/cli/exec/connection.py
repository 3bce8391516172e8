"""The connection of a run: the agent, the services it gets (files, terminals, permission, forms) and its session.

A service is offered only if it can be used: without a user at a terminal there are no forms, and a quirk of an agent
may withhold a service that the agent cannot handle. Does not depend on the output form.
"""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, Literal

from dragoman.cli import console
from dragoman.cli.exec.agent_options import system_prompt_for
from dragoman.cli.exec.late_permissions import LatePermissions
from dragoman.cli.exec.rules import remember_rule
from dragoman.cli.exec.settings import current_mode, current_model
from dragoman.cli.exec.violations import ViolationWatch
from dragoman.cli.exits import CliError
from dragoman.cli.spared import note_spared
from dragoman.client.connect import connect
from dragoman.client.files import open_workspace
from dragoman.client.guard import AgentGuard
from dragoman.client.terminals import Look
from dragoman.errors import METHOD_NOT_FOUND, RequestError
from dragoman.process.child import Child
from dragoman.registry.built_in import runs_built_in, runs_commands_at_client
from dragoman.rpc.limits import MIB, Limits
from dragoman.runs import result as results
from dragoman.runs.tool_calls import ToolWatch
from dragoman.schema import is_advertised, v1
from dragoman.state import Message
from dragoman.state.tools import ToolCallState
from dragoman.text.secrets import SplitMask
from dragoman.transports.process import ProcessTransport

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Sequence

    from dragoman.cli.exec.output import Output
    from dragoman.cli.exec.request import RunRequest
    from dragoman.cli.prompt.user import UserPrompt
    from dragoman.client import PromptTurn, RemoteAgent, Session
    from dragoman.client.legacy_models import LegacyModels
    from dragoman.client.permission import Answer, ClientPermissions, Question
    from dragoman.client.terminals import LocalTerminals
    from dragoman.policy import Rule
    from dragoman.policy.decide import Decision
    from dragoman.process.launch import Launched
    from dragoman.process.sandbox import ProtectedChange
    from dragoman.process.sandbox.confinement import Confinement, FinishedCommand
    from dragoman.rpc import Observer, Transport
    from dragoman.runs.changes import SessionChanges
    from dragoman.runs.patch import PatchWatch
    from dragoman.state.turns import TurnState
    from dragoman.view.blocks import ShownTerminal
    from dragoman.workspace import Workspace

# A history is replayed from a file; in the recordings that takes less than a tenth of a second.
HISTORY_SECONDS: Final = 5.0
# A result is read by a program or a user; what is longer is a mistake of the agent and must not fill the memory.
LIMITS: Final = Limits(turn_text=2 * MIB)


class RunConnection:
    """The agent of a run, its session and the services it uses."""

    def __init__(self, request: RunRequest) -> None:
        self.request = request
        self.agent: RemoteAgent | None = None
        self.session: Session | None = None
        self.turn: PromptTurn | None = None
        self._noted = 0
        self._followers: list[tuple[int, asyncio.Future[None]]] = []  # by the number of the update they wait for
        self.is_resumed = request.options.resume is not None
        self.is_scripted = request.entry.is_scripted
        self.permissions: LatePermissions
        self.violations: ViolationWatch
        self.workspaces: list[Workspace] = []
        self.terminals: LocalTerminals | None = None
        self.models: LegacyModels | None = None
        self.transport: ProcessTransport | None = None
        self.confinement: Confinement
        self.commands: list[results.RunCommand] = []
        """The commands that dragoman ran for the agent."""
        self.on_violation: Callable[[results.RunViolation], None] | None = None
        self.tools = ToolWatch(request.project)
        self.patch: PatchWatch | None = None
        if request.options.patch is not None:
            from dragoman.runs.patch import PatchWatch

            self.patch = PatchWatch(request.options.cwd)
        self.changes: SessionChanges | None = None
        """Follows what changes in the folders of the session."""
        self.own_usage: dict[str, Any] = {}
        """The usage in the `_meta` of the built-in agent's answer."""
        self._has_usage = False

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr."""
        return "" if self.transport is None else self.transport.stderr_tail

    @property
    def model(self) -> str | None:
        """The model of the session, if the session states it."""
        return None if self.session is None else current_model(self.session)

    @property
    def mode(self) -> str | None:
        """The mode of the session, if it has modes."""
        return None if self.session is None else current_mode(self.session)

    def note(self, update: v1.SessionUpdate) -> None:
        """Record what an update reports about a tool call, and whether the turn used anything."""
        self._noted += 1
        while self._followers and self._followers[0][0] <= self._noted:
            _, shown = self._followers.pop(0)
            if not shown.done():
                shown.set_result(None)
        if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
            self.tools.note(update)
            if self.patch is not None and self.session is not None:
                self.patch.note(self.session.state.tool_calls[update.tool_call_id])
        elif isinstance(update, v1.UsageUpdate):
            self._has_usage = self._has_usage or bool(update.used or update.cost)

    async def catch_up(self) -> None:
        """Return when every update was shown that has arrived by now; the run takes them in its own task."""
        unread = 0 if self.turn is None else self.turn.unread
        if unread:
            shown = asyncio.get_running_loop().create_future()
            self._followers.append((self._noted + unread, shown))
            await shown

    def note_end(self, response: v1.PromptResponse) -> None:
        """Record whether a script produced the answer, and what it used: the built-in agent reports both in `_meta`."""
        self.is_scripted = self.is_scripted or _is_marked_scripted(response.meta)
        found = (_own_meta(response.meta) or {}).get("usage")
        self.own_usage = found if isinstance(found, dict) else {}

    def is_empty_turn(self) -> bool:
        """Whether the last turn has neither text nor anything else that an agent does, and used nothing.

        Some agents end a turn like this when their model fails. Thoughts and notices are not an answer.
        """
        if self.session is None or self._has_usage or self.own_usage or self.commands or self.workspaces:
            return False
        state = self.session.state
        turn = state.turns[-1]
        if turn.usage is not None and turn.usage.total_tokens:
            return False
        if any(text.strip() for text in turn.texts):
            return False
        _prompt, *items = state.timeline[turn.start : turn.end]
        return all(_says_nothing(item) for item in items) and not self.permissions.decisions

    def note_changes(self, changes: Sequence[ProtectedChange], command: str | None = None) -> None:
        """Record and report changes of protected files that were not permitted."""
        for violation in self.violations.changed(changes, command):
            if self.on_violation is not None:
                self.on_violation(violation)

    def described(self) -> results.RunAgent:
        """Describe the agent for the result."""
        return describe_agent(self.request, self.agent)

    def files_changed(self, turn: TurnState | None) -> list[results.FileChange]:
        """Return the files that differ from before the turn."""
        if self.session is None:
            return []
        changes = [change for workspace in self.workspaces for change in workspace.journal.net()]
        return results.files_changed(changes, self.session.state, turn)

    def shown_terminals(self) -> list[ShownTerminal]:
        """Return what the terminals of the last turn's tool calls show now."""
        if self.session is None or not self.session.state.turns:
            return []
        calls = self.session.state.timeline[self.session.state.turns[-1].start :]
        content = [item for call in calls if isinstance(call, ToolCallState) for item in call.content]
        looks = [self.look(item.terminal_id) for item in content if isinstance(item, v1.Terminal)]
        if not looks:
            return []
        from dragoman.view.blocks import ShownTerminal

        return [
            ShownTerminal(look.terminal_id, look.command, look.text, look.exit_code, look.signal, look.is_truncated)
            for look in looks
            if look is not None
        ]

    def look(self, terminal_id: str) -> Look | None:
        """What a terminal shows now, ours or, with an agent of version 2, the agent's."""
        found = None if self.terminals is None else self.terminals.look(terminal_id)
        if found is None and self.session is not None and self.session.state.terminals:
            from dragoman.client.version2.terminals import look_at

            return look_at(self.session, terminal_id)
        return found

    def open_workspace(self, session: Session) -> Workspace:
        """Open the files of a session; called when the agent first uses one."""
        workspace = open_workspace(session)
        self.workspaces.append(workspace)
        return workspace


def _says_nothing(item: object) -> bool:
    if isinstance(item, Message):
        return item.role != "agent" or all(isinstance(block, v1.TextContent) for block in item.blocks)
    return isinstance(item, v1.Notice)


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
    options = conn.request.options
    services = _services(conn, output)
    observers = _observers(conn, output)
    mask = SplitMask(output.secrets)
    on_stderr = (lambda data: _log(output, mask.feed(data))) if options.is_verbose else None
    conn.transport = transport = ProcessTransport(Child(program, on_stderr=on_stderr))
    link = _spoken(conn, transport, output)
    offered: dict[str, Literal[2, "auto"]] = {"2": 2, "auto": "auto"}
    is_draft = conn.request.passed.system_prompt is not None  # the only unstable member that a run may send
    try:
        async with connect(
            link,
            observers=observers,
            limits=LIMITS,
            unstable=is_draft,
            protocol=offered.get(options.protocol, 1),
            **services,
        ) as agent:
            conn.agent = agent
            conn.is_scripted = conn.is_scripted or _is_marked_scripted(agent.capabilities.meta)
            yield agent
    finally:
        _log(output, mask.finish())
        note_spared(conn.request.entry.quirks, program.marker, output.note)
        if conn.terminals is not None:
            await conn.terminals.close()


def _spoken(conn: RunConnection, transport: ProcessTransport, output: Output) -> Transport:
    """The transport to the agent, in version 1 of the protocol for an agent of 2025.1."""
    options = conn.request.options
    if options.protocol != "2025.1":
        return transport
    from dragoman.cli.dialect import drive_dialect_agent

    return drive_dialect_agent(transport, options.cwd, is_lazy=bool(conn.request.servers), say=output.note)


async def open_session(agent: RemoteAgent, request: RunRequest) -> Session:
    """Open a new session, or the one to resume.

    Raises:
        CliError: the agent cannot resume, or has no session to resume.
        RequestError: the agent refuses.
    """
    options = request.options
    given: dict[str, Any] = {"mcp_servers": request.servers, "additional_directories": options.directories}
    meta = dict(request.passed.meta)
    if request.rules and _own_meta(agent.capabilities.meta) is not None:
        from dragoman.cli.exec.permission import restricting_rules

        asked = restricting_rules(request.rules, request.entry.name, request.project)
        if asked:
            meta["dragoman"] = {"asksAbout": asked}
    given["meta"] = meta or None
    prompt = system_prompt_for(agent, request.entry, request.passed)
    if prompt is not None:
        given["append_system_prompt"] = prompt
    if options.resume is None:
        return await agent.new_session(options.cwd, **given)
    from dragoman.cli.exec.earlier import find_session

    return await _reopen(agent, await find_session(agent, request), request, given)


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
        flag = request.options.resume_flag
        raise CliError(
            f"{flag}: this agent can neither resume nor load a session",
            hint=f"leave out {flag} for a new session; what was done before: dragoman sessions list",
        )
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


def _services(conn: RunConnection, output: Output) -> dict[str, Any]:
    entry, request = conn.request.entry, conn.request
    user = _user_prompt(entry.name, output)
    conn.permissions = LatePermissions(lambda: _permissions(conn, output, user), conn.catch_up)
    conn.violations = ViolationWatch(conn.permissions, request.project)
    guard = _guard(conn, output)
    conn.confinement, conn.terminals = guard.confinement, guard.terminals
    conn.tools.look = conn.look
    if output.progress is not None:
        output.progress.look = conn.look
    return {
        **guard.options(),
        "elicitation": user,
        "changes": conn.changes,
        # The built-in agent then asks no questions; other agents ignore it.
        "meta": {} if user is not None else {"dragoman": {"headless": True}},
    }


def _permissions(conn: RunConnection, output: Output, user: UserPrompt | None) -> ClientPermissions:
    from dragoman.cli.exec.permission import mode_rules
    from dragoman.client.permission import AllowAll, ClientPermissions, Guarding

    entry, request = conn.request.entry, conn.request
    built_in, allows_all = runs_built_in(entry), request.allows_all

    def rules() -> list[Rule]:
        return [*request.rules, *mode_rules(conn.session, request.options.roots)] if built_in else request.rules

    return ClientPermissions(
        rules,
        agent=entry.name,
        asker=AllowAll() if allows_all else None if user is None else _ShownAsker(user, output),
        # An "always" that no user chose must not outlive the run.
        remember=None if allows_all else lambda text, action, _: remember_rule(request.project, text, action),
        on_decision=lambda decision: _decided(conn, output, decision),
        root=request.project,
        guarding=Guarding(
            confines=lambda: _is_confined_later(conn),
            reads_reasons=lambda: conn.agent is not None and _own_meta(conn.agent.capabilities.meta) is not None,
            own_files=() if entry.facts is None else entry.facts.own_files,
            before_permitted=None if conn.patch is None else conn.patch.copy,
        ),
    )


class _ShownAsker:
    """Asks the user, and reports what is asked as long as the question is open."""

    def __init__(self, user: UserPrompt, output: Output) -> None:
        self._user = user
        self._output = output

    async def ask(self, question: Question, session: Session) -> Answer | str | None:
        self._output.asking(f"{question.request.kind}: {question.request.title}")
        try:
            return await self._user.ask(question, session)
        finally:
            self._output.asking("")


def _decided(conn: RunConnection, output: Output, decision: Decision) -> None:
    if decision.tool_call_id is not None:
        conn.tools.begin(decision.tool_call_id)
    output.decided(decision, results.permission(decision))


def _guard(conn: RunConnection, output: Output) -> AgentGuard:
    request = conn.request
    entry, options, sandboxes = request.entry, request.options, request.sandboxes

    def finished(command: FinishedCommand) -> None:
        from dragoman.cli.exec.hints import hint_outside

        hint = hint_outside(conn.permissions.get().rules, command, sandboxes.mode)
        ended = results.finished_command(command, hint)
        conn.commands.append(ended)
        output.command_finished(ended)
        conn.note_changes(command.changes, command.command)

    return AgentGuard(
        conn.permissions,
        options.roots,
        sandbox=sandboxes.commands,
        is_required=sandboxes.mode == "require",
        # A sandboxed agent on the restricted thread can change protected files itself.
        restores=request.restores_protected or (sandboxes.agent is not None and sandboxes.agent.must_restore),
        withheld=entry.quirks.withhold,
        missing=entry.quirks.missing_file,
        offers_files=options.offers_files,
        offers_terminals=options.offers_terminals,
        open_workspace=conn.open_workspace,
        on_output=lambda terminal_id, _, data: output.terminal_output(terminal_id, data),
        on_finished=finished,
        on_changes=conn.note_changes,
    )


def _is_confined_later(conn: RunConnection) -> bool:
    """Whether commands that the agent asks permission for are then run here, in the sandbox."""
    if conn.confinement.sandbox is None or conn.terminals is None:
        return False
    mode = None if conn.session is None else current_mode(conn.session)
    return runs_commands_at_client(conn.request.entry, mode)


def _user_prompt(agent: str, output: Output) -> UserPrompt | None:
    if not sys.stderr.isatty():  # spares the import
        return None
    from dragoman.cli.prompt.user import UserPrompt

    if not UserPrompt.is_available():
        return None
    return UserPrompt(agent=agent, colour=console.uses_colour(sys.stderr), progress=output.progress)


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


def _log(output: Output, data: bytes) -> None:
    """Show what the agent logs (`--verbose`)."""
    if data:
        output.agent_log(data.decode(errors="replace"))
