"""What `make agents` installs is pinned: to the version, to the checksum, and to nobody's address."""

from __future__ import annotations

import json
import re

import pytest

from tests.interop.agents.recipes import PACKAGES, RECIPES, package_of, version_of


@pytest.mark.parametrize("name", sorted(path.name for path in PACKAGES.iterdir()))
def test_program_is_pinned(name: str) -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+", version_of(name))
    packages = json.loads((PACKAGES / name / "package-lock.json").read_text())["packages"]
    fetched = {path: entry for path, entry in packages.items() if path}
    assert fetched
    for path, entry in fetched.items():
        assert entry["integrity"].startswith("sha512-"), path
        assert "resolved" not in entry, path


def test_every_agent_of_a_recipe_is_installed_by_make() -> None:
    assert {path.name for path in PACKAGES.iterdir()} >= {package_of(name) for name in RECIPES}
