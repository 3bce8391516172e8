"""Every agent test that asks for `link` runs over every transport."""

from __future__ import annotations

import pytest

from tests.agent.fixtures import Link, by_http, by_pipes, by_websocket, in_memory
from tests.conftest import IS_SOAK
from tests.transports.more_links import over_asgi, over_slow_network, over_tls
from tests.transports.remote_kit import over_unix

LOCAL = {"memory": in_memory, "pipes": by_pipes, "unix": over_unix}
NETWORK: dict[str, Link] = {"websocket": by_websocket, "http": by_http}
# The whole matrix is for `make soak`; what it adds differs below the wire only.
MORE: dict[str, Link] = {
    "websocket over TLS": lambda agent: over_tls(agent, "wss"),
    "HTTP over TLS": lambda agent: over_tls(agent, "https"),
    "websocket of an ASGI server": lambda agent: over_asgi(agent, "ws"),
    "HTTP of an ASGI server": lambda agent: over_asgi(agent, "http"),
    "websocket over a slow network": lambda agent: over_slow_network(agent, "ws"),
    "HTTP over a slow network": lambda agent: over_slow_network(agent, "http"),
}
LINKS = {**LOCAL, **NETWORK, **(MORE if IS_SOAK else {})}


@pytest.fixture(params=list(LINKS.values()), ids=list(LINKS))
def link(request: pytest.FixtureRequest) -> Link:
    chosen: Link = request.param
    return chosen


@pytest.fixture(params=list(LOCAL.values()), ids=list(LOCAL))
def local_link(request: pytest.FixtureRequest) -> Link:
    """For messages that reach the agent together, and for those that a server on a network answers itself."""
    chosen: Link = request.param
    return chosen
