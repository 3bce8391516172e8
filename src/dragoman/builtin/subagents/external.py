"""Another ACP agent as a subagent: a program that the user's settings name, inside the sandbox.

Its own permission system cannot be bounded from here, so that the operating system bounds it: without a sandbox it is
not started. Starting it needs the permission of a command, because inside it may change files of the project and run
commands without asking: mode plan refuses it, modes ask and edit ask once, mode auto allows it as it allows commands in
the sandbox. What it asks for is answered by the rules and the mode of the session, then by the user; its files and
terminals are served with the same guard as those of any agent that `dragoman exec` runs. A project's file names none.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Final

from msgspec import structs

from dragoman.builtin.command_guard import find_sandboxes
from dragoman.builtin.placement import describe_change
from dragoman.builtin.subagents.declaration import AgentDeclaration
from dragoman.builtin.subagents.run import RunEnd
from dragoman.builtin.tools.tool import ToolError
from dragoman.errors import ConfigError, DragomanError, StoreError
from dragoman.policy import Command, Request
from dragoman.schema import UNSET, v1
from dragoman.store.ids import new_id
from dragoman.store.messages import message_to_row
from dragoman.store.sessions import UsageRow
from dragoman.text.terminal import one_line
from dragoman.uistream.messages import TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.subagents.progress import RunProgress
    from dragoman.builtin.subagents.subagents import SessionSubagents
    from dragoman.builtin.turn import TurnContext
    from dragoman.client import Session
    from dragoman.client.permission import Question
    from dragoman.registry.agents import AgentEntry
    from dragoman.registry.sandboxed import AgentSandbox
    from dragoman.rpc import Transport
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.runs.events import RunEvent
    from dragoman.runs.terms import Terms
    from dragoman.settings.file import SettingsFile
    from dragoman.store.sessions import SessionRow

_log = logging.getLogger("dragoman.builtin")

# Updates that clients are shown of its session; its settings and commands are not for them.
_SHOWN = (v1.AgentMessageChunk, v1.AgentThoughtChunk, v1.ToolCall, v1.ToolCallUpdate, v1.Plan)


MOST_ANSWER_CHARACTERS: Final = 8 << 20
"""More of an answer is left out: a program that never stops writing would fill the memory."""


def declared_in(settings: SettingsFile) -> tuple[AgentDeclaration, ...]:
    """Return the agents that the user's settings allow."""
    return tuple(
        AgentDeclaration(
            name,
            member.description or f"The agent {member.agent}, which works by itself in a sandbox.",
            source="settings",
            path=str(settings.path),
            agent=member.agent,
        )
        for name, member in settings.subagents.items()
    )


async def check_external(declared: AgentDeclaration, session: OpenSession) -> None:
    """Raises: ToolError if there is no sandbox here, or no such agent."""
    viewer = session.viewer
    roots = (session.row.cwd,) if viewer is None else viewer.roots
    sandboxes = await asyncio.to_thread(find_sandboxes, tuple(roots))
    if not sandboxes.backends:
        raise ToolError(
            f"the subagent {declared.name} is the agent {declared.agent}, which runs only in a sandbox, because its "
            f"permission cannot be bounded otherwise: {sandboxes.describe()}"
        )
    await asyncio.to_thread(find_entry, declared, session)


def find_entry(declared: AgentDeclaration, session: OpenSession) -> AgentEntry:
    """Return the agent's program, by the user's settings alone. Blocks. Raises: ToolError."""
    from dragoman.registry.agents import load_agents
    from dragoman.settings.effective import load_settings
    from dragoman.settings.places import cache_dir, data_dir

    try:
        settings = load_settings(session.settings.config_dir)  # without the project, whose agents do not count
        return load_agents(settings, data_dir(), cache_dir()).find(declared.agent)
    except ConfigError as error:
        raise ToolError(f"the subagent {declared.name} cannot be started: {error}") from error


def permission_of(declared: AgentDeclaration, cwd: str) -> Request:
    """Return what starting it needs permission for. Rules name it as the command `subagent NAME`."""
    title = (
        f"{declared.name}: run the agent {one_line(declared.agent)} in the sandbox, where it may change files of the "
        "project and run commands"
    )
    home = os.path.expanduser("~")
    return Request("dragoman", "execute", title, command=Command(("subagent", declared.name)), root=cwd, home=home)


class ExternalRun:
    """One run of another agent."""

    def __init__(
        self,
        subagents: SessionSubagents,
        declared: AgentDeclaration,
        row: SessionRow,
        parent: TurnContext,
        progress: RunProgress,
    ) -> None:
        assert parent.subagents is not None
        self._subagents = subagents
        self._declared = declared
        self._row = row
        self._parent = parent
        self._progress = progress
        self._scope = parent.subagents.below(declared.name, parent.tool_call_id)
        self._asked: set[str] = set()
        self._text = ""
        self._message_id: object = UNSET
        self._used: list[UsageRow] = []
        self._run: GuardedRun | None = None
        self._events: asyncio.Queue[RunEvent] = asyncio.Queue()

    async def run(self, prompt: str) -> RunEnd:
        """Give it the task and return its answer. Raises: ToolError if it cannot be started."""
        from dragoman.registry.sandboxed import open_agent_sandbox

        entry = await asyncio.to_thread(find_entry, self._declared, self._subagents.session)
        roots, cwd = self._parent.roots, self._parent.cwd
        rules = self._parent.permissions.rules_in_force()
        try:
            inside = await asyncio.to_thread(open_agent_sandbox, entry, roots, cwd=cwd, rules=rules)
        except ConfigError as error:
            raise ToolError(f"the subagent {self._declared.name} cannot run in the sandbox: {error}") from error
        failure = ""
        try:
            title = f"Not all rules about files bind the program of {self._declared.name}"
            await self._warn(title, inside.unenforced)
            failure = await self._work(entry, inside, prompt)
        except DragomanError as error:
            failure = str(error)
        finally:
            inside.close()
            for call_id in self._asked:
                call = self._progress.calls.get(call_id)
                if call is None or not call.is_over:
                    await self._subagents.show(v1.ToolCallUpdate(self._shown_id(call_id), status="failed"))
            await asyncio.shield(self._store(prompt))
        return RunEnd(self._text.strip(), failure)

    async def _warn(self, title: str, lines: Sequence[str]) -> None:
        viewer = self._subagents.session.viewer
        if lines and viewer is not None:
            await viewer.notify("warning", title, "\n".join(lines))

    async def _work(self, entry: AgentEntry, inside: AgentSandbox, prompt: str) -> str:
        """Start it, let it work, end it. Returns why it failed, empty if it answered."""
        from dragoman.registry.sandboxed import lacks_own_sandbox
        from dragoman.runs.agent_run import GuardedRun
        from dragoman.runs.opening import SessionOpening

        cwd = self._parent.cwd
        nested = await asyncio.to_thread(lacks_own_sandbox, entry, inside.sandbox, cwd)
        # This sandbox takes the place of its own.
        mode = entry.facts.modes_without_sandbox[0] if nested and entry.facts is not None else None
        self._run = run = GuardedRun(self._terms(entry, inside), asker=self, on_event=self._queue_event)
        showing = asyncio.ensure_future(self._show_events())
        try:
            await run.start(await self._started(entry, inside))
            described = self._row.metadata["subagent"]
            earlier = described.get("session")
            if earlier is not None and not run.can_come_back:
                raise ToolError(f"the agent {self._declared.agent} cannot go on with a session; start a new task")
            await run.open(SessionOpening(session_id=None if earlier is None else str(earlier), mode=mode))
            if earlier is None:
                metadata = {**self._row.metadata, "subagent": {**described, "session": run.session.id}}
                await self._subagents.note_metadata(self._row, metadata)
            response = await self._prompted(run, prompt)
            while response.stop_reason == "end_turn" and self._parent.folder.hooks is not None:
                more = await self._parent.folder.hooks.stop(self._text.strip())
                if not more:
                    break
                response = await self._prompted(run, more)
            await self._account(run.session)
        finally:
            showing.cancel()
            await run.close()
        if response.stop_reason in ("max_tokens", "max_turn_requests"):
            self._progress.limit = str(response.stop_reason)
        return f"it ended with {response.stop_reason}" if response.stop_reason in ("refusal", "cancelled") else ""

    async def _prompted(self, run: GuardedRun, text: str) -> v1.PromptResponse:
        """Send it a text and take what it reports until its turn has ended."""
        earlier, self._text = self._text, ""
        end = await run.prompt([v1.TextContent(text)])
        await self._events.join()
        if end.error is not None:
            raise end.error
        assert end.response is not None
        if not self._text.strip():  # it was asked to go on, and did so without a word
            self._text = earlier
        return end.response

    async def _started(self, entry: AgentEntry, inside: AgentSandbox) -> Transport:
        from dragoman.process.child import Child
        from dragoman.process.launch import launch
        from dragoman.registry.sandboxed import confine_agent
        from dragoman.transports.process import ProcessTransport

        confined = await asyncio.to_thread(confine_agent, inside.sandbox, entry, self._parent.cwd)
        program = launch(confined.argv, cwd=confined.cwd, env=confined.env, inherit_env=False, starter=confined.starter)
        return ProcessTransport(Child(program, on_stderr=lambda data: _log.debug("%s: %r", entry.name, data)))

    def _terms(self, entry: AgentEntry, inside: AgentSandbox) -> Terms:
        from dragoman.runs.sandbox import RunSandboxes
        from dragoman.runs.terms import SessionTerms, Terms

        rules = self._parent.permissions.rules_in_force
        return Terms(
            agent=entry.name,
            entry=entry,
            # Its changes and its session belong to the parent's turn.
            chosen=SessionTerms(sandbox="require", uses_ledger=False, follows_changes=False),
            project=self._parent.cwd,
            roots=tuple(self._parent.roots),
            rules=lambda mode: rules(),
            sandboxes=RunSandboxes(mode="require", commands=inside.sandbox, agent=inside.sandbox),
            restores=self._subagents.session.settings.restores_protected,
            asks_inside=True,
        )

    # What it reports and asks

    def _queue_event(self, event: RunEvent) -> None:
        """Queue an event.

        Events come in the order of the wire, and are shown in that order; showing one may wait for the client.
        """
        self._events.put_nowait(event)

    async def _show_events(self) -> None:
        from dragoman.runs.events import LeftUnjudged, ProtectedChanged, Updated, Violated

        while True:
            event = await self._events.get()
            try:
                if isinstance(event, Updated) and self._run is not None:
                    for update in event.updates if event.session_id == self._run.session.id else ():
                        await self._take(update)
                elif isinstance(event, ProtectedChanged):
                    by = "it" if event.command is None else f"its command `{one_line(event.command)}`"
                    title = f"The agent {self._declared.name} changed protected files"
                    await self._warn(title, [describe_change(change, by) for change in event.changes])
                elif isinstance(event, Violated) and event.violation.rule is not None:  # the others are shown above
                    title = f"The agent {self._declared.name} did what is denied"
                    await self._warn(title, [f"{event.violation.title} ({event.violation.decided_by})"])
                elif isinstance(event, LeftUnjudged):
                    title = f"The agent {self._declared.name} did what cannot be judged"
                    await self._warn(title, [f"{event.unjudged.title} ({event.unjudged.decided_by} may concern it)"])
            except Exception:  # the agent works on; what could not be shown is in its answer
                _log.exception("an update of the subagent %s could not be shown", self._declared.name)
            finally:
                self._events.task_done()

    async def _take(self, update: v1.SessionUpdate) -> None:
        self._progress.take(update)
        if isinstance(update, v1.AgentMessageChunk) and isinstance(update.content, v1.TextContent):
            if update.message_id != self._message_id:
                self._text, self._message_id = "", update.message_id
            self._text += update.content.text[: max(0, MOST_ANSWER_CHARACTERS - len(self._text))]
        elif isinstance(update, v1.ToolCall):
            self._text = ""  # the answer is what it says last
        if isinstance(update, v1.ToolCallUpdate) and update.tool_call_id in self._asked:
            shown = v1.ToolCallUpdate(self._shown_id(update.tool_call_id), status=update.status)
            await self._subagents.show(shown)
        if isinstance(update, _SHOWN):
            await self._subagents.show_child(self._row.id, [update])

    has_user = False  # the user gave the task to another agent

    async def ask(self, question: Question, session: Session) -> str | None:
        """Ask the user, through the parent's session; this makes it an `Asker`."""
        from dragoman.policy.decide import Option

        await self._events.join()  # what led to the question is shown before it
        call = question.permission.tool_call
        title = one_line(f"{' > '.join(self._scope.path)}: {call.title or question.request.title}")
        shown = structs.replace(
            call,
            tool_call_id=self._shown_id(call.tool_call_id),
            title=title,
            kind=question.request.kind or call.kind,
            content=list(question.diffs) or UNSET,
            locations=UNSET,
        )
        options = [
            Option(option.option_id, one_line(option.name), option.kind) for option in question.permission.options
        ]
        if call.tool_call_id not in self._asked:
            self._asked.add(call.tool_call_id)
            await self._subagents.announce(shown, self._scope.call_id)
        self._progress.note = "waits for a permission"
        try:
            return (await self._subagents.ask(shown, options)).option_id
        finally:
            self._progress.note = ""

    def _shown_id(self, call_id: str) -> str:
        """Return the id of its call in the parent's session, where another call may have the same."""
        return f"{self._row.id}.{call_id}"

    async def _account(self, session: Session) -> None:
        """Count what it reports to have cost."""
        usage = session.state.usage
        cost = None if usage is None else usage.cost
        if isinstance(cost, v1.Cost) and cost.currency == "USD":
            call = UsageRow(f"agent:{self._declared.agent}", cost_usd=cost.amount)
            self._subagents.session.usage.delegate(call)
            self._used.append(call)

    async def _store(self, prompt: str) -> None:
        """Store the task and the answer, with the cost in the parent's session."""
        session = self._subagents.session
        asked = UIMessage(new_id("msg"), "user", [TextPart(prompt)])
        answered = UIMessage(new_id("msg"), "assistant", [TextPart(self._text.strip())])
        try:
            for message in (asked, answered):
                await session.store.add_message(self._row.id, message_to_row(message))
            for call in self._used:
                await session.store.add_usage(session.row.id, answered.id, call)
        except StoreError as error:
            _log.warning("what a subagent answered could not be stored: %s", error)
