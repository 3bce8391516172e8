"""Writes the tables of rules the package carries, from docs/spec/rules.md and rules-v2.md: `python -m tools.rules`.

A test compares them with what is committed.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "spec" / "rules.md"
PAGE_2 = ROOT / "docs" / "spec" / "rules-v2.md"
TABLE = ROOT / "src" / "dragoman" / "trace" / "checks" / "rules.tsv"
TABLE_2 = ROOT / "src" / "dragoman" / "trace" / "checks" / "rules_v2.tsv"


def table(page: Path = PAGE) -> str:
    """One line a rule: number, level, side that is bound, text."""
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ((?:[^|\\]|\\.)+) \|", page.read_text(), flags=re.MULTILINE)
    return "".join("\t".join(cell.strip().replace("\\|", "|") for cell in row) + "\n" for row in rows)


if __name__ == "__main__":
    for page, target in ((PAGE, TABLE), (PAGE_2, TABLE_2)):
        target.write_text(table(page))
        print(f"{target.relative_to(ROOT)}: {len(table(page).splitlines())} rules")
