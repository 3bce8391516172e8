"""The tool of LangChain: `thread_id` is the conversation, progress goes to the custom stream of a graph."""

from __future__ import annotations

import asyncio
from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, DragomanError, LocalProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.scripting.tools.agent_tool import AgentTool
    from dragoman.scripting.tools.task_agent import TaskProgress


def make_tool(tool: AgentTool) -> Any:
    """The tool for an agent of LangChain, or a node of LangGraph. Raises: ConfigError if LangChain is not there."""
    try:
        tools = import_module("langchain_core.tools")
        config_type = import_module("langchain_core.runnables").RunnableConfig
    except ModuleNotFoundError:
        raise ConfigError("LangChain is not installed; install it with: pip install 'dragoman[langgraph]'") from None

    async def call(task: str, config: Any) -> str:
        write = _stream_writer()

        async def report(progress: TaskProgress) -> None:
            if write is not None:
                write({"tool": tool.name, "message": progress.message, "steps": progress.steps})

        thread = (config.get("configurable") or {}).get("thread_id")
        try:
            conversation = None if thread is None else str(thread)
            result = await tool.run(task, conversation=conversation, on_progress=report)
        except ConfigError:
            raise  # a model cannot help that
        except (DragomanError, TimeoutError) as error:
            raise tools.ToolException(f"{tool.name} failed: {str(error) or 'it took too long'}") from error
        return str(result)

    def call_and_wait(task: str, config: Any) -> str:
        if tool.is_kept:
            raise LocalProtocolError("inside async with, call the agent by ainvoke or astream; invoke blocks its loop")
        return asyncio.run(call(task, config))

    # LangChain looks annotations up by itself; the type of `config` makes it pass the one of the run.
    for each in (call, call_and_wait):
        each.__annotations__ = {"task": str, "config": config_type, "return": str}
    return tools.StructuredTool.from_function(
        call_and_wait, call, name=tool.name, description=tool.description, handle_tool_error=True
    )


def _stream_writer() -> Callable[[Any], None] | None:
    """The custom stream of the graph that runs; None outside of one."""
    try:
        writer: Callable[[Any], None] = import_module("langgraph.config").get_stream_writer()
    except (ImportError, RuntimeError, KeyError):
        return None
    return writer
