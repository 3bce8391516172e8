"""Anthropic Messages: `POST /v1/messages`.

Owns this form: thinking with its signatures, cache breakpoints, and the events of a message. The breakpoint behind the
last message is one member at the top of the body, so a request begins with the bytes of the one before.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.builtin.models.wire_forms.answer import AnswerChunks, broken_off, unreadable
from dragoman.builtin.models.wire_forms.conversation import (
    Media,
    PromptEntry,
    StepEntry,
    SystemNote,
    arguments_of,
    call_id_of,
    entries_of,
    kept_of,
    result_of,
)
from dragoman.builtin.models.wire_forms.failures import failure_in_event
from dragoman.builtin.models.wire_forms.form import HttpRequest, Pieces, StreamReader, WireForm, encode
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart, Usage

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.builtin.models.model import FinishReason, ModelError, ModelRequest, StepEnd
    from dragoman.builtin.models.wire_forms.conversation import Result, StepPart
    from dragoman.builtin.models.wire_forms.form import Target
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import UIMessage

_VERSION: Final = "2023-06-01"
_CACHED: Final = {"type": "ephemeral"}
_IMAGES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
# Ids of other providers may have other characters, after a change of the model.
_NOT_IN_IDS: Final = re.compile(r"[^a-zA-Z0-9_-]")
# Thinking counts as output; an answer that needs more than this is cut and can be continued.
_MOST_OUTPUT: Final = 64_000
_USUAL_OUTPUT: Final = 8_192
_AFTER_THINKING: Final = 4_096
_BUDGETS: Final = {"minimal": 1_024, "low": 2_048, "medium": 10_000, "high": 16_384, "xhigh": 32_768, "max": 32_768}
_REASONS: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool-calls",
    "refusal": "content-filter",
    "model_context_window_exceeded": "context-window",
}
# Newer models bind a thought to the conversation before it, and refuse it after a compaction or another system prompt.
_STALE_THOUGHT: Final = "The block is bound to a different conversation"
_DROP_STALE: Final = {"prefix_mismatch_behavior": "drop_block"}
_DROP_STALE_BETA: Final = "thinking-binding-controls-2026-08-01"
_PACKAGE: Final = "pydantic-ai"
"""The key of what sessions of earlier versions stored with a part."""


class AnthropicForm(WireForm):
    def __init__(self, target: Target) -> None:
        self._target = target
        self._pieces = Pieces(self._items_of)
        self._drops_stale = False

    def headers(self, key: str) -> dict[str, str]:
        return {"anthropic-version": _VERSION, **({"x-api-key": key} if key else {})}

    def request(self, request: ModelRequest) -> HttpRequest:
        thinking, output = self._thinking(request.effort)
        body: dict[str, Any] = {"model": self._target.model, "max_tokens": self._max_tokens(request, thinking)}
        if request.tools:
            body["tools"] = [self._tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
        if request.system:
            body["system"] = [{"type": "text", "text": request.system, "cache_control": _CACHED}]
        elif request.tools:
            body["tools"][-1]["cache_control"] = _CACHED
        body["messages"] = self._pieces.join(request.messages, self._marked(request))
        if thinking:
            body["thinking"] = thinking
        if output:
            body["output_config"] = output
        body |= {"cache_control": _CACHED, "stream": True}
        headers = {"anthropic-beta": _DROP_STALE_BETA} if self._drops_stale else {}
        return HttpRequest("/v1/messages", encode(body), headers)

    def reader(self, request: ModelRequest) -> StreamReader:
        return _Reader(AnswerChunks(request, self._target), self._target)

    def recovers_from(self, error: ModelError) -> bool:
        if error.status != 400 or _STALE_THOUGHT not in str(error) or self._drops_stale:
            return False
        self._drops_stale = True
        return True

    # Settings

    @property
    def _is_adaptive(self) -> bool:
        """Whether the model decides itself how much it thinks. A Claude that the catalogue does not list is new."""
        facts = self._target.facts
        return "max" in facts.efforts if facts is not None else self._target.model.startswith("claude-")

    def _thinking(self, effort: str | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the members `thinking` and `output_config`."""
        facts = self._target.facts
        wanted = None if effort is None else self._target.effort(effort)
        thinking: dict[str, Any] = {}
        output: dict[str, Any] = {}
        if wanted is not None and self._is_adaptive:
            # Some models return thoughts without their text unless it is asked for.
            thinking = {"type": "adaptive", "display": "summarized"}
            output = {"effort": wanted}
        elif wanted in _BUDGETS and facts is not None and facts.thinks:
            thinking = {"type": "enabled", "budget_tokens": _BUDGETS[wanted]}
        if self._drops_stale:
            thinking = {"type": "adaptive", **thinking, "block_binding": _DROP_STALE}
        return thinking, output

    def _max_tokens(self, request: ModelRequest, thinking: dict[str, Any]) -> int:
        limit = None if self._target.facts is None else self._target.facts.output_limit
        usual = request.max_output_tokens or min(limit or _USUAL_OUTPUT, _MOST_OUTPUT)
        budget = thinking.get("budget_tokens", 0)
        return max(usual, budget + _AFTER_THINKING) if budget else usual

    def _tool(self, name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
        schema = parameters if parameters.get("type") == "object" else {"type": "object", **parameters}
        tool: dict[str, Any] = {"name": name, "description": description, "input_schema": schema}
        if self._target.model.startswith("claude-"):
            # The arguments arrive while the model writes them, instead of value by value.
            tool["eager_input_streaming"] = True
        return tool

    # Messages

    def _marked(self, request: ModelRequest) -> dict[int, Any] | None:
        """Return the items of the last stable message, with a cache breakpoint at their end."""
        index = min(request.stable_until, len(request.messages)) - 1
        if index < 0:
            return None
        items = list(self._items_of(request.messages[index]))
        if not items:
            return None
        items[-1]["content"][-1]["cache_control"] = _CACHED
        return {index: items}

    def _items_of(self, message: UIMessage) -> Iterator[dict[str, Any]]:
        for entry in entries_of(message):
            if isinstance(entry, SystemNote):
                yield {"role": "user", "content": [_text(entry.text)]}
            elif isinstance(entry, PromptEntry):
                whole = entry.text
                content = [_text(whole)] if whole is not None else list(map(self._content, entry.content))
                yield {"role": "user", "content": content}
            else:
                yield from self._step(entry)

    def _step(self, step: StepEntry) -> Iterator[dict[str, Any]]:
        blocks = [block for part in step.parts if (block := self._block(part)) is not None]
        if blocks:
            yield {"role": "assistant", "content": blocks}
        if step.calls:
            yield {"role": "user", "content": [self._result(call, result_of(call)) for call in step.calls]}

    def _block(self, part: StepPart) -> dict[str, Any] | None:
        match part:
            case TextPart():
                return _text(part.text) if part.text.strip() else None
            case ReasoningPart():
                return self._thought(part)
            case ToolPart():
                return {"type": "tool_use", "id": self._id(part), "name": part.name, "input": arguments_of(part)}
            case _:
                return None  # an assistant's message has no media here

    def _thought(self, part: ReasoningPart) -> dict[str, Any] | None:
        """Return the block as it came. A thought of another provider has no signature and cannot be sent."""
        kept = kept_of(part, self._target.provider.id) or _kept_by_package(part.provider_metadata)
        if kept.get("redacted"):
            return {"type": "redacted_thinking", "data": kept["redacted"]}
        if kept.get("signature"):
            return {"type": "thinking", "thinking": part.text, "signature": kept["signature"]}
        return None

    def _id(self, part: ToolPart) -> str:
        kept = _kept_by_package(part.provider_metadata).get("call_id")
        return _NOT_IN_IDS.sub("_", kept or call_id_of(part, self._target.provider.id))

    def _result(self, call: ToolPart, result: Result) -> dict[str, Any]:
        content: Any = result.text
        if result.media:
            content = [*([_text(result.text)] if result.text else ()), *map(self._content, result.media)]
        block = {"type": "tool_result", "tool_use_id": self._id(call), "content": content}
        return {**block, "is_error": True} if result.is_error else block

    def _content(self, content: str | Media) -> dict[str, Any]:
        if isinstance(content, str):
            return _text(content)
        kind = ""
        if content.media_type in _IMAGES and self._target.sees_images:
            kind = "image"
        elif content.is_document and self._target.reads_documents:
            kind = "document"
        if not kind:
            return _text(content.note)
        source = {"type": "base64", "media_type": content.media_type, "data": content.data}
        return {"type": kind, "source": source}


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _kept_by_package(metadata: Any) -> dict[str, Any]:
    kept = metadata.get(_PACKAGE) if isinstance(metadata, dict) else None
    if not isinstance(kept, dict) or kept.get("provider", "anthropic") != "anthropic":
        return {}
    if kept.get("id") == "redacted_thinking":
        return {"redacted": kept.get("signature")}
    return kept


# Events


class _Delta(Struct):
    text: str | None = None
    thinking: str | None = None
    partial_json: str | None = None
    signature: str | None = None
    stop_reason: str | None = None
    stop_details: dict[str, Any] | None = None


class _Block(Struct):
    type: str = ""
    text: str | None = None
    thinking: str | None = None
    signature: str | None = None
    data: str | None = None
    id: str | None = None
    name: str | None = None
    input: dict[str, Any] | None = None


class _Message(Struct):
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


class _Event(Struct):
    type: str = ""
    index: int = 0
    delta: _Delta | None = None
    content_block: _Block | None = None
    message: _Message | None = None
    usage: dict[str, Any] | None = None


_decode: Final = msgspec.json.Decoder(_Event).decode


class _Reader(StreamReader):
    def __init__(self, answer: AnswerChunks, target: Target) -> None:
        self._answer = answer
        self._target = target
        self._id: str | None = None
        self._model = ""
        self._reason: str | None = None
        self._usage: dict[str, Any] = {}
        self._whole_inputs: dict[int, str] = {}

    def feed(self, event: str, data: bytes) -> Iterable[Chunk | StepEnd]:
        if data == b"[DONE]":
            return ()
        try:
            found = _decode(data)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            if event == "error":
                raise failure_in_event(self._target, data) from None
            raise unreadable(self._target, error) from None
        index, delta = found.index, found.delta
        match found.type:
            case "content_block_delta" if delta is not None:
                return self._add(index, delta)
            case "content_block_start" if found.content_block is not None:
                return self._start(index, found.content_block)
            case "content_block_stop":
                whole = self._whole_inputs.pop(index, "")
                return self._answer.arguments(index, whole)
            case "message_start" if found.message is not None:
                return self._begin(found.message)
            case "message_delta":
                # Counts only grow; some gateways repeat those of the start as 0.
                self._usage.update({name: value for name, value in (found.usage or {}).items() if value})
                return self._stop(delta) if delta is not None else ()
            case "message_stop":
                return self.end()
            case "error":
                raise failure_in_event(self._target, data)
            case _:
                pass
        return ()

    def end(self) -> Iterable[Chunk | StepEnd]:
        if self._reason is None:
            raise broken_off()
        return self._answer.finish(_REASONS.get(self._reason, "other"), _usage(self._usage), self._model)

    def _begin(self, message: _Message) -> Iterable[Chunk]:
        # A gateway whose own server failed may begin another message, in the middle of the one that it has sent so far.
        is_another = message.id != self._id and self._id is not None
        self._id = message.id
        self._model = message.model or self._model
        self._usage.update(message.usage or {})
        if not is_another:
            return ()
        self._reason = None
        self._whole_inputs.clear()
        return self._answer.restart()

    def _stop(self, delta: _Delta) -> Iterable[Chunk]:
        self._reason = delta.stop_reason or self._reason
        # A refusal is explained next to the answer, which is mostly empty then.
        explanation = (delta.stop_details or {}).get("explanation")
        return self._answer.text("refusal", explanation) if isinstance(explanation, str) else ()

    def _start(self, index: int, block: _Block) -> Iterable[Chunk]:
        answer = self._answer
        match block.type:
            case "text":
                return answer.text(index, block.text or "")
            case "thinking":
                chunks = answer.thought(index, block.thinking or "")
                answer.keep(index, signature=block.signature or None)
                return chunks
            case "redacted_thinking":
                chunks = answer.thought(index, "")
                answer.keep(index, redacted=block.data)
                return chunks
            case "tool_use":
                # Servers that imitate this form send the arguments with the start, and no deltas.
                if block.input:
                    self._whole_inputs[index] = encode(block.input).decode()
                return answer.call(index, block.name or "unknown", block.id or "")
            case _:
                return ()

    def _add(self, index: int, delta: _Delta) -> Iterable[Chunk]:
        answer = self._answer
        if delta.text:
            return answer.text(index, delta.text)
        if delta.partial_json:
            self._whole_inputs.pop(index, None)
            return answer.arguments(index, delta.partial_json)
        if delta.thinking:
            return answer.thought(index, delta.thinking)
        if delta.signature:
            answer.keep(index, signature=answer.kept(index).get("signature", "") + delta.signature)
        return ()


def _usage(sent: dict[str, Any]) -> Usage | None:
    def count(name: str, among: dict[str, Any] = sent) -> int:
        value = among.get(name)
        return value if isinstance(value, int) and value > 0 else 0

    details = sent.get("output_tokens_details")
    reasoning = min(count("thinking_tokens", details) if isinstance(details, dict) else 0, count("output_tokens"))
    usage = Usage(
        input=count("input_tokens"),
        output=count("output_tokens") - reasoning,
        reasoning=reasoning,
        cache_read=count("cache_read_input_tokens"),
        cache_write=count("cache_creation_input_tokens"),
    )
    return usage if usage.context else None
