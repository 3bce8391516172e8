"""Command lines whose truth is known, and the rules under which they are judged.

`spellings.jsonl`: lines that were run and did what one of their denies forbids, by class. `honest.jsonl`: everyday
lines that did not. `recorded.jsonl`: lines that agents sent, from recordings.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.policy import Command, Request, Verdict, judge, parse_rule

LINES = Path(__file__).parent


class Known(NamedTuple):
    """A line with what is known of it."""

    kind: str
    denies: tuple[str, ...]
    line: str


def known_lines(name: str) -> list[Known]:
    """Return the lines of a file that names class and denies for each."""
    return [Known(kind, tuple(denies), line) for kind, denies, line in _rows(name)]


def recorded_lines() -> list[str]:
    """Return the lines that agents sent."""
    return list(_rows("recorded"))


def _rows(name: str) -> list[Any]:
    return [json.loads(row) for row in (LINES / f"{name}.jsonl").read_text().splitlines()]


def judged(line: str, denies: tuple[str, ...]) -> Verdict:
    """Return the verdict about a line when everything is allowed but these."""
    rules = [parse_rule("*", "allow", "flag"), *(parse_rule(deny, "deny", "flag") for deny in denies)]
    command = Command(line=line)
    return judge(rules, Request("a", "execute", line, command=command, root="/home/user/project", home="/home/user"))
