"""Questions to the user for input: a form, or a page to visit.

Owns the capability checks of both modes and the scope of the question. Does not check what the user typed.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, TypeAlias

from dragoman.agent.values import check_form
from dragoman.errors import LocalProtocolError
from dragoman.schema import UNSET, v1

if TYPE_CHECKING:
    from msgspec import UnsetType

    from dragoman.agent.client import RemoteClient
    from dragoman.schema import Unknown

Answer: TypeAlias = "v1.AcceptElicitation | v1.DeclineElicitation | v1.CancelElicitation | Unknown"


class ElicitationScope:
    """What a question belongs to: a session (and perhaps a tool call), or a request that is being answered."""

    __slots__ = ("request_id", "session_id", "tool_call_id")

    def __init__(
        self,
        *,
        session_id: str | UnsetType = UNSET,
        tool_call_id: str | UnsetType = UNSET,
        request_id: int | str | UnsetType | None = UNSET,
    ) -> None:
        self.session_id = session_id
        self.tool_call_id = tool_call_id
        self.request_id = request_id


async def elicit(
    client: RemoteClient,
    scope: ElicitationScope,
    message: str,
    schema: v1.ElicitationSchema | None,
    url: str | None,
    elicitation_id: str | None,
) -> Answer:
    """Send the question in the one mode it has (rules 298, 299, 302)."""
    if schema is not None and url is None:
        client._require("elicitation.form", "asking with a form")
        check_form(schema)
        form = v1.ElicitationFormMode(message, schema, scope.session_id, scope.tool_call_id, scope.request_id)
        return await _ask(client, form)
    if url is None or schema is not None:
        raise LocalProtocolError("an elicitation has either a schema, for a form, or a url")
    client._require("elicitation.url", "asking the user to visit a page")
    page_id = elicitation_id or os.urandom(12).hex()
    if page_id in client._elicitations:
        raise LocalProtocolError(f"elicitation {page_id!r} is not finished; give every elicitation its own id")
    page = v1.ElicitationUrlMode(message, page_id, url, scope.session_id, scope.tool_call_id, scope.request_id)
    client._elicitations.add(page_id)
    answer: Answer | None = None
    try:
        answer = await _ask(client, page)
    finally:
        if not isinstance(answer, v1.AcceptElicitation):
            client._elicitations.discard(page_id)
    return answer


async def _ask(client: RemoteClient, request: v1.ElicitationFormMode | v1.ElicitationUrlMode) -> Answer:
    answer_type: Any = v1.CreateElicitationResponse  # a union, which no `type[T]` can stand for
    answer: Answer = await client._ask("elicitation/create", request, answer_type)
    return answer
