"""The sentences a model reads when a tool call is not permitted: why, and what would be accepted.

Owns the wording. "The user refused" is only written if the user did; a client that decided by a rule of its own, or had
no user to ask, reports that with its answer. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Request
    from dragoman.policy.decide import Decision
    from dragoman.uistream.messages import ToolPart

_OBEY: Final = "Do not try it in another way"


class UserAnswer(Struct, frozen=True):
    """The answer to a permission request.

    `option_id` is None without an answer, or if the user cancelled the question, which `decided_by` says. Otherwise
    `decided_by` and `reason` are what the client reports about its decision; both are empty if it reports nothing, as
    most clients do.
    """

    option_id: str | None = None
    decided_by: str = ""
    reason: str = ""


def refusal_of(decision: Decision, to_ask: Sequence[Request] = (), answer: UserAnswer | None = None) -> str:
    """Return what the model reads about a call that was not permitted.

    Args:
        to_ask: the requests that no rule decided.
        answer: the answer to the permission request; None if none was sent.
    """
    from dragoman.policy.decide import CANCELLED, NO_USER, USER

    if answer is None:
        if decision.decided_by == NO_USER:
            return f"Not permitted: {decision.reason}. {_what_would_allow(to_ask)}"
        if decision.rule is None:  # the reason states what is accepted: a mode, or a host that no rule names
            return f"Not permitted: {decision.reason}."
        return f"Not permitted: {decision.reason}. {_OBEY}; only the user can change that rule. Do without it."
    if answer.decided_by == CANCELLED:
        return f"The user cancelled this question, so that the call did not run. {_OBEY}; ask what to do instead."
    if answer.reason and answer.decided_by != USER:
        rest = _what_would_allow(to_ask) if answer.decided_by == NO_USER else f"{_OBEY}; do without it."
        return f"Not permitted: {answer.reason}. {rest}"
    if answer.reason and decision.option_id is not None:
        return f"The user refused this call and wrote: {answer.reason}\n{_OBEY}."
    if decision.option_id is not None:
        return f"The user refused this call. {_OBEY}; ask what to do instead, or do without it."
    return (
        "Not permitted: the request was not answered; the user chose nothing, or no user could be asked. "
        + _what_would_allow(to_ask)
    )


def _what_would_allow(to_ask: Sequence[Request]) -> str:
    """Name the narrow rules of the user that would allow all requests, if there are any."""
    from dragoman.policy import proposals

    rules = [next(iter(proposals(request)), None) for request in to_ask]
    texts = [text for text in rules if text is not None]
    if not texts or len(texts) < len(rules):
        return f"Only the user can permit it. {_OBEY}; do without it and report what you could not do."
    named = " and ".join(f"`{text}`" for text in dict.fromkeys(texts))
    return f"A rule of the user's would allow it: {named}. {_OBEY}; do without it and report what you could not do."


def refusal_in(part: ToolPart) -> str:
    """Return the refusal that is stored with a call; sessions of earlier versions hold none."""
    reason = part.permission.get("reason") if isinstance(part.permission, dict) else None
    return str(reason or f"Not permitted. {_OBEY}; ask, or do without it.")
