"""An AI SDK endpoint that streams UI messages, of versions 5, 6 and 7.

Owns its requests. The server keeps nothing by default, so the whole conversation is sent each time. Permission is
given by posting again, once all questions are answered: the next stream continues the same message. A call of a tool
that only a web page has is refused. A running answer is continued with GET, if the server offers that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.endpoints.http import StreamBroken, StreamEndpoint, not_understood
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AdapterError
from dragoman.store.messages import part_to_json
from dragoman.uistream import chunks as c
from dragoman.uistream.content import blocks_of
from dragoman.uistream.messages import DataPart, FilePart, OtherPart, TextPart, ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer

_KIND: Final = "a UI-message stream"
_DONE: Final = b"[DONE]"
_SOURCE_ID: Final = "sourceId"
_ENDS: Final = (c.Finish, c.Abort, c.ErrorChunk)
# Times that calls of unknown tools are refused in one turn before it is given up.
_MOST_REFUSALS: Final = 8


class UIStreamAdapter(Adapter):
    """An endpoint such as `https://example.com/api/chat`, as `useChat` calls it.

    Args:
        url: the address that chats are posted to.
        headers: headers of every request.
        body: further members of every request's body.
        resume: continue a running answer with GET `url/<id>/stream`, after a broken connection and when a session is
            opened again.
    """

    accepts = ("image", "audio", "embedded_context")
    uses_history = True

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        resume: bool = False,
    ) -> None:
        self._endpoint = StreamEndpoint(url, headers)
        self._body = dict(body or {})
        self._resumes = resume
        self.name, self.title = self._endpoint.name, self._endpoint.title
        self._showing: dict[str, asyncio.Task[None]] = {}

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        request = self._request(ctx)
        for _ in range(_MOST_REFUSALS):
            async for chunk in self._stream(ctx, request):
                yield chunk
            await ctx.settle()
            if ctx.has_questions or ctx.error is not None:
                return
            unknown = [part for part in ctx.open_calls if not part.is_provider_executed]
            if not unknown:
                return
            for part in unknown:
                yield c.ToolOutputError(part.tool_call_id, f"This client does not have the tool {part.name}.")
            await ctx.settle()
            request = self._request(ctx)
        raise AdapterError(f"{self._endpoint.url} calls tools that this client does not have, again and again")

    async def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        async for chunk in self.run(ctx):
            yield chunk

    async def open(self, session: AdapterSession) -> None:
        if self._resumes and session.how in ("load", "resume"):
            self._showing[session.id] = asyncio.ensure_future(self._show_running(session))

    async def close_session(self, session: AdapterSession) -> None:
        showing = self._showing.pop(session.id, None)
        if showing is not None:
            showing.cancel()
            await asyncio.wait({showing})

    async def close(self) -> None:
        await self._endpoint.close()

    async def _stream(self, ctx: PromptContext, request: dict[str, Any]) -> AsyncIterator[c.Chunk]:
        """Yield one response, continued once with GET if it breaks off and the server offers that."""
        received: list[bytes] = []
        try:
            async for chunk in self._read(ctx, "POST", self._endpoint.url, request, received):
                yield chunk
        except StreamBroken:
            if not self._resumes:
                raise
            again: list[bytes] = []
            url = f"{self._endpoint.url.rstrip('/')}/{ctx.session_id}/stream"
            async for chunk in self._read(ctx, "GET", url, None, again):
                # The server repeats the answer from its beginning.
                if again != received[: len(again)]:
                    yield chunk
            if not again:
                raise

    async def _read(
        self, ctx: PromptContext, method: str, url: str, body: Any, received: list[bytes]
    ) -> AsyncIterator[c.Chunk]:
        has_ended = False
        async for data in self._endpoint.events(method, url, body, kind=_KIND):
            if data == _DONE:
                has_ended = True
                continue
            received.append(data)
            chunk = _decoded(url, data)
            if isinstance(chunk, c.Start) and chunk.message_id:
                ctx.message.metadata[_SOURCE_ID] = chunk.message_id
            has_ended = has_ended or isinstance(chunk, _ENDS)
            if not (isinstance(chunk, c.OtherChunk) and chunk.type == "done"):  # pydantic-ai's end mark
                yield chunk
        if has_ended or (method == "GET" and not received):
            return
        await ctx.settle()
        is_open = any(getattr(part, "state", "done") == "streaming" for part in ctx.message.parts)
        if not received or is_open or ctx.open_calls:
            raise StreamBroken(f"the stream of {url} broke off after {len(received)} chunks; what arrived is kept")

    async def _show_running(self, session: AdapterSession) -> None:
        """Show the answer that the server is still giving, if there is one."""
        url = f"{self._endpoint.url.rstrip('/')}/{session.id}/stream"
        try:
            async for data in self._endpoint.events("GET", url, kind=_KIND):
                if data != _DONE:
                    await session.show(_decoded(url, data))
        except AdapterError:
            return  # most servers do not offer it

    def _request(self, ctx: PromptContext) -> dict[str, Any]:
        messages = [*ctx.history, ctx.prompt]
        request = {**self._body, "id": ctx.session_id, "trigger": "submit-message"}
        if ctx.message.parts:
            messages.append(ctx.message)
            request["messageId"] = _id_of(ctx.message)
        request["messages"] = [message_json(message) for message in messages]
        return request


def message_json(message: UIMessage) -> dict[str, Any]:
    """Return a message as AI SDK servers read it: without what only we understand."""
    parts: list[dict[str, Any]] = []
    if message.role == "user":
        text = text_of(blocks_of([part for part in message.parts if isinstance(part, (TextPart, DataPart))]))
        parts += [part_to_json(part) for part in message.parts if isinstance(part, FilePart)]
        parts += [{"type": "text", "text": text}] if text else []
    else:
        parts += [_part_json(part) for part in message.parts if not isinstance(part, OtherPart)]
    return {"id": _id_of(message), "role": message.role, "parts": parts}


def _part_json(part: Any) -> dict[str, Any]:
    found = part_to_json(part)
    if isinstance(part, ToolPart):
        found.pop("title", None)
        metadata = found.get("callProviderMetadata")
        if isinstance(metadata, dict):
            kept = {name: value for name, value in metadata.items() if name != "dragoman"}
            found["callProviderMetadata"] = kept
            if not kept:
                del found["callProviderMetadata"]
    return found


def _id_of(message: UIMessage) -> str:
    return str(message.metadata.get(_SOURCE_ID, message.id))


def _decoded(url: str, data: bytes) -> c.Chunk:
    try:
        return c.decode_chunk(data)
    except c.ChunkError as error:
        raise not_understood(url, "a chunk of a UI-message stream", data, error) from None
