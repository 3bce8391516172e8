"""`as_tool`: an ACP agent as a tool of an agent of pydantic-ai or LangChain.

Owns which session a call belongs to. A framework is imported when a tool of it is made.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Literal

from dragoman.errors import ConfigError, DragomanError, LocalProtocolError
from dragoman.scripting.tools.task_agent import MAX_CHARACTERS, AgentName, TaskAgent

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from types import TracebackType

    from pydantic_ai import CustomEvent, RunContext

    from dragoman.scripting.tools.task_agent import Report, TaskProgress, TaskResult


SessionScope = Literal["call", "conversation"]
_MOST_CONVERSATIONS: Final = 1000


class AgentTool:
    """An agent as a tool. `for_pydantic_ai` and `for_langchain` make the tool of a framework; `run` does a task.

    Use it in `async with` to keep the agent's process for all calls; otherwise each call starts and ends one.
    """

    def __init__(
        self, task_agent: TaskAgent, name: str, description: str, session: SessionScope, timeout: float | None
    ) -> None:
        self.name = name
        self.description = description
        self._task_agent = task_agent
        self._scope = session
        self._timeout = timeout
        self._conversations: dict[str, str] = {}

    @property
    def is_kept(self) -> bool:
        """Whether an `async with` block keeps the agent."""
        return self._task_agent.is_kept

    async def __aenter__(self) -> AgentTool:
        await self._task_agent.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._task_agent.__aexit__(kind, error, trace)

    async def run(self, task: str, *, conversation: str | None = None, on_progress: Report | None = None) -> TaskResult:
        """Do a task.

        Args:
            task: what the agent is asked to do.
            conversation: calls of one conversation share a session, if that was chosen; None is one of its own.
            on_progress: called when the agent begins something else.

        Raises:
            ConfigError: the agent cannot be started.
            DragomanError: it failed.
            TimeoutError: the time for a call is over; the turn was cancelled.
        """
        key = conversation if self._scope == "conversation" else None
        known = None if key is None else self._conversations.get(key)
        try:
            result = await self._task_agent.run(task, session_id=known, on_progress=on_progress, timeout=self._timeout)
        except DragomanError:
            if key is not None:
                self._conversations.pop(key, None)  # the next call begins again, instead of failing in the same way
            raise
        if key is not None:
            self._conversations[key] = result.session_id
            while len(self._conversations) > _MOST_CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]
        return result

    def for_pydantic_ai(self) -> Any:
        """Make a `pydantic_ai.Tool`, for `Agent(..., tools=[...])`. Progress is an event `agent_tool_progress`.

        Raises:
            ConfigError: pydantic-ai is not installed.
        """
        return _pydantic_tool(self)

    def for_langchain(self) -> Any:
        """Make a `StructuredTool` of LangChain, for `create_agent(..., tools=[...])` and graphs of LangGraph.

        Raises:
            ConfigError: LangChain is not installed.
        """
        return _langchain_tool(self)


def as_tool(
    agent: AgentName,
    *,
    name: str | None = None,
    description: str | None = None,
    cwd: str | os.PathLike[str] = ".",
    session: SessionScope = "call",
    max_characters: int = MAX_CHARACTERS,
    timeout: float | None = None,
    token: str | None = None,
    **options: Any,
) -> AgentTool:
    """Make an ACP agent a tool of another agent.

    Args:
        agent: its name (`"claude"`), its command (`["python", "my_agent.py"]`), its URL, or a connection to it.
        name: of the tool; the agent's name if None.
        description: what a model reads to decide when to use it.
        cwd: the folder the agent works in.
        session: `call`: each call is a conversation of its own. `conversation`: calls of one conversation of the
            framework share a session; that needs an agent that can load sessions, or `async with`.
        max_characters: how long a result may be; the middle of a longer one is left out.
        timeout: how many seconds a call may take; None sets no limit.
        token: for a URL: the bearer token.
        options: services, such as `permission=rules("edit:src/**")`; see `dragoman.client.ClientOptions`. Without a
            permission service everything that the agent asks for is refused, and the result says so.

    Raises:
        ConfigError: an argument is wrong.
    """
    if session not in ("call", "conversation"):
        raise ConfigError(f"session is 'call' or 'conversation', not {session!r}")
    if max_characters < 200:
        raise ConfigError("max_characters must be 200 or more")
    task_agent = TaskAgent(agent, cwd=cwd, token=token, max_characters=max_characters, **options)
    called = name or re.sub(r"[^A-Za-z0-9_-]+", "_", task_agent.name).strip("_")[:64] or "agent"
    return AgentTool(task_agent, called, description or _describe(task_agent.name, session), session, timeout)


def _describe(name: str, session: SessionScope) -> str:
    memory = (
        "It remembers earlier tasks of this conversation."
        if session == "conversation"
        else "It remembers nothing of earlier tasks, so describe each one completely."
    )
    return (
        f"Give a task to {name}, an agent that works by itself in its own folder: it reads and changes files and runs "
        f"commands, as far as it is permitted, and answers with a report. {memory}"
    )


@cache
def progress_event() -> type[CustomEvent]:
    """Make the event that reports what the agent behind a tool is doing; its name is `agent_tool_progress`."""
    from dataclasses import dataclass

    from pydantic_ai import CustomEvent

    @dataclass(kw_only=True)
    class AgentToolProgress(CustomEvent):
        """What the agent behind a tool is doing right now, in the event stream of a run."""

        message: str
        steps: int

    return AgentToolProgress


def _pydantic_tool(tool: AgentTool) -> Any:
    """Make the tool for an agent of pydantic-ai. Raises: ConfigError if pydantic-ai is not there."""
    try:
        import pydantic_ai
        from pydantic_ai.exceptions import UserError
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "pydantic_ai":
            raise  # the framework is there; something that it needs is missing
        from dragoman.extras import install_command

        raise ConfigError(f"pydantic-ai is not installed; install it with: {install_command('pydantic-ai')}") from None
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


def _langchain_tool(tool: AgentTool) -> Any:
    """Make the tool for an agent of LangChain, or a node of LangGraph.

    Raises: ConfigError if LangChain is not there.
    """
    try:
        tools = import_module("langchain_core.tools")
        config_type = import_module("langchain_core.runnables").RunnableConfig
    except ModuleNotFoundError:
        from dragoman.extras import install_command

        raise ConfigError(f"LangChain is not installed; install it with: {install_command('langgraph')}") from None

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
    for function in (call, call_and_wait):
        function.__annotations__ = {"task": str, "config": config_type, "return": str}
    return tools.StructuredTool.from_function(
        call_and_wait, call, name=tool.name, description=tool.description, handle_tool_error=True
    )


def _stream_writer() -> Callable[[Any], None] | None:
    """Return the custom stream of the graph that runs; None outside of one."""
    try:
        writer: Callable[[Any], None] = import_module("langgraph.config").get_stream_writer()
    except (ImportError, RuntimeError, KeyError):
        return None
    return writer
