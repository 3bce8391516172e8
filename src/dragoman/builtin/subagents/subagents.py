"""The subagents of an open session: which agents there are, their runs in parallel and in the background.

Owns the ids of runs, how many work at once, and what of them is shown and asked in the parent's session. Other ACP
agents are run by `external.py`. Imports little, because every session has one of these; what a run needs is imported by
the first run.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct, structs

from dragoman.builtin.tools.built_in import ListedTool
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.errors import ConfigError, ConnectionClosed
from dragoman.settings.project import PROJECT_FOLDER, find_project

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.models.model import Model
    from dragoman.builtin.permission import SessionRules
    from dragoman.builtin.refusals import UserAnswer
    from dragoman.builtin.session import OpenSession
    from dragoman.builtin.subagents.declaration import AgentDeclaration, Declared
    from dragoman.builtin.subagents.progress import RunProgress
    from dragoman.builtin.subagents.run import RunEnd
    from dragoman.builtin.turn import TurnContext
    from dragoman.builtin.viewer import Viewer
    from dragoman.policy import Request
    from dragoman.policy.decide import Option
    from dragoman.schema import v1
    from dragoman.store.sessions import SessionRow


MOST_PARALLEL: Final = 4
"""Runs of one level that work at the same time; more would meet the providers' limits of requests per minute."""
MOST_DEPTH: Final = 2
"""The agent, its subagents, and theirs. One that builds may let another explore; below that no user can follow what is
done in their name, each level loses what the one above knows, and a run costs the product of all levels."""
METADATA: Final = "subagent"
"""In the metadata of a subagent's session: `{"id", "name", "path"}`."""
DEFAULT_AGENT: Final = "build"


class SubagentScope(Struct, frozen=True):
    """Where in the tree of agents a turn stands: its session's subagents, and the names of the agents above it."""

    subagents: SessionSubagents
    path: tuple[str, ...] = ()
    """The names of the subagents from the session's own agent down to this one."""
    call_id: str = ""
    """The call of the session's own agent that this turn belongs to."""

    @property
    def may_delegate(self) -> bool:
        return len(self.path) < MOST_DEPTH

    @property
    def is_main(self) -> bool:
        """Whether this is the session's own agent, and not a subagent."""
        return not self.path

    def below(self, name: str, call_id: str) -> SubagentScope:
        """Return the scope of a subagent that this turn starts with a call."""
        return SubagentScope(self.subagents, (*self.path, name), self.call_id or call_id)


class _Found(Struct, frozen=True):
    """The agent of a call and, if the call goes on with a task, that task's session."""

    declared: AgentDeclaration
    row: SessionRow | None = None


class SessionSubagents:
    """The subagents of one open session."""

    def __init__(self, session: OpenSession) -> None:
        self.session = session
        self.declared: Declared | None = None
        self._cwd = session.row.cwd
        self._rows: dict[str, SessionRow] | None = None
        """The sessions of its subagents by the id of their task."""
        self._memories: dict[str, dict[str, Any]] = {}
        self._models: dict[str, Model] = {}
        self._running: dict[str, asyncio.Task[Any]] = {}
        self._places: dict[int, asyncio.Semaphore] = {}
        self._noticed: set[str] = set()

    # Which agents there are

    async def prepare(self, viewer: Viewer) -> None:
        """Read the declarations, once, for the description of the tool; report to a client what is wrong with files."""
        if self.declared is None:
            self._cwd = viewer.cwd
            await self.reread()
        assert self.declared is not None
        new = [problem for problem in self.declared.problems if problem not in self._noticed]
        self._noticed.update(new)
        if new:
            await viewer.notify("warning", "Not all agents can be used as they are declared", "\n".join(new))

    async def reread(self) -> Declared:
        """Read the declarations again, and list them in the description of the tool."""
        from dragoman.builtin.subagents.declaration import listing

        declared = self.declared = await self._read()
        tool = self.session.tools.get("task")
        if isinstance(tool, ListedTool):
            tool.listing = listing(declared.agents)
        return declared

    async def _read(self) -> Declared:
        session = self.session
        return await asyncio.to_thread(_read_all, session.rules, self._cwd, session.settings.config_dir)

    async def check(self, agent: str | None, id: str | None) -> None:
        """Raises: ToolError if there is no such agent or task, or it cannot run here."""
        is_asked_for = bool(self.requests(agent, id, self._cwd))
        found = await self._find(agent, id)
        if found.declared.agent:
            if not is_asked_for:  # it was found just now, after the permissions of this call were collected
                raise ToolError(f"the agent {found.declared.name} was not known yet; make the same call again")
            from dragoman.builtin.subagents.external import check_external

            await check_external(found.declared, self.session)

    def requests(self, agent: str | None, id: str | None, cwd: str) -> tuple[Request, ...]:
        """Return the permissions that a run needs by itself: only another ACP agent needs one, as a command does."""
        from dragoman.builtin.subagents.declaration import find_agent

        agents = {} if self.declared is None else self.declared.agents
        row = None if id is None or self._rows is None else self._rows.get(id)
        name = agent if row is None else _name_of(row)
        declared = None if name is None else find_agent(name, agents)
        if declared is None or not declared.agent:
            return ()
        from dragoman.builtin.subagents.external import permission_of

        return (permission_of(declared, cwd),)

    async def _find(self, agent: str | None, id: str | None) -> _Found:
        """Raises: ToolError."""
        from dragoman.builtin.subagents.declaration import find_agent

        row = None
        if id is not None:
            rows = await self._known()
            row = rows.get(id)
            if row is None:
                raise ToolError(f"there is no task {id!r}; there are: {', '.join(rows) or 'none'}")
            self._check_free(id)
        name = _name_of(row) if row is not None else agent or DEFAULT_AGENT
        agents = {} if self.declared is None else self.declared.agents
        declared = find_agent(name, agents)
        if declared is None:  # it may have been written since; the list of the description stays as it is
            self.declared = await self._read()
            agents = self.declared.agents
            declared = find_agent(name, agents)
            if id is not None:
                self._check_free(id)  # another call may have begun to go on with it meanwhile
        if declared is None:
            raise ToolError(f"there is no agent {name!r}; there are: {', '.join(agents)}")
        return _Found(declared, row)

    def _check_free(self, id: str) -> None:
        """Raises: ToolError if the task is working."""
        if id in self._running:
            raise ToolError(f"{id} is still working; wait for its end, or end it with bash_stop")

    async def _known(self) -> dict[str, SessionRow]:
        if self._rows is None:
            rows = await self.session.store.children(self.session.row.id)
            if self._rows is None:  # a call in parallel may have read them too, and added one
                self._rows = {str(row.metadata.get(METADATA, {}).get("id", row.id)): row for row in rows}
        return self._rows

    # Runs

    async def run(
        self,
        context: TurnContext,
        *,
        agent: str | None,
        id: str | None,
        description: str,
        prompt: str,
        is_background: bool = False,
    ) -> ToolOutput:
        """Run a subagent and return its answer; in the background, the id of the task. Raises: ToolError."""
        from dragoman.builtin.subagents.progress import RunProgress

        assert context.subagents is not None
        found = await self._find(agent, id)
        if found.row is None:
            row = await self._new_row(found.declared, description, context)
        else:
            row = found.row
        task_id = str(row.metadata[METADATA]["id"])
        progress = RunProgress(found.declared.name)
        # A subagent waits for what it starts: its own run ends with its answer.
        if is_background and context.subagents.is_main:
            return await self._start(task_id, found.declared, row, context, description, prompt, progress)
        work = asyncio.ensure_future(self._work(task_id, found.declared, row, context, prompt, progress))
        self._running[task_id] = work
        showing = asyncio.create_task(_show_in_call(progress, context))
        try:
            return await _output(task_id, found.declared, await _awaited(work), progress, context)
        finally:
            showing.cancel()
            self._running.pop(task_id, None)

    async def _start(
        self,
        task_id: str,
        declared: AgentDeclaration,
        row: SessionRow,
        context: TurnContext,
        description: str,
        prompt: str,
        progress: RunProgress,
    ) -> ToolOutput:
        from dragoman.builtin.subagents.background import start_background

        work = self._work(task_id, declared, row, context, prompt, progress, is_background=True)
        running = start_background(task_id, declared, description, context, work, progress)
        self._running[task_id] = running
        running.add_done_callback(lambda _: self._running.pop(task_id, None))
        return ToolOutput(
            f"[{task_id} ({declared.name}) works in the background. You are informed when it ends; look with "
            "bash_output, end it with bash_stop. What it would have to ask the user between your turns is refused.]"
        )

    async def _work(
        self,
        task_id: str,
        declared: AgentDeclaration,
        row: SessionRow,
        context: TurnContext,
        prompt: str,
        progress: RunProgress,
        *,
        is_background: bool = False,
    ) -> RunEnd:
        from dragoman.builtin.subagents.run import SubagentRun
        from dragoman.builtin.subagents.sessions import announce_child, child_ended

        assert context.subagents is not None
        depth = len(context.subagents.path)
        place = self._places.setdefault(depth, asyncio.Semaphore(MOST_PARALLEL))
        progress.note = "waits until another subagent has ended" if place.locked() else ""
        async with place:
            progress.note = ""
            context, prompt = await _hooked(context, task_id, declared, prompt)
            await announce_child(self, row, declared)
            end: RunEnd | None = None
            try:
                if declared.agent:
                    from dragoman.builtin.subagents.external import ExternalRun

                    run_external = ExternalRun(self, declared, row, context, progress)
                    end = await run_external.run(prompt)
                else:
                    viewer = self.session.viewer
                    access = viewer.local_access if is_background and viewer is not None else context.access
                    memory = self._memories.setdefault(task_id, {})
                    run = SubagentRun(
                        *(self, declared, row, context),
                        access=access,
                        memory=memory,
                        progress=progress,
                        is_background=is_background,
                    )
                    end = await run.run(prompt)
                return end
            finally:
                await child_ended(self, row, end, progress)

    async def _new_row(self, declared: AgentDeclaration, description: str, context: TurnContext) -> SessionRow:
        from dragoman.store.ids import new_id
        from dragoman.store.sessions import SessionRow

        assert context.subagents is not None
        rows = await self._known()
        id = f"task_{len(rows) + 1}"
        parent = self.session.row
        path = [*context.subagents.path, declared.name]
        row = SessionRow(
            *(new_id("ses"), parent.agent, context.cwd, tuple(context.roots[1:])),
            title=" ".join(description.split())[:200],
            metadata={METADATA: {"id": id, "name": declared.name, "path": path}},
            child_of=parent.id,
        )
        rows[id] = row  # before anything waits, so that two calls in parallel have two ids
        rows[id] = await self.session.store.create_session(row)
        return rows[id]

    async def note_metadata(self, row: SessionRow, metadata: dict[str, Any]) -> None:
        """Store what a run has to know when it is resumed. Raises: StoreError."""
        rows = await self._known()
        await self.session.store.update_session(row.id, metadata=metadata)
        rows[str(metadata[METADATA]["id"])] = structs.replace(row, metadata=metadata)

    def model_of(self, declared: AgentDeclaration, parent: Model) -> Model:
        """Return the model of an agent. Raises: ToolError."""
        if not declared.model:
            return parent.for_subagent()
        from dragoman.builtin.models.choice import check_model
        from dragoman.builtin.models.find import find_model
        from dragoman.builtin.models.providers import missing_key

        env = self.session.env
        try:
            check_model(declared.model, env)
            provider = missing_key(declared.model, env)
            if provider is not None:
                raise ConfigError(f"{' or '.join(provider.variables)} is not set")
            if declared.model not in self._models:
                model = self._models[declared.model] = find_model(declared.model)
                model.environment = env
        except ConfigError as error:
            raise ToolError(f"the agent {declared.name} cannot use its model {declared.model}: {error}") from error
        return self._models[declared.model]

    async def instructions(self) -> str:
        """Return the instructions of the user and the project, which a subagent has too."""
        viewer = self.session.viewer
        return "" if viewer is None else (await asyncio.shield(self.session.begin_instructions(viewer))).text

    async def recover(self) -> None:
        """End the runs whose process died, and count what they used. Raises: StoreError."""
        from dragoman.builtin.turn import recover_turn

        for row in await self.session.store.children(self.session.row.id):
            log = await self.session.store.live_log(row.id)
            if log is not None:
                await recover_turn(self.session.store, self.session.row.id, log)

    def is_running(self, row: SessionRow) -> bool:
        """Whether the subagent with this session works now."""
        return str(row.metadata.get(METADATA, {}).get("id")) in self._running

    async def close(self) -> None:
        """Cancel every run, and wait until it was stored."""
        running = set(self._running.values())
        for task in running:
            task.cancel()
        if running:
            await asyncio.wait(running)
        for model in self._models.values():
            await model.close()
        self._models.clear()

    # What the parent's session shows and asks

    async def ask(self, call: v1.ToolCallPatch, options: Sequence[Option]) -> UserAnswer:
        """Ask the user about a call of a subagent; refused while no turn of the session runs."""
        from dragoman.builtin.refusals import UserAnswer
        from dragoman.policy.decide import NO_USER

        session = self.session
        if session.turn is None:
            return UserAnswer(None, NO_USER, "no user can be asked while the subagent works between two turns")
        await session.settle()
        try:
            return await session.ask_client(lambda viewer: viewer.ask_about(call, options))
        except ConnectionClosed:
            return UserAnswer()

    async def announce(self, call: v1.ToolCallPatch, parent_call_id: str) -> None:
        """Show a call that the user is asked about, as a call below that of the subagent."""
        from dragoman.schema import v1

        await self.session.settle()
        known = call.meta.get("dragoman") if isinstance(call.meta, dict) else None
        # What the client's rules go by, such as the server of a tool, counts for the calls of subagents, too.
        meta = {"dragoman": {**(known if isinstance(known, dict) else {}), "parentToolCallId": parent_call_id}}
        await self.show(
            v1.ToolCall(
                call.tool_call_id,
                str(call.title),
                kind=call.kind or "other",
                status="pending",
                content=call.content or UNSET,
                locations=call.locations or UNSET,
                raw_input=call.raw_input,
                meta=meta,
            )
        )

    async def show(self, update: v1.SessionUpdate) -> None:
        """Show an update in the parent's session."""
        from dragoman.builtin.subagents.sessions import show_update

        if self.session.viewer is not None:
            await show_update(self.session.viewer, update)

    async def replay(self, viewer: Viewer) -> None:
        """Repeat the sessions of subagents for a client that loads the session and knows them. Raises: StoreError."""
        if viewer.shows_subagents:
            from dragoman.builtin.subagents.sessions import replay_children

            await replay_children(self, viewer)

    async def show_child(self, child_id: str, updates: Sequence[v1.SessionUpdate]) -> None:
        """Show updates of a subagent's session, to a client that knows such sessions."""
        from dragoman.builtin.subagents.sessions import show_updates

        viewer = self.session.viewer
        if updates and viewer is not None and viewer.shows_subagents:
            await show_updates(viewer, child_id, updates)


def _read_all(rules: SessionRules, cwd: str, config_dir: Path) -> Declared:
    """Read every agent for work in `cwd`.

    Most users have declared none: then nothing is imported to read them. Blocks.
    """
    from dragoman.builtin.subagents.declaration import BUILT_IN, FOLDER, Declared

    external = rules.subagents(cwd)
    here = Path(os.path.realpath(cwd))
    projects = [folder / PROJECT_FOLDER / FOLDER for folder in dict.fromkeys((here, find_project(here)))]
    if not external and not any(folder.is_dir() for folder in (config_dir / FOLDER, *projects)):
        return Declared({declared.name: declared for declared in BUILT_IN})
    from dragoman.builtin.subagents.files import read_agents

    return read_agents(cwd, config_dir, external)


def _name_of(row: SessionRow) -> str:
    return str(row.metadata.get(METADATA, {}).get("name", ""))


async def _hooked(
    context: TurnContext, task_id: str, declared: AgentDeclaration, prompt: str
) -> tuple[TurnContext, str]:
    """Return the context of a run with the user's hooks for it, and the prompt with what they add.

    Raises: ToolError.
    """
    if context.folder.hooks is None:
        return context, prompt
    hooks = context.folder.hooks.of_subagent(task_id, declared.name)
    result = await hooks.subagent_start(prompt)
    if result.wish == "deny":
        reason = result.reason or "it gave no reason"
        raise ToolError(f"a hook of the user's does not let the subagent {declared.name} begin: {reason}")
    more = f"{prompt}\n\n{result.context}" if result.context else prompt
    return structs.replace(context, folder=structs.replace(context.folder, hooks=hooks)), more


async def _awaited(work: asyncio.Future[RunEnd]) -> RunEnd:
    """Wait for a run. When the caller is cancelled, the run is cancelled, and it is stored before this returns."""
    try:
        return await asyncio.shield(work)
    except asyncio.CancelledError:
        work.cancel()
        await asyncio.wait({work})
        raise


async def _show_in_call(progress: RunProgress, context: TurnContext) -> None:
    from dragoman.builtin.subagents.run import report_progress

    await report_progress(progress, lambda text: context.progress(ToolOutput(text)))


async def _output(
    task_id: str, declared: AgentDeclaration, end: RunEnd, progress: RunProgress, context: TurnContext
) -> ToolOutput:
    """Return what the model reads of a run that ended, and what the user is shown with it. Raises: ToolError."""
    from dragoman.builtin.tools.long_output import MCP_LIMIT, fit

    # Another agent can answer with any length, and its text would fill the window of this one.
    fitted = await fit(end.answer, context, MCP_LIMIT)
    end = structs.replace(end, answer=fitted.text)
    if end.failure:
        raise ToolError(
            f"the subagent {declared.name} failed: {end.failure}\n[{task_id}: {progress.summary}; it can be resumed "
            f"with its id]\n{end.answer}".rstrip()
        )
    text = answer_text(task_id, declared, end, progress)
    return ToolOutput(text, details=progress.call_lines, is_truncated=fitted.is_truncated, output_path=fitted.path)


def answer_text(task_id: str, declared: AgentDeclaration, end: RunEnd, progress: RunProgress) -> str:
    """Return the answer, and a line about the run: how to go on with it, and what is wrong with it."""
    notes = [f"[{task_id}, {declared.name}: {progress.summary}]"]
    if progress.limit:
        notes.append(f"[it was ended by the limit of {progress.limit}; give its id to let it go on]")
    if end.unknown_tools:
        notes.append(f"[its declaration names tools that do not exist: {', '.join(end.unknown_tools)}]")
    return "\n".join([end.answer or "[it ended without an answer]", *notes])
