"""The tables of losses: the page shows them, the code uses every kind, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dragoman.versions.losses import SENTENCES, TABLES, Losses

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "versions.md").read_text()
NAMES = {"1": "version 1", "2": "version 2", "2025.1": "2025.1"}


@pytest.mark.parametrize(("before", "after"), TABLES)
def test_the_page_shows_each_table(before: str, after: str) -> None:
    section = PAGE.partition(f"### From {NAMES[before]} to {NAMES[after]}\n")[2].partition("\n### ")[0]
    assert dict(re.findall(r"^\| `([a-z0-9-]+)` \| (.+) \|$", section, re.MULTILINE)) == TABLES[before, after]


def test_a_kind_is_in_one_table() -> None:
    assert sum(map(len, TABLES.values())) == len(SENTENCES)


def test_every_kind_is_used_and_every_used_kind_exists() -> None:
    folder = ROOT / "src" / "dragoman" / "versions"
    code = "\n".join(path.read_text() for path in folder.rglob("*.py") if path.name != "losses.py")
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)*)"', code))
    assert SENTENCES.keys() <= named
    added = set(re.findall(r'(?:lost|losses)\.add\("([^"]+)"', code))
    assert added <= SENTENCES.keys()


def test_losses_are_counted_by_kind_in_order() -> None:
    losses = Losses()
    for kind in ("usage", "notice", "usage"):
        losses.add(kind)
    assert [(lost.kind, lost.count) for lost in losses.counted()] == [("usage", 2), ("notice", 1)]
    with pytest.raises(KeyError, match="in no table"):
        losses.add("nothing")
