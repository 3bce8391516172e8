"""Extension requests of a session's agent (`_vendor/name`), passed to the one client that can answer them.

A client that announced the vendor is asked before the one whose prompt runs, because only it is known to have the
method. Nothing is sent to a second client: an extension may do something, and must do it once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.errors import ConnectionClosed, RequestError

if TYPE_CHECKING:
    from dragoman.host.clients.attachment import Attachment
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession


async def ask_client(session: HostedSession, method: str, params: Any) -> object:
    """The answer of a client to an extension request of the agent.

    Raises:
        RequestError: no client can answer it, or the one that was asked refused or went away.
    """
    chosen = None if method.startswith("_dragoman/") else choose_client(session, method)
    if chosen is None:
        raise RequestError.method_not_found(method)
    if isinstance(params, dict) and "sessionId" in params:
        params = {**params, "sessionId": _name_for_clients(session, params["sessionId"])}
    try:
        return await chosen.peer.request(method, params, Any)
    except ConnectionClosed:
        raise RequestError.internal_error("the client that was asked went away") from None


def choose_client(session: HostedSession, method: str) -> HostConnection | None:
    """The client that is asked: one that announced the method, preferably the owner of the turn; else the owner."""
    able = [each for each in session.attachments if each.client.peer.is_open and each.client.may("answer", session.id)]
    able.sort(key=lambda each: not _owns_turn(session, each))
    for each in able:
        if each.client.kind.has_extension(method):
            return each.client
    return able[0].client if able and _owns_turn(session, able[0]) else None


def _owns_turn(session: HostedSession, attachment: Attachment) -> bool:
    running = session.prompts.running
    return running is not None and (running.by == attachment.client.key or attachment.awaits(running.id))


def _name_for_clients(session: HostedSession, id: object) -> str:
    if id == session.agent_session:
        return session.id
    if isinstance(id, str) and session.knows_child(id):
        return session.child_id(id)
    raise RequestError.not_found("No such session on this connection", {"sessionId": id})
