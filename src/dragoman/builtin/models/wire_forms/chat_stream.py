"""The answer of OpenAI's chat completions: chunks with deltas, as many servers imitate them.

Owns what is tolerated: calls without an index or an id, whole calls in one chunk, arguments as an object, thoughts in
three members or between tags, usage in several places, and an end without `[DONE]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.wire_forms.answer import broken_off, unreadable
from dragoman.builtin.models.wire_forms.failures import failure_in_event, title_of
from dragoman.builtin.models.wire_forms.form import StreamReader, encode
from dragoman.uistream.messages import Usage

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from dragoman.builtin.models.model import FinishReason, StepEnd
    from dragoman.builtin.models.wire_forms.answer import AnswerChunks
    from dragoman.builtin.models.wire_forms.form import Target
    from dragoman.uistream.chunks import Chunk

_REASONS: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "eos": "stop",
    "end_turn": "stop",
    "length": "length",
    "model_length": "length",
    "max_tokens": "length",
    "tool_calls": "tool-calls",
    "function_call": "tool-calls",
    "content_filter": "content-filter",
    "sensitive": "content-filter",
    "model_context_window_exceeded": "context-window",
}
# The server gave up; another attempt may help.
_GAVE_UP: Final = frozenset({"error", "network_error", "insufficient_system_resource", "abort"})


class _Function(Struct):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class _Call(Struct):
    index: int | None = None
    id: str | None = None
    function: _Function | None = None
    extra_content: Any = None


class _Delta(Struct):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[_Call] | None = None
    refusal: str | None = None


class _Choice(Struct):
    delta: _Delta | None = None
    message: _Delta | None = None
    """The whole answer, of a server that does not stream."""
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None


class _Event(Struct):
    choices: list[_Choice] | None = None
    usage: dict[str, Any] | None = None
    model: str | None = None
    error: Any = None


_decode: Final = msgspec.json.Decoder(_Event).decode


class ChatReader(StreamReader):
    def __init__(self, answer: AnswerChunks, target: Target) -> None:
        self._answer = answer
        self._target = target
        self._tags = ThinkTags()
        self._details: list[dict[str, Any]] = []
        self._calls: dict[Hashable, Hashable] = {}
        """Index in the stream, or the position in an event -> the key of the call that continues there."""
        self._begun = 0
        self._model = ""
        self._reason: str | None = None
        self._usage: dict[str, Any] = {}

    def feed(self, event: str, data: bytes) -> Iterable[Chunk | StepEnd]:
        if data == b"[DONE]":
            return self._finished(self._reason or ("tool_calls" if self._answer.has_calls else "stop"))
        try:
            found = _decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            if b'"error"' in data[:200]:
                raise failure_in_event(self._target, data) from None
            raise unreadable(self._target, error) from None
        if found.error is not None:
            raise failure_in_event(self._target, data)
        if found.usage:
            self._usage = found.usage
        if found.model:
            self._model = found.model
        if not found.choices:
            return ()
        choice = found.choices[0]
        if choice.usage:
            self._usage = choice.usage
        if choice.finish_reason:
            self._reason = choice.finish_reason
        delta = choice.delta if choice.delta is not None else choice.message
        return () if delta is None else self._add(delta)

    def end(self) -> Iterable[Chunk | StepEnd]:
        if self._reason is None:
            raise broken_off()
        return self._finished(self._reason)

    def _add(self, delta: _Delta) -> Iterable[Chunk]:
        content = delta.content
        is_plain = not (delta.tool_calls or delta.reasoning_content or delta.reasoning or delta.reasoning_details)
        if is_plain and isinstance(content, str) and self._tags.is_over:
            return self._answer.text("text", content)  # nearly all events of an answer
        chunks = list(self._thought(delta))
        if isinstance(content, str):
            chunks += self._text(content)
        elif content is not None:
            for part in content:
                chunks += self._part(part)
        if delta.refusal:
            chunks += self._answer.text("text", delta.refusal)
        for position, call in enumerate(delta.tool_calls or ()):
            chunks += self._call(call, ("position", position) if call.index is None else call.index)
        return chunks

    def _text(self, text: str) -> Iterable[Chunk]:
        if self._tags.is_over:
            return self._answer.text("text", text)
        thought, text = self._tags.feed(text)
        return [*(self._answer.thought("tags", thought) if thought else ()), *self._answer.text("text", text)]

    def _part(self, part: dict[str, Any]) -> Iterable[Chunk]:
        """Return the chunks of a part: Mistral sends the content of thinking models as a list of parts."""
        if isinstance(part.get("text"), str):
            return self._text(part["text"])
        thoughts = part.get("thinking")
        if not isinstance(thoughts, list):
            return ()
        texts = [thought.get("text") for thought in thoughts if isinstance(thought, dict)]
        return self._answer.thought("parts", "".join(text for text in texts if isinstance(text, str)))

    def _thought(self, delta: _Delta) -> Iterable[Chunk]:
        for member, text in (("reasoning_content", delta.reasoning_content), ("reasoning", delta.reasoning)):
            if text:
                chunks = self._answer.thought("thought", text)
                self._answer.keep("thought", member=member)
                break
        else:
            chunks = ()
        if delta.reasoning_details:
            if not chunks and not self._answer.has("thought"):
                chunks = self._answer.thought("thought", "")
            _add_details(self._details, delta.reasoning_details)
            self._answer.keep("thought", details=self._details)
        return chunks

    def _call(self, call: _Call, place: Hashable) -> Iterable[Chunk]:
        function = call.function or _Function()
        arguments = function.arguments
        key = self._calls.get(place)
        chunks: list[Chunk] = []
        if key is None or self._is_another(key, call.id, function.name, call.index):
            if not function.name:
                return ()
            self._begun += 1
            key = self._calls[place] = ("call", self._begun, call.id)
            chunks += self._answer.call(key, function.name, call.id or "")
        if call.extra_content:
            self._answer.keep(key, extra_content=call.extra_content)
        text = encode(arguments).decode() if isinstance(arguments, dict) else arguments or ""
        chunks += self._answer.arguments(key, text)
        return chunks

    def _is_another(self, key: Hashable, id: str | None, name: str | None, index: int | None) -> bool:
        """Whether a call begins where one is already: servers that send whole calls number all of them 0, or none."""
        if not name:
            return False
        assert isinstance(key, tuple)
        if id:
            return bool(id != key[2])
        return index is None or self._answer.has_whole_arguments(key)

    def _finished(self, reason: str) -> Iterable[Chunk | StepEnd]:
        if reason in _GAVE_UP:
            raise ModelError(f"{title_of(self._target)} gave up on the answer: {reason}", is_retryable=True)
        thought, text = self._tags.end()
        rest = [*(self._answer.thought("tags", thought) if thought else ()), *self._answer.text("text", text)]
        cost = self._usage.get("cost")
        ends = self._answer.finish(
            _REASONS.get(reason, "other"),
            usage_of(self._usage),
            self._model,
            float(cost) if isinstance(cost, (int, float)) and not isinstance(cost, bool) else None,
        )
        return [*rest, *ends]


def _add_details(details: list[dict[str, Any]], more: list[dict[str, Any]]) -> None:
    """Add pieces of OpenRouter's `reasoning_details`: pieces of one type and index form one item."""
    for piece in more:
        last = details[-1] if details else {}
        is_same = last.get("type") == piece.get("type") and last.get("index") == piece.get("index")
        if not is_same:
            details.append(dict(piece))
            continue
        for name, value in piece.items():
            if name in ("text", "summary") and isinstance(value, str) and isinstance(last.get(name), str):
                last[name] += value
            elif value is not None:
                last[name] = value


def usage_of(sent: dict[str, Any]) -> Usage | None:
    """Return the five counts. Cached tokens are part of the prompt, reasoning of the completion or next to it."""
    prompt, completion = _count(sent, "prompt_tokens"), _count(sent, "completion_tokens")
    details = sent.get("prompt_tokens_details")
    read = _count(details, "cached_tokens") or _count(sent, "prompt_cache_hit_tokens") or _count(sent, "cached_tokens")
    write = _count(details, "cache_write_tokens")
    reasoning = _count(sent.get("completion_tokens_details"), "reasoning_tokens") or _count(sent, "reasoning_tokens")
    is_next_to_it = reasoning and _count(sent, "total_tokens") == prompt + completion + reasoning
    usage = Usage(
        input=max(prompt - read - write, 0),
        output=completion if is_next_to_it else max(completion - reasoning, 0),
        reasoning=reasoning,
        cache_read=read,
        cache_write=write,
    )
    return usage if usage.context else None


def _count(among: Any, name: str) -> int:
    value = among.get(name) if isinstance(among, dict) else None
    return value if isinstance(value, int) and value > 0 else 0


_BEGIN: Final = "<think>"
_END: Final = "</think>"


class ThinkTags:
    """The thoughts that a server sends as text, `<think>...</think>` at the beginning of an answer, kept apart.

    Local servers that have no parser for the thoughts of their model do so. Tags anywhere else are text.
    """

    def __init__(self) -> None:
        self._state: Literal["before", "thought", "between", "after"] = "before"
        self._held = ""

    @property
    def is_over(self) -> bool:
        """Whether everything that follows is text."""
        return self._state == "after"

    def feed(self, piece: str) -> tuple[str, str]:
        """Return the thought and the text that are certain so far; the rest is held until more arrives."""
        text = self._held + piece
        self._held = ""
        if self._state == "before":
            begun = text.lstrip()
            if not begun or (len(begun) < len(_BEGIN) and _BEGIN.startswith(begun)):
                self._held = text
                return "", ""
            if not begun.startswith(_BEGIN):
                self._state = "after"
                return "", text
            self._state = "thought"
            text = begun[len(_BEGIN) :]
        if self._state == "thought":
            thought, end, rest = text.partition(_END)
            if end:
                self._state = "between"
                return thought, self._behind(rest)
            kept = next((size for size in range(len(_END) - 1, 0, -1) if text.endswith(_END[:size])), 0)
            if kept:
                self._held = text[-kept:]
            return text[: len(text) - kept], ""
        return "", self._behind(text)

    def _behind(self, text: str) -> str:
        """Return the text without the empty lines that separate it from the thought."""
        if self._state == "between":
            text = text.lstrip("\n")
            if text:
                self._state = "after"
        return text

    def end(self) -> tuple[str, str]:
        """Return what was held when the answer has ended."""
        held, self._held = self._held, ""
        return (held, "") if self._state == "thought" else ("", held)
