"""The rules of docs/spec/rules.md as data: number, level, side that they bind, and text.

`python -m tools.rules` writes the table from that page; a test keeps the two in step.
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


def _read() -> dict[int, SpecRule]:
    rows = (line.split("\t") for line in Path(__file__).with_name("rules.tsv").read_text("utf-8").splitlines())
    return {int(number): SpecRule(int(number), level, who, text) for number, level, who, text in rows}


RULES: Final = _read()
"""Number -> rule."""
