"""What is public is what `__all__` lists and docs/api.md shows, both ways."""

from __future__ import annotations

import ast
import re
from importlib import import_module
from pathlib import Path

import pytest

import dragoman
from tests.project.sources import ROOT, package_tree, packages

PAGE = (ROOT / "docs" / "api.md").read_text()


def documented() -> dict[str, list[str]]:
    """Package -> names in the first column of the tables below its heading."""
    sections: dict[str, list[str]] = {}
    names: list[str] = []
    for line in PAGE.splitlines():
        if line.startswith("## "):
            heading = re.fullmatch(r"## `([\w.]+)`", line)
            names = sections.setdefault(heading[1], []) if heading else []
        elif row := re.match(r"\| (`.+?`(?:, `.+?`)*) \|", line):
            names.extend(re.findall(r"`([\w.]+)`", row[1]))
    return sections


def inside() -> set[str]:
    """Packages the page calls internal."""
    return set(re.findall(r"`(dragoman\.\w+)`", PAGE.partition("## Inside")[2]))


def declared(package: str) -> list[str] | None:
    """`__all__` as written in its file, without running it."""
    for node in package_tree(package).body:
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__all__")], value=value)
                | ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value)
            ):
                return list(ast.literal_eval(value))
    return None


PUBLIC = {name: names for name in packages() if (names := declared(name)) is not None}
SHOWN = documented()
LOADED_BY_MODULE = {name: names for name, names in SHOWN.items() if name not in PUBLIC}


def test_every_package_is_either_public_or_called_internal() -> None:
    present = {name for name in packages() if name.count(".") <= 1}
    assert SHOWN.keys() | inside() == present
    assert not SHOWN.keys() & inside()


@pytest.mark.parametrize(("package", "names"), PUBLIC.items(), ids=PUBLIC.keys())
def test_every_public_name_exists_once(package: str, names: list[str]) -> None:
    module = import_module(package)
    assert [name for name in names if not hasattr(module, name)] == []
    assert len(names) == len(set(names))


@pytest.mark.parametrize("package", sorted(SHOWN.keys() & PUBLIC.keys()))
def test_documentation_lists_exactly_the_public_names(package: str) -> None:
    assert sorted(SHOWN[package]) == sorted(PUBLIC[package]), f"docs/api.md and {package}.__all__ differ"


@pytest.mark.parametrize("package", sorted(LOADED_BY_MODULE))
def test_a_package_without_names_of_its_own_is_documented_by_module(package: str) -> None:
    """`memory.memory_pair`: every module is shown, and every name shown is there."""
    shown = [name.partition(".") for name in LOADED_BY_MODULE[package]]
    assert {module for module, _, _ in shown} == {path.stem for path in public_modules(package)}
    missing = [name for module, _, name in shown if not hasattr(import_module(f"{package}.{module}"), name)]
    assert not missing


def public_modules(package: str) -> list[Path]:
    return [path for path in packages()[package].parent.glob("*.py") if not path.stem.startswith("_")]


def test_facade_offers_the_names_of_common_programs_and_shows_them() -> None:
    """About twenty names for programs, eleven of them errors, and about ten short ways for scripts."""
    assert len(dragoman.__all__) <= 36
    assert dir(dragoman) == sorted(dragoman.__all__)


def lazy_table(tree: ast.Module, package: str) -> dict[str, str] | None:
    """Name -> module, as the call of `lazy_exports` says; None for a package without one, or with a computed table."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "lazy_exports":
            try:
                homes = ast.literal_eval(node.args[1])
            except ValueError:
                return None
            return {
                name: f"{package}{home}" if home.startswith(".") else home
                for home, names in homes.items()
                for name in names
            }
    return None


LAZY = {name: table for name in packages() if (table := lazy_table(package_tree(name), name))}


def test_several_packages_load_names_when_first_used() -> None:
    assert {"dragoman", "dragoman.client", "dragoman.process", "dragoman.trace"} <= LAZY.keys()


@pytest.mark.parametrize(("package", "loaded"), LAZY.items(), ids=LAZY.keys())
def test_type_checkers_see_what_is_loaded_when_first_used(package: str, loaded: dict[str, str]) -> None:
    tree = package_tree(package)
    for_checkers = {
        alias.name: node.module
        for block in tree.body
        if isinstance(block, ast.If) and isinstance(block.test, ast.Name)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert loaded == for_checkers
    assert loaded.keys() <= set(PUBLIC[package])


def test_facade_loads_everything_but_its_version_when_first_used() -> None:
    assert {*LAZY["dragoman"], "__version__"} == set(dragoman.__all__)


def test_facade_refuses_a_name_it_does_not_have() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Agnet'"):
        dragoman.Agnet  # type: ignore[attr-defined]  # noqa: B018  # the misspelling is the point
