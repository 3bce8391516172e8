"""Changing prompts that wait: their content, or that they run at all. Only their sender may, or an administrator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.errors import RequestError
from dragoman.host.methods.params import find_session, read_params, read_typed, text_member
from dragoman.schema import v1

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call


async def edit(host: Host, client: HostConnection, call: Call) -> object:
    """Put other content into a prompt that waits; its place in the queue and its id stay."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    item = session.prompts.find_waiting(text_member(params, "promptId"), client)
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not blocks:
        raise RequestError.invalid_params("prompt must be a list of content blocks", path="$.prompt")
    read: Any = read_typed(v1.PromptRequest, msgspec.json.encode({"sessionId": session.id, "prompt": blocks}))
    session.prompts.change(item, read.prompt, client)
    await session.settle()
    return _order(session)


async def remove(host: Host, client: HostConnection, call: Call) -> object:
    """Take a prompt that waits out of the queue; its sender gets the answer `cancelled`."""
    params = read_params(call.params)
    session = await find_session(host, client, params)
    item = session.prompts.find_waiting(text_member(params, "promptId"), client)
    session.prompts.cancel_prompt(item.id, client)
    await session.settle()
    return _order(session)


def _order(session: HostedSession) -> object:
    return {"promptIds": [item.id for item in session.prompts.waiting]}
