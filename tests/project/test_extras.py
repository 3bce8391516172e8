"""The commands that install an optional part name what exists, and one page of the documentation spells them."""

from __future__ import annotations

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dragoman.extras import install_command
from tests.project.sources import ROOT

INSTALL = ROOT / "docs" / "install.md"
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
# Workflows that are copied whole; the sentence in front of each says where the package comes from.
WORKFLOWS = {"ci.md", "conformance.md", "conformance-clients.md"}


class Installed:
    """An installed package, with what its installer noted about where it came from."""

    def __init__(self, noted: dict[str, Any] | None) -> None:
        self._noted = noted

    def read_text(self, name: str) -> str | None:
        assert name == "direct_url.json"
        return None if self._noted is None else json.dumps(self._noted)


@pytest.mark.parametrize(
    ("noted", "package"),
    [
        (None, "'dragoman[agent]'"),
        ({"url": "file:///home/a%20b/dragoman", "dir_info": {}}, "'/home/a b/dragoman[agent]'"),
        ({"url": "file:///src/dragoman", "dir_info": {"editable": True}}, "-e '/src/dragoman[agent]'"),
        ({"url": "https://example.com/dragoman.whl", "archive_info": {}}, "'dragoman[agent]'"),
    ],
)
def test_an_extra_comes_from_where_the_package_came_from(
    noted: dict[str, Any] | None, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.metadata.distribution", lambda name: Installed(noted))
    assert install_command("agent") == f"{sys.executable} -m pip install {package}"


def test_every_extra_that_a_message_names_exists() -> None:
    named = set()
    for path in (ROOT / "src").rglob("*.py"):
        named |= set(re.findall(r"""install_command\(["']([a-z-]+)["']\)""", path.read_text()))
    assert {"agent", "tui", "remote", "otel"} <= named <= EXTRAS.keys()


def test_no_message_spells_the_command_itself() -> None:
    spelled = [path for path in (ROOT / "src").rglob("*.py") if re.search(r"pip install '?dragoman", path.read_text())]
    assert spelled == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_one_page_spells_how_the_package_is_installed(page: Path) -> None:
    found = re.findall(r"(?:pip|pipx|uv tool) install '?(?:dragoman|\.)[^\n`]*", page.read_text())
    if page == INSTALL:
        assert found
    elif page.name in WORKFLOWS:
        assert "install.md" in page.read_text()
    elif page.name == "README.md":
        assert len(found) <= 2
    else:
        assert found == []


def test_the_page_has_a_row_for_every_extra() -> None:
    text = INSTALL.read_text()
    assert [extra for extra in EXTRAS if f"| `{extra}` |" not in text] == []
