"""Rules every file of the project follows."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from pathlib import Path

import pytest

from tests.project.sources import ROOT, is_generated, package_tree, packages, project_files, text_of

LONGEST_FILE = 700
LONGEST_DOCSTRING = 8
# Spelled so that this file does not name what it forbids.
REGISTRY_HOSTS = re.compile(r"py[p]i\.|python[h]osted|npm[j]s\.|yarn[p]kg\.", re.IGNORECASE)


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_hand_written_files_can_be_read_in_one_sitting() -> None:
    written = [path for path in project_files() if path.suffix == ".py" and not is_generated(path)]
    lengths = {relative(path): len(text_of(path).splitlines()) for path in written}
    long = {name: length for name, length in lengths.items() if length > LONGEST_FILE}
    assert not long, f"longer than {LONGEST_FILE} lines: {long}"


@pytest.mark.parametrize("name", packages())
def test_every_package_says_what_it_owns(name: str) -> None:
    docstring = ast.get_docstring(package_tree(name))
    assert docstring, f"{name} has no docstring"
    assert len(docstring.splitlines()) <= LONGEST_DOCSTRING


def test_no_file_names_a_package_registry() -> None:
    named = [
        f"{relative(path)}:{number}"
        for path in project_files()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if REGISTRY_HOSTS.search(line)
    ]
    assert not named


def test_lock_file_pins_versions_and_checksums_but_no_addresses() -> None:
    packages = json.loads((ROOT / "package-lock.json").read_text())["packages"]
    fetched = {name: entry for name, entry in packages.items() if name}
    assert fetched
    for name, entry in fetched.items():
        assert entry["version"], name
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, name


def test_every_requirement_is_pinned_exactly_and_equally() -> None:
    pins: dict[str, str] = {}
    for path in (ROOT / "requirements").glob("*.txt"):
        for line in path.read_text().splitlines():
            if line.startswith("#"):
                continue
            pinned = re.fullmatch(r"([\w-]+)==([\w.]+)", line)
            assert pinned, f"{relative(path)}: {line!r} is not an exact pin"
            assert pins.setdefault(pinned[1], pinned[2]) == pinned[2], f"{pinned[1]} is pinned to two versions"


def test_base_install_depends_on_msgspec_alone_and_all_holds_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert [re.split(r"[<>=]", name)[0] for name in project["dependencies"]] == ["msgspec"]
    extras = project["optional-dependencies"]
    everything = re.fullmatch(r"dragoman\[(.+)\]", extras["all"][0])
    assert everything
    assert set(everything[1].split(",")) == extras.keys() - {"all"}


def test_changelog_has_a_place_for_the_next_release() -> None:
    text = (ROOT / "CHANGELOG.md").read_text()
    headings = re.findall(r"^## (.+)$", text, flags=re.MULTILINE)
    assert headings[0] == "Compatibility"
    assert headings[1] == "Unreleased"


def test_continuous_integration_runs_the_same_gate_as_people() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert "make test" in script.read_text()


@pytest.mark.parametrize("target", ["run", "test", "check", "bench", "interop"])
def test_make_offers(target: str) -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(rf"^{target}:.*## \S", makefile, flags=re.MULTILINE), f"make {target} is missing or not described"


MARKS = ("![", "- **", "```console", "```sh", "```python", "## Documentation")
"""The beginnings of the parts of the README, in their order: picture, what users get, try, install, library, pages."""


def test_readme_is_short_and_shows_the_terminal_client_first() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 120
    first = {mark: next(number for number, line in enumerate(lines) if line.startswith(mark)) for mark in MARKS}
    assert list(first) == sorted(first, key=first.__getitem__)
    assert first["```console"] < 30
