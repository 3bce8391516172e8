"""Imports point down the layer table of docs/architecture.md, and nobody inside imports the façade."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.project.sources import ROOT, imported_modules, package_modules, text_of

FACADE = "dragoman"
ENTRY = "dragoman.__main__"
# A single module carries names for the packages of its own line, so it stands half a step below them.
MODULE_STEP = 0.5
_IMPORTED = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+(?:[ \t]*,[ \t]*[\w.]+)*)", re.MULTILINE)


def read_layers(page: str) -> dict[str, float]:
    """Name of a package or module -> its height, from the first table of the page whose lines start with a number."""
    heights: dict[str, float] = {}
    for number, names in re.findall(r"^ ?(\d\d?)  ((?:[a-z_]+(?:/|\.py) +)+)", page, flags=re.MULTILINE):
        for name in names.split():
            is_package = name.endswith("/")
            heights[name.removesuffix("/").removesuffix(".py")] = int(number) - (0 if is_package else MODULE_STEP)
    return heights


LAYERS = read_layers((ROOT / "docs" / "architecture.md").read_text())


def unit(module: str) -> str:
    """`dragoman.rpc.peer` -> `rpc`."""
    return module.split(".")[1]


def broken_rule(importer: str, imported: str, layers: dict[str, float]) -> str | None:
    """Why this import is not allowed, or None."""
    if imported != FACADE and not imported.startswith(f"{FACADE}."):
        return None
    if imported == FACADE:
        return None if importer == ENTRY else "nothing inside imports the façade"
    if importer in (FACADE, ENTRY) or unit(importer) == unit(imported):
        return None
    if layers[unit(imported)] >= layers[unit(importer)]:
        return "imports point down only, and never sideways"
    return None


def test_table_names_every_package_and_module() -> None:
    present = {unit(module) for module in package_modules() if module not in (FACADE, ENTRY)}
    assert present <= LAYERS.keys(), f"not in the layer table: {sorted(present - LAYERS.keys())}"


def may_break(module: str, text: str) -> bool:
    """Whether a file may import what it must not: found without its syntax tree, which takes ten times as long."""
    names = [name for names in _IMPORTED.findall(text) for name in re.split(r"[, ]+", names)]
    return any(name.startswith(".") or broken_rule(module, name, LAYERS) for name in names)


def test_imports_point_down() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {imported}: {why}"
        for module, path in package_modules().items()
        if may_break(module, text_of(path))
        for line, imported in imported_modules(module, path)
        if (why := broken_rule(module, imported, LAYERS))
    ]
    assert not wrong, "\n".join([f"{len(wrong)} imports break the table:", *wrong])


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("dragoman.rpc.peer", "dragoman.agent"),
        ("dragoman.agent.turn", "dragoman.client"),
        ("dragoman.schema.v1", "dragoman.wire"),
        ("dragoman.client", "dragoman"),
        ("dragoman.errors", "dragoman.schema"),
        ("dragoman.trace.replay.play", "dragoman.testing"),
    ],
)
def test_upward_sideways_and_facade_imports_are_found(importer: str, imported: str) -> None:
    assert broken_rule(importer, imported, LAYERS)


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("dragoman.agent.turn", "dragoman.rpc.peer"),
        ("dragoman.agent", "dragoman.agent.turn"),
        ("dragoman.schema.codec", "dragoman.errors"),
        ("dragoman.cli.main", "dragoman.schema"),
        ("dragoman.testing.recorded", "dragoman.trace"),
        ("dragoman.conformance.agent.run", "dragoman.testing"),
        ("dragoman.rpc", "asyncio"),
        ("dragoman", "dragoman.client"),
    ],
)
def test_downward_imports_are_allowed(importer: str, imported: str) -> None:
    assert broken_rule(importer, imported, LAYERS) is None


@pytest.mark.parametrize(
    "line",
    [
        "import dragoman.host",
        "import os, dragoman.host",
        "from dragoman import Agent",
        "from ..host import host",
        "    from dragoman.host.session import (",
        "\tfrom dragoman.host import x  # late",
    ],
)
def test_an_import_that_may_be_wrong_is_looked_at(line: str) -> None:
    assert may_break("dragoman.rpc.peer", f"import os\n{line}\n    x)\n")
    assert not may_break("dragoman.rpc.peer", "import os\nfrom dragoman.wire import Framer\n")


def test_imports_of_every_form_are_seen(tmp_path: Path) -> None:
    source = tmp_path / "sample.py"
    source.write_text(
        "import dragoman.agent\n"
        "from dragoman import schema, Agent\n"
        "from ..errors import DragomanError\n"
        "def late():\n"
        "    from dragoman.client import spawn\n"
        "if TYPE_CHECKING:\n"
        "    from dragoman.state import SessionState\n"
    )
    seen = [name for _, name in imported_modules("dragoman.rpc.sample", source)]
    assert sorted(seen) == sorted(
        ["dragoman.agent", "dragoman.schema", "dragoman", "dragoman.errors", "dragoman.client", "dragoman.state"]
    )
