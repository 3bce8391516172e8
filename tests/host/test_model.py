"""A host against a model of it: clients come and go, agents and hosts die, and six invariants hold all the time.

I1 what a client was sent is in the log, and stays there.
I2 what a client saw is a slice of the log, without a gap and without a repetition, also over reconnects.
I3 the log is numbered without a gap, and a host that is dead writes nothing more.
I4 every request has one answer, and every prompt one outcome.
I5 a question has one answer; an agent is allowed only what a client allowed.
I6 after the end nothing is left: no task, no descriptor, no agent.
"""

from __future__ import annotations

import asyncio
import json
import os
import tempfile
from collections import Counter
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.host.host import Host, HostSettings, Visitor
from dragoman.schema import v1
from dragoman.store.event_log import Accepted, Already, EventLog, LogEvent, NewEvent, OwnedSession, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_file import FileThread
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.memory import memory_pair
from tests.conftest import IS_SOAK
from tests.host.kit import OURS, InProcess
from tests.host.watcher import Watcher
from tests.idle import wait_until_idle

T = TypeVar("T")
SECONDS = 30.0
WORK = st.lists(st.sampled_from(("say", "ask", "wait")), max_size=4).map(" ".join)
EXAMPLES, STEPS = (200, 40) if IS_SOAK else (12, 15)


class MortalLog:
    """A log that a host stops using when it is killed: what the dead host still does changes nothing."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self.is_dead = False

    async def create(self, record: SessionRecord, key: str | None = None) -> Any:
        return MortalSession(self, await self._log.create(record, key))

    async def take(self, session: str, *, force: bool = False) -> Any:
        return MortalSession(self, await self._log.take(session, force=force))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class MortalSession:
    """A session of such a log."""

    def __init__(self, log: MortalLog, owned: OwnedSession) -> None:
        self._log = log
        self._owned = owned

    def append(self, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        if not self._log.is_dead:
            self._owned.append(events, self._alive(committed))

    def accept(self, prompt_id: str, events: Sequence[NewEvent], done: Callable[[Accepted | Already], None]) -> None:
        if not self._log.is_dead:
            self._owned.accept(prompt_id, events, self._alive(done))

    def describe(self, record: SessionRecord) -> None:
        if not self._log.is_dead:
            self._owned.describe(record)

    async def settle(self) -> None:
        if not self._log.is_dead:
            await self._owned.settle()

    async def release(self, successor: str | None = None) -> None:
        if not self._log.is_dead:
            await self._owned.release(successor)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owned, name)

    def _alive(self, report: Callable[[T], None]) -> Callable[[T], None]:
        def reported(found: T) -> None:
            if not self._log.is_dead:
                report(found)

        return reported


class Script:
    """The agent: its prompts say what it does."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.allowed: list[str] = []
        self.asked = 0

    def __call__(self) -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            for word in turn.text.split():
                if word == "say":
                    await turn.say("x")
                elif word == "wait":
                    await self.go.wait()
                elif word == "ask":
                    await self._ask(turn)

        @agent.load_session
        async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
            await session.say("an old message")

        return agent

    async def _ask(self, turn: Turn) -> None:
        self.asked += 1
        async with turn.tool("work", kind="execute", id=f"call-{self.asked}") as tool:
            if await tool.ask():
                self.allowed.append(tool.id)


class View:
    """What one client has seen of the session, over all its connections."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.seen: list[tuple[int, str]] = []
        self.line: Watcher | None = None

    @property
    def cursor(self) -> int:
        return self.seen[-1][0] if self.seen else self.start

    def take(self) -> None:
        if self.line is not None:
            self.seen += self.line.events
            self.line.events.clear()


class HostModel(RuleBasedStateMachine):
    """Random steps of clients, agents and hosts."""

    engine = "memory"

    def __init__(self) -> None:
        super().__init__()
        self.descriptors = len(os.listdir("/proc/self/fd"))
        self.loop = asyncio.new_event_loop()
        self.folder = tempfile.TemporaryDirectory()
        self.clock = 1_700_000_000.0
        self.memory = MemoryLog(self.now)
        self.views: list[View] = []
        self.all_lines: list[Watcher] = []
        self.prompts: list[str] = []
        self.allows: Counter[str] = Counter()
        self.known: list[LogEvent] = []
        self.serving: list[asyncio.Task[None]] = []

    def now(self) -> float:
        self.clock += 1
        return self.clock

    def run(self, work: Coroutine[Any, Any, None]) -> None:
        async def bounded() -> None:
            async with asyncio.timeout(SECONDS):
                await work
                await self.quiet()

        self.loop.run_until_complete(bounded())
        self.check()

    # Steps

    @initialize()
    def open_session(self) -> None:
        self.run(self._open_session())

    async def _open_session(self) -> None:
        self.script = Script()
        self.start_host()
        view = View(0)
        await self.connect_view(view)
        assert view.line is not None
        made = await self.answered(view.line, view.line.ask("session/new", cwd="/tmp", mcpServers=[]))
        self.session: str = made["result"]["sessionId"]
        self.views.append(view)

    @rule()
    @precondition(lambda self: len(self.views) < 4)
    def connect(self) -> None:
        """Another client attaches and sees what happens from then on."""
        self.run(self._connect())

    async def _connect(self) -> None:
        view = View(0)
        await self.connect_view(view)
        assert view.line is not None
        found = await self.resumed(view.line, None)
        view.start = found["after"]
        self.views.append(view)

    @rule(place=st.integers(0, 9))
    @precondition(lambda self: any(view.line for view in self.views))
    def drop(self, place: int) -> None:
        self.run(self._drop(self.attached(place)))

    async def _drop(self, view: View) -> None:
        assert view.line is not None
        view.take()
        view.line.close()
        await view.line.wait_closed()
        view.take()
        view.line = None

    @rule(place=st.integers(0, 9))
    @precondition(lambda self: any(view.line is None for view in self.views))
    def resume(self, place: int) -> None:
        gone = [view for view in self.views if view.line is None]
        self.run(self._resume(gone[place % len(gone)]))

    async def _resume(self, view: View) -> None:
        await self.connect_view(view)
        assert view.line is not None
        await self.resumed(view.line, view.cursor)

    @rule(place=st.integers(0, 9), work=WORK)
    @precondition(lambda self: any(view.line for view in self.views) and len(self.prompts) < 20)
    def prompt(self, place: int, work: str) -> None:
        self.run(self._prompt(self.attached(place), f"p{len(self.prompts)}", work))

    @rule(place=st.integers(0, 9), number=st.integers(0, 30))
    @precondition(lambda self: any(view.line for view in self.views) and self.prompts)
    def prompt_again(self, place: int, number: int) -> None:
        """The same prompt by its id: it never runs a second time."""
        self.run(self._prompt(self.attached(place), self.prompts[number % len(self.prompts)], "say say"))

    async def _prompt(self, view: View, id: str, work: str) -> None:
        assert view.line is not None
        if id not in self.prompts:
            self.prompts.append(id)
        text = [{"type": "text", "text": work or "say"}]
        view.line.ask("session/prompt", sessionId=self.session, prompt=text, _meta={"dragoman": {"promptId": id}})

    @rule(place=st.integers(0, 9))
    @precondition(lambda self: any(view.line for view in self.views))
    def cancel(self, place: int) -> None:
        self.run(self._cancel(self.attached(place)))

    async def _cancel(self, view: View) -> None:
        assert view.line is not None
        view.line.notify("session/cancel", sessionId=self.session)

    @rule(place=st.integers(0, 9), is_allowed=st.booleans(), twice=st.booleans())
    def permit(self, place: int, is_allowed: bool, twice: bool) -> None:
        self.run(self._permit(place, is_allowed, twice))

    async def _permit(self, place: int, is_allowed: bool, twice: bool) -> None:
        asked = [view.line for view in self.views if view.line and view.line.questions]
        if not asked:  # not a precondition: whether a question is open depends on the thread of the log
            return
        question = next(iter(asked[place % len(asked)].questions))
        lines = [line for line in asked if question in line.questions]
        for line in lines if twice else lines[:1]:
            self.allows[question] += is_allowed
            line.choose(question, "allow_once" if is_allowed else "reject_once")

    @rule()
    def release(self) -> None:
        """Turns that wait go on."""
        self.run(self._release())

    async def _release(self) -> None:
        self.script.go.set()
        await self.quiet()
        self.script.go.clear()

    @rule()
    def crash_agent(self) -> None:
        self.run(self._crash_agent())

    async def _crash_agent(self) -> None:
        self.source.die()

    @rule()
    @precondition(lambda self: not any(view.line for view in self.views))
    def expire(self) -> None:
        """No client is there for longer than an agent is kept: it is ended if nothing runs."""
        self.run(self._expire())

    async def _expire(self) -> None:
        await asyncio.sleep(0.03)

    @rule()
    def crash_host(self) -> None:
        self.run(self._crash_host())

    async def _crash_host(self) -> None:
        self.mortal.is_dead = True
        for view in self.views:
            if view.line is not None:
                await self._drop(view)
        self.source.die()
        await self.host.close()
        await self.end_serving()
        if isinstance(self.log, SqliteLog):
            await self.log.close()
        self.start_host()

    # Parts of steps

    def start_host(self) -> None:
        self.source = InProcess(self.script)
        self.log: EventLog
        if self.engine == "memory":
            self.log = self.memory = MemoryLog(self.now, earlier=self.memory)
        else:
            self.log = SqliteLog(Path(self.folder.name) / "log.db", clock=self.now)
        self.mortal: Any = MortalLog(self.log)
        # Not zero: an agent that comes back takes a moment.
        self.host = Host(self.mortal, [self.source], settings=HostSettings(agent_idle_seconds=0.02), clock=self.now)

    def attached(self, place: int) -> View:
        there = [view for view in self.views if view.line is not None]
        return there[place % len(there)]

    async def connect_view(self, view: View) -> None:
        ours, theirs = memory_pair()
        self.serving.append(asyncio.get_running_loop().create_task(self.host.serve(theirs, Visitor())))
        view.line = Watcher(ours)
        self.all_lines.append(view.line)
        await self.answered(view.line, view.line.ask("initialize", protocolVersion=1, clientCapabilities=OURS))

    async def resumed(self, line: Watcher, after: int | None) -> dict[str, Any]:
        meta = {} if after is None else {"_meta": {"dragoman": {"after": after}}}
        asked = line.ask("session/resume", sessionId=self.session, cwd="/tmp", mcpServers=[], **meta)
        found: dict[str, Any] = (await self.answered(line, asked))["result"]["_meta"]["dragoman"]
        return found

    async def answered(self, line: Watcher, id: int) -> dict[str, Any]:
        while id not in line.answers:  # noqa: ASYNC110 - every turn of the loop is a step of the host
            await asyncio.sleep(0)
        return line.answers[id]

    async def quiet(self) -> None:
        """Everything that can happen without a further step has happened."""
        before = (-1, -1)
        while before != (before := (await self.head(), sum(len(line.events) for line in self.all_lines))):
            for view in self.views:
                if view.line is not None and view.line.is_open:
                    await self.answered(view.line, view.line.ask("session/list"))
            await wait_until_idle(moment=0.0)
            await self.host.settle()  # what these requests appended: a thread may take its time for it
            for thread in self.threads():  # and what clients are to get is read in another one
                await thread.run(lambda db: None)
            await wait_until_idle(moment=0.0)

    def threads(self) -> Sequence[FileThread]:
        """The threads of the log, which do what they are given in order."""
        return (self.log._reader, self.log._writer) if isinstance(self.log, SqliteLog) else ()

    async def head(self) -> int:
        record = await self.log.find(self.session, "local") if hasattr(self, "session") else None
        return 0 if record is None else record.head

    async def end_serving(self) -> None:
        for task in self.serving:
            await task
        self.serving.clear()

    # Invariants

    async def events(self) -> list[LogEvent]:
        found: list[LogEvent] = []
        while page := await self.log.read(self.session, len(found), 1000):
            found += page
        return found

    def check(self) -> None:
        if not hasattr(self, "session"):
            return
        for view in self.views:
            view.take()
        events = self.loop.run_until_complete(self.events())
        assert [event.number for event in events] == list(range(1, len(events) + 1))  # I3
        assert events[: len(self.known)] == self.known, "the log changed behind its readers"  # I1
        self.known = events
        for view in self.views:
            self.check_view(view, events)
        self.check_outcomes(events)
        self.check_questions(events)

    def check_view(self, view: View, events: list[LogEvent]) -> None:
        """I1 and I2."""
        numbers = [number for number, _ in view.seen]
        assert numbers == sorted(numbers), numbers
        for number, what in view.seen:
            event = events[number - 1]
            if event.kind == "update":
                assert json.loads(what) == json.loads(event.body), (number, what, event)
        updates = [event.number for event in events if event.kind == "update" and view.start < event.number]
        seen = [number for number in numbers if events[number - 1].kind == "update"]
        assert seen == updates[: len(seen)], "a gap or a repetition"
        if view.line is not None and view.line.is_open:
            assert seen == updates, "a client that is attached has not got everything"

    def check_outcomes(self, events: list[LogEvent]) -> None:
        """I4, for prompts: accepted once, started at most once, ended at most once."""
        for kinds in (("prompt",), ("start",), ("end", "queue")):
            found = Counter(json.loads(event.body)["promptId"] for event in events if event.kind in kinds)
            assert not found or max(found.values()) == 1, (kinds, found)

    def check_questions(self, events: list[LogEvent]) -> None:
        """I5."""
        answers = [json.loads(event.body) for event in events if event.kind == "answer"]
        count = Counter(answer["questionId"] for answer in answers)
        assert not count or max(count.values()) == 1, count
        allowed = 0
        for answer in answers:
            if str(answer["answer"].get("outcome", {}).get("optionId", "")).startswith("allow"):
                allowed += 1
                assert self.allows[answer["questionId"]], "allowed, and no client did"
        assert len(self.script.allowed) <= allowed

    def teardown(self) -> None:
        if hasattr(self, "session"):
            self.run(self._end_turns())
            self.check_end()
        self.loop.run_until_complete(self._close())
        left = [task for task in asyncio.all_tasks(self.loop) if not task.done()]
        assert left == []
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.folder.cleanup()
        assert len(os.listdir("/proc/self/fd")) <= self.descriptors  # I6

    async def _end_turns(self) -> None:
        """Let every turn end: one client comes, answers every question, and every wait is over."""
        view = next((view for view in self.views if view.line is not None), self.views[0])
        if view.line is None:
            await self._resume(view)
        line = view.line
        assert line is not None
        self.script.go.set()
        while await self.is_busy():
            for question in list(line.questions):
                line.choose(question, "reject_once")
            await self.quiet()

    async def is_busy(self) -> bool:
        events = await self.events()
        found = Counter(json.loads(event.body)["promptId"] for event in events if event.kind == "prompt")
        ended = Counter(json.loads(event.body)["promptId"] for event in events if event.kind in ("end", "queue"))
        return found != ended

    def check_end(self) -> None:
        """I4, for requests: each is answered, unless its connection ended first."""
        for view in self.views:
            if view.line is not None:
                missing = [name for id, name in view.line.asked.items() if id not in view.line.answers]
                assert missing == [], missing

    async def _close(self) -> None:
        async with asyncio.timeout(SECONDS):
            for view in self.views:
                if view.line is not None:
                    view.line.close()
            if hasattr(self, "host"):
                await self.host.close()
                await self.end_serving()
                await self.log.close()
            self.source.die()
            for _ in range(20):
                await asyncio.sleep(0)


class SqliteModel(HostModel):
    engine = "sqlite"


@pytest.mark.parametrize("machine", [HostModel, SqliteModel], ids=["memory", "sqlite"])
def test_the_host_keeps_its_invariants(machine: type[HostModel]) -> None:
    _run(machine)


@pytest.mark.soak
@pytest.mark.parametrize("machine", [HostModel, SqliteModel], ids=["memory", "sqlite"])
def test_the_host_keeps_its_invariants_for_long(machine: type[HostModel]) -> None:
    _run(machine)


def _run(machine: type[HostModel]) -> None:
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=not IS_SOAK,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
