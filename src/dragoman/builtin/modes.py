"""How much the agent may do by itself: ask, edit, plan, full.

A mode is rules the user confirmed by choosing it, and a list of what it cannot do at all. So a deny still wins over
any mode, and protected paths still ask in every one. Pure.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.policy import Rule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Request

PLAN_FILE: Final = "PLAN.md"
DEFAULT_MODE: Final = "ask"

_LOOKING: Final = frozenset({"read", "search", "fetch", "think"})
_CHANGES: Final = frozenset({"edit", "delete", "move", "execute", "switch_mode"})


class Mode(Struct, frozen=True):
    """One way to work. `allows` are rule texts, `{root}` standing for each folder of the session."""

    id: str
    name: str
    description: str
    allows: tuple[str, ...]
    forbids: frozenset[str] = frozenset()

    def rules(self, roots: Sequence[str]) -> tuple[Rule, ...]:
        """What the choice of this mode allows."""
        # A folder with a star in its name would be read as a glob, so it gets no rule, and everything there asks.
        plain = [root.rstrip("/") for root in roots if not set(root) & set("*?")]
        texts = [text.replace("{root}", root) for text in self.allows for root in (plain if "{root}" in text else [""])]
        return tuple(Rule("allow", text, "flag", f"mode {self.id}") for text in texts)

    def refusal(self, request: Request) -> str | None:
        """Why this mode cannot do it, if it cannot."""
        # A tool of a server that does not say that it only looks may do anything.
        is_unknown = request.mcp is not None and request.kind not in _LOOKING
        if not self.forbids or not (is_unknown or request.kind in self.forbids):
            return None
        plan = posixpath.join(request.root, PLAN_FILE)
        if request.kind == "edit" and request.paths and all(path == plan for path in request.paths):
            return None
        return f"mode {self.id} only looks and plans; the one file it may write is {plan}"


_LOOK: Final = ("read:{root}", "read:{root}/**", "search:{root}", "search:{root}/**")

MODES: Final[dict[str, Mode]] = {
    mode.id: mode
    for mode in (
        Mode("ask", "Ask", "Reads files of the project; asks before every change and command", _LOOK),
        Mode(
            "edit",
            "Edit",
            "Also edits files of the project; asks before commands",
            (*_LOOK, "edit:{root}/**", "move:{root}/**"),
        ),
        Mode(
            "plan",
            "Plan",
            f"Looks around and plans; changes nothing but {PLAN_FILE}",
            (*_LOOK, "edit:{root}/" + PLAN_FILE),
            _CHANGES,
        ),
        Mode("full", "Full", "Does everything without asking, but what is denied or protected", ("*",)),
    )
}
