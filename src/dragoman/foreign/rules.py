"""Permissions of other programs as permission rules of ours.

Owns how a tool and a pattern of theirs are written as rules, and what becomes of each: a deny or an ask is written when
the user confirms it; an allow is never written by itself, it is shown as the command that adds it. What a rule cannot
state exactly is listed. How the order of rules counts for each program is in `precedence.py`.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from dragoman.errors import ConfigError
from dragoman.foreign.proposal import NewRule, Proposal, impossible
from dragoman.foreign.secrets import has_secret, masked
from dragoman.policy import parse_rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.foreign.places import Places
    from dragoman.foreign.proposal import Source
    from dragoman.policy import Rule

Action: TypeAlias = Literal["allow", "ask", "deny"]
# What a deny of theirs concerns, in kinds of ours: who may not edit a file may not delete it either.
_KINDS: Final[dict[str, tuple[str, ...]]] = {
    "read": ("read", "search"),
    "edit": ("edit", "delete", "move"),
    "search": ("search",),
}
_TOOLS: Final[dict[str, str]] = {
    **dict.fromkeys(("Read", "read", "read_file", "read_many_files"), "read"),
    **dict.fromkeys(("Edit", "Write", "MultiEdit", "NotebookEdit", "edit", "write", "write_file", "replace"), "edit"),
    **dict.fromkeys(("Glob", "Grep", "LS", "glob", "grep", "list", "grep_search", "list_directory"), "search"),
    **dict.fromkeys(("search_file_content",), "search"),
    **dict.fromkeys(("Bash", "bash", "run_shell_command", "shell", "ShellTool"), "execute"),
    **dict.fromkeys(("WebFetch", "webfetch", "web_fetch"), "fetch"),
}
_HOST: Final = re.compile(r"(?:https?://)?((?:\*\.)?[\w-]+(?:\.[\w-]+)+)(?:/\*{0,2})?")


class Inexpressible(Exception):
    """No rule states exactly this; the message says why."""


def kind_of(tool: str) -> str:
    """Return the kind of request that a tool of another program makes. Raises: Inexpressible."""
    if tool in _TOOLS:
        return _TOOLS[tool]
    raise Inexpressible(f"there are no rules about {tool}")


def kinds_for(kind: str, action: Action) -> tuple[str, ...]:
    """Return the kinds that a rule is written for: a restriction holds for everything that comes to the same."""
    return (kind,) if action == "allow" else _KINDS.get(kind, (kind,))


def command_rule(text: str) -> str:
    """Make a rule about commands: `npm test` exactly, `npm test:*` and `npm test *` with any words behind it."""
    text = text.strip()
    if text in ("", "*", ":*"):
        return "execute"
    is_prefix = text.endswith((":*", " *"))
    words = text.removesuffix(":*").removesuffix(" *").strip() if is_prefix else text
    if "*" in words or "?" in words:
        raise Inexpressible("a wildcard inside a command cannot be expressed; only `*` as its last word")
    return f"execute:{words} *" if is_prefix else f"execute:{words}"


def host_rule(text: str) -> str:
    """Make a rule about a host, which `domain:HOST` or an address names. Raises: Inexpressible."""
    text = text.strip().removeprefix("domain:")
    if text in ("", "*"):
        return "fetch"
    found = _HOST.fullmatch(text)
    if found is None:
        raise Inexpressible(f"{text} is not just a host")
    return f"fetch:{found[1]}"


def gitignore_globs(pattern: str, base: str, action: Action) -> tuple[str, ...]:
    """Make globs of a pattern in the form of `.gitignore`, as Claude Code writes paths.

    Args:
        base: the folder that a pattern with a leading slash starts from; "" for the project.
    """
    if pattern.startswith("!") or "[" in pattern or "\\" in pattern:
        raise Inexpressible("exceptions, character classes and escapes in a pattern cannot be expressed")
    is_anchored = True
    if pattern.startswith("//"):
        pattern = pattern[1:]
    elif pattern.startswith("~/"):
        pass
    elif pattern.startswith("/"):
        pattern = f"{base}{pattern}" if base else pattern[1:]
    elif pattern.startswith("./"):
        pattern = pattern[2:]
    else:
        is_anchored = "/" in pattern.rstrip("/")
    if pattern in ("", "*", "**", "**/*"):
        return ()
    if not is_anchored and not pattern.startswith("**/"):
        pattern = f"**/{pattern}"
    if pattern.endswith("/"):
        return (f"{pattern}**",)
    if action == "allow" or pattern.endswith("/**"):
        return (pattern,)
    # A name may be that of a folder, which then stands for everything in it.
    return (f"{pattern[:-1]}**",) if pattern.endswith("/*") else (pattern, f"{pattern}/**")


def wildcard_globs(pattern: str) -> tuple[str, ...]:
    """Make globs of a pattern whose `*` crosses folders, as opencode has it. Raises: Inexpressible."""
    if pattern in ("*", "**", ""):
        return ()
    pattern = pattern.replace("**", "*")
    folder, _, last = pattern.rpartition("/")
    if "*" in folder and folder != "*" and (not folder.startswith("*/") or "*" in folder[2:]):
        raise Inexpressible("a wildcard that stands for folders can only be at the end or the beginning")
    start = f"**/{folder[2:]}" if folder.startswith("*/") else "**" if folder == "*" else folder
    if last == "*":
        return (f"{start}/**",)
    if "*" not in last:
        return (f"{start}/{last}" if start else last,)
    if last.count("*") > 1 or not last.startswith("*"):
        raise Inexpressible("a wildcard that stands for folders can only be at the beginning of a name")
    return (f"{start}/{last}" if start == "**" else f"{start}/**/{last}".lstrip("/"),)


class RuleProposals:
    """The proposals for the rules of one file."""

    def __init__(self, places: Places, existing: Iterable[Rule], *, is_private: bool = False) -> None:
        """
        Args:
            existing: the rules that count here already.
            is_private: the file is the user's own although it is in the project; its rules go to `rules.json`.
        """
        self._places = places
        self._existing = list(existing)
        self._is_private = is_private

    def propose(self, action: Action, name: str, texts: Iterable[str], source: Source, *notes: str) -> Proposal:
        """Make the proposal for the rules that one of theirs becomes."""
        texts = tuple(dict.fromkeys(texts))
        title = f"{action} {masked(name)}"
        if any(map(has_secret, texts)):
            return impossible("rules", title, source, "it seems to hold a key; add the rule yourself without it")
        scope: Literal["pinned", "project"] = "pinned" if self._places.scope == "user" else "project"
        try:
            for text in texts:
                parse_rule(text, action, scope)
        except ConfigError as error:
            return impossible("rules", title, source, str(error), *notes)
        if action == "allow":
            return self._by_hand(title, texts, source, notes)
        return self._restriction(action, title, texts, source, notes)

    def _by_hand(self, title: str, texts: tuple[str, ...], source: Source, notes: tuple[str, ...]) -> Proposal:
        everywhere = " --everywhere" if self._places.scope == "user" else ""
        command = " && ".join(f"dragoman rules add --allow {shlex.quote(text)}{everywhere}" for text in texts)
        if all(any(rule.text == text and rule.action == "allow" for rule in self._existing) for text in texts):
            return Proposal("rules", title, source, "present", f"allow {', '.join(texts)}", notes)
        if self._contrary("allow", texts):
            return Proposal(
                "rules", title, source, "taken", f"your rules decide otherwise about {', '.join(texts)}", notes
            )
        project = None if self._places.scope == "user" else str(self._places.project)
        changes = tuple(NewRule("allow", text, None, project) for text in texts)
        question = f"Allow {', '.join(texts)} without asking?"
        return Proposal(
            "rules", title, source, "manual", "a rule that allows is not imported", notes, changes, command, question
        )

    def _restriction(
        self, action: Action, title: str, texts: tuple[str, ...], source: Source, notes: tuple[str, ...]
    ) -> Proposal:
        becomes = f"{action} {', '.join(texts)}"
        new = [text for text in texts if not any(r.text == text and r.action == action for r in self._existing)]
        if not new:
            return Proposal("rules", title, source, "present", becomes, notes)
        if self._contrary(action, new):
            # Writing it would replace a rule of the user's, perhaps a deny by an ask.
            return Proposal(
                "rules", title, source, "taken", f"your rules decide otherwise about {', '.join(new)}", notes
            )
        path = project = None
        if self._places.scope == "project":
            path, project = (None, str(self._places.project)) if self._is_private else (self._places.settings, None)
        changes = tuple(NewRule(action, text, path, project) for text in new)
        return Proposal("rules", title, source, "ready", becomes, notes, changes)

    def _contrary(self, action: Action, texts: Iterable[str]) -> bool:
        return any(rule.text == text and rule.action != action for rule in self._existing for text in texts)
