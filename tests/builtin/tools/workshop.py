"""A place for tools to work in: a folder, access, and a record of what they showed."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from dragoman.agent import Agent, Turn
from dragoman.builtin.access import ClientAccess, LocalAccess
from dragoman.builtin.tools.table import built_in_tools
from dragoman.builtin.tools.tool import ToolAccess, ToolError, ToolOutput
from dragoman.policy import Request, Rule, Verdict, judge
from dragoman.schema import v1
from dragoman.testing import ScriptedClient, linked

TOOLS = built_in_tools()


class Workshop:
    """The surroundings of calls, as the loop gives them. The access are this machine's unless others are given."""

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
        self.told: list[tuple[str, Any, str | None]] = []
        self.saw = asyncio.Event()
        self.rules: list[Rule] = []

    async def progress(self, output: ToolOutput) -> None:
        self.shown.append(output)
        self.saw.set()

    async def data(self, name: str, data: Any, id: str | None = None) -> None:
        self.told.append((name, data, id))

    def verdict(self, request: Request) -> Verdict:
        return judge(self.rules, request)

    async def call(self, name: str, **arguments: Any) -> ToolOutput:
        """What a call gives; its arguments are read as the loop reads them."""
        tool = TOOLS[name]
        output = await tool.run(msgspec.convert(arguments, tool.arguments, strict=False), self)
        msgspec.json.encode(output)  # whatever a tool gives has to fit into a message
        return output

    async def text(self, name: str, **arguments: Any) -> str:
        return (await self.call(name, **arguments)).text

    async def refusal(self, name: str, **arguments: Any) -> str:
        """Why a call could not be done."""
        try:
            output = await self.call(name, **arguments)
        except ToolError as error:
            return str(error)
        raise AssertionError(f"{name} gave {output.text!r} instead of refusing")

    def requests(self, name: str, **arguments: Any) -> tuple[Request, ...]:
        tool = TOOLS[name]
        return tool.requests(msgspec.convert(arguments, tool.arguments, strict=False), self)

    def write(self, name: str, text: str | bytes = "") -> str:
        """Puts a file there without any tool."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def read(self, name: str) -> str:
        return (self.folder / name).read_bytes().decode()


@asynccontextmanager
async def beside_editor(folder: Path, client: ScriptedClient) -> AsyncIterator[Workshop]:
    """The same within a turn of an agent that an editor started, whose files and terminals are used."""
    begun: asyncio.Future[Workshop] = asyncio.get_running_loop().create_future()
    is_done = asyncio.Event()
    agent = Agent("tools")

    @agent.prompt
    async def prompt(turn: Turn) -> None:
        roots = (str(folder),)
        async with turn.tool("Work", id="call_1"):
            access = ClientAccess(turn, LocalAccess(roots), v1.ToolCallPatch)
            begun.set_result(Workshop(folder, access))
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
