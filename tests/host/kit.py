"""A host in this process with agents in this process, and raw clients and agents that see every message."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec

from dragoman.agent import Agent
from dragoman.host.host import Host, HostSettings, Visitor
from dragoman.host.services import HostServices
from dragoman.rpc import Transport
from dragoman.store.event_log import EventLog, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.transports.memory import memory_pair
from tests.agent.fixtures import ClientLine
from tests.rpc.fixtures import RawEnd

ticks = itertools.count(1_700_000_000)
OURS: dict[str, Any] = {"_meta": {"dragoman": {}}, "elicitation": {"form": {}}}


class InProcess:
    """An agent of a test; each start is a connection of its own, which the test can break."""

    def __init__(self, make: Callable[[], Agent], name: str = "test") -> None:
        self.name = name
        self._make = make
        self.starts = 0
        self.environments: list[Mapping[str, str] | None] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        self.starts += 1
        self.environments.append(env)
        ours, theirs = memory_pair()
        task = asyncio.get_running_loop().create_task(self._make().serve(theirs))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return ours

    def die(self) -> None:
        """The agent's process ends."""
        for task in self._tasks:
            task.cancel()


class _Patient(RawEnd):
    """Waits long enough for a busy machine."""

    async def next(self) -> dict[str, Any]:
        async with asyncio.timeout(60):
            return await self.lines.get()


class WireAgent(_Patient):
    """An agent whose every message a test decides; it opens sessions by itself."""

    auth_methods: tuple[dict[str, Any], ...] = ()
    hello: dict[str, Any]

    def __init__(self, transport: Transport, capabilities: dict[str, Any], session: str) -> None:
        super().__init__(transport)
        self.session = session
        self.opened: list[dict[str, Any]] = []
        self._capabilities = capabilities
        self._asked = 100

    def feed(self, data: bytes) -> None:
        super().feed(data)
        held = []
        while not self.lines.empty():
            message = self.lines.get_nowait()
            method = message.get("method")
            if method == "initialize":
                self.hello = message["params"]
                answer = {"agentCapabilities": self._capabilities, "authMethods": self.auth_methods}
                self.reply(message, {"protocolVersion": 1, **answer})
            elif method in ("session/new", "session/load", "session/resume"):
                self.opened.append(message)
                self.session = message["params"].get("sessionId", self.session)
                self.before_open()
                self.reply(message, {"sessionId": self.session} if method == "session/new" else {})
            else:
                held.append(message)
        for message in held:
            self.lines.put_nowait(message)

    def before_open(self) -> None:
        """What it sends before its answer."""

    def reply(self, message: dict[str, Any], result: object) -> None:
        self.send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def fail(self, message: dict[str, Any], /, **error: object) -> None:
        self.send({"jsonrpc": "2.0", "id": message["id"], "error": error})

    def update(self, kind: str, /, session: str | None = None, **members: object) -> None:
        update = {"sessionUpdate": kind, **members}
        self.send(self.note("session/update", sessionId=session or self.session, update=update))

    def say(self, text: str, **members: Any) -> None:
        self.update("agent_message_chunk", content={"type": "text", "text": text}, **members)

    def call(self, method: str, /, **params: object) -> int:
        """Ask the host; gives the id of the request."""
        self._asked += 1
        self.send(self.request(self._asked, method, sessionId=self.session, **params))
        return self._asked

    async def answer(self, id: int) -> Any:
        """The result of a request, or its error."""
        message = await self.next()
        assert message.get("id") == id, message
        return message.get("result", message.get("error"))

    async def ask(self, method: str, /, **params: object) -> Any:
        return await self.answer(self.call(method, **params))

    async def prompted(self) -> dict[str, Any]:
        message = await self.next()
        assert message.get("method") == "session/prompt", message
        return message


class OnTheWire:
    """A source of agents that a test plays itself."""

    def __init__(self, name: str = "test", capabilities: dict[str, Any] | None = None, **options: Any) -> None:
        self.name = name
        self.command: tuple[str, ...] = (name, "--acp")
        self.version: str | None = "1"
        self.capabilities = {"loadSession": True} if capabilities is None else capabilities
        self.agents: list[WireAgent] = []
        self.fails: list[Exception] = []
        self.kind: type[WireAgent] = options.get("kind", WireAgent)
        self._started = asyncio.Event()

    @property
    def starts(self) -> int:
        return len(self.agents)

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        if self.fails:
            raise self.fails.pop(0)
        ours, theirs = memory_pair()
        self.agents.append(self.kind(theirs, self.capabilities, f"their-{len(self.agents) + 1}"))
        self._started.set()
        return ours

    async def started(self, starts: int) -> WireAgent:
        """The agent of the last start, when there were so many."""
        async with asyncio.timeout(30):
            while self.starts < starts:
                self._started.clear()
                await self._started.wait()
        return self.agent

    @property
    def agent(self) -> WireAgent:
        return self.agents[-1]

    def die(self) -> None:
        """The agent's process ends."""
        for agent in self.agents:
            agent.transport.close()


class Client(_Patient, ClientLine):
    """A client of the host."""

    async def hello(self, capabilities: dict[str, Any] | None = None, **members: object) -> Any:
        return await self.result("initialize", protocolVersion=1, clientCapabilities=capabilities or {}, **members)

    async def until(self, method: str) -> dict[str, Any]:
        """The next message of this method; others before it are passed over."""
        while (message := await self.next()).get("method") != method:
            pass
        return message

    async def until_update(self, kind: str) -> dict[str, Any]:
        """The next update of this kind; other messages before it are passed over."""
        while True:
            message = await self.until("session/update")
            update: dict[str, Any] = message["params"]["update"]
            if update["sessionUpdate"] == kind:
                return update

    async def resume(self, session: str, cwd: str = "/tmp", **meta: object) -> Any:
        own = {"_meta": {"dragoman": meta}} if meta else {}
        return await self.result("session/resume", sessionId=session, cwd=cwd, mcpServers=[], **own)

    async def load(self, session: str, cwd: str = "/tmp") -> tuple[list[dict[str, Any]], dict[str, Any]]:
        """The updates of the history, and the answer."""
        asked = self.ask("session/load", sessionId=session, cwd=cwd, mcpServers=[])
        before, answer = await self.answer_to(asked)
        return [message["params"]["update"] for message in before], answer["result"]

    async def everything(self) -> list[dict[str, Any]]:
        """What was sent until now."""
        before, _ = await self.answer_to(self.ask("session/list"))
        return before

    def answer_with(self, asked: dict[str, Any], option: str) -> None:
        """Choose an option of a permission request."""
        self.send(self.result_of(asked, {"outcome": {"outcome": "selected", "optionId": option}}))

    async def update(self) -> dict[str, Any]:
        """The next message, which must be an update."""
        message = await self.expect("session/update")
        update: dict[str, Any] = message["params"]["update"]
        return update

    def result_of(self, asked: dict[str, Any], result: object) -> dict[str, Any]:
        """The answer to a request of the host."""
        return {"jsonrpc": "2.0", "id": asked["id"], "result": result}

    async def silence_of_prompts(self) -> None:
        """Everything that was sent so far has been handled."""
        await self.answer_to(self.ask("session/list"))

    async def texts(self, count: int) -> list[str]:
        return [(await self.update())["content"]["text"] for _ in range(count)]


class Hosted:
    """A running host."""

    def __init__(self, host: Host, source: Any) -> None:
        self.host = host
        self.source = source
        self._serving: list[asyncio.Task[None]] = []
        self._lines: list[Client] = []

    async def client(
        self, capabilities: dict[str, Any] | None = None, *, visitor: Visitor | None = None, hello: bool = True
    ) -> Client:
        ours, theirs = memory_pair()
        self._serving.append(asyncio.create_task(self.host.serve(theirs, visitor or Visitor())))
        line = Client(ours)
        self._lines.append(line)
        if hello:
            await line.hello(capabilities)
        return line

    async def opened(self, capabilities: dict[str, Any] | None = None, **params: object) -> tuple[Client, str]:
        """A client with a new session."""
        line = await self.client(capabilities)
        return line, await line.open("/tmp", **params)

    def session(self, id: str) -> Any:
        session = self.host.live(id)
        assert session is not None
        return session

    async def events(self, id: str, kind: str) -> list[Any]:
        """The bodies of the session's events of one kind."""
        await self.host.settle()
        found = await self.host.log.read(id, 0, 1_000_000)
        return [msgspec.json.decode(event.body) for event in found if event.kind == kind]

    async def leave(self, line: Client) -> None:
        """The client's connection ends."""
        line.transport.close()
        await line.transport.wait_closed()
        async with asyncio.timeout(60):
            await self._serving[self._lines.index(line)]

    async def close(self) -> None:
        async with asyncio.timeout(30):
            await self.host.close()
            for line in self._lines:
                line.transport.close()
            for task in self._serving:
                await task


async def records(log: EventLog) -> list[SessionRecord]:
    """All sessions of a log."""
    return (await log.page(None, limit=1_000_000)).records


def make_log() -> EventLog:
    return MemoryLog(lambda: float(next(ticks)))


@asynccontextmanager
async def hosted(
    make: Any, *, log: EventLog | None = None, settings: HostSettings | None = None, **options: Any
) -> AsyncIterator[Hosted]:
    """A host; `make` makes agents, or is where they come from."""
    source = InProcess(make) if callable(make) else make
    kept = log or make_log()
    host = Host(
        kept,
        [source, *options.get("more", ())],
        settings=settings or HostSettings(),
        services=options.get("services") or HostServices(),
        ledger=options.get("ledger"),
        clock=options.get("clock", lambda: float(next(ticks))),
    )
    running = Hosted(host, source)
    try:
        yield running
    finally:
        await running.close()
