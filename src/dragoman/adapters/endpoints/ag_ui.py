"""An endpoint that streams AG-UI events, as many frameworks serve.

Owns its requests: the conversation, the agent's state, and the answers to interrupts. An interrupt about a call becomes
a permission question; any other is asked in a form, and is cancelled where the client has no forms.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.adapters.adapter import Adapter
from dragoman.adapters.endpoints.ag_ui_events import AGUIEvents
from dragoman.adapters.endpoints.http import StreamBroken, StreamEndpoint, not_understood
from dragoman.adapters.forms import form_for
from dragoman.adapters.normal import text_of
from dragoman.adapters.values import AskOption
from dragoman.schema import v1
from dragoman.uistream.content import blocks_of
from dragoman.uistream.messages import TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import PromptContext
    from dragoman.adapters.values import AskAnswer
    from dragoman.uistream.messages import UIMessage

_KIND: Final = "a stream of AG-UI events"
_STATE: Final = "ag_ui_state"
_DONE: Final = b"[DONE]"
_OPTIONS: Final = (
    AskOption("allow", "Allow"),
    AskOption("edit", "Allow with changes", edits=True),
    AskOption("reject", "Reject", allows=False),
)


class AGUIAdapter(Adapter):
    """An endpoint of the AG-UI protocol.

    Args:
        url: the address that runs are posted to.
        headers: headers of every request.
        body: further members of every request, such as `forwardedProps`.
    """

    accepts = ("image", "embedded_context")
    uses_history = True

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> None:
        self._endpoint = StreamEndpoint(url, headers)
        self._body = dict(body or {})
        self.name, self.title = self._endpoint.name, self._endpoint.title

    async def run(self, ctx: PromptContext) -> AsyncIterator[Yielded]:
        ctx.session.state = AGUIEvents(ctx.session.metadata.get(_STATE))
        async for chunk in self._stream(ctx, ()):
            yield chunk

    async def resume(self, ctx: PromptContext, answers: Mapping[str, AskAnswer]) -> AsyncIterator[Yielded]:
        events: AGUIEvents = ctx.session.state
        entries = [await _entry(ctx, interrupt, answers, events) for interrupt in events.interrupts]
        async for chunk in self._stream(ctx, entries):
            yield chunk

    async def close(self) -> None:
        await self._endpoint.close()

    async def _stream(self, ctx: PromptContext, entries: Sequence[dict[str, Any]]) -> AsyncIterator[Yielded]:
        events: AGUIEvents = ctx.session.state
        while True:
            request = self._request(ctx, entries)
            events.begin_run()
            async for data in self._endpoint.events("POST", self._endpoint.url, request, kind=_KIND):
                if data != _DONE:  # not of the protocol, but some servers send it
                    for chunk in events.feed(_decoded(self._endpoint.url, data)):
                        yield chunk
            ctx.session.metadata = {**ctx.session.metadata, _STATE: events.state}
            if not events.has_ended:
                raise StreamBroken(f"the stream of {self._endpoint.url} broke off; what arrived is kept")
            for interrupt in events.interrupts:
                ctx.offer(str(interrupt.get("id", "")), _OPTIONS)
            if not events.interrupts or any(interrupt.get("toolCallId") for interrupt in events.interrupts):
                return
            entries = [await _entry(ctx, interrupt, {}, events) for interrupt in events.interrupts]

    def _request(self, ctx: PromptContext, entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
        messages = [found for message in ctx.history for found in messages_json(message)]
        messages.append({"id": ctx.prompt.id, "role": "user", "content": _content(ctx.blocks)})
        if ctx.message.parts:
            messages += messages_json(ctx.message)
        request: dict[str, Any] = {
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **self._body,
            "threadId": ctx.session_id,
            "runId": os.urandom(12).hex(),
            "state": ctx.session.metadata.get(_STATE),
            "messages": messages,
        }
        if entries:
            request["resume"] = list(entries)
        return request


async def _entry(
    ctx: PromptContext, interrupt: dict[str, Any], answers: Mapping[str, AskAnswer], events: AGUIEvents
) -> dict[str, Any]:
    """Return the answer to one interrupt."""
    id = str(interrupt.get("id", ""))
    answer = answers.get(id)
    if answer is None:
        schema, read = form_for(interrupt.get("responseSchema"))
        given = await ctx.form(str(interrupt.get("message") or interrupt.get("reason") or "Please answer"), schema)
        if given is None:
            return {"interruptId": id, "status": "cancelled"}
        return {"interruptId": id, "status": "resolved", "payload": read(given)}
    payload: dict[str, Any] = {"approved": answer.allowed}
    if not answer.allowed:
        events.refused.add(str(interrupt.get("toolCallId", "")))
        payload |= {"reason": answer.reason} if answer.reason else {}
    elif answer.input is not UNSET:
        payload["editedArgs"] = answer.input
    return {"interruptId": id, "status": "resolved", "payload": payload}


def messages_json(message: UIMessage) -> list[dict[str, Any]]:
    """Return one stored message as the messages of the protocol: an answer with calls is several."""
    if message.role == "user":
        return [{"id": message.id, "role": "user", "content": text_of(blocks_of(message.parts))}]
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls = [part for part in message.parts if isinstance(part, ToolPart)]
    if not text and not calls:
        return []
    answer: dict[str, Any] = {"id": message.id, "role": "assistant"}
    if text:
        answer["content"] = text
    if calls:
        answer["toolCalls"] = [
            {
                "id": part.tool_call_id,
                "type": "function",
                "function": {"name": part.name, "arguments": json.dumps({} if part.input is UNSET else part.input)},
            }
            for part in calls
        ]
    results = [
        {"id": f"{message.id}-{part.tool_call_id}", "role": "tool", "toolCallId": part.tool_call_id, "content": result}
        for part in calls
        if (result := _result_of(part)) is not None
    ]
    return [answer, *results]


def _result_of(part: ToolPart) -> str | None:
    """Return the result of a call as text; None while it waits for an answer."""
    if part.state == "output-available":
        return part.output if isinstance(part.output, str) else json.dumps(part.output)
    if part.state == "output-error":
        return part.error_text or "failed"
    return "The user did not permit this tool call." if part.state == "output-denied" else None


def _content(blocks: Sequence[v1.ContentBlock]) -> Any:
    images = [block for block in blocks if isinstance(block, v1.ImageContent)]
    if not images:
        return text_of(blocks)
    content: list[dict[str, Any]] = [{"type": "text", "text": text_of(blocks)}]
    content += (
        {"type": "image", "source": {"type": "data", "value": image.data, "mimeType": image.mime_type}}
        for image in images
    )
    return content


def _decoded(url: str, data: bytes) -> dict[str, Any]:
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise not_understood(url, "an AG-UI event", data, error) from None
