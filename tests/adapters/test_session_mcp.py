"""MCP servers of the client as tools of a wrapped agent of pydantic-ai."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
pytest.importorskip("pydantic_ai")
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelRequest, RetryPromptPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

from dragoman.adapters import wrap
from dragoman.process import proctable
from dragoman.schema import v1
from tests.adapters.fixtures import Answers, ask, client_of, statuses, text_of

PROGRAM = str(Path(__file__).with_name("mcp_program.py"))
SECONDS = 60.0


async def plays(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """`TOOL ARGUMENTS` calls the tool whose name ends so; anything else lists the tools. After a tool: its result."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    for part in last.parts:
        if isinstance(part, ToolReturnPart | RetryPromptPart):
            yield f"got: {part.content}"
            return
    prompts = [str(part.content) for part in last.parts if isinstance(part, UserPromptPart)]
    word, _, rest = prompts[-1].partition(" ")
    names = [tool.name for tool in info.function_tools]
    for name in names:
        if name.endswith(f"__{word}"):
            yield {0: DeltaToolCall(name, rest or "{}", tool_call_id=f"c{len(messages)}")}
            return
    yield " ".join(names) or "no tools"


def server(folder: Path, *, name: str = "calculator") -> v1.McpServerStdio:
    return v1.McpServerStdio(name, sys.executable, [PROGRAM, str(folder / "pid")], [])


def wrapped(folder: Path) -> Any:
    return wrap(Agent(FunctionModel(stream_function=plays), name="caller"), store=folder / "s.db")


async def test_tools_of_the_servers_that_start_are_called_after_the_user_permits_it(tmp_path: Path) -> None:
    answers = Answers("allow", "reject", "allow")
    broken = v1.McpServerStdio("broken", sys.executable, ["-c", "raise SystemExit(3)"], [])
    away = v1.McpServerHttp("away", "http://127.0.0.1:1/mcp", [])
    async with asyncio.timeout(SECONDS), client_of(wrapped(tmp_path), permission=answers) as remote:
        session = await remote.new_session(tmp_path, mcp_servers=[broken, server(tmp_path), away])
        updates = await ask(session, "list")
        assert "mcp__calculator__add mcp__calculator__fail" in text_of(updates)
        assert "broken: " in json.dumps(updates)
        assert "away: " in json.dumps(updates)
        updates = await ask(session, 'add {"a": 2, "b": 3}')
        assert text_of(updates) == "got: sum 5"
        assert statuses(updates)[-1] == "completed"
        assert "did not permit" in text_of(await ask(session, 'add {"a": 2, "b": 3}'))
        assert "on purpose" in text_of(await ask(session, "fail"))
        assert answers.asked[0].tool_call.raw_input == {"a": 2, "b": 3}
        plain = await remote.new_session(tmp_path)
        assert text_of(await ask(plain, "list")) == "no tools"
        assert is_running(tmp_path)
    assert not is_running(tmp_path)


def is_running(folder: Path) -> bool:
    try:
        return proctable.status(int((folder / "pid").read_text())).is_alive
    except OSError:
        return False
