"""A wrapped source with a client, as an editor would use it; every frame is checked against the schema."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.adapters import AdapterAgent, wrap
from dragoman.client import RemoteAgent, Session, connect
from dragoman.schema import encode, v1
from dragoman.transports.memory import memory_pair
from tests.interop.wire_check import WireCheck

SHARED = Path(__file__).resolve().parents[3] / "shared"
RECORDINGS = SHARED / "adapter-streams"


class Answers:
    """Answers permission requests with the option of this kind or id, and records the requests."""

    def __init__(self, *wanted: str | None) -> None:
        self._wanted = list(wanted)
        self.asked: list[v1.RequestPermissionRequest] = []
        self.arrived = asyncio.Event()

    async def __call__(self, request: v1.RequestPermissionRequest, session: Session) -> str | None:
        self.asked.append(request)
        self.arrived.set()
        wanted = self._wanted.pop(0) if len(self._wanted) > 1 else self._wanted[0]
        if wanted == "wait":
            await asyncio.Event().wait()
        return next((each.option_id for each in request.options if wanted in (each.kind, each.option_id)), None)


class Forms:
    """Fills in every form with this content; None declines."""

    def __init__(self, content: dict[str, Any] | None) -> None:
        self._content = content
        self.asked: list[v1.ElicitationFormMode] = []

    async def form(
        self, request: v1.ElicitationFormMode, session: Session | None
    ) -> v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation:
        self.asked.append(request)
        return v1.DeclineElicitation() if self._content is None else v1.AcceptElicitation(self._content)


@asynccontextmanager
async def client_of(agent: AdapterAgent, *, is_leaving: bool = False, **options: Any) -> AsyncIterator[RemoteAgent]:
    """A client of the agent; what the agent sends is judged when the client leaves."""
    check = WireCheck()
    ours, theirs = memory_pair()
    serving = asyncio.create_task(agent.serve(theirs, observers=[check]))
    try:
        async with connect(ours, **options) as remote:
            yield remote
    finally:
        await serving
    if options.get("unstable"):
        return  # the stable schema does not describe it
    assert [problem for problem in check.problems() if not (is_leaving and "answered 0 times" in problem)] == []


@asynccontextmanager
async def session_of(source: Any, folder: Path, *, wraps: Any = None, **options: Any) -> AsyncIterator[Session]:
    """A new session of a wrapped source. `wraps`: further arguments of `wrap`."""
    agent = wrap(source, **{"store": folder / "sessions.db", **(wraps or {})})
    async with client_of(agent, **options) as remote:
        yield await remote.new_session(folder)


async def ask(session: Session, text: str) -> list[dict[str, Any]]:
    """Send one prompt and return every update as JSON."""
    return on_wire([update async for update in session.prompt(text)])


def on_wire(updates: list[v1.SessionUpdate]) -> list[dict[str, Any]]:
    return [json.loads(encode(update)) for update in updates]


def text_of(updates: list[dict[str, Any]], kind: str = "agent_message_chunk") -> str:
    return "".join(
        update["content"]["text"]
        for update in updates
        if update["sessionUpdate"] == kind and update["content"]["type"] == "text"
    )


def statuses(updates: list[dict[str, Any]], call: str | None = None) -> list[str]:
    """The statuses of a call, or of the only one."""
    return [
        update["status"]
        for update in updates
        if "toolCallId" in update and "status" in update and call in (None, update["toolCallId"])
    ]
