"""Notices a model that goes in circles: the same tool call with the same result, again and again in one turn.

Owns the counting and the sentences. A call counts as the same if its tool and its arguments are; it counts again only
if its result is the same too. An edit that did something new changes the project, so that a test which fails in the
same way after it is not a circle; an edit that was made before, and taken back since, is not new. Looking at a
background job is waiting, not a circle. Pure.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

import msgspec

REMINDED_AT: Final = 3
STOPPED_AT: Final = 5
"""Other agents ask the user at three equal calls, or stop at five; a model that is reminded has two more tries."""
_WAITING: Final = frozenset({"bash_output", "task_output"})
_CHANGES: Final = frozenset({"edit", "delete", "move"})


class Repetitions:
    """Counts the equal calls of one turn."""

    def __init__(self) -> None:
        self._counts: dict[bytes, int] = {}
        self._changes: dict[bytes, int] = {}
        """Edits that worked. These counts stay: a model that makes and takes back one edit goes in a circle, too."""
        self._stuck_at: str | None = None

    def note(self, tool: str, kind: str, arguments: Any, result: str, *, has_failed: bool) -> str:
        """Count a call, and return the sentence that the model reads behind its result; empty if there is none."""
        if tool in _WAITING:
            return ""
        call = sha256(msgspec.json.encode([tool, msgspec.to_builtins(arguments), result], order="sorted")).digest()
        is_change = kind in _CHANGES and not has_failed
        counts = self._changes if is_change else self._counts
        count = counts[call] = counts.get(call, 0) + 1
        if is_change and count == 1:
            self._counts.clear()
        if count >= STOPPED_AT:
            self._stuck_at = tool
        if count != REMINDED_AT:
            return ""
        return (
            f"[This call of {tool} gave this result {count} times in this turn. Do not repeat it: do something else, "
            "or state what you are missing.]"
        )

    @property
    def stop_reason(self) -> str:
        """Why the turn has to end, for the user; empty if it may go on."""
        if self._stuck_at is None:
            return ""
        return f"the model called {self._stuck_at} {STOPPED_AT} times with the same arguments and the same result"
