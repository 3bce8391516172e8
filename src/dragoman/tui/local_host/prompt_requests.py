"""Requests to the host: what the agent takes in prompts, the order of those that wait, and to start it again."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.tui.questions.failures import not_resumed
from dragoman.tui.values import AgentInput

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.client import RemoteAgent
    from dragoman.tui.questions.failures import Failure

_ORDER_TRIES: Final = 20  # with the pause below 0.4 seconds, more than a prompt takes to a host on this machine


async def read_input(remote: RemoteAgent, session_id: str) -> AgentInput:
    """Return what the agent takes; a host of an older version does not know, and gets text and links."""
    with suppress(RequestError, ConnectionClosed):
        found = await remote.request("_dragoman/input", {"sessionId": session_id})
        if isinstance(found, dict):
            image, embedded, steer = (found.get(name) is True for name in ("image", "embeddedContext", "steer"))
            return AgentInput(image, embedded, steer)
    return AgentInput()


async def send_order(remote: RemoteAgent, session_id: str, waiting: Callable[[], list[str]]) -> str:
    """Send the order of the prompts that wait. Returns what went wrong, for the user; empty if nothing did."""
    for _ in range(_ORDER_TRIES):
        try:
            answer = await remote.request("_dragoman/reorder", {"sessionId": session_id, "promptIds": waiting()})
        except (RequestError, ConnectionClosed) as error:
            return f"the host did not take the order of the prompts: {error}"
        known = answer.get("promptIds") if isinstance(answer, dict) else None
        if not isinstance(known, list) or set(waiting()) <= set(known):
            break
        await asyncio.sleep(0.02)  # one that was sent a moment ago is still on its way
    return ""


async def restart_agent(remote: RemoteAgent, session_id: str | None, agent: str) -> Failure | None:
    """Start the agent of a session again; returns why it does not take up the session. Raises: ConnectionClosed."""
    try:
        await remote.request("_dragoman/restart_agent", {"sessionId": session_id})
    except RequestError as error:
        return not_resumed(error, agent)
    return None
