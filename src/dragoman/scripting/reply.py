"""One question to one agent: `await ask(...)`, or `run(...)` without an event loop.

Owns what such a script wants and nothing else: the agent is started, gets one prompt in one new session, and is ended.
For several prompts, updates as they come or a cancel, use `spawn`.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.errors import LocalProtocolError
from dragoman.scripting.named import spawn

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from dragoman.client import ClientOptions
    from dragoman.schema import v1
    from dragoman.state import SessionState

    Command = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
    PromptParts = str | v1.ContentBlock | Sequence[str | v1.ContentBlock]


class Reply(Struct, frozen=True):
    """An agent's answer to one prompt; `print` shows its text."""

    text: str
    """The agent's message."""
    stop_reason: str
    """Why the turn ended: `end_turn` if the agent was done, otherwise `refusal`, `max_tokens`..."""
    state: SessionState
    """Everything else: tool calls, plan, thoughts, usage."""

    def __str__(self) -> str:
        return self.text


async def ask(
    agent: Command,
    prompt: PromptParts,
    *,
    cwd: str | os.PathLike[str] = ".",
    timeout: float | None = None,
    **options: Unpack[ClientOptions],
) -> Reply:
    """Ask an agent one question, in a new session.

    Args:
        agent: its name, such as `"gemini"`, or its command: `["python", "my_agent.py"]`.
        prompt: the text, or several blocks: `["What is this?", image("photo.png")]`.
        cwd: the folder the agent works in.
        timeout: how many seconds start and answer may take together; None sets no limit.
        options: services, such as `permission=rules("edit:src/**")`; see `dragoman.client.ClientOptions`. Without a
            permission service nothing that the agent asks for is allowed.

    Raises:
        ConfigError: there is no such agent, or it cannot be started.
        RequestError: the agent answered with an error; AuthRequired if the user has to log in first.
        ConnectionClosed: the agent ended; AgentExited with its exit code.
        TimeoutError: the time is over. The agent and everything it started were ended.
    """
    command = [agent] if isinstance(agent, str | os.PathLike) else list(agent)
    async with asyncio.timeout(timeout), spawn(*command, cwd=cwd, **options) as remote:
        session = await remote.new_session(cwd)
        response = await session.prompt(prompt)
        return Reply(session.state.text, response.stop_reason, session.state)


def run(
    agent: Command,
    prompt: PromptParts,
    *,
    cwd: str | os.PathLike[str] = ".",
    timeout: float | None = None,
    **options: Unpack[ClientOptions],
) -> Reply:
    """Ask an agent one question and wait for the answer; for programs without an event loop. Takes what `ask` takes.

    Raises: what `ask` raises; LocalProtocolError if an event loop runs in this thread.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(ask(agent, prompt, cwd=cwd, timeout=timeout, **options))
    raise LocalProtocolError(
        "dragoman.run waits for the answer and an event loop runs here; use: await dragoman.ask(...)"
    )
