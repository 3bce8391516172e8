"""Answering a question by a request instead of by the response to it, attached to the session or not.

An answer whose socket died after the press is sent again, on another connection if need be: the same answer of the same
client counts once and is accepted each time. It names the digest of the question, so that it counts for what was shown
and for nothing else. What a client did not choose never counts: there is no answer by time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import RequestError, StoreError
from dragoman.host.methods.params import find_session, read_params, text_member
from dragoman.host.working.asking import FROM, GivenAnswer
from dragoman.host.working.questions import chosen_option, read_choice

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call

_LOOKED_AT: Final = 5000  # events at the end of a log, for a question that is no longer in memory
_PAGE: Final = 1000


async def answer(host: Host, client: HostConnection, call: Call) -> object:
    """Take the choice of a client: `{"accepted": true}`, or an error that says what became of the question."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    id, digest = text_member(params, "questionId"), text_member(params, "digest")
    question = session.questions.find(id)
    if question is not None and question.is_open:
        if digest != question.digest:
            raise _refusal("this is not what is asked; look at it again", "changed", digest=question.digest)
        choice = read_choice(question.method, question.params, _choice_in(params))
        if choice is None:
            raise RequestError.invalid_params("this was not offered: choose an option of the question, or an action")
        question.choose(choice, client)
        await session.settle()  # it is in the log before the client gets its answer
        return {"accepted": True}
    given = session.questions.answer_to(id) or await _find_in_log(session, id)
    if given is None or not given.identity:
        raise _refusal("this is no longer asked", "withdrawn")
    if given.identity == client.identity and _is_same(given.answer, params):
        return {"accepted": True}
    late = chosen_option(_choice_in(params))
    chosen = {"action": late} if "action" in params else {"outcome": {"outcome": "selected", "optionId": late}}
    session.questions.note_late(id, chosen, client)
    first = {"option": given.option, "who": given.who, "at": given.at}
    raise _refusal("this was answered already; your answer was not used", "answered", **first)


def _refusal(message: str, reason: str, **members: object) -> RequestError:
    return RequestError(-32603, message, {"reason": reason, **members})


def _choice_in(params: dict[str, Any]) -> dict[str, Any]:
    return {name: params[name] for name in ("outcome", "action", "content") if name in params}


def _is_same(given: dict[str, Any], params: dict[str, Any]) -> bool:
    """Whether a client that asks again chose what counted."""
    same_option = chosen_option(given) == chosen_option(_choice_in(params))
    return same_option and given.get("content") == params.get("content")


async def _find_in_log(session: HostedSession, id: str) -> GivenAnswer | None:
    """Return how a question was decided in an earlier run of the host; None if the end of the log does not say it."""
    cursor = max(session.log.oldest - 1, session.head - _LOOKED_AT)
    try:
        while events := await session.log.read(cursor, _PAGE):
            for event in events:
                found = msgspec.json.decode(event.body) if event.kind == "answer" else {}
                if found.get("questionId") == id:
                    at, identity = int(found.get("at") or event.at * 1000), found.get(FROM) or found.get("by") or ""
                    given = found.get("answer") or {}
                    return GivenAnswer(given, found.get("option"), str(found.get("who") or ""), at, str(identity))
            cursor = events[-1].number
    except StoreError as error:
        raise RequestError(-32603, f"the session cannot be read now: {error}", {"reason": "store"}) from None
    return None
