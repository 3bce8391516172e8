"""OpenAI Responses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from tests.interop.model_server.question import Event, Part, Question, Reply, Speech, Thought, Tool, text_of

_USAGE = {
    "input_tokens": 100,
    "input_tokens_details": {"cached_tokens": 0},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 120,
}


def read(body: dict[str, Any]) -> Question:
    given = body.get("input") or []
    items = [{"role": "user", "content": given}] if isinstance(given, str) else given
    prompt, results = "", list[str]()
    for item in reversed(items):
        if str(item.get("type")).endswith("_call_output"):
            output = item.get("output")
            results.insert(0, text_of(output) or json.dumps(output))
        elif item.get("role") == "user":
            prompt = text_of(item.get("content"))
            break
    wanted = (body.get("text") or {}).get("format") or {}
    schema = wanted.get("schema") if wanted.get("type") == "json_schema" else None
    tools = tuple(_tools(body.get("tools") or []))
    return Question(prompt, tools, tuple(results), schema, str(body.get("model")), bool(body.get("stream")))


def _tools(offered: list[dict[str, Any]], namespace: str = "") -> Iterator[Tool]:
    for tool in offered:
        match tool.get("type"):
            case "function":
                yield Tool(tool["name"], tool.get("parameters") or {}, namespace=namespace)
            case "custom":
                yield Tool(tool["name"], {}, is_free_text=True)
            case "namespace":
                yield from _tools(tool.get("tools") or [], tool["name"])


def whole(question: Question, reply: Reply, id: str) -> Any:
    items = [_item(part, f"{id}_{index}") for index, part in enumerate(reply.parts)]
    return {**_head(question, id), "status": "completed", "output": items, "usage": _USAGE}


def stream(question: Question, reply: Reply, id: str) -> Iterator[Event]:
    numbers = count()

    def event(kind: str, pause_seconds: float = 0.0, **members: Any) -> Event:
        return Event({"type": kind, "sequence_number": next(numbers), **members}, kind, pause_seconds)

    begun = {**_head(question, id), "status": "in_progress", "output": []}
    yield event("response.created", response=begun)
    yield event("response.in_progress", response=begun)
    for index, part in enumerate(reply.parts):
        item = _item(part, f"{id}_{index}")
        yield event("response.output_item.added", output_index=index, item=_empty(item))
        for kind, pause_seconds, members in _deltas(part, item):
            yield event(f"response.{kind}", pause_seconds, item_id=item["id"], output_index=index, **members)
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole(question, reply, id))


def _head(question: Question, id: str) -> dict[str, Any]:
    return {
        "id": f"resp_{id}",
        "object": "response",
        "created_at": 1_700_000_000,
        "model": question.model,
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


def _item(part: Part, id: str) -> dict[str, Any]:
    if isinstance(part, Thought):
        return {"type": "reasoning", "id": f"rs_{id}", "summary": [{"type": "summary_text", "text": part.text}]}
    if isinstance(part, Speech):
        content = [{"type": "output_text", "text": part.text, "annotations": []}]
        return {
            "type": "message",
            "id": f"msg_{id}",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
    call = {"call_id": f"call_{id}", "name": part.tool.name, "status": "completed"}
    if isinstance(part.arguments, str):
        return {"type": "custom_tool_call", "id": f"ctc_{id}", **call, "input": part.arguments}
    if part.tool.namespace:
        call["namespace"] = part.tool.namespace
    return {"type": "function_call", "id": f"fc_{id}", **call, "arguments": json.dumps(part.arguments)}


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    """The item before anything of it was written."""
    blanks: dict[str, Any] = {"status": "in_progress", "content": [], "summary": [], "input": "", "arguments": ""}
    return {**item, **{name: blank for name, blank in blanks.items() if name in item}}


def _deltas(part: Part, item: dict[str, Any]) -> Iterator[tuple[str, float, dict[str, Any]]]:
    if isinstance(part, Thought):
        place: dict[str, Any] = {"summary_index": 0}
        blank: dict[str, Any] = {"type": "summary_text", "text": ""}
        yield "reasoning_summary_part.added", 0.0, {**place, "part": blank}
        yield "reasoning_summary_text.delta", 0.0, {**place, "delta": part.text}
        yield "reasoning_summary_text.done", 0.0, {**place, "text": part.text}
        yield "reasoning_summary_part.done", 0.0, {**place, "part": {**blank, "text": part.text}}
    elif isinstance(part, Speech):
        place = {"content_index": 0}
        blank = {"type": "output_text", "text": "", "annotations": []}
        yield "content_part.added", 0.0, {**place, "part": blank}
        for piece in part.pieces:
            yield "output_text.delta", part.pause_seconds, {**place, "delta": piece}
        yield "output_text.done", 0.0, {**place, "text": part.text}
        yield "content_part.done", 0.0, {**place, "part": {**blank, "text": part.text}}
    else:
        kind, member = ("function_call_arguments", "arguments")
        if item["type"] == "custom_tool_call":
            kind, member = ("custom_tool_call_input", "input")
        yield f"{kind}.delta", 0.0, {"delta": item[member]}
        yield f"{kind}.done", 0.0, {member: item[member]}
