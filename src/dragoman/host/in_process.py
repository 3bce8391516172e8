"""An agent that runs in the process of the host: any `Agent`, such as the built-in one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.transports.memory import memory_pair

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.agent import Agent
    from dragoman.rpc import Transport


class InProcessAgent:
    """One agent object that serves each session's connection, without a program of its own.

    It is started at once and costs no memory of its own, and it shares the environment and the fate of the host: an
    agent that must have its client's environment, or must not take the host down, is run as a program instead.

    Args:
        name: what clients call the agent.
        agent: serves any number of connections; `build_agent` of the built-in agent makes one.
    """

    def __init__(self, name: str, agent: Agent) -> None:
        self.name = name
        self._agent = agent
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        """Open a connection for a session."""
        ours, theirs = memory_pair()
        task = asyncio.get_running_loop().create_task(self._agent.serve(theirs), name=f"dragoman-agent-{self.name}")
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)
        return ours
