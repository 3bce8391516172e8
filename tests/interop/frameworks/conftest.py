"""Frameworks that weigh more than the rest together are installed and driven by `make interop` only."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import RemoteAgent, spawn
from tests.project.sources import ROOT

PACKAGES = ROOT / ".agents" / "frameworks"
PROGRAMS = Path(__file__).parent / "programs"
Start = Callable[..., AbstractAsyncContextManager[RemoteAgent]]


@pytest.fixture
def start() -> Start:
    """Starts a program that wraps an agent of a framework: `start("graphs.py", "deep", store, permission=...)`."""
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("frameworks are driven by make interop")
    if not PACKAGES.is_dir():
        pytest.skip(f"no frameworks in {PACKAGES}; make interop installs them")

    @asynccontextmanager
    async def started(program: str, *arguments: object, **options: Any) -> AsyncIterator[RemoteAgent]:
        command = [sys.executable, str(PROGRAMS / program), *map(str, arguments)]
        env = {"PYTHONPATH": f"{PACKAGES}:{ROOT / 'src'}", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
        async with spawn(*command, env=env, initialize_seconds=100, **options) as remote:
            yield remote

    return started
