"""An agent of pydantic-ai whose model plays a script, and the servers that pydantic-ai makes of it."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest

# Imported here and not in a test: that takes seconds on a busy machine, and a test has a bound.
pytest.importorskip("pydantic_ai")
pytest.importorskip("ag_ui")
import uvicorn
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from pydantic_ai.ui.vercel_ai import VercelAIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route


async def plays(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """`DELETE path`, `BOOM`, `THINK`, `WAIT`, `FAIL`; anything else is repeated. After a tool: its result."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    returned = [part for part in last.parts if isinstance(part, ToolReturnPart)]
    prompts = [part for part in last.parts if isinstance(part, UserPromptPart)]
    if returned and not prompts:
        yield "Tool "
        yield f"finished: {' '.join(str(part.content) for part in returned)}"
        return
    content = prompts[-1].content
    text = content if isinstance(content, str) else str(content[0])
    word, _, rest = text.partition(" ")
    if word == "DELETE":
        for index, path in enumerate(rest.split()):
            call = DeltaToolCall("delete_file", f'{{"path": "{path}"}}', tool_call_id=f"call_{index}_{len(messages)}")
            yield {index: call}
    elif word == "BOOM":
        yield {0: DeltaToolCall("boom", "{}", tool_call_id="call_boom")}
    elif word == "THINK":
        yield {0: DeltaThinkingPart(content="hm, ")}
        yield {0: DeltaThinkingPart(content="well")}
        yield "thought"
    elif word == "WAIT":
        yield "waiting"
        await asyncio.Event().wait()
    elif word == "FAIL":
        raise RuntimeError("model down")
    else:
        users = [part for each in messages for part in each.parts if isinstance(part, UserPromptPart)]
        media = "" if isinstance(content, str) else f" with {type(content[1]).__name__}"
        yield f"{len(users)}: {text}{media}"


def make_agent(deleted: list[str], *, ends_with_questions: bool = False) -> Any:
    output: Any = [str, DeferredToolRequests] if ends_with_questions else str
    agent: Any = Agent(FunctionModel(stream_function=plays), name="cleaner", output_type=output)

    @agent.tool_plain(requires_approval=True)  # type: ignore[untyped-decorator]  # of an agent that may be anything
    def delete_file(path: str) -> str:
        deleted.append(path)
        return f"deleted {path}"

    @agent.tool_plain  # type: ignore[untyped-decorator]
    def boom() -> str:
        raise ValueError("tool broke")

    return agent


@asynccontextmanager
async def served(
    agent: Any, kind: Literal["ag_ui", "ui_stream"], sdk_version: Literal[5, 6, 7] = 6
) -> AsyncIterator[str]:
    """The agent behind HTTP, as pydantic-ai itself serves it. Gives the address."""

    async def answer(request: Request) -> Response:
        if kind == "ag_ui":
            return await AGUIAdapter.dispatch_request(request, agent=agent)
        return await VercelAIAdapter.dispatch_request(request, agent=agent, sdk_version=sdk_version)

    app = Starlette(routes=[Route("/chat", answer, methods=["POST"])])
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]  # they belong to the tests
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/chat"
    finally:
        server.should_exit = server.force_exit = True
        await serving
        listener.close()
