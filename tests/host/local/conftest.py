"""A local host for each test that asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.host.local.kit import HostPlaceKit, local_place


@pytest.fixture
def place(tmp_path: Path) -> Iterator[HostPlaceKit]:
    with local_place(tmp_path) as found:
        yield found
