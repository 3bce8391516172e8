"""Which rule is checked by which case, and why some rules by none: the data behind docs/spec/coverage.md.

Owns the reasons, and the join of rules, cases and passive checks. A test keeps it complete in both directions.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.conformance.case import Binds, Case, load_cases
from dragoman.conformance.passive import SEEN
from dragoman.trace.checks.rules import RULES, SpecRule

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SIDES: Final[tuple[Binds, ...]] = ("agent", "client")
_PERMITS: Final = "permits something and demands nothing"
_INSIDE_AGENT: Final = "about what the agent keeps to itself or gives to its model"
_INSIDE_CLIENT: Final = "about what the client keeps to itself"
_SECURITY: Final = "about who stands behind a connection, which one client at a pipe cannot vary"
_SCREEN: Final = "about what the user sees"
_USER: Final = "needs a user who does something"
_NAMES: Final = "about the meaning of names"
_RELAYS: Final = "about relays"

# A judge at the other end of a pipe sees what a program sends, not what it means, shows, keeps or does elsewhere.
UNSEEN: Final[Mapping[Binds, Mapping[int, str]]] = {
    "agent": {
        8: _PERMITS,
        16: _PERMITS,
        17: "about transports other than stdio",
        18: "about documentation",
        47: "about what a user interface shows",
        75: "happens in a terminal of the user's, outside of the connection",
        81: _PERMITS,
        91: "a tool outside the roots shows only if the model goes there, and refusing is not the only right answer",
        113: _PERMITS,
        132: _PERMITS,
        139: _PERMITS,
        155: _INSIDE_AGENT,
        159: "what is important is for a user to decide",
        182: _PERMITS,
        183: _INSIDE_AGENT,
        189: _PERMITS,
        190: _PERMITS,
        202: _PERMITS,
        203: _PERMITS,
        205: _PERMITS,
        207: _PERMITS,
        212: _PERMITS,
        214: _PERMITS,
        236: "every block is held against the schema, which is the one of MCP",
        237: _PERMITS,
        247: "states what the protocol cannot express",
        252: _PERMITS,
        267: _PERMITS,
        297: "a recipe; that every terminal is released has cases of its own",
        305: _SECURITY,
        315: _INSIDE_AGENT,
        324: _SECURITY,
        330: _NAMES,
        335: _NAMES,
        336: _RELAYS,
    },
    "client": {
        16: _PERMITS,
        17: "about transports other than stdio",
        18: "about documentation",
        31: _INSIDE_CLIENT,
        47: _SCREEN,
        70: _USER,
        71: _USER,
        72: _USER,
        73: _USER,
        82: _USER,
        93: _PERMITS,
        133: _INSIDE_CLIENT,
        158: _SCREEN,
        160: _SCREEN,
        179: _PERMITS,
        193: _SCREEN,
        202: _PERMITS,
        203: _PERMITS,
        205: _PERMITS,
        207: _PERMITS,
        229: _SCREEN,
        257: _PERMITS,
        260: _USER,
        266: _INSIDE_CLIENT,
        270: _INSIDE_CLIENT,
        271: _USER,
        276: "needs a file that is open and unsaved",
        295: _SCREEN,
        306: _SCREEN,
        307: _SCREEN,
        322: "about the browser",
        323: _SCREEN,
        330: _NAMES,
        335: _NAMES,
        336: _RELAYS,
    },
}
"""Rules that have no case, with the reason."""

SOFTENED: Final[Mapping[Binds, Mapping[int, str]]] = {
    "agent": {
        100: "newer than the published text, which older agents follow",
        265: "entries may be dropped (rule 267), so a short list proves nothing",
        338: "the client that provokes it breaks a rule itself; -32002 and its data are newer than the published text",
    },
    "client": {
        183: "what is left out of the next prompt is the agent's work; of the client only hanging can be seen",
        299: "no rule demands a certain answer to a question that was not offered",
        338: "no rule demands one of these codes",
    },
}
"""Rules of level MUST, MUST NOT or SCHEMA whose cases warn instead of failing."""

PARTLY_SOFTENED: Final[Mapping[int, str]] = {
    311: "a field that is called password, secret or the like fails; one that only holds such a word warns",
    320: "a password or a parameter that is called so fails; a word in the query warns, and so does HTTP (a SHOULD)",
    329: "a member that begins with `_` fails; any other may be one of a newer release, or of a draft, and warns",
    337: "-32700 for a request that was read fails; other codes answer what no client may send, and warn",
}
"""Rules of level MUST or MUST NOT for agents that warn where it cannot be proven that they are broken."""

HARDENED: Final[Mapping[int, str]] = {
    261: "a tool that runs although its permission was rejected; version 2 has it as a MUST NOT",
    331: "names without `_` belong to the protocol, so a method of that kind is not a message of it (rules 6 and 7)",
}
"""Rules of another level for agents whose breach is a failure all the same."""


class Coverage(NamedTuple):
    """How one rule is checked on one side that it binds."""

    rule: SpecRule
    side: Binds
    cases: tuple[Case, ...]
    is_watched: bool
    """Whether the passive checks see it in all traffic."""
    reason: str
    """Why nothing checks it; empty if something does."""

    @property
    def is_covered(self) -> bool:
        return bool(self.cases) or self.is_watched


def coverage() -> list[Coverage]:
    """Return one entry per rule and side it binds, in the order of the rules."""
    by_rule: dict[tuple[int, Binds], list[Case]] = {}
    for side in SIDES:
        for case in load_cases(side):
            for rule in case.rules:
                by_rule.setdefault((rule, side), []).append(case)
    return [
        Coverage(
            rule,
            side,
            tuple(by_rule.get((rule.number, side), ())),
            rule.number in SEEN[side],
            UNSEEN[side].get(rule.number, ""),
        )
        for rule in RULES.values()
        for side in SIDES
        if rule.who in (side, "both") or (rule.number, side) in by_rule
    ]


def coverage_page() -> str:
    """Make docs/spec/coverage.md."""
    entries = coverage()
    parts = [
        "# Which rule is judged by which case",
        "<!-- generated by `make docs`; edit src/dragoman/conformance instead -->",
        "The rules are those of [rules.md](rules.md). A case is run by `dragoman check agent` or `check client` and\n"
        "explained by `--explain`; *watched* means that the passive checks look for it in all traffic, also in a\n"
        "recording (`dragoman check trace`). A rule that cannot be checked has the reason instead.",
        _numbers(entries),
        "| # | Level | Rule | Binds | Seen by |\n|---|---|---|---|---|\n" + "\n".join(map(_row, entries)),
    ]
    parts += ["## Judged more mildly than written", "These warn instead of failing.", _reasons(SOFTENED["agent"])]
    parts += ["These fail where it is certain, and warn otherwise.", _reasons(PARTLY_SOFTENED)]
    parts += ["## Judged more strictly than written", "These fail.", _reasons(HARDENED)]
    return "\n\n".join(parts) + "\n"


def _reasons(reasons: Mapping[int, str]) -> str:
    return "\n".join(f"- **{rule}**: {why}" for rule, why in reasons.items())


def _numbers(entries: list[Coverage]) -> str:
    lines = ["| Binds | Rules | Seen | of these MUST, MUST NOT, SCHEMA | Cases |", "|---|---|---|---|---|"]
    for side in SIDES:
        bound = [entry for entry in entries if entry.side == side and entry.rule.who in (side, "both")]
        seen = [entry for entry in bound if entry.is_covered]
        strict = [entry for entry in bound if is_strict(entry.rule)]
        strictly = [entry for entry in strict if entry.is_covered]
        cases = len(load_cases(side))
        lines.append(f"| {side} | {len(bound)} | {len(seen)} | {len(strictly)} of {len(strict)} | {cases} |")
    return "\n".join(lines)


def is_strict(rule: SpecRule) -> bool:
    """Whether breaking it is a failure and not a warning."""
    return rule.level in ("MUST", "MUST NOT", "SCHEMA")


def _row(entry: Coverage) -> str:
    rule = entry.rule
    seen = "; ".join(_seen(entry)) or entry.reason
    return f"| {rule.number} | {rule.level} | {_cell(rule.text)} | {entry.side} | {seen} |"


def _seen(entry: Coverage) -> Iterator[str]:
    for case in entry.cases:
        name = case.id.partition("/")[2]
        yield f"`{name}`" if case.level == "MUST" or not is_strict(entry.rule) else f"`{name}` ({case.level})"
    if entry.is_watched:
        yield "watched"


def _cell(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)
