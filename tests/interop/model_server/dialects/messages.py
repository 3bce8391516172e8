"""Anthropic Messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.interop.model_server.intents import is_wanted
from tests.interop.model_server.question import Event, Part, Question, Reply, Speech, Thought, Tool, text_of

_USAGE = {
    "input_tokens": 100,
    "output_tokens": 20,
    "cache_creation_input_tokens": 0,
    "cache_read_input_tokens": 0,
}


def read(body: dict[str, Any]) -> Question:
    prompt, results = _last_turn(body.get("messages") or [])
    offered = [tool for tool in body.get("tools") or [] if "name" in tool]
    tools = tuple(Tool(tool["name"], tool.get("input_schema") or {}) for tool in offered)
    wanted = (body.get("output_config") or {}).get("format") or body.get("output_format") or {}
    schema = wanted.get("schema") if wanted.get("type") == "json_schema" else None
    return Question(prompt, tools, tuple(results), schema, str(body.get("model")), bool(body.get("stream")))


def _last_turn(messages: list[dict[str, Any]]) -> tuple[str, list[str]]:
    """The last thing wanted, and the results of tools since.

    Results ride in messages of the user, in front of a text or after one: a prompt that follows a cancelled turn comes
    in one message with the result of that turn's tool. So the blocks are gone through from the end.
    """
    results: list[str] = []
    for message in reversed(messages):
        if message["role"] != "user":
            continue
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for block in reversed(blocks):
            text = block.get("text") or ""
            if block["type"] == "tool_result":
                results.insert(0, text_of(block.get("content")))
            elif is_wanted(text) or (text and not results and not text.startswith("<system-reminder>")):
                return text, results
    return "", results


def whole(question: Question, reply: Reply, id: str) -> Any:
    blocks = [_block(part, f"{id}_{index}") for index, part in enumerate(reply.parts)]
    return {**_head(question, id), "content": blocks, "stop_reason": _reason(reply), "usage": _USAGE}


def stream(question: Question, reply: Reply, id: str) -> Iterator[Event]:
    def event(kind: str, pause_seconds: float = 0.0, **members: Any) -> Event:
        return Event({"type": kind, **members}, kind, pause_seconds)

    yield event(
        "message_start", message={**_head(question, id), "content": [], "usage": {**_USAGE, "output_tokens": 1}}
    )
    for index, part in enumerate(reply.parts):
        block = _block(part, f"{id}_{index}")
        blanks: dict[str, Any] = {"text": "", "thinking": "", "signature": "", "input": {}}
        empty = {**block, **{name: blank for name, blank in blanks.items() if name in block}}
        yield event("content_block_start", index=index, content_block=empty)
        for pause_seconds, delta in _deltas(part, block):
            yield event("content_block_delta", pause_seconds, index=index, delta=delta)
        yield event("content_block_stop", index=index)
    yield event("message_delta", delta={"stop_reason": _reason(reply), "stop_sequence": None}, usage=_USAGE)
    yield event("message_stop")


def _head(question: Question, id: str) -> dict[str, Any]:
    return {
        "id": f"msg_{id}",
        "type": "message",
        "role": "assistant",
        "model": question.model,
        "stop_reason": None,
        "stop_sequence": None,
    }


def _reason(reply: Reply) -> str:
    return "tool_use" if reply.uses_tools else "end_turn"


def _block(part: Part, id: str) -> dict[str, Any]:
    if isinstance(part, Thought):
        return {"type": "thinking", "thinking": part.text, "signature": "c2NyaXB0ZWQ="}
    if isinstance(part, Speech):
        return {"type": "text", "text": part.text}
    return {"type": "tool_use", "id": f"toolu_{id}", "name": part.tool.name, "input": part.arguments}


def _deltas(part: Part, block: dict[str, Any]) -> Iterator[tuple[float, dict[str, Any]]]:
    if isinstance(part, Thought):
        yield 0.0, {"type": "thinking_delta", "thinking": part.text}
        yield 0.0, {"type": "signature_delta", "signature": block["signature"]}
    elif isinstance(part, Speech):
        for piece in part.pieces:
            yield part.pause_seconds, {"type": "text_delta", "text": piece}
    else:
        arguments = json.dumps(part.arguments)
        middle = len(arguments) // 2
        for piece in (arguments[:middle], arguments[middle:]):
            yield 0.0, {"type": "input_json_delta", "partial_json": piece}
