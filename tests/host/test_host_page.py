"""`docs/host.md` names a test for each fault; each of them exists."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_every_test_that_the_page_names_exists() -> None:
    page = (ROOT / "docs" / "host.md").read_text()
    rows = [line for line in page.partition("## What survives what")[2].splitlines() if line.startswith("| ")][1:]
    assert len(rows) > 25
    found = set()
    for folder in ("host", "store"):
        for path in (ROOT / "tests" / folder).glob("test_*.py"):
            found |= set(re.findall(r"^(?:async )?def (test_\w+)", path.read_text(), re.MULTILINE))
    for row in rows:
        named = re.findall(r"`(test_\w+)`", row)
        assert named, row
        assert set(named) <= found, row
