"""`task`: gives a part of the work to a subagent, which has a conversation of its own and answers with one text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec import Meta, Struct

from dragoman.builtin.tools import paths
from dragoman.builtin.tools.tool import Kind, Preview, Tool, ToolError, ToolOutput
from dragoman.builtin.turn import TurnContext
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from dragoman.builtin.subagents.subagents import SubagentScope
    from dragoman.builtin.tools.tool import ToolContext
    from dragoman.policy import Request

_TITLE_CHARACTERS: Final = 80


class TaskArguments(Struct):
    """The task, and who does it."""

    description: Annotated[str, Meta(description="The task in three to six words, for the user.")]
    prompt: Annotated[
        str,
        Meta(
            description="The whole task. The subagent does not see this conversation: state the goal, what you "
            "know, the files, and what its answer must contain."
        ),
    ]
    agent: Annotated[str | None, Meta(description="Name of the agent, from the list.")] = None
    id: Annotated[
        str | None,
        Meta(description="Id of an earlier task, such as task_1, to go on with its conversation; agent is not needed."),
    ] = None
    background: Annotated[
        bool | None,
        Meta(description="Go on at once. You are informed of its end; look with bash_output, end it with bash_stop."),
    ] = None


class TaskTool(Tool):
    """The tool that starts subagents."""

    name: Final = "task"
    kind: Final[Kind] = "other"
    arguments: Final = TaskArguments
    description: Final = (
        "Give a task to a subagent. It works by itself, with tools and a conversation of its own, and you get its "
        "answer; the user sees only what you pass on. Use it for searches through many files, and for parts of the "
        "work that do not depend on each other: several calls in one message run at the same time. Do not use it for "
        "what one or two calls do. Check what matters in its answer."
    )

    def preview(self, arguments: dict[str, Any], cwd: str) -> Preview:
        what = paths.word(arguments, "description") or paths.word(arguments, "prompt")
        who = paths.word(arguments, "agent") or paths.word(arguments, "id") or "Subagent"
        title = f"{who}: {what}" if what else who
        return Preview(shorten(" ".join(title.split()), _TITLE_CHARACTERS))

    async def check(self, arguments: TaskArguments, context: ToolContext) -> Preview | None:
        if not arguments.prompt.strip():
            raise ToolError("prompt is empty; write the whole task")
        await _scope(context).subagents.check(arguments.agent, arguments.id)
        needed = self.requests(arguments, context)
        return Preview(needed[0].title) if needed else None  # what the user permits

    def requests(self, arguments: TaskArguments, context: ToolContext) -> tuple[Request, ...]:
        return _scope(context).subagents.requests(arguments.agent, arguments.id, context.cwd)

    async def run(self, arguments: TaskArguments, context: ToolContext) -> ToolOutput:
        assert isinstance(context, TurnContext)
        return await _scope(context).subagents.run(
            context,
            agent=arguments.agent,
            id=arguments.id,
            description=arguments.description,
            prompt=arguments.prompt,
            is_background=bool(arguments.background),
        )


def _scope(context: ToolContext) -> SubagentScope:
    scope = context.subagents if isinstance(context, TurnContext) else None
    if scope is None or not scope.may_delegate:
        raise ToolError("no subagent can be started from here; do the work yourself")
    return scope
