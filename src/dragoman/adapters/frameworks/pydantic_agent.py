"""An agent of pydantic-ai: its events, its history, and a permission handler for each run.

Owns running it. The user's agent is not changed: the handler is passed with the run. The model's history is
pydantic-ai's own, kept with the session; what is shown again comes from the stored messages.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.frameworks.missing import load
from dragoman.adapters.frameworks.pydantic_events import PydanticEvents
from dragoman.adapters.frameworks.session_mcp import McpToolError, SessionMcp, can_use_mcp
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AskOption
from dragoman.errors import ConfigError
from dragoman.schema import v1
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.frameworks.session_mcp import SessionMcpTool
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer

_EXTRA: Final = "pydantic-ai"
_HISTORY: Final = "pydantic_ai"
_OPTIONS: Final = (
    AskOption("allow", "Allow"),
    AskOption("edit", "Allow with changes", edits=True),
    AskOption("reject", "Reject", allows=False),
)


class PydanticAIAdapter(Adapter):
    """An agent of pydantic-ai.

    Args:
        agent: a `pydantic_ai.Agent`.
        deps: the dependencies that its tools get.
        options: further arguments of every run, such as `model_settings` or `usage_limits`.
    """

    accepts = ("image", "audio", "embedded_context")

    def __init__(self, agent: Any, *, deps: Any = None, **options: Any) -> None:
        if not hasattr(agent, "run_stream_events"):
            raise ConfigError(f"{type(agent).__name__} is not an agent of pydantic-ai; pass a pydantic_ai.Agent")
        load("pydantic_ai", _EXTRA)
        self._agent = agent
        self._deps = deps
        self._options = options
        self.name = getattr(agent, "name", None) or "pydantic-ai"
        self.takes_mcp_servers = can_use_mcp()
        self.mcp = ("http", "sse") if self.takes_mcp_servers else ()

    async def open(self, session: AdapterSession) -> None:
        if session.mcp_servers and self.takes_mcp_servers:
            session.state = SessionMcp(session.mcp_servers, session.cwd)

    async def close_session(self, session: AdapterSession) -> None:
        if isinstance(session.state, SessionMcp):
            await session.state.close()

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        capabilities = load("pydantic_ai.capabilities", _EXTRA)
        handler = capabilities.HandleDeferredToolCalls(handler=_handler(ctx))
        events = PydanticEvents(asks_inside=True)
        pydantic_ai = load("pydantic_ai", _EXTRA)
        options = {"deps": self._deps, **self._options}
        options["capabilities"] = [*options.get("capabilities", ()), handler]
        if isinstance(ctx.session.state, SessionMcp):
            tools = await ctx.session.state.tools()
            for problem in ctx.session.state.problems():
                yield c.Data(
                    "notice", {"severity": "warning", "title": "An MCP server is not used", "description": problem}
                )
            if tools:
                toolset = load("pydantic_ai.toolsets", _EXTRA).FunctionToolset([_tool(tool) for tool in tools])
                options["toolsets"] = [*options.get("toolsets", ()), toolset]
        history = _read_history(ctx.session.metadata.get(_HISTORY))
        with pydantic_ai.capture_run_messages() as messages:
            try:
                stream = self._agent.run_stream_events(_prompt(ctx.blocks), message_history=history, **options)
                async with stream as run:
                    async for event in run:
                        for chunk in events.feed(event):
                            yield chunk
            finally:
                # Also of a run that failed or was cancelled: the model is given what the user saw.
                ctx.session.metadata = {**ctx.session.metadata, _HISTORY: _write_history(messages or history)}


def _handler(ctx: PromptContext) -> Any:
    """Return the permission handler of one run."""

    async def ask(run: Any, requests: Any) -> Any:
        tools = load("pydantic_ai.tools", _EXTRA)
        answers: dict[str, Any] = {}
        for part in requests.approvals:
            answer = await ctx.ask(part.tool_call_id, _OPTIONS)
            answers[part.tool_call_id] = _as_result(tools, answer)
        refusal = "This tool runs outside of the agent, and this client does not have it."
        return tools.DeferredToolResults(
            approvals=answers, calls={part.tool_call_id: tools.ToolDenied(refusal) for part in requests.calls}
        )

    return ask


def _as_result(tools: Any, answer: AskAnswer) -> Any:
    if not answer.allowed:
        return tools.ToolDenied(answer.reason or "The user did not permit this tool call.")
    return tools.ToolApproved() if answer.input is UNSET else tools.ToolApproved(override_args=answer.input)


def _tool(tool: SessionMcpTool) -> Any:
    """Return a tool of an MCP server. The user is asked about each call, of which the framework knows nothing."""
    pydantic_ai = load("pydantic_ai", _EXTRA)

    async def call(**arguments: Any) -> str:
        try:
            return await tool.call(arguments)
        except McpToolError as error:
            raise pydantic_ai.ModelRetry(str(error)) from error

    made = pydantic_ai.Tool.from_schema(call, tool.name, tool.description, tool.schema)
    made.requires_approval = True
    return made


def _prompt(blocks: Sequence[v1.ContentBlock]) -> Any:
    """Return the prompt in pydantic-ai's form."""
    messages = load("pydantic_ai.messages", _EXTRA)
    media = [block for block in blocks if isinstance(block, (v1.ImageContent, v1.AudioContent))]
    text = text_of(blocks)
    if not media:
        return text
    return [
        text,
        *(messages.BinaryContent(data=b64decode(medium.data), media_type=medium.mime_type) for medium in media),
    ]


def _read_history(stored: Any) -> list[Any]:
    adapter = load("pydantic_ai.messages", _EXTRA).ModelMessagesTypeAdapter
    found: list[Any] = adapter.validate_python(stored) if isinstance(stored, list) else []
    return found


def _write_history(messages: Sequence[Any]) -> Any:
    """Return the history as JSON data. pydantic-ai itself ends calls without a result in the next run."""
    types = load("pydantic_ai.messages", _EXTRA)
    return msgspec.json.decode(types.ModelMessagesTypeAdapter.dump_json(list(messages)))
