"""Requests and messages of an MCP server to its client, translated for the session and back.

Owns the translation, and the bound on log messages that are shown. Whether a server may ask at all is in its
`ServerSpec`, and decided when a connection is made: what is not allowed is not announced to the server. The `mcp`
package is already loaded when this is used.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.mcp.client_side import SampleMessage, SampleRefused, SampleRequest, UserQuestion
from dragoman.builtin.mcp.tools import output_of
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    import mcp_types
    from mcp.client.session import ClientRequestContext

    from dragoman.builtin.mcp.client_side import ClientSide
    from dragoman.builtin.mcp.config import ServerSpec

_log = logging.getLogger("dragoman.builtin")

LOG_LEVEL: Final = "warning"
_SHOWN_LEVELS: Final = ("warning", "error", "critical", "alert", "emergency")
MOST_NOTES: Final = 10
"""Log messages of one connection that are shown; a server that fails in a loop would fill the screen."""
_NOTE_CHARACTERS: Final = 400


class Inbound:
    """What one server asks and reports.

    Args:
        note: shows a line of the server's log to the user.
    """

    def __init__(self, spec: ServerSpec, side: ClientSide, note: Callable[[str], None]) -> None:
        self._spec = spec
        self._side = side
        self._note = note
        self._noted = 0

    async def roots(self, context: ClientRequestContext) -> mcp_types.ListRootsResult:
        from mcp_types import ListRootsResult, Root

        folders = self._side.roots
        return ListRootsResult(roots=[Root.model_validate({"uri": Path(folder).as_uri()}) for folder in folders])

    async def elicit(
        self, context: ClientRequestContext, params: mcp_types.ElicitRequestParams
    ) -> mcp_types.ElicitResult:
        from mcp_types import ElicitRequestFormParams, ElicitResult

        if isinstance(params, ElicitRequestFormParams):
            question = UserQuestion(params.message, params.requested_schema)
        else:
            question = UserQuestion(params.message, url=params.url, id=params.elicitation_id or "")
        reply = await self._side.ask_user(self._spec, question)
        return ElicitResult(action=reply.action, content=reply.content if reply.action == "accept" else None)

    async def sample(
        self, context: ClientRequestContext, params: mcp_types.CreateMessageRequestParams
    ) -> mcp_types.CreateMessageResult | mcp_types.ErrorData:
        from mcp_types import INVALID_REQUEST, CreateMessageResult, ErrorData, TextContent

        messages = tuple(
            SampleMessage(message.role, output_of(message.content_as_list, None, is_error=False).text)
            for message in params.messages
        )
        request = SampleRequest(messages, params.system_prompt or "", params.max_tokens)
        try:
            answer = await self._side.ask_model(self._spec, request)
        except SampleRefused as error:
            return ErrorData(code=INVALID_REQUEST, message=str(error))
        return CreateMessageResult(
            role="assistant",
            content=TextContent(text=answer.text),
            model=answer.model,
            stop_reason="maxTokens" if answer.is_cut else "endTurn",
        )

    async def log(self, params: mcp_types.LoggingMessageNotificationParams) -> None:
        """Show warnings and errors, up to a number; the rest is for the log file."""
        text = params.data if isinstance(params.data, str) else _json(params.data)
        _log.info("MCP server %s: %s: %s", self._spec.name, params.level, text[:_NOTE_CHARACTERS])
        if params.level not in _SHOWN_LEVELS or self._noted > MOST_NOTES:
            return
        self._noted += 1
        more = "it reports more, which is only in the log"
        self._note(shorten(text, _NOTE_CHARACTERS) if self._noted <= MOST_NOTES else more)

    async def complete(self, id: str) -> None:
        await self._side.page_done(self._spec, id)


def _json(value: Any) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError):
        return str(value)
