"""The events of an answer in Google's Gemini form.

Owns the translation of events to chunks. Each event is a piece of a response: parts that continue the last one or begin
another, the counts so far, and in the last event why the model stopped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.wire_forms.answer import AnswerChunks, broken_off, unreadable
from dragoman.builtin.models.wire_forms.failures import failure_in_event
from dragoman.builtin.models.wire_forms.form import StreamReader, encode
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.builtin.models.model import FinishReason, ModelRequest, StepEnd
    from dragoman.builtin.models.wire_forms.form import Target

_FILTERED: Final = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR"),
    *("IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    **dict.fromkeys(_FILTERED, "content-filter"),
}
# The model wrote something that the service could not read; mostly the next attempt is right.
_BROKEN: Final = {
    "MALFORMED_FUNCTION_CALL": "the model wrote a call that cannot be read",
    "MALFORMED_RESPONSE": "the model wrote an answer that cannot be read",
    "UNEXPECTED_TOOL_CALL": "the model called a tool that it does not have",
    "TOO_MANY_TOOL_CALLS": "the model made too many calls at once",
    "MISSING_THOUGHT_SIGNATURE": "the model's thoughts are not signed",
    "LANGUAGE": "the model does not know the language",
}


class _Struct(Struct, rename="camel"):
    pass


class _Call(_Struct):
    name: str = ""
    id: str | None = None
    args: dict[str, Any] | None = None


class _Blob(_Struct):
    mime_type: str = ""
    data: str = ""


class _Part(_Struct):
    text: str | None = None
    thought: bool | None = None
    thought_signature: str | None = None
    function_call: _Call | None = None
    inline_data: _Blob | None = None


class _Content(_Struct):
    parts: list[_Part] | None = None


class _Candidate(_Struct):
    content: _Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    continuation_token: str | None = None


class _Feedback(_Struct):
    block_reason: str | None = None


class _Usage(_Struct):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    candidates_token_count: int | None = None
    thoughts_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None


class _Event(_Struct):
    candidates: list[_Candidate] | None = None
    prompt_feedback: _Feedback | None = None
    usage_metadata: _Usage | None = None
    model_version: str | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode
_decode_list: Final = msgspec.json.Decoder(list[_Event]).decode


class _Passage(Struct):
    """The text or thought that is being written: its number, its length, and where signatures are."""

    kind: Literal["text", "thought"]
    number: int
    length: int = 0
    signatures: list[tuple[int, int, str]] = []


class GeminiReader(StreamReader):
    """A reader of one streamed answer. It ends with the response, because counts may follow the reason."""

    def __init__(self, request: ModelRequest, target: Target) -> None:
        self._target = target
        self._answer = AnswerChunks(request, target)
        self._passage: _Passage | None = None
        self._count = 0
        self._usage = _Usage()
        self._model = ""
        self._reason = ""
        self._message = ""
        self._was_blocked = False
        self._spent: Usage | None = None
        """The tokens of the responses before this one."""
        self._token = ""

    def feed(self, event: str, data: bytes) -> Iterable[c.Chunk]:
        if data == b"[DONE]":
            return ()
        try:
            events = _decode_list(data) if data.lstrip()[:1] == b"[" else (_decode(data),)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise unreadable(self._target, error) from None
        if any(event.error is not None for event in events):
            raise failure_in_event(self._target, data)
        return [chunk for event in events for chunk in self._chunks(event)]

    def end(self) -> Iterable[c.Chunk | StepEnd]:
        """Raises: ModelError if no reason for the end was sent, or one that makes the answer useless."""
        if self._reason == "CONTINUATION" and self._token:
            self._spent, self._usage, self._reason = self._counts(), _Usage(), ""
            return ()
        if not self._reason and not self._was_blocked:
            raise broken_off()
        if self._reason in _BROKEN:
            what = f"{_BROKEN[self._reason]} ({self._reason})"
            raise ModelError(f"{what}: {self._message}" if self._message else what, is_retryable=True)
        reason: FinishReason = "content-filter" if self._was_blocked else _REASONS.get(self._reason, "other")
        if reason == "stop" and self._answer.has_calls:
            reason = "tool-calls"
        return self._answer.finish(reason, self._counts(), self._model)

    def continuation(self) -> dict[str, Any]:
        """Return what the next request adds to continue an answer.

        A long answer reaches the limit of one response; the server continues it with the token that it gave.
        """
        return {"continuationToken": self._token} if self._token else {}

    def _chunks(self, event: _Event) -> Iterator[c.Chunk]:
        self._model = event.model_version or self._model
        if event.usage_metadata is not None:
            self._count_tokens(event.usage_metadata)
        if event.prompt_feedback is not None and event.prompt_feedback.block_reason:
            self._was_blocked = True
        if not event.candidates:
            return
        candidate = event.candidates[0]
        if candidate.content is not None:
            for part in candidate.content.parts or ():
                yield from self._part(part)
        if candidate.finish_reason and candidate.finish_reason != "FINISH_REASON_UNSPECIFIED":
            self._reason = candidate.finish_reason
            self._message = candidate.finish_message or ""
            self._token = candidate.continuation_token or ""

    def _part(self, part: _Part) -> Iterator[c.Chunk]:
        if part.function_call is not None and part.function_call.name:
            self._passage = None
            self._count += 1
            yield from self._answer.call(self._count, part.function_call.name, part.function_call.id or "")
            yield from self._answer.arguments(self._count, encode(part.function_call.args or {}).decode())
            self._answer.keep(self._count, signature=part.thought_signature or None)
        elif part.text is not None:
            yield from self._text("thought" if part.thought else "text", part.text, part.thought_signature)
        elif part.inline_data is not None and part.inline_data.data and not part.thought:
            self._passage = None
            blob = part.inline_data
            yield c.File(f"data:{blob.mime_type};base64,{blob.data}", blob.mime_type)

    def _text(self, kind: Literal["text", "thought"], text: str, signature: str | None) -> Iterator[c.Chunk]:
        passage = self._passage
        if passage is None or passage.kind != kind:
            if not text:
                if signature:
                    yield from self._keep_alone(signature)
                return
            self._count += 1
            passage = self._passage = _Passage(kind, self._count)
        add = self._answer.text if kind == "text" else self._answer.thought
        yield from add(passage.number, text)
        if kind == "thought":
            # Marks it as a thought of this model; those of others are not sent to it.
            self._answer.keep(passage.number, is_thought=True)
        if signature:
            passage.signatures.append((passage.length, passage.length + len(text), signature))
            self._answer.keep(passage.number, signatures=passage.signatures)
        passage.length += len(text)

    def _keep_alone(self, signature: str) -> Iterator[c.Chunk]:
        """Keep a signature that came with nothing else: with the thought before it, or with one of no words."""
        if self._passage is None or self._passage.kind != "thought":
            self._count += 1
            self._passage = _Passage("thought", self._count)
            yield from self._answer.thought(self._count, "")
        self._answer.keep(self._passage.number, then=signature, is_thought=True)

    def _count_tokens(self, usage: _Usage) -> None:
        """Take the counts of an event. They only grow; some gateways leave one out of a later event."""
        for name in usage.__struct_fields__:
            value = getattr(usage, name)
            if value:
                setattr(self._usage, name, value)

    def _counts(self) -> Usage | None:
        usage = self._usage
        prompt = (usage.prompt_token_count or 0) + (usage.tool_use_prompt_token_count or 0)
        output, reasoning = usage.candidates_token_count or 0, usage.thoughts_token_count or 0
        if not (prompt or output or reasoning):
            return self._spent
        cached = usage.cached_content_token_count or 0
        counted = Usage(input=max(prompt - cached, 0), output=output, reasoning=reasoning, cache_read=cached)
        return counted if self._spent is None else self._spent + counted
