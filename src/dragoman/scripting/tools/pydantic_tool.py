"""The tool of pydantic-ai: progress as events of the run, failures as something the model can react to."""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from pydantic_ai import CustomEvent, RunContext

    from dragoman.scripting.tools.agent_tool import AgentTool
    from dragoman.scripting.tools.task_agent import TaskProgress


@cache
def progress_event() -> type[CustomEvent]:
    """The event that reports what the agent behind a tool is doing; its name is `agent_tool_progress`."""
    from dataclasses import dataclass

    from pydantic_ai import CustomEvent

    @dataclass(kw_only=True)
    class AgentToolProgress(CustomEvent):
        """What the agent behind a tool is doing right now, in the event stream of a run."""

        message: str
        steps: int

    return AgentToolProgress


def make_tool(tool: AgentTool) -> Any:
    """The tool for an agent of pydantic-ai. Raises: ConfigError if pydantic-ai is not there."""
    try:
        import pydantic_ai
        from pydantic_ai.exceptions import UserError
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pydantic_ai":
            raise  # the framework is there; something that it needs is missing
        raise ConfigError(
            "pydantic-ai is not installed; install it with: pip install 'dragoman[pydantic-ai]'"
        ) from None
    event: Any = progress_event()

    async def call(ctx: RunContext[Any], task: str) -> str:
        async def report(progress: TaskProgress) -> None:
            with suppress(UserError):  # a run without an event stream
                await ctx.emit(event(message=progress.message, steps=progress.steps))

        try:
            result = await tool.run(task, conversation=ctx.conversation_id, on_progress=report)
        except ConfigError:
            raise  # a model cannot help that
        except (DragomanError, TimeoutError) as error:
            raise pydantic_ai.ModelRetry(f"{tool.name} failed: {str(error) or 'it took too long'}") from error
        return str(result)

    # The annotations are texts, which pydantic-ai would look up in this module.
    call.__annotations__ = {"ctx": pydantic_ai.RunContext[Any], "task": str, "return": str}
    return pydantic_ai.Tool(call, takes_ctx=True, name=tool.name, description=tool.description)
