"""The page as it is built: small enough, complete, and the same each time."""

from __future__ import annotations

import gzip
import hashlib
import json
import re
from pathlib import Path

import pytest

from tests import machine
from tests.web.kit import build_page, shared_page

FIRST_LOAD_BYTES = 80_000


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if machine.program("node") is None:
        pytest.skip("Node.js is not installed, so the web page cannot be built")
    return shared_page(tmp_path_factory)


def test_the_first_load_has_at_most_80_kilobytes(page: Path) -> None:
    """The page, its style sheet, its script, and all that this imports at once, as they are sent with gzip."""
    table = json.loads((page / "table.json").read_text())
    html = (page / "index.html").read_text()
    named = set(re.findall(r'(?:src|href)="(/[^"]*)"', html))
    assert named <= table["files"].keys(), "what the page names is served"
    size = sum(
        len(gzip.compress((page / table["files"][path]["file"]).read_bytes(), 9, mtime=0))
        for path in {"/", *(path for path in named if path.startswith("/assets/"))}
    )
    assert size <= FIRST_LOAD_BYTES
    assert abs(table["firstLoad"] - size) <= 0.02 * size, "the number that the build prints"


def test_the_table_has_every_file_with_its_hash(page: Path) -> None:
    table = json.loads((page / "table.json").read_text())
    files = {entry["file"]: entry["sha256"] for entry in table["files"].values()}
    found = {path.relative_to(page).as_posix(): path for path in page.rglob("*") if path.is_file()}
    del found["table.json"]
    assert found.keys() == files.keys()
    for name, path in found.items():
        assert hashlib.sha256(path.read_bytes()).hexdigest() == files[name]


def test_the_page_has_no_script_or_style_of_its_own_and_names_nothing_elsewhere(page: Path) -> None:
    html = (page / "index.html").read_text()
    assert not re.search(r"<script(?![^>]*\bsrc=)|<style|\sstyle=|\son[a-z]+=", html)
    assert not re.search(r"""["'(](?:https?:)?//""", html)
    for sheet in (page / "assets").glob("*.css"):
        assert not re.search(r"url\(['\"]?(?:https?:)?//|@import", sheet.read_text())


def test_two_builds_are_the_same(page: Path, tmp_path: Path) -> None:
    """Else a package could not be compared with its sources."""
    assert (build_page(tmp_path) / "table.json").read_bytes() == (page / "table.json").read_bytes()
