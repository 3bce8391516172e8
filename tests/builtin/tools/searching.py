"""Tests of searches run twice: with ripgrep, where there is one, and without."""

import os
import time
from pathlib import Path

import pytest

from tests import machine

needs_ripgrep = pytest.mark.skipif(
    machine.ripgrep() is None, reason="ripgrep is not on PATH: only our own search is tested"
)
both = pytest.mark.parametrize("engine", ["ours", pytest.param("ripgrep", marks=needs_ripgrep)], indirect=True)


def lay_out(root: Path, files: dict[str, str | bytes]) -> None:
    """Files, each a second younger than the one before."""
    now = time.time() - 10_000
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        os.utime(path, (now + number, now + number))
