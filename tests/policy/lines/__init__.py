"""Command lines whose truth is known, and the rules under which they are judged.

`spellings.jsonl`: lines that were run in /w/p and did what one of their denies forbids, by class. `attacks.txt`: lines
that were invented to get around a rule. `honest.jsonl`: everyday lines that were run and did not. `everyday.txt`: more
of them, of several languages and tools. `recorded.jsonl`: lines that agents sent, from recordings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.policy import Command, Request, Verdict, judge, parse_rule

LINES = Path(__file__).parent
RUN_IN = "/w/p"
"""The project in which the lines of `spellings.jsonl` and `honest.jsonl` were run."""


class Known(NamedTuple):
    """A line with what is known of it."""

    kind: str
    denies: tuple[str, ...]
    line: str


def known_lines(name: str) -> list[Known]:
    """Return the lines of a file that names class and denies for each."""
    return [Known(kind, tuple(denies), line) for kind, denies, line in _rows(name)]


def attacks() -> list[Known]:
    """Return the lines that were invented to get around a rule."""
    found = []
    rule = ""
    for row in _texts("attacks"):
        if row.startswith("@"):
            rule = row[1:]
        else:
            found.append(Known("attack", (rule,), row))
    return found


def everyday_lines() -> list[str]:
    """Return lines of developers that are harmless."""
    return _texts("everyday")


def recorded_lines() -> list[str]:
    """Return the lines that agents sent."""
    return list(_rows("recorded"))


def _rows(name: str) -> list[Any]:
    return [json.loads(row) for row in (LINES / f"{name}.jsonl").read_text().splitlines()]


def _texts(name: str) -> list[str]:
    """Return the rows of a text; `$N` is the end of a line in one."""
    return [row.replace("$N", "\n") for row in (LINES / f"{name}.txt").read_text().splitlines()]


def judged(line: str, denies: tuple[str, ...], root: str = "/home/user/project") -> Verdict:
    """Return the verdict about a line when everything is allowed but these."""
    rules = [parse_rule("*", "allow", "flag"), *(parse_rule(deny, "deny", "flag") for deny in denies)]
    return judge(rules, Request("a", "execute", line, command=Command(line=line), root=root, home="/home/user"))
