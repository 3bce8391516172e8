"""Tables of promises in the pages: a table whose last column is `held by` names tests, and each of them exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.project.sources import ROOT

DOCS = ROOT / "docs"
# How many rows a page has at least: a table whose head was changed would be passed over otherwise.
PAGES = {
    "host.md": 33,
    "guard.md": 48,
    "rules.md": 78,
    "coming-from.md": 5,
    "sandbox.md": 29,
    "sessions.md": 70,
    "worktrees.md": 53,
}


def rows(page: str) -> Iterator[str]:
    """The rows of the tables of promises in a page."""
    is_inside = False
    for line in (DOCS / page).read_text().splitlines():
        if not line.startswith("|"):
            is_inside = False
        elif line.endswith("| held by |"):
            is_inside = True
        elif is_inside and not line.startswith("|---"):
            yield line


@cache
def functions() -> dict[str, set[Path]]:
    """The functions of the tests, with the files that they are in."""
    found: dict[str, set[Path]] = {}
    for path in (ROOT / "tests").rglob("*.py"):
        for name in re.findall(r"^(?:async )?def (\w+)\(", path.read_text(), re.MULTILINE):
            found.setdefault(name, set()).add(path.relative_to(ROOT))
    return found


def pages() -> list[str]:
    """All pages with such a table, and those that had one."""
    return sorted({*PAGES, *(path.name for path in DOCS.glob("*.md") if "| held by |" in path.read_text())})


@pytest.mark.parametrize("page", pages())
def test_every_promise_in_the_documentation_names_a_test_that_exists(page: str) -> None:
    found = list(rows(page))
    assert len(found) >= PAGES.get(page, 1)
    for row in found:
        named = re.findall(r"`(?:([\w/]+\.py)::)?(\w+)`", row.rstrip(" |").split(" | ")[-1])
        assert named, row
        for file, name in named:
            places = [path for path in functions().get(name, ()) if str(path).endswith(file)]
            assert places, f"{page}: there is no {file or 'test'} {name}"
