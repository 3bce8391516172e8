"""Rules: what a user allows, denies or wants to be asked about.

A rule is one line of text, the same in flags, files, answers and documentation: `[AGENT@]KIND[:PATTERN]`. Owns that
grammar and refuses rules that could never mean what they seem to state. Matching a pattern belongs to `verdict.py`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.policy import commands, paths
from dragoman.policy.hosts import plain_host
from dragoman.policy.request import PATH_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Action: TypeAlias = Literal["allow", "deny", "ask"]
# pinned: the user, everywhere; project: the user, in one project; session: until the session ends; flag: typed for
# this run; repository: shipped with the code, so it may restrict and never allow.
Scope: TypeAlias = Literal["pinned", "project", "session", "flag", "repository"]

ACTIONS: Final = ("allow", "deny", "ask")
KINDS: Final = (
    "read",
    "edit",
    "delete",
    "move",
    "search",
    "execute",
    "think",
    "fetch",
    "switch_mode",
    "other",
    "mcp",
    "tool",
)
# The word for commands that only read files of the project (`safe.py`). A rule's kind, but not a request's.
SAFE: Final = "safe"
# The word for programs that the user adds to those that are known (`known.py`). It covers no request.
KNOWN: Final = "known"
_USER_KINDS: Final = ("reads", "changes", "sends", "project")
_SHAPE: Final = re.compile(r"(?:(?P<agent>[^@:]+)@)?(?P<kind>\*|[a-z_]+)(?::(?P<pattern>.*))?", re.DOTALL)
_HOST: Final = re.compile(r"(?:\*\.)?[\w-]+(?:\.[\w-]+)*|\[[0-9A-Fa-f:.]+\]")


class Rule(Struct, frozen=True):
    """One rule and where it was written; `source` is shown to users."""

    action: Action
    text: str
    scope: Scope
    source: str = ""


class Pattern(Struct, frozen=True):
    """The parsed text of a rule."""

    agent: str | None
    kind: str
    pattern: str | None
    command: commands.CommandPattern | None = None
    mcp: tuple[str, str] | None = None


def parse_rule(text: str, action: str, scope: Scope, source: str = "") -> Rule:
    """Parse a rule.

    Args:
        text: the rule, `[AGENT@]KIND[:PATTERN]`.
        action: allow, deny or ask.
        scope: how far the rule reaches; an allow of everything is accepted as a flag only.
        source: where it was written, for messages.

    Raises:
        ConfigError: the rule is not valid; the message states the problem, the place and what to write instead.
    """
    where = f" ({source})" if source else ""
    if action not in ACTIONS:
        raise ConfigError(f"{action!r} is not an action of a rule{where}; write allow, deny or ask")
    try:
        pattern = read_pattern(text)
        if action == "allow":
            _refuse_careless(pattern, scope)
        elif pattern.kind == KNOWN:
            raise ValueError("states what a program does; it can only be allowed")
        elif pattern.kind == SAFE:
            raise ValueError(
                "names commands that only read; it can only be allowed. Write execute to mean all commands"
            )
    except ValueError as error:
        raise ConfigError(f"the rule {text!r}{where} {error}") from None
    return Rule(action, text, scope, source)  # type: ignore[arg-type]  # one of ACTIONS


def anchored(rule: Rule, folders: Sequence[str]) -> list[str]:
    """Return the texts of a rule with its path from each of the folders; its own if it has no relative path."""
    pattern = read_pattern(rule.text)
    glob = pattern.pattern
    if pattern.kind not in PATH_KINDS or glob is None or glob.startswith(("/", "~")):
        return [rule.text]
    start = "" if pattern.agent is None else f"{pattern.agent}@"
    return [f"{start}{pattern.kind}:{folder.rstrip('/')}/{glob}" for folder in folders]


def ignored_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Return the rules that never decide anything: a repository's rules may restrict, but not allow."""
    return tuple(rule for rule in rules if is_ignored(rule))


def is_ignored(rule: Rule) -> bool:
    """Whether the rule never decides anything."""
    return rule.action == "allow" and rule.scope == "repository"


@lru_cache(maxsize=1024)
def read_pattern(text: str) -> Pattern:
    """Parse the text of a rule. Raises: ValueError with the rest of a sentence that starts with the rule."""
    shape = _SHAPE.fullmatch(text)
    if shape is None or not text.isprintable():
        raise ValueError("is not of the form [AGENT@]KIND[:PATTERN]; write it like edit:src/** or execute:npm test")
    agent, kind, pattern = shape["agent"], shape["kind"], shape["pattern"]
    if kind == "*":
        if pattern is not None:
            raise ValueError("has a pattern after `*`; name the kind, as in edit:src/**")
        return Pattern(agent, kind, None)
    if kind == KNOWN:
        name, _, what = (pattern or "").rpartition(":")
        if what not in _USER_KINDS or not name or set(name) & set("/: \t"):
            raise ValueError(
                f"does not state what a program does; write known:NAME:KIND, the kinds are {', '.join(_USER_KINDS)}"
            )
        return Pattern(agent, kind, pattern)
    if kind == SAFE:
        if pattern is not None:
            raise ValueError("has a pattern after `safe`; write safe alone")
        return Pattern(agent, kind, None)
    if kind not in KINDS:
        raise ValueError(f"is not of a known kind; the kinds are {', '.join(KINDS)}")
    if pattern is None:
        return Pattern(agent, kind, None)
    if not pattern.strip():
        raise ValueError(f"has nothing after the colon; write {kind} alone for every request of that kind")
    return _read_pattern_of(agent, kind, pattern)


def _read_pattern_of(agent: str | None, kind: str, pattern: str) -> Pattern:
    if kind in PATH_KINDS:
        paths.check_glob(pattern)
        return Pattern(agent, kind, pattern)
    if kind == "execute":
        return Pattern(agent, kind, pattern, command=commands.read_command_pattern(pattern))
    if kind == "mcp":
        server, _, tool = pattern.partition(":")
        if not server or pattern.endswith(":"):
            raise ValueError("does not name a server or tool; write mcp:SERVER or mcp:SERVER:TOOL")
        return Pattern(agent, kind, pattern, mcp=(server, tool or "*"))
    if kind == "tool":
        if any(letter.isspace() for letter in pattern):
            raise ValueError("does not name a tool; write it like tool:refund or tool:get_*")
        return Pattern(agent, kind, pattern)
    if kind == "fetch":
        if _HOST.fullmatch(pattern) is None:
            raise ValueError("does not name a host; write it like fetch:example.org or fetch:*.example.org")
        below = "*." if pattern.startswith("*.") else ""
        return Pattern(agent, kind, below + plain_host(pattern.removeprefix(below)))
    raise ValueError(f"has a pattern, but requests of kind {kind} have nothing to compare it with; write {kind} alone")


def _refuse_careless(pattern: Pattern, scope: Scope) -> None:
    """Raises: ValueError for an allow that is too wide to be kept, or that would cover more than it states."""
    is_everything = pattern.kind == "*" or (pattern.command is not None and pattern.command.is_everything)
    if is_everything and scope != "flag":
        raise ValueError("allows everything; that is accepted only when typed as a flag, each time")
    if pattern.command is not None:
        commands.check_allow(pattern.command)
