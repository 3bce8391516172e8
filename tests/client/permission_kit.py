"""An agent that asks what a test makes it ask, users who answer, and requests to decide about."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from dragoman.agent import Agent, Turn
from dragoman.client import Session
from dragoman.client.permission import ClientPermissions, Question
from dragoman.errors import RequestError
from dragoman.policy import Command, Request, Rule, parse_rule
from dragoman.schema import v1
from dragoman.testing import linked

FOUR = (
    v1.PermissionOption("always", "Always", "allow_always"),
    v1.PermissionOption("yes", "Yes", "allow_once"),
    v1.PermissionOption("never", "Never", "reject_always"),
    v1.PermissionOption("no", "No", "reject_once"),
)


def allow(text: str) -> Rule:
    return parse_rule(text, "allow", "flag", "--allow")


def deny(text: str) -> Rule:
    return parse_rule(text, "deny", "pinned", "rules.json")


def edit(path: str = "/p/src/a.py", **more: Any) -> v1.ToolCallPatch:
    return v1.ToolCallPatch("call_1", kind="edit", title="Edit", locations=[v1.ToolCallLocation(path)], **more)


def run(command: object) -> v1.ToolCallPatch:
    raw: Any = {"raw_input": {"command": command}} if command is not None else {}
    return v1.ToolCallPatch("call_1", kind="execute", title="Run", **raw)


class User:
    """A user who always chooses the same option; keeps the questions."""

    def __init__(self, answer: str | None) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def ask(self, question: Question, session: Session) -> str | None:
        self.asked.append(question)
        return self.answer


Ask = Callable[..., Awaitable[v1.RequestPermissionOutcome]]


@asynccontextmanager
async def turn_of(permissions: ClientPermissions, cwd: str = "/p") -> AsyncIterator[tuple[Ask, Session]]:
    """A turn that lasts as long as the body, whose agent asks what the body makes it ask."""
    agent = Agent("asking")
    started: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
    over = asyncio.Event()

    @agent.prompt
    async def reply(turn: Turn) -> None:
        if not started.done():
            started.set_result(turn)
        await over.wait()

    async with linked(agent, permission=permissions.permission) as remote:
        session = await remote.new_session(cwd=cwd)
        async with session.prompt("go") as prompting:
            turn = await started

            async def ask(call: v1.ToolCallPatch, options: Any = FOUR) -> v1.RequestPermissionOutcome:
                request = v1.RequestPermissionRequest(turn.session.id, call, list(options))
                client = turn.session.client
                answer = await client._ask("session/request_permission", request, v1.RequestPermissionResponse)
                return answer.outcome

            yield ask, session
            over.set()
            await prompting


def chosen(outcome: v1.RequestPermissionOutcome) -> str | None:
    return outcome.option_id if isinstance(outcome, v1.SelectedPermissionOutcome) else None


def write(path: str) -> Request:
    return Request("", "edit", f"Write {path}", paths=(path,))


def terminal(*words: str, shell: str | None = None) -> Request:
    return Request("", "execute", "Run", command=Command(words or None, shell))


async def refused(checking: Awaitable[None]) -> bool:
    try:
        await checking
    except RequestError:
        return True
    return False
