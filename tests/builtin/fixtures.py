"""A session on a stage of its own: a store in a folder, tools made for the test, answers laid out beforehand."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct

from dragoman.builtin.limits import Limits
from dragoman.builtin.loop import TurnWork
from dragoman.builtin.models.model import Model
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.modes import MODES
from dragoman.builtin.permission import ToolPermissions
from dragoman.builtin.session import Host, Turn, TurnEnd
from dragoman.builtin.tools.tool import Preview, ToolContext, ToolOutput
from dragoman.policy import Request, Rule
from dragoman.policy.decide import Option
from dragoman.store.ids import new_id
from dragoman.store.sessions import SessionRow, Store
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Message, TextPart, ToolPart


class Argument(Struct):
    value: str = ""


class Prop:
    """A tool that does what its test says."""

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

    def requests(self, arguments: Argument, context: ToolContext) -> tuple[Request, ...]:
        return () if self._request is None else (self._request,)

    async def run(self, arguments: Argument, context: ToolContext) -> ToolOutput:
        self.called.append(arguments.value)
        result = self._work(arguments, context)
        if asyncio.iscoroutine(result):
            result = await result
        return result if isinstance(result, ToolOutput) else ToolOutput(f"did {arguments.value}")


class Stage:
    """One session, its tools, and what a watcher saw."""

    def __init__(self, store: Store, host: Host) -> None:
        self.store = store
        self.host = host
        self.model: Model = ScriptedModel()
        self.tools: dict[str, Any] = {}
        self.rules: list[Rule] = []
        self.mode = MODES["ask"]
        self.can_ask = True
        self.limits = Limits(cleanup_seconds=2.0)
        self.answers: Callable[[Sequence[Option]], Any] = lambda options: None
        self.remembered: list[tuple[str, str, str]] = []
        self.seen: list[c.Chunk] = []
        self.slept: list[float] = []
        self.saw = asyncio.Event()
        host.watch(self._see)

    def add(self, *tools: Prop) -> None:
        self.tools.update({tool.name: tool for tool in tools})

    async def prompt(self, *lines: str) -> TurnEnd:
        return await self.host.prompt([TextPart("\n".join(lines))], self.work)

    def start(self, *lines: str) -> "asyncio.Task[TurnEnd]":
        return asyncio.ensure_future(self.prompt(*lines))

    async def until(self, kind: type, count: int = 1) -> None:
        """Waits until so many chunks of a kind were shown."""
        async with asyncio.timeout(10):
            while sum(isinstance(chunk, kind) for chunk in self.seen) < count:
                self.saw.clear()
                await self.saw.wait()

    async def work(self, turn: Turn) -> TurnWork:
        permissions = ToolPermissions(
            lambda: self.rules, lambda: self.mode, ("/w",), remember=self._remember, can_ask=self.can_ask
        )

        async def ask(tool_call_id: str, options: Sequence[Option]) -> str | None:
            await turn.settle()
            answer = self.answers(options)
            if asyncio.iscoroutine(answer):
                answer = await answer
            return answer if answer is None else str(answer)

        return TurnWork(
            self.host.row.id,
            turn.message,
            self.host.history,
            self.model,
            self.tools,
            permissions,
            None,  # type: ignore[arg-type]  # tools made for tests have no access
            turn.emit,
            ask,
            "/w",
            ("/w",),
            "/tmp",
            self.host.memory,
            limits=self.limits,
            sleep=self._sleep,
        )

    def outcomes(self) -> dict[str, str]:
        """State of every tool call of the last message, by tool."""
        return {part.name: part.state for part in self.host.history[-1].parts if isinstance(part, ToolPart)}

    def texts(self) -> list[str]:
        return texts(self.host.history[-1])

    async def _see(self, chunks: Sequence[c.Chunk]) -> None:
        self.seen += chunks
        self.saw.set()

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    async def _remember(self, rule: str, action: Any, scope: Any) -> None:
        self.remembered.append((rule, action, scope))
        self.rules.append(Rule(action, rule, scope, "remembered"))


def texts(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, TextPart)]


@asynccontextmanager
async def staged(folder: Path) -> AsyncIterator[Stage]:
    store = await Store.open(folder / "s.db")
    try:
        row = await store.create_session(SessionRow(new_id("ses"), "dragoman", "/w"))
        yield Stage(store, await Host.open(store, row))
    finally:
        await store.close()
