"""What a client usually does, seen in a plain turn, and what a case needs it to do.

Owns the comparison with the usual: most of what goes wrong inside a client shows on the wire only as a turn that does
not end as it always does. Knows nothing of connections.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from dragoman.conformance.case import R


class Habits(msgspec.Struct):
    """What the client did in a plain turn, by which a later run can be measured."""

    prompts: bool = False
    """It opens a session and sends a prompt."""
    passes_directories: bool = False
    """It names additional directories to an agent that takes them."""
    answers_unknown: bool = True
    """It answers a request it does not know."""
    answers_permission: bool = True
    """It answers a permission request without a person."""
    leaves: bool = False
    """It ends the connection by itself after its prompt."""
    exit_code: int | None = None
    """How it then ends."""
    capabilities: dict[str, Any] = {}
    """What it advertises."""
    calls: set[str] = set()
    """The methods it calls by itself when the agent offers everything."""


class CaseNeeds(NamedTuple):
    """What a client must do in a plain turn for a case to make sense; a client that does not is not even started."""

    offers: tuple[str, ...] = ()
    lacks: str = ""
    calls: str = ""

    def missing(self, habits: Habits) -> str:
        """What the client does not do, as a sentence; empty if all is well."""
        for gate in self.offers:
            if not is_offered(habits.capabilities, gate):
                return f"the client does not advertise {gate}"
        if self.lacks and is_offered(habits.capabilities, self.lacks):
            return f"the client advertises {self.lacks}"
        if self.calls and self.calls not in habits.calls:
            return f"the client does not call {self.calls} by itself"
        return ""


NEEDS: Final[dict[object, CaseNeeds]] = {}
"""By the function of a case."""


def needs(*offers: str, lacks: str = "", calls: str = "") -> Callable[[R], R]:
    """Says of a case what it needs: capabilities the client advertises or lacks, a method it calls by itself."""

    def note(run: R) -> R:
        NEEDS[run] = CaseNeeds(offers, lacks, calls)
        return run

    return note


def is_offered(capabilities: Any, gate: str) -> bool:
    """Whether `gate`, a path such as `fs.readTextFile`, is true or an object there."""
    found = capabilities
    for name in gate.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found is True or isinstance(found, dict)
