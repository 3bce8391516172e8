"""Titles and archived sessions (`session/set_title`, `session/archive`, `session/unarchive`): the host's own facts.

Agents are not asked: most have neither, and the list is the host's. Of the unstable part of the protocol, so for
clients that announce that they use it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError
from dragoman.host.history.facts import ARCHIVED, OWN_TITLE
from dragoman.host.methods.params import read_typed
from dragoman.host.working.prompts import milliseconds
from dragoman.schema import v1

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call

_LONGEST: Final = 200


async def set_title(host: Host, client: HostConnection, call: Call) -> object:
    """Give a session a title; what the agent calls it does not count from here on."""
    request = read_typed(v1.SetSessionTitleRequest, call.params)
    session = await _find(host, client, call, request.session_id)
    title = " ".join(request.title.split())
    if not title or len(title) > _LONGEST or not title.isprintable():
        raise RequestError.invalid_params(f"a title is one line of up to {_LONGEST} characters", path="$.title")
    session.facts |= {"title": title, OWN_TITLE: True}
    session.describe()
    session.append("update", {"sessionUpdate": "session_info_update", "title": title}, turn=0)
    await session.settle()
    return {"title": title}


async def archive(host: Host, client: HostConnection, call: Call) -> object:
    """Take a session out of the list. Its next prompt brings it back."""
    request = read_typed(v1.ArchiveSessionRequest, call.params)
    session = await _find(host, client, call, request.session_id)
    if session.is_busy:
        raise RequestError.invalid_request("the session works; cancel its turn first")
    session.facts.setdefault(ARCHIVED, milliseconds(host.now()))
    session.describe()
    await session.settle()
    return {}


async def unarchive(host: Host, client: HostConnection, call: Call) -> object:
    """Bring a session back into the list."""
    request = read_typed(v1.UnarchiveSessionRequest, call.params)
    session = await _find(host, client, call, request.session_id)
    session.facts.pop(ARCHIVED, None)
    session.describe()
    await session.settle()
    return {}


async def _find(host: Host, client: HostConnection, call: Call, id: str) -> HostedSession:
    if not client.kind.unstable:
        raise RequestError.method_not_found(call.method)
    session = await host.find(id, client.visitor)
    if session is None:
        raise RequestError.not_found("there is no such session")
    return session
