"""What a client usually does, seen in a plain turn, and whether it does what a case needs.

Owns the comparison with the usual: most of what goes wrong inside a client shows on the wire only as a turn that does
not end as it always does. Does not depend on connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.conformance.probe import is_offered

if TYPE_CHECKING:
    from dragoman.conformance.case import CaseNeeds


class Baseline(msgspec.Struct):
    """What the client did in a plain turn, with which later turns are compared."""

    prompts: bool = False
    """It opens a session and sends a prompt."""
    passes_directories: bool = False
    """It names additional directories to an agent that takes them."""
    answers_unknown: bool = True
    """It answers a request it does not know."""
    answers_permission: bool = True
    """It answers a permission request without a user."""
    leaves: bool = False
    """It ends the connection by itself after its prompt."""
    exit_code: int | None = None
    """How it then ends."""
    capabilities: dict[str, Any] = {}
    """What it advertises."""
    calls: set[str] = set()
    """The methods it calls by itself when the agent offers everything."""


def missing(needs: CaseNeeds, baseline: Baseline) -> str:
    """Return what a case needs and the client does not do, as a sentence; empty if it does everything."""
    for gate in needs.offers:
        if not is_offered(baseline.capabilities, gate):
            return f"the client does not advertise {gate}"
    if needs.lacks and is_offered(baseline.capabilities, needs.lacks):
        return f"the client advertises {needs.lacks}"
    if needs.calls and needs.calls not in baseline.calls:
        return f"the client does not call {needs.calls} by itself"
    return ""
