"""The session modes `ask`, `edit`, `plan`, `auto` and `full`: what the agent may do without asking.

A mode consists of rules, which the user confirms by choosing it, and of kinds of tool calls that it forbids. A deny
rule therefore overrides every mode, and the agent asks about protected paths in every mode. Mode `auto` has no rule for
commands: they run in a sandbox, which takes the place of permission (`permission.py`). Pure.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy import Request, Rule

PLAN_FILE: Final = "PLAN.md"
DEFAULT_MODE: Final = "ask"
WIDEST_MODE: Final = "full"
"""The mode that asks about nothing but protected places: it is chosen for one session."""

_READ_ONLY: Final = frozenset({"read", "search", "fetch", "think"})
_CHANGES: Final = frozenset({"edit", "delete", "move", "execute", "switch_mode"})


class Mode(Struct, frozen=True):
    """One session mode. `allows` are texts of rules, in which `{root}` stands for each folder of the session."""

    id: str
    name: str
    description: str
    allows: tuple[str, ...]
    forbids: frozenset[str] = frozenset()
    is_sandboxed: bool = False
    """Whether commands run in the sandbox without asking; offered only where there is one."""

    def rules(self, roots: Sequence[str]) -> tuple[Rule, ...]:
        """Return the rules of this mode for a session with these folders."""
        from dragoman.policy import Rule
        from dragoman.policy.paths import can_be_named

        # A folder that a rule cannot name gets no rule, and everything is asked.
        plain = [root.rstrip("/") for root in roots if can_be_named(root)]
        texts = [text.replace("{root}", root) for text in self.allows for root in (plain if "{root}" in text else [""])]
        return tuple(Rule("allow", text, "flag", f"mode {self.id}") for text in texts)

    def refusal(self, request: Request) -> str | None:
        """Return the reason why this mode forbids a request, or None if it does not."""
        # An MCP tool that is not declared as read-only may do anything.
        is_unknown = request.mcp is not None and request.kind not in _READ_ONLY
        if not self.forbids or not (is_unknown or request.kind in self.forbids):
            return None
        plan = posixpath.join(request.root, PLAN_FILE)
        if request.kind == "edit" and request.paths and all(path == plan for path in request.paths):
            return None
        return f"mode {self.id} only reads and plans; the only file it may write is {plan}"


_LOOK: Final = ("read:{root}", "read:{root}/**", "search:{root}", "search:{root}/**")
_EDIT: Final = (*_LOOK, "edit:{root}/**", "move:{root}/**")

MODES: Final[dict[str, Mode]] = {
    mode.id: mode
    for mode in (
        Mode(
            "ask",
            "Ask",
            "Reads files of the project; asks before every change, and before commands that do more than read",
            _LOOK,
        ),
        Mode("edit", "Edit", "Also edits files of the project; asks before commands", _EDIT),
        Mode(
            "plan",
            "Plan",
            f"Reads and plans; changes nothing but {PLAN_FILE}",
            (*_LOOK, "edit:{root}/" + PLAN_FILE),
            _CHANGES,
        ),
        Mode(
            "auto",
            "Auto",
            "Edits files of the project and runs commands in a sandbox; asks before one runs outside",
            _EDIT,
            is_sandboxed=True,
        ),
        Mode("full", "Full", "Does everything without asking, except what is denied or protected", ("*",)),
    )
}
