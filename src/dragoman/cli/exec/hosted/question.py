"""A question of the agent, asked at this terminal while the connection to the host is watched.

Loaded only when there is a question: this is where asyncio comes in. Another client may answer first, and the turn may
end; then the question is withdrawn from the terminal.
"""

from __future__ import annotations

import asyncio
import sys
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import msgspec

from dragoman.cli.console import uses_colour
from dragoman.cli.prompt.user import UserPrompt
from dragoman.client.permission import Question
from dragoman.client.reading import describe
from dragoman.host.local.thin import HostLost
from dragoman.host.working.question_details import read_details, words_of
from dragoman.schema import decode, encode, v1
from dragoman.state import SessionState, fold

if TYPE_CHECKING:
    from dragoman.cli.exec.hosted.turn import TurnView
    from dragoman.client.session import Session
    from dragoman.host.local.thin import Message, ThinClient

_NONE_CHOSEN: dict[str, Any] = {"outcome": {"outcome": "cancelled"}}
_NOT_FILLED: dict[str, Any] = {"action": "cancel"}


class Asked(NamedTuple):
    """The result of a question."""

    was_shown: bool
    others: list[Message]
    """Messages that came meanwhile, in their order."""
    is_late: bool = False
    """The time of the turn was over before the user answered."""


class _Shown:
    """As much of a session as a question shows."""

    def __init__(self, state: SessionState) -> None:
        self.state = state


def subject_of(message: Message) -> tuple[str, str]:
    """Return what is waited for while the user is asked, and its name."""
    if message["method"] == "elicitation/create":
        return "answer", ""
    words = words_of(decode(v1.RequestPermissionRequest, msgspec.json.encode(message["params"])))
    return "permission", f"{words.kind}: {words.title}"


def ask_user(
    client: ThinClient, message: Message, session: dict[str, Any], view: TurnView, *, deadline: float | None = None
) -> Asked:
    """Ask, send the answer, and give back what else was received.

    Args:
        deadline: by the monotonic clock; the question is withdrawn then.
    """
    if not UserPrompt.is_available():
        client.answer(message["id"], _NONE_CHOSEN if "permission" in message["method"] else _NOT_FILLED)
        return Asked(False, [])
    progress = getattr(view, "progress", None)
    others: list[Message] = []

    async def ask() -> None:
        user = UserPrompt(agent=str(session.get("agent")), colour=uses_colour(sys.stderr), progress=progress)
        answer = await _watched(client, message, _answer(user, message, session, view), others, deadline)
        if answer is None:
            client.refuse(message["id"], -32800, "withdrawn")
        else:
            client.answer(message["id"], answer)

    asyncio.run(ask())
    return Asked(True, others, is_late=deadline is not None and monotonic() >= deadline)


async def _watched(
    client: ThinClient, message: Message, asking: Any, others: list[Message], deadline: float | None
) -> dict[str, Any] | None:
    """Return the answer; None if the question was withdrawn."""
    loop = asyncio.get_running_loop()
    task = loop.create_task(asking)
    if deadline is not None:
        loop.call_later(max(0.0, deadline - monotonic()), task.cancel)

    def read() -> None:
        client.set_timeout(5.0)
        try:
            while True:
                others.append(client.read())
                if _ends(others[-1], message):
                    task.cancel()
                if not client.has_lines:
                    return
        except (HostLost, TimeoutError):
            loop.remove_reader(client.fileno())
            task.cancel()

    loop.add_reader(client.fileno(), read)
    try:
        found: dict[str, Any] = await task
        return found
    except asyncio.CancelledError:
        if not task.cancelled():
            raise
        return None
    finally:
        loop.remove_reader(client.fileno())


def _ends(other: Message, question: Message) -> bool:
    """Whether a message withdraws the question: by its id, or because the turn is over."""
    params = other.get("params")
    if other.get("method") == "$/cancel_request":
        return isinstance(params, dict) and params.get("requestId") == question["id"]
    return "method" not in other and "id" in other


async def _answer(user: UserPrompt, message: Message, session: dict[str, Any], view: TurnView) -> dict[str, Any]:
    params = msgspec.json.encode(message["params"])
    if message["method"] == "elicitation/create":
        request = decode(v1.CreateElicitationRequest, params)
        form = request.mode if hasattr(request, "mode") else request
        outcome = await user.form(cast("v1.ElicitationFormMode", form), None)
        answer: dict[str, Any] = msgspec.json.decode(encode(outcome))
        return answer
    permission = decode(v1.RequestPermissionRequest, params)
    state = SessionState()
    state.begin_turn([])
    for update in view.tool_updates():
        fold(state, decode(v1.SessionUpdate, msgspec.json.encode(update)))
    call = state.tool_calls.get(permission.tool_call.tool_call_id)
    found = describe(permission, state, call, agent=str(session.get("agent")), root=str(session.get("cwd")))
    first = found.requests[0]
    content = permission.tool_call.content or ()
    details = read_details(permission)
    question = Question(
        permission,
        first,
        details.why,
        diffs=tuple(item for item in content if isinstance(item, v1.Diff)),
        also=tuple(found.requests[1:]),
        sent=permission,
        announced=call,
        # A host of another version sends no words: then they are made here, from the same request.
        stated=None if details.words is None else (details.words, details.options),
    )
    chosen = await user.ask(question, cast("Session", _Shown(state)))
    if chosen is None or chosen.option_id is None:
        return _NONE_CHOSEN
    reason = {"_meta": {"dragoman": {"reason": chosen.reason}}} if chosen.reason and details.reads_reasons else {}
    return {"outcome": {"outcome": "selected", "optionId": chosen.option_id, **reason}}
