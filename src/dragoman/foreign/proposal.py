"""A proposal: one thing of another agent's files, what it becomes here, and the change that makes it so. Pure.

Values that look like keys are kept apart from everything that is shown: `Proposal.shown()` never holds one.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from msgspec import Struct

Program: TypeAlias = Literal["claude", "codex", "opencode", "gemini"]
Kind: TypeAlias = Literal["instructions", "commands", "skills", "agents", "mcp", "hooks", "rules", "model", "plugins"]
Scope: TypeAlias = Literal["user", "project"]
State: TypeAlias = Literal[
    "ready", "question", "manual", "native", "present", "taken", "void", "impossible", "imported"
]

TITLES: Final[dict[str, str]] = {
    "claude": "Claude Code",
    "codex": "Codex",
    "opencode": "opencode",
    "gemini": "Gemini CLI",
}
PROGRAMS: Final = tuple(TITLES)
KINDS: Final[tuple[Kind, ...]] = (
    *("instructions", "commands", "skills", "agents", "mcp", "hooks", "rules", "model", "plugins"),
)  # in the order in which they are shown
STATES: Final[dict[str, str]] = {
    "ready": "is written when you confirm it",
    "question": "is written only after a question at the terminal",
    "manual": "is yours to do; the command is shown",
    "native": "is read where it is, nothing to do",
    "present": "is there already",
    "taken": "is not written: the name is taken",
    "void": "has no effect there, because a later rule wins",
    "impossible": "cannot be expressed",
    "imported": "was written",
}


class NewFile(Struct, frozen=True, tag=True):
    """A file that must not exist yet."""

    path: Path
    content: bytes


class Appended(Struct, frozen=True, tag=True):
    """Text at the end of a file, which may not exist yet."""

    path: Path
    text: str


class NewMember(Struct, frozen=True, tag=True):
    """A member of a settings file that must not exist yet."""

    path: Path
    keys: tuple[str, ...]
    value: Any
    stored: Any = None
    """The same with the keys in it; used only if the user says so."""


class HookEntry(Struct, frozen=True, tag=True):
    """An entry in the list of one moment in a settings file."""

    path: Path
    event: str
    entry: dict[str, Any]


class NewRule(Struct, frozen=True, tag=True):
    """A permission rule: in `rules.json`, or in the settings of a project if a path is given."""

    action: Literal["deny", "ask", "allow"]
    text: str
    path: Path | None = None
    project: str | None = None
    """The project that the rule in `rules.json` is for; None: every project."""


Change: TypeAlias = NewFile | Appended | NewMember | HookEntry | NewRule


class Source(Struct, frozen=True):
    """Where something was found."""

    program: Program
    scope: Scope
    path: Path
    line: int = 0

    def at(self, line: int) -> Source:
        """Return the same file, at a line."""
        return Source(self.program, self.scope, self.path, line)


class Proposal(Struct, frozen=True):
    """One thing that was found, and what becomes of it."""

    kind: Kind
    name: str
    source: Source
    state: State
    becomes: str
    """For users: the file, the member or the rule that it becomes, or why it becomes nothing."""
    notes: tuple[str, ...] = ()
    """What is lost, and why."""
    changes: tuple[Change, ...] = ()
    command: str = ""
    """What the user runs to do it by hand."""
    question: str = ""
    """What is asked at the terminal before it is written."""
    keys_question: str = ""
    """What is asked at the terminal before its keys are written, too."""

    def shown(self) -> dict[str, Any]:
        """Return the proposal as `--json` prints it."""
        return {
            "program": self.source.program,
            "kind": self.kind,
            "name": self.name,
            "scope": self.source.scope,
            "source": str(self.source.path),
            "line": self.source.line or None,
            "state": self.state,
            "becomes": self.becomes,
            "notes": list(self.notes),
            "command": self.command or None,
        }


class FoundProposals(Struct, frozen=True):
    """Everything that was found, and what is wrong with files."""

    proposals: tuple[Proposal, ...] = ()
    problems: tuple[str, ...] = ()


def impossible(kind: Kind, name: str, source: Source, why: str, *notes: str, command: str = "") -> Proposal:
    """Make a proposal for what cannot be expressed."""
    return Proposal(kind, name, source, "impossible", why, notes, command=command)
