"""The page's renderers: pure ones in Node, what makes elements in a browser."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest

from tests import machine

WEB: Final = Path(__file__).parents[2] / "web"
NODE: Final = machine.program("node")


@pytest.mark.skipif(
    NODE is None or not (WEB / "node_modules" / "esbuild").is_dir(), reason="needs Node and the page's packages"
)
def test_pure_renderers_cut_compare_and_colour_as_described() -> None:
    """Blocks, diffs, output, hidden characters and highlighting, in the tests of web/tests/render.mjs."""
    assert NODE is not None
    ran = subprocess.run([NODE, WEB / "tests" / "render.mjs"], capture_output=True, text=True, timeout=90, check=False)
    assert ran.returncode == 0, ran.stdout[-4000:] + ran.stderr[-2000:]
    assert "# fail 0" in ran.stdout
