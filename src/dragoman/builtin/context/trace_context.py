"""Trace ids of whoever asked: kept with the message, handed on to whom we ask, given back with the answer.

Owns which members of `_meta` they are (rule 330). They are only carried, never read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TRACE: Final = "trace"
"""Where a message's metadata has them."""
_MEMBERS: Final = ("traceparent", "tracestate", "baggage")
_LONGEST: Final = 8192  # the most the specification of baggage wants carried


def trace_of(meta: Any) -> dict[str, str]:
    """The trace ids in a `_meta`."""
    if not isinstance(meta, Mapping):
        return {}
    found = {name: meta.get(name) for name in _MEMBERS}
    return {name: value for name, value in found.items() if isinstance(value, str) and 0 < len(value) <= _LONGEST}
