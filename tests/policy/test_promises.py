"""The tables of promises in docs/rules.md and docs/guard.md name tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["rules.md", "guard.md"])
def test_every_promise_in_the_documentation_names_a_test_that_exists(page: str) -> None:
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", (ROOT / "docs" / page).read_text())
    assert len(named) > 9
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in (ROOT / file).read_text()]
    assert missing == []
