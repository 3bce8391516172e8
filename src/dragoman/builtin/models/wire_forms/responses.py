"""OpenAI's Responses form, as OpenAI and compatible servers speak it.

Owns the request. Nothing is stored at the provider: each request carries the whole conversation, with the encrypted
reasoning items that earlier answers had. `responses_stream.py` reads the answer.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.models.wire_forms.conversation import (
    Media,
    PromptEntry,
    StepEntry,
    SystemNote,
    arguments_of,
    call_id_of,
    entries_of,
    kept_by_package,
    kept_of,
    result_of,
)
from dragoman.builtin.models.wire_forms.form import EFFORT_LEVELS, HttpRequest, Pieces, Target, WireForm, encode
from dragoman.builtin.models.wire_forms.responses_stream import ResponsesReader
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.models.model import ModelError, ModelRequest, ToolSpec
    from dragoman.builtin.models.wire_forms.conversation import Result
    from dragoman.uistream.messages import UIMessage

# Models of OpenAI that never reason: they refuse every reasoning parameter. The catalogue may take the chat variant of
# GPT-5 for GPT-5 itself.
_UNREASONING: Final = re.compile(r"(?:gpt-[34]|chatgpt-|gpt-5-chat|codex-mini|text-|davinci|babbage)")
_UNKNOWN: Final = r"(?=.*(?:unknown|unsupported|unrecogni[sz]ed|unexpected|not support|not permitted|not allowed))"
# What a server may refuse, and the messages in which it does. Each is left out from then on.
_REFUSALS: Final = {
    "summary": re.compile(rf"verified.*reasoning summar|{_UNKNOWN}.*reasoning\.summary"),
    "include": re.compile(rf"encrypted content is not supported|{_UNKNOWN}.*(?:encrypted_content|'include')"),
    # It cannot decrypt a reasoning item, or searches for it: another organisation's key, or another server.
    "history": re.compile(
        r"invalid_encrypted_content|could not be verified|could not be decrypted|not persisted when `store`"
        r"|without its required"
    ),
    "prompt_cache_key": re.compile(rf"{_UNKNOWN}.*prompt_cache_key"),
    "reasoning": re.compile(rf"{_UNKNOWN}.*(?:reasoning\.effort|reasoning_?effort|'reasoning')"),
}
_LONGEST_CACHE_KEY: Final = 64  # longer ones are refused
_ENCRYPTED: Final = "reasoning.encrypted_content"


class ResponsesForm(WireForm):
    """The Responses form for one model."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._refused: set[str] = set()
        self._accepted: tuple[str, ...] = ()
        """The levels of effort that the server has named, which count more than those of the catalogue."""
        self._pieces = Pieces(self._items)
        self._tools: tuple[tuple[ToolSpec, ...], msgspec.Raw] = ((), msgspec.Raw(b"[]"))

    def headers(self, key: str) -> dict[str, str]:
        return {"authorization": f"Bearer {key}"} if key else {}

    def request(self, request: ModelRequest) -> HttpRequest:
        body: dict[str, Any] = {"model": self._target.model, "stream": True, "store": False}
        if self._thinks:
            body["include"] = [_ENCRYPTED]
            if settings := self._reasoning_settings(request.effort):
                body["reasoning"] = settings
        if request.system:
            body["instructions"] = request.system
        if request.tools:
            body["tools"] = self._tools_of(request.tools)
        if request.max_output_tokens is not None:
            body["max_output_tokens"] = request.max_output_tokens
        if request.session_id:
            body["prompt_cache_key"] = request.session_id[:_LONGEST_CACHE_KEY]
        for name in self._refused:
            body.pop(name, None)
        body["input"] = self._pieces.join(request.messages)
        return HttpRequest("/responses", encode(body))

    def reader(self, request: ModelRequest) -> ResponsesReader:
        return ResponsesReader(request, self._target)

    def recovers_from(self, error: ModelError) -> bool:
        """Give up what the server refuses. Returns whether that was possible, so that the request can be sent again."""
        if error.status not in (400, 404, 422):
            return False
        message = str(error).lower()
        levels = tuple(level for level in EFFORT_LEVELS if f"'{level}'" in message.partition("supported values")[2])
        if levels and levels != self._accepted:
            self._accepted = levels
            return True
        for name, pattern in _REFUSALS.items():
            if name not in self._refused and pattern.search(message):
                self._refused.add(name)
                self._pieces = Pieces(self._items)
                return True
        return False

    @property
    def _thinks(self) -> bool:
        facts = self._target.facts
        if _UNREASONING.match(self._target.model):
            return False
        return facts is None or facts.thinks is not False

    def _reasoning_settings(self, effort: str | None) -> dict[str, str]:
        settings = {} if effort is None else {"effort": self._target.effort(effort, self._accepted)}
        return settings if "summary" in self._refused else {**settings, "summary": "auto"}

    def _tools_of(self, tools: tuple[ToolSpec, ...]) -> msgspec.Raw:
        if self._tools[0] is not tools:
            described = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in tools
            ]
            self._tools = tools, msgspec.Raw(encode(described))
        return self._tools[1]

    # Input items

    def _items(self, message: UIMessage) -> Iterator[dict[str, Any]]:
        for entry in entries_of(message):
            if isinstance(entry, PromptEntry):
                text = entry.text
                content: Any = text if text is not None else [self._content(piece) for piece in entry.content]
                yield {"role": "user", "content": content}
            elif isinstance(entry, SystemNote):
                yield {"role": "system", "content": entry.text}
            else:
                yield from self._step(entry)

    def _step(self, step: StepEntry) -> Iterator[dict[str, Any]]:
        items: list[dict[str, Any]] = []
        has_ids = "history" not in self._refused
        for part in step.parts:
            if isinstance(part, Media):
                continue  # an assistant's message cannot carry an image
            kept = kept_of(part, self._target.provider.id) or _kept_by_package(part)
            if isinstance(part, ReasoningPart):
                # The provider looks up an item by its id and finds nothing, because nothing is stored. An item that
                # follows from such reasoning must not have its id either.
                has_ids = has_ids and _add_reasoning(items, part, kept)
            elif isinstance(part, TextPart):
                _add_text(items, part, kept if has_ids else {"phase": kept.get("phase")})
            else:
                items.append(self._call(part, kept, has_id=has_ids))
        yield from items
        for call in step.calls:
            kind = "custom_tool_call_output" if _is_custom(call, self._target) else "function_call_output"
            call_id = call_id_of(call, self._target.provider.id)
            yield {"type": kind, "call_id": call_id, "output": self._output(result_of(call))}

    def _call(self, part: ToolPart, kept: dict[str, Any], *, has_id: bool) -> dict[str, Any]:
        call: dict[str, Any] = {
            "type": "function_call",
            "call_id": call_id_of(part, self._target.provider.id),
            "name": part.name,
        }
        arguments = arguments_of(part)
        if _is_custom(part, self._target):
            call["type"], call["input"] = "custom_tool_call", str(arguments.get("input", ""))
        else:
            call["arguments"] = encode(arguments).decode()
        if has_id and kept.get("id"):
            call["id"] = kept["id"]
        if kept.get("namespace"):
            call["namespace"] = kept["namespace"]
        return call

    def _output(self, result: Result) -> Any:
        if not result.media:
            return result.text
        return [{"type": "input_text", "text": result.text}, *map(self._content, result.media)]

    def _content(self, content: str | Media) -> dict[str, Any]:
        if isinstance(content, str):
            return {"type": "input_text", "text": content}
        if content.is_image and self._target.sees_images:
            return {"type": "input_image", "image_url": content.url, "detail": "auto"}
        if content.is_document and self._target.reads_documents:
            name = content.filename or "document.pdf"
            return {"type": "input_file", "filename": name, "file_data": content.url}
        return {"type": "input_text", "text": content.note}


def _add_reasoning(items: list[dict[str, Any]], part: ReasoningPart, kept: dict[str, Any]) -> bool:
    """Add a reasoning item, or a further summary to the last one. Returns False if the part cannot be sent back."""
    id = kept.get("id")
    if not id:
        return False
    last = items[-1] if items else {}
    if last.get("type") != "reasoning" or last["id"] != id:
        last = {"type": "reasoning", "id": id, "summary": []}
        if kept.get("encrypted"):
            last["encrypted_content"] = kept["encrypted"]
        elif not kept.get("is_raw"):
            return False
        items.append(last)
    if kept.get("is_raw"):
        last.setdefault("content", []).append({"type": "reasoning_text", "text": part.text})
    elif part.text:
        last["summary"].append({"type": "summary_text", "text": part.text})
    return True


def _add_text(items: list[dict[str, Any]], part: TextPart, kept: dict[str, Any]) -> None:
    """Add a message, or a further text to the last one."""
    id, phase = kept.get("id"), kept.get("phase")
    message: dict[str, Any]
    if id:
        content = {"type": "output_text", "text": part.text, "annotations": []}
        last = items[-1] if items else {}
        if last.get("type") == "message" and last["id"] == id:
            last["content"].append(content)
            return
        message = {"type": "message", "role": "assistant", "id": id, "status": "completed", "content": [content]}
    else:
        message = {"role": "assistant", "content": part.text}
    if phase:
        message["phase"] = phase
    items.append(message)


def _kept_by_package(part: TextPart | ReasoningPart | ToolPart) -> dict[str, Any]:
    kept = kept_by_package(part, "openai")
    details = kept.get("details")
    phase = details.get("phase") if isinstance(details, dict) else None
    return {"id": kept.get("id"), "encrypted": kept.get("signature"), "phase": phase} if kept else {}


def _is_custom(part: ToolPart, target: Target) -> bool:
    return bool(kept_of(part, target.provider.id).get("is_custom"))
