"""Every agent test that asks for `link` runs over every transport."""

from __future__ import annotations

import pytest

from tests.agent.fixtures import Link, by_http, by_pipes, by_websocket, in_memory
from tests.transports.remote_kit import over_unix

LOCAL = {"memory": in_memory, "pipes": by_pipes, "unix": over_unix}
LINKS = {**LOCAL, "websocket": by_websocket, "http": by_http}


@pytest.fixture(params=list(LINKS.values()), ids=list(LINKS))
def link(request: pytest.FixtureRequest) -> Link:
    chosen: Link = request.param
    return chosen


@pytest.fixture(params=list(LOCAL.values()), ids=list(LOCAL))
def local_link(request: pytest.FixtureRequest) -> Link:
    """For messages that reach the agent together, and for those that a server on a network answers itself."""
    chosen: Link = request.param
    return chosen
