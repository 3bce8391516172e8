"""Propagates W3C trace ids from the prompt to model and MCP requests, and back in the response.

Owns which members of `_meta` they are (rule 330). They are passed on, never interpreted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

TRACE: Final = "trace"
"""Key of the trace ids in a message's metadata."""
_MEMBERS: Final = ("traceparent", "tracestate", "baggage")
_LONGEST: Final = 8192  # the limit that the W3C baggage specification requires to be supported


def trace_of(meta: Any) -> dict[str, str]:
    """Return the trace ids in a `_meta`."""
    if not isinstance(meta, Mapping):
        return {}
    found = {name: meta.get(name) for name in _MEMBERS}
    return {name: value for name, value in found.items() if isinstance(value, str) and 0 < len(value) <= _LONGEST}
