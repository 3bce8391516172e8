"""Plays written solutions through the built-in agent in this process: real tools and permissions, no start-up.

A run of `dragoman eval` starts two programs; proving twenty judges that way takes a minute. Here the same scripts go
through the same agent over a transport in memory, so that only the judges run as programs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.agent import build_agent
from dragoman.builtin.settings import AgentSettings
from dragoman.client import Session
from dragoman.evaluation.drive import Driven
from dragoman.evaluation.sandbox import SandboxCopy, agent_environment, mcp_config
from dragoman.evaluation.task import Solution, Task
from dragoman.schema import v1
from dragoman.scripting import allow_once, rules
from dragoman.testing import linked
from dragoman.trace import Recorder


def in_process(solution: Solution, monkeypatch: pytest.MonkeyPatch, model: str | None = None) -> Any:
    """A driver for `attempt` that plays a solution here; with a model, its provider has to play it."""

    async def driver(task: Task, sandbox: SandboxCopy, folder: Path) -> Driven:
        for name, value in agent_environment(task, sandbox, os.environ).items():
            monkeypatch.setenv(name, value)
        settings = AgentSettings(
            model=model or f"scripted:{task.script(solution)}",
            store=folder / "sessions.db",
            rules_file=folder / "rules.json",
        )
        decided = rules(*task.settings.allow, deny=task.settings.deny)
        permission: Any = allow_once if task.settings.allows_all else decided
        recorder = Recorder(folder / "recording.jsonl")
        async with linked(build_agent(settings), permission=permission, observers=[recorder]) as agent:
            session = await agent.new_session(sandbox.work, mcp_servers=servers_of(task, sandbox))
            answer = await session.prompt(task.instruction)
        return Driven(result=result_of(session, answer.stop_reason))

    return driver


def servers_of(task: Task, sandbox: SandboxCopy) -> list[v1.McpServer]:
    found = mcp_config(task, sandbox)["mcpServers"]
    return [
        v1.McpServerStdio(args=each["args"], command=each["command"], env=[], name=name) for name, each in found.items()
    ]


def result_of(session: Session, stop_reason: str) -> dict[str, Any]:
    """What the judge needs of the result of `dragoman exec`."""
    calls = [
        {
            "id": call.id,
            "title": call.title,
            "kind": call.kind,
            "status": call.status,
            "input": call.raw_input,
            "command": call.raw_input.get("command") if isinstance(call.raw_input, dict) else None,
        }
        for call in session.state.tool_calls.values()
    ]
    return {
        "exit_code": 0,
        "text": session.state.text,
        "stop_reason": stop_reason,
        "tool_calls": calls,
        "durations": {"turn_ms": 1},
    }
