"""A local host for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.warm_python import WarmPython
from tests.host.local.kit import HostPlaceKit, local_place, scripted


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path, warm_python) as found:
        yield found


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory, warm_python: WarmPython) -> Iterator[HostPlaceKit]:
    """One running host with the session `s`, for tests that only look at it."""
    with local_place(tmp_path_factory.mktemp("host"), warm_python) as found:
        found.environment["ANTHROPIC_API_KEY"] = "key-that-must-not-be-stored"
        assert scripted(found).code == 0
        yield found
