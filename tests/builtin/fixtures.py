"""A session in a store of its own, with fake tools and answers prepared by the test."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
from msgspec import Struct

from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import Model
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.permission import SessionRules, ToolPermissions
from dragoman.builtin.queued_prompt import QueuedPrompt
from dragoman.builtin.refusals import UserAnswer
from dragoman.builtin.session import OpenSession
from dragoman.builtin.settings import AgentSettings
from dragoman.builtin.tools.tool import Preview, ToolContext, ToolOutput
from dragoman.builtin.turn import TurnContext, TurnEnd, TurnLog
from dragoman.builtin.viewer import Viewer
from dragoman.policy import Request, Rule
from dragoman.policy.decide import Option
from dragoman.policy.modes import Mode
from dragoman.store.ids import new_id
from dragoman.store.sessions import MessageRow, SessionRow, Store
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import TextPart, ToolPart, UIMessage


class Argument(Struct):
    value: str = ""


class FakeTool:
    """A tool that does what its test wants."""

    schema = None

    def __init__(
        self,
        name: str,
        work: Callable[[Argument, ToolContext], Any] = lambda arguments, context: None,
        *,
        kind: str = "other",
        request: Request | None = None,
    ) -> None:
        self.name, self.kind, self.description, self.arguments = name, kind, f"the tool {name}", Argument
        self._work = work
        self._request = request
        self.called: list[str] = []

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        return Preview(f"{self.name} {arguments.get('value', '')}".strip())

    async def check(self, arguments: Argument, context: ToolContext) -> None:
        pass

    def requests(self, arguments: Argument, context: ToolContext) -> tuple[Request, ...]:
        return () if self._request is None else (self._request,)

    async def run(self, arguments: Argument, context: ToolContext) -> ToolOutput:
        self.called.append(arguments.value)
        result = self._work(arguments, context)
        if asyncio.iscoroutine(result):
            result = await result
        return result if isinstance(result, ToolOutput) else ToolOutput(f"did {arguments.value}")


class RecordingRules(SessionRules):
    """The rules of a fixture, and a record of what "always" stored."""

    def __init__(self, fixture: "SessionFixture") -> None:
        self._fixture = fixture

    def of(self, project: str) -> Sequence[Rule]:
        return self._fixture.rules

    async def remember(self, project: str, rule: str, action: Any, scope: Any) -> None:
        self._fixture.remembered.append((rule, action, scope))
        self._fixture.rules.append(Rule(action, rule, scope, "remembered"))


class FakeViewer:
    """A viewer that keeps the chunks it is shown, and answers permission questions as its test wants."""

    cwd = "/w"
    roots = ("/w",)
    is_headless = False
    is_connected = True

    def __init__(self, owner: "SessionFixture") -> None:
        self.session = SimpleNamespace(
            client=SimpleNamespace(is_connected=True),
            additional_directories=(),
            mcp_servers=(),
            cwd="/w",
            update_when_open=lambda update: None,
        )
        self._owner = owner

    def permissions(self, rules: SessionRules) -> ToolPermissions:
        return ToolPermissions(rules, lambda: self._owner.session.mode, self.roots)

    async def show_chunks(self, chunks: Sequence[c.Chunk]) -> None:
        self._owner.seen += chunks
        self._owner.saw.set()

    async def ready(self) -> None:
        return

    async def ask(self, tool_call_id: str, options: Sequence[Option]) -> UserAnswer:
        answer = self._owner.answers(options)
        if asyncio.iscoroutine(answer):
            answer = await answer
        return answer if isinstance(answer, UserAnswer) else UserAnswer(answer)


class FixtureSession(OpenSession):
    """An open session whose turns use what its fixture holds."""

    fixture: "SessionFixture"

    async def context_of(self, prompt: QueuedPrompt, log: TurnLog) -> TurnContext:
        fixture = self.fixture
        context = await super().context_of(prompt, log)
        return msgspec.structs.replace(
            context,
            model=fixture.model,
            permissions=ToolPermissions(
                RecordingRules(fixture),
                lambda: fixture.mode or self.mode,
                ("/w",),
                ask=self.ask,
                can_ask=fixture.can_ask,
            ),
            limits=fixture.limits,
        )


class SessionFixture:
    """One session, its tools, and the chunks a viewer saw."""

    def __init__(self, store: Store, session: FixtureSession) -> None:
        session.fixture = self
        session.tools.clear()
        session.retries.sleep = self.sleep
        self.store = store
        self.session = session
        self.model: Model = ScriptedModel()
        self.rules: list[Rule] = []
        self.remembered: list[tuple[str, str, str]] = []
        self.mode: Mode | None = None
        self.can_ask = True
        self.answers: Callable[[Sequence[Option]], Any] = lambda options: None
        self.seen: list[c.Chunk] = []
        self.slept: list[float] = []
        self.saw = asyncio.Event()
        self.viewer: Viewer = FakeViewer(self)  # type: ignore[assignment]  # as much of one as turns need
        session.viewer = self.viewer

    @property
    def tools(self) -> dict[str, Any]:
        return self.session.tools

    @tools.setter
    def tools(self, tools: dict[str, Any]) -> None:
        self.session.tools = tools

    @property
    def limits(self) -> TurnLimits:
        return self.session.settings.limits

    @limits.setter
    def limits(self, limits: TurnLimits) -> None:
        self.session.settings = msgspec.structs.replace(self.session.settings, limits=limits)

    def add(self, *tools: FakeTool) -> None:
        self.tools.update({tool.name: tool for tool in tools})

    async def prompt(self, *lines: str) -> TurnEnd:
        return await self.session.prompt(self.prompt_of(*lines))

    def prompt_of(self, *lines: str) -> QueuedPrompt:
        return QueuedPrompt([TextPart("\n".join(lines))], self.viewer, None)  # type: ignore[arg-type]  # fake tools need none

    def start(self, *lines: str) -> "asyncio.Task[TurnEnd]":
        return asyncio.ensure_future(self.prompt(*lines))

    async def until(self, kind: type, count: int = 1) -> None:
        """Wait until so many chunks of a type were shown."""
        async with asyncio.timeout(60):
            while sum(isinstance(chunk, kind) for chunk in self.seen) < count:
                self.saw.clear()
                await self.saw.wait()

    def outcomes(self) -> dict[str, str]:
        """State of every tool call of the last message, by tool."""
        return {part.name: part.state for part in self.session.history[-1].parts if isinstance(part, ToolPart)}

    def texts(self) -> list[str]:
        return texts(self.session.history[-1])

    async def open_again(self, store: Store | None = None) -> OpenSession:
        """The session as another process would open it, with its messages read."""
        session = await OpenSession.open(self.session.settings, store or self.store, self.session.row)
        await session.past.read(session.history)
        return session

    async def reopen(self) -> None:
        """Go on with the session as another process would open it."""
        session = await FixtureSession.open(self.session.settings, self.store, self.session.row)
        assert isinstance(session, FixtureSession)
        session.fixture = self
        session.tools = self.tools
        session.viewer = self.viewer
        self.session = session

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def texts(message: UIMessage) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, TextPart)]


def model_view(history: Sequence[UIMessage]) -> tuple[UIMessage, ...]:
    """The messages that the model is given of these."""
    return ModelConversation(history).view().messages


def prompt_row() -> MessageRow:
    """A prompt as the store keeps it."""
    return MessageRow(new_id("msg"), "user")


@asynccontextmanager
async def open_fixture(folder: Path) -> AsyncIterator[SessionFixture]:
    """A new session in a store of its own."""
    store = await Store.open(folder / "s.db")
    settings = AgentSettings("scripted", folder / "s.db", folder / "rules.json", limits=TurnLimits(cleanup_seconds=2.0))
    try:
        row = await store.create_session(SessionRow(new_id("ses"), "dragoman", "/w"))
        session = await FixtureSession.open(settings, store, row)
        assert isinstance(session, FixtureSession)
        yield SessionFixture(store, session)
    finally:
        await store.close()
