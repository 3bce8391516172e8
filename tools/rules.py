"""Writes the table of rules the package carries, from docs/spec/rules.md: `python -m tools.rules`.

A test compares it with what is committed.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "spec" / "rules.md"
TABLE = ROOT / "src" / "dragoman" / "trace" / "checks" / "rules.tsv"


def table() -> str:
    """One line a rule: number, level, side that is bound, text."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ((?:[^|\\]|\\.)+) \|", PAGE.read_text(), flags=re.MULTILINE)
    return "".join("\t".join(cell.strip().replace("\\|", "|") for cell in row) + "\n" for row in rows)


if __name__ == "__main__":
    TABLE.write_text(table())
    print(f"{TABLE.relative_to(ROOT)}: {len(table().splitlines())} rules")
