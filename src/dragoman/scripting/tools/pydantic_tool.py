"""The tool of pydantic-ai: progress as events of the run, failures as something the model can react to."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConfigError, DragomanError

try:
    from pydantic_ai import CustomEvent, ModelRetry, RunContext, Tool
    from pydantic_ai.exceptions import UserError
except ModuleNotFoundError:
    raise ConfigError("pydantic-ai is not installed; install it with: pip install 'dragoman[pydantic-ai]'") from None

if TYPE_CHECKING:
    from dragoman.scripting.tools.agent_tool import AgentTool
    from dragoman.scripting.tools.delegate import TaskProgress


@dataclass(kw_only=True)
class AgentToolProgress(CustomEvent):
    """What the agent behind a tool is doing right now, in the event stream of a run."""

    message: str
    steps: int


def make_tool(tool: AgentTool) -> Tool[Any]:
    """The tool for an agent of pydantic-ai."""

    async def call(ctx: RunContext[Any], task: str) -> str:
        async def report(progress: TaskProgress) -> None:
            with suppress(UserError):  # a run without an event stream
                await ctx.emit(AgentToolProgress(message=progress.message, steps=progress.steps))

        try:
            result = await tool.run(task, conversation=ctx.conversation_id, on_progress=report)
        except ConfigError:
            raise  # a model cannot help that
        except (DragomanError, TimeoutError) as error:
            raise ModelRetry(f"{tool.name} failed: {str(error) or 'it took too long'}") from error
        return str(result)

    # The annotations are texts, which pydantic-ai would look up in this module.
    call.__annotations__ = {"ctx": RunContext[Any], "task": str, "return": str}
    return Tool(call, takes_ctx=True, name=tool.name, description=tool.description)
