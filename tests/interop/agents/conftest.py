"""Real agents are driven by `make interop`, which installs them; everywhere else these tests say so and are skipped."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.agents.installed_agent import InstalledAgent
from tests.interop.agents.recipes import ASKING, why_missing
from tests.interop.model_server.server import ModelServer


@pytest.fixture(params=ASKING)
def name(request: pytest.FixtureRequest) -> str:
    """Each agent that is installed, one after the other."""
    if not os.environ.get("DRAGOMAN_REAL_AGENTS"):
        pytest.skip("real agents are driven by make interop")
    found: str = request.param
    if reason := why_missing(found):
        pytest.skip(reason)
    return found


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


@pytest.fixture
def installed(name: str, server: ModelServer, tmp_path: Path) -> InstalledAgent:
    return InstalledAgent(name, tmp_path, server)
