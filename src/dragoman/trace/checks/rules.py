"""The rules of docs/spec/rules.md and rules-v2.md as data: number, level, side that they bind, and text.

`python -m tools.rules` writes the tables from those pages; a test keeps them in step.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple


class SpecRule(NamedTuple):
    """One row: `level` is MUST, MUST NOT, SHOULD, SHOULD NOT, MAY, SCHEMA, lc or SDK, `who` client, agent or both."""

    number: int
    level: str
    who: str
    text: str


def _read(name: str) -> dict[int, SpecRule]:
    rows = (line.split("\t") for line in Path(__file__).with_name(name).read_text("utf-8").splitlines())
    return {int(number): SpecRule(int(number), level, who, text) for number, level, who, text in rows}


RULES: Final = _read("rules.tsv")
"""Number -> rule of version 1."""
FIRST_OF_VERSION_2: Final = 2001
_version2: Final[dict[int, SpecRule]] = {}


def rules_of_version2() -> dict[int, SpecRule]:
    """Return number -> rule of version 2; read when first asked for."""
    if not _version2:
        _version2.update(_read("rules_v2.tsv"))
    return _version2


def rule_of(number: int) -> SpecRule:
    """Return the rule with this number, of either version."""
    return RULES[number] if number < FIRST_OF_VERSION_2 else rules_of_version2()[number]
