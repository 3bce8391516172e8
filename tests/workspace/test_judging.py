"""A long request is judged without stopping the event loop, by the client and by the built-in agent."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from dragoman.builtin.permission import ToolPermissions
from dragoman.client.permission import ClientPermissions
from dragoman.policy import Command, Request, Rule, Verdict, parse_rule
from dragoman.workspace import judging
from dragoman.workspace.judging import LONG_LETTERS
from tests.client.permission_kit import turn_of

ALLOWED = parse_rule("*", "allow", "flag", "--allow")
SECONDS = 60.0


class SlowJudge:
    """Takes as long as the event loop needs to do something else."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.threads: list[threading.Thread] = []

    def __call__(self, rules: Any, request: Request) -> Verdict:
        self.threads.append(threading.current_thread())
        if threading.current_thread() is not threading.main_thread():
            answered = threading.Event()
            self.loop.call_soon_threadsafe(answered.set)
            assert answered.wait(SECONDS), "the event loop did nothing while this was judged"
        return Verdict("allow", ALLOWED, "")


class Rules:
    """The rules of a session of the built-in agent."""

    def of(self, project: str) -> list[Rule]:
        return [ALLOWED]


class FullMode:
    """A mode without rules of its own."""

    def refusal(self, request: Request) -> None:
        return None

    def rules(self, roots: Any) -> list[Rule]:
        return []


def line(length: int) -> Request:
    return Request("a", "execute", command=Command(line="echo " + "a" * length), root="/p")


async def client_decides(request: Request) -> None:
    permissions = ClientPermissions([ALLOWED], agent="a")
    async with turn_of(permissions) as (_, session):
        await permissions.check(request, session)


async def agent_decides(request: Request) -> None:
    async def ask(options: Any) -> Any:
        raise AssertionError("it is allowed")

    permissions = ToolPermissions(Rules(), FullMode, ["/p"])  # type: ignore[arg-type]  # as much as is used here
    assert (await permissions.decide([request], ask)).is_allowed


@pytest.mark.parametrize("decide", [client_decides, agent_decides], ids=["client", "agent"])
async def test_the_event_loop_answers_while_a_long_line_is_judged(decide: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    judge = SlowJudge(asyncio.get_running_loop())
    monkeypatch.setattr(judging, "judge", judge)
    await decide(line(LONG_LETTERS))
    assert threading.main_thread() not in judge.threads
    judge.threads.clear()
    await decide(line(10))
    assert judge.threads == [threading.main_thread()], "a thread would take longer than judging a short line"
