"""Which failed runs may be tried again, and how long to wait before that.

A failure may pass if it is about load or the network, or if the agent died or ended its turn without an answer. A turn
that may have changed something is never repeated: it would change it twice. Pure; `run.py` waits and starts again.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from dragoman import errors
from dragoman.cli.exec.cause import cause_of

if TYPE_CHECKING:
    from dragoman.cli.exec.exit_code import RunFacts

# Some agents use the HTTP status of their model's server as the code of their error.
_PASSING_CODES: Final = frozenset({408, 425, 429, 500, 502, 503, 504, 529})
# The request itself is wrong, or the user has to act: the same request fails again.
_LASTING_CODES: Final = frozenset(
    {
        errors.PARSE_ERROR,
        errors.INVALID_REQUEST,
        errors.METHOD_NOT_FOUND,
        errors.INVALID_PARAMS,
        errors.AUTH_REQUIRED,
        errors.NOT_FOUND,
        errors.REQUEST_CANCELLED,
    }
)
_PASSING_WORDS: Final = re.compile(
    r"\b(?:408|425|429|500|502|503|504|529)\b|rate.?limit|too many requests|overloaded|temporar|unavailable"
    r"|timed? ?out|connection (?:error|reset|refused|closed)|\becon\w+|network|socket hang up|try again|\bbusy\b",
    re.IGNORECASE,
)
_RETRY_AFTER: Final = re.compile(
    r"(?:retry|try again)(?:[ _-]?after)?(?: in)?\W{0,3}(\d{1,4}(?:\.\d+)?)\s*s\b", re.IGNORECASE
)
_FIRST_SECONDS: Final = 0.5
_MOST_SECONDS: Final = 30.0
_MOST_ASKED_SECONDS: Final = 300.0  # if the server names the time


def may_pass(facts: RunFacts, error: Exception | None) -> bool:
    """Return whether the same run may succeed if it is tried again."""
    if facts.signal or facts.is_timed_out or facts.could_not_ask or facts.was_denied:
        return False
    if facts.has_violation or facts.has_unjudged:
        return False
    if error is None:
        return facts.is_empty
    if isinstance(error, errors.ConnectionClosed):
        return True
    if not isinstance(error, errors.RequestError) or error.code in _LASTING_CODES:
        return False
    return error.code in _PASSING_CODES or _PASSING_WORDS.search(_words(error)) is not None


def wait_seconds(number: int, error: Exception | None) -> float:
    """Return how long to wait before retry `number`, which counts from 1: what the error names, or ever longer."""
    asked = _RETRY_AFTER.search(_words(error)) if isinstance(error, errors.RequestError) else None
    if asked is not None:
        return min(float(asked.group(1)), _MOST_ASKED_SECONDS)
    return min(_FIRST_SECONDS * 2.0 ** (number - 1), _MOST_SECONDS)


def _words(error: errors.RequestError) -> str:
    return f"{error.message} {cause_of(error.data) or ''}"
