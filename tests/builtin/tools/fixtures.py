"""Fixtures for tools: a context with a folder and tool access that records what a tool shows."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agent import Agent, Turn
from dragoman.builtin.access import ClientAccess, LocalAccess
from dragoman.builtin.mode_switch import ModeSwitch
from dragoman.builtin.placement import OUTSIDE
from dragoman.builtin.tools.foreign_names import read_arguments
from dragoman.builtin.tools.table import built_in_tools
from dragoman.builtin.tools.tool import ToolAccess, ToolError, ToolOutput
from dragoman.policy import Request, Rule, Verdict, judge
from dragoman.policy.decide import Decision, Option
from dragoman.testing import ScriptedClient, linked

TOOLS = built_in_tools()


class FakeContext:
    """The context of calls, as the loop supplies it. The tool access is local unless another is given."""

    def __init__(self, folder: Path, access: ToolAccess | None = None, *, tool_call_id: str = "call_1") -> None:
        self.folder = folder
        self.session_id = "ses_1"
        self.tool_call_id = tool_call_id
        self.cwd = str(folder)
        self.roots: tuple[str, ...] = (str(folder),)
        self.access: ToolAccess = access or LocalAccess(self.roots)
        self.overflow_dir = str(folder.parent / f"{folder.name}-output")
        self.memory: dict[str, Any] = {}
        self.trace: Mapping[str, str] = {}
        self.shown: list[ToolOutput] = []
        self.sent: list[tuple[str, Any, str | None]] = []
        self.questions: list[str] = []
        self.has_shown = asyncio.Event()
        self.rules: list[Rule] = []
        self.placement = OUTSIDE
        self.outside: list[Request] = []
        self.permits_outside = False
        self.model_name = "scripted"
        self.modes: ModeSwitch | None = None

    async def progress(self, output: ToolOutput) -> None:
        self.shown.append(output)
        self.has_shown.set()

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        self.sent.append((name, data, id))

    def ask_in_words(self, text: str) -> None:
        self.questions.append(text)

    async def choose(self, options: Sequence[Option]) -> str | None:
        return None

    async def decide_outside(self, request: Request) -> Decision:
        self.outside.append(request)
        self.placement = OUTSIDE
        return Decision(action="allow" if self.permits_outside else "deny", decided_by="person", reason="No.")

    def verdict(self, request: Request) -> Verdict:
        return judge(self.rules, request)

    async def call(self, name: str, **arguments: Any) -> ToolOutput:
        """Call a tool; its arguments are decoded as the loop decodes them."""
        tool = TOOLS[name]
        output = await tool.run(read_arguments(tool, arguments), self)
        msgspec.json.encode(output)  # every output must be encodable
        return output

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self.call(name, **arguments)).text

    async def refusal(self, name: str, **arguments: Any) -> str:
        """Return the error of a call that must fail."""
        try:
            output = await self.call(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} returned {output.text!r} instead of failing")

    def requests(self, name: str, **arguments: Any) -> tuple[Request, ...]:
        tool = TOOLS[name]
        return tool.requests(read_arguments(tool, arguments), self)

    def write(self, name: str, text: str | bytes = "") -> str:
        """Write a file without a tool."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def read(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode()


@asynccontextmanager
async def with_editor(folder: Path, client: ScriptedClient) -> AsyncIterator[FakeContext]:
    """Yield a context in a turn of an agent that uses the files and terminals of this client."""
    begun: asyncio.Future[FakeContext] = asyncio.get_running_loop().create_future()
    is_done = asyncio.Event()
    agent = Agent("tools")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        roots = (str(folder),)
        async with turn.tool("Work", id="call_1"):
            access = ClientAccess(turn, LocalAccess(roots))
            begun.set_result(FakeContext(folder, access))
            await is_done.wait()

    try:
        async with linked(agent, **client.options()) as remote:
            session = await remote.new_session(folder)
            answering = asyncio.ensure_future(session.prompt("go"))
            try:
                yield await begun
            finally:
                is_done.set()
                await answering
    finally:
        await client.terminals.close()
