"""The events of an answer in OpenAI's Responses form.

Owns the translation of events to chunks. Compatible servers differ: some change the id of an item from event to event,
some repeat an output index, some send an item only when it is complete or only with the end of the response. So an item
is found by its index, and what the end of an item holds beyond its deltas is added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.wire_forms.answer import AnswerChunks, broken_off, unreadable
from dragoman.builtin.models.wire_forms.failures import failure_in_event
from dragoman.builtin.models.wire_forms.form import StreamReader
from dragoman.uistream.messages import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dragoman.builtin.models.model import FinishReason, ModelRequest, StepEnd
    from dragoman.builtin.models.wire_forms.form import Target
    from dragoman.uistream.chunks import Chunk

_INCOMPLETE: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "context_length_exceeded": "context-window",
    "model_context_window_exceeded": "context-window",
}
_ERRORS: Final = frozenset({"error", "response.failed"})
_CALLS: Final = {"function_call": "arguments", "custom_tool_call": "input"}


class _Text(Struct):
    """A piece of an item: of a message's content, or of the summary or content of reasoning."""

    type: str | None = None
    text: str | None = None
    refusal: str | None = None


class _Item(Struct):
    type: str | None = None
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: str | None = None
    input: str | None = None
    phase: str | None = None
    encrypted_content: str | None = None
    content: list[_Text] | None = None
    summary: list[_Text] | None = None


class _CachedTokens(Struct):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None


class _ReasoningTokens(Struct):
    reasoning_tokens: int | None = None


class _Usage(Struct):
    input_tokens: int | None = None
    input_tokens_details: _CachedTokens | None = None
    output_tokens: int | None = None
    output_tokens_details: _ReasoningTokens | None = None


class _Incomplete(Struct):
    reason: str | None = None


class _Response(Struct):
    model: str | None = None
    status: str | None = None
    incomplete_details: _Incomplete | None = None
    usage: _Usage | None = None
    output: list[_Item] | None = None


class _Event(Struct):
    type: str
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None
    delta: str | None = None
    item: _Item | None = None
    response: _Response | None = None


class _Type(Struct):
    type: str


_decode_event: Final = msgspec.json.Decoder(_Event).decode
_decode_type: Final = msgspec.json.Decoder(_Type).decode


class _Open(Struct):
    """An item that has begun."""

    number: int
    type: str
    places: dict[tuple[str, int], None] = {}
    """Where text has arrived: a kind and an index within the item, in order."""
    written: list[str] = []
    """What has arrived of the arguments of a call."""


class ResponsesReader(StreamReader):
    """A reader of one streamed response."""

    def __init__(self, request: ModelRequest, target: Target) -> None:
        self._target = target
        self._answer = AnswerChunks(request, target)
        self._items: dict[int, _Open] = {}
        """Output index -> the item that is written there now."""
        self._count = 0
        self._was_refused = False
        self._is_done = False
        self._handlers: dict[str, Callable[[_Event], Iterable[Chunk | StepEnd]]] = {
            "response.output_text.delta": self._text_delta,
            "response.refusal.delta": self._refusal_delta,
            "response.reasoning_summary_text.delta": self._summary_delta,
            "response.reasoning_text.delta": self._reasoning_delta,
            "response.function_call_arguments.delta": self._arguments_delta,
            "response.custom_tool_call_input.delta": self._input_delta,
            "response.output_item.added": self._item_added,
            "response.output_item.done": self._item_done,
            "response.completed": self._end_of_response,
            "response.incomplete": self._end_of_response,
            "response.cancelled": self._end_of_response,
        }

    def feed(self, event: str, data: bytes) -> Iterable[Chunk | StepEnd]:
        if self._is_done or data == b"[DONE]":
            return ()
        try:
            decoded = _decode_event(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            type = _type_of(data)
            if type in _ERRORS:
                raise failure_in_event(self._target, data) from None
            if type is not None and type not in self._handlers:
                return ()
            raise unreadable(self._target, error) from None
        if decoded.type in _ERRORS:
            raise failure_in_event(self._target, data)
        handler = self._handlers.get(decoded.type)
        return () if handler is None else handler(decoded)

    def end(self) -> Iterable[Chunk | StepEnd]:
        if self._is_done:
            return ()
        raise broken_off()

    # Deltas

    def _text_delta(self, event: _Event) -> Iterable[Chunk]:
        item = self._item_at(event, "message")
        return self._piece(item, ("text", event.content_index or 0), event.delta)

    def _refusal_delta(self, event: _Event) -> Iterable[Chunk]:
        self._was_refused = True
        return self._text_delta(event)

    def _summary_delta(self, event: _Event) -> Iterable[Chunk]:
        item = self._item_at(event, "reasoning")
        return self._piece(item, ("summary", event.summary_index or 0), event.delta)

    def _reasoning_delta(self, event: _Event) -> Iterable[Chunk]:
        item = self._item_at(event, "reasoning")
        return self._piece(item, ("reasoning", event.content_index or 0), event.delta)

    def _arguments_delta(self, event: _Event) -> Iterable[Chunk]:
        item = self._items.get(event.output_index or 0)
        # A call that has no name yet begins with the end of its item.
        return () if item is None or item.type != "function_call" else self._call_piece(item, event.delta)

    def _input_delta(self, event: _Event) -> Iterable[Chunk]:
        item = self._items.get(event.output_index or 0)
        return () if item is None or item.type != "custom_tool_call" else self._call_piece(item, event.delta)

    def _piece(self, item: _Open, place: tuple[str, int], delta: str | None) -> tuple[Chunk, ...]:
        if not delta:
            return ()
        item.places[place] = None
        add = self._answer.text if place[0] == "text" else self._answer.thought
        return add((item.number, *place), delta)

    def _call_piece(self, item: _Open, delta: str | None) -> tuple[Chunk, ...]:
        if not delta:
            return ()
        is_first = not item.written
        item.written.append(delta)
        if item.type == "custom_tool_call":
            # Its input is free text, which is shown and stored as the one argument of a call.
            delta = ('{"input":"' if is_first else "") + msgspec.json.encode(delta)[1:-1].decode()
        return self._answer.arguments(item.number, delta)

    # Items

    def _item_at(self, event: _Event, type: str) -> _Open:
        """Return the item at the event's index; it begins here if the server has not announced it."""
        index = event.output_index or 0
        item = self._items.get(index)
        if item is None or item.type != type:
            item = self._begin(index, type)
        return item

    def _begin(self, index: int, type: str) -> _Open:
        self._count += 1
        item = self._items[index] = _Open(self._count, type)
        return item

    def _item_added(self, event: _Event) -> Iterable[Chunk]:
        if event.item is None or event.item.type is None:
            return ()
        item = self._begin(event.output_index or 0, event.item.type)
        if item.type not in _CALLS or not event.item.name:
            return ()
        return (
            *self._answer.call(item.number, event.item.name, event.item.call_id or ""),
            *self._call_piece(item, getattr(event.item, _CALLS[item.type])),
        )

    def _item_done(self, event: _Event) -> Iterator[Chunk]:
        if event.item is None or event.item.type is None:
            return
        index = event.output_index or 0
        item = self._items.pop(index, None)
        if item is None or item.type != event.item.type:
            item = self._begin(index, event.item.type)
            del self._items[index]
        if item.type == "message":
            yield from self._message_done(item, event.item)
        elif item.type == "reasoning":
            yield from self._reasoning_done(item, event.item)
        elif item.type in _CALLS:
            yield from self._call_done(item, event.item)

    def _message_done(self, item: _Open, done: _Item) -> Iterator[Chunk]:
        for number, content in enumerate(done.content or ()):
            self._was_refused = self._was_refused or bool(content.refusal)
            if ("text", number) not in item.places:
                yield from self._piece(item, ("text", number), content.text or content.refusal)
        for place in item.places:
            self._answer.keep((item.number, *place), id=done.id or None, phase=done.phase)

    def _reasoning_done(self, item: _Open, done: _Item) -> Iterator[Chunk]:
        for kind, texts in ("reasoning", done.content), ("summary", done.summary):
            for number, content in enumerate(texts or ()):
                if (kind, number) not in item.places:
                    yield from self._piece(item, (kind, number), content.text)
        if not item.places:
            if not done.encrypted_content:
                return
            item.places["summary", 0] = None
            yield from self._answer.thought((item.number, "summary", 0), "")
        for place in item.places:
            key = (item.number, *place)
            self._answer.keep(key, id=done.id or None, is_raw=place[0] == "reasoning" or None)
        # One of the parts carries it; the others only name the item.
        self._answer.keep((item.number, *next(iter(item.places))), encrypted=done.encrypted_content or None)

    def _call_done(self, item: _Open, done: _Item) -> Iterator[Chunk]:
        if not self._answer.has(item.number):
            yield from self._answer.call(item.number, done.name or "unknown", done.call_id or "")
        whole = (done.input if item.type == "custom_tool_call" else done.arguments) or ""
        written = "".join(item.written)
        if whole.startswith(written):  # otherwise the server wrote the same arguments in another way
            yield from self._call_piece(item, whole[len(written) :])
        is_custom = item.type == "custom_tool_call"
        if is_custom:
            end = '"}' if item.written else '{"input":""}'
            yield from self._answer.arguments(item.number, end)
        self._answer.keep(item.number, id=done.id or None, namespace=done.namespace, is_custom=is_custom or None)

    # The end

    def _end_of_response(self, event: _Event) -> Iterator[Chunk | StepEnd]:
        response = event.response or _Response()
        if event.type == "response.cancelled":
            raise ModelError("the provider cancelled the answer", is_retryable=True)
        was_silent = not self._count
        for index, item in enumerate(response.output or ()):
            # A server may not send items on their own, or not their end.
            if was_silent or index in self._items:
                yield from self._item_done(_Event("response.output_item.done", output_index=index, item=item))
        self._is_done = True
        yield from self._answer.finish(self._reason(event.type, response), _usage(response.usage), response.model or "")

    def _reason(self, type: str, response: _Response) -> FinishReason:
        if self._was_refused:
            return "content-filter"
        if type == "response.incomplete" or response.status == "incomplete":
            reason = response.incomplete_details.reason if response.incomplete_details is not None else None
            return _INCOMPLETE.get(reason or "", "other")
        return "tool-calls" if self._answer.has_calls else "stop"


def _type_of(data: bytes) -> str | None:
    try:
        return _decode_type(data).type
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _usage(usage: _Usage | None) -> Usage | None:
    """Return the usage in our counts, which do not overlap.

    The form includes cached tokens in the input and reasoning in the output.
    """
    if usage is None or not (usage.input_tokens or usage.output_tokens):
        return None
    cached = usage.input_tokens_details or _CachedTokens()
    read, written = cached.cached_tokens or 0, cached.cache_write_tokens or 0
    reasoning = (usage.output_tokens_details or _ReasoningTokens()).reasoning_tokens or 0
    return Usage(
        input=max((usage.input_tokens or 0) - read - written, 0),
        output=max((usage.output_tokens or 0) - reasoning, 0),
        reasoning=reasoning,
        cache_read=read,
        cache_write=written,
    )
