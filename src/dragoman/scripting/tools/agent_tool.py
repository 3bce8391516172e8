"""`as_tool`: an ACP agent as a tool of an agent of pydantic-ai or LangChain.

Owns which session a call belongs to. The tools of the frameworks themselves are in `pydantic_tool.py` and
`langchain_tool.py`, loaded when one is made.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

from dragoman.errors import ConfigError, DragomanError
from dragoman.scripting.tools.task_agent import MAX_CHARACTERS, AgentName, TaskAgent

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from dragoman.scripting.tools.task_agent import Report, TaskResult

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
        """A `pydantic_ai.Tool`, for `Agent(..., tools=[...])`. Progress is an event `agent_tool_progress`.

        Raises:
            ConfigError: pydantic-ai is not installed.
        """
        from dragoman.scripting.tools.pydantic_tool import make_tool

        return make_tool(self)

    def for_langchain(self) -> Any:
        """A `StructuredTool` of LangChain, for `create_agent(..., tools=[...])` and graphs of LangGraph.

        Raises:
            ConfigError: LangChain is not installed.
        """
        from dragoman.scripting.tools.langchain_tool import make_tool

        return make_tool(self)


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
    """An ACP agent as a tool of another agent.

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
