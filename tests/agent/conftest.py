"""Every agent test that asks for `link` runs over memory and over real pipes."""

from __future__ import annotations

import pytest

from tests.agent.fixtures import Link, by_pipes, in_memory


@pytest.fixture(params=[in_memory, by_pipes], ids=["memory", "pipes"])
def link(request: pytest.FixtureRequest) -> Link:
    chosen: Link = request.param
    return chosen
