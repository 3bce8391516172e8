"""OpenAI chat completions."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.interop.model_server.question import Event, Question, Reply, Speech, Thought, Tool, ToolUse, text_of

_USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120}


def read(body: dict[str, Any]) -> Question:
    prompt, results = "", list[str]()
    for message in reversed(body.get("messages") or []):
        if message["role"] == "tool":
            results.insert(0, text_of(message.get("content")))
        elif message["role"] == "user":
            prompt = text_of(message.get("content"))
            break
    functions = [tool["function"] for tool in body.get("tools") or [] if tool.get("type") == "function"]
    wanted = body.get("response_format") or {}
    schema = (wanted.get("json_schema") or {}).get("schema") or {} if wanted.get("type") == "json_schema" else None
    tools = tuple(Tool(each["name"], each.get("parameters") or {}) for each in functions)
    return Question(prompt, tools, tuple(results), schema, str(body.get("model")), bool(body.get("stream")))


def whole(question: Question, reply: Reply, id: str) -> Any:
    text = "".join(part.text for part in reply.parts if isinstance(part, Speech))
    message: dict[str, Any] = {"role": "assistant", "content": text or None}
    if reply.uses_tools:
        message["tool_calls"] = list(_calls(reply, id))
    choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
    return {**_head(question, id), "object": "chat.completion", "choices": [choice], "usage": _USAGE}


def stream(question: Question, reply: Reply, id: str) -> Iterator[Event]:
    head = {**_head(question, id), "object": "chat.completion.chunk"}

    def chunk(delta: dict[str, Any], reason: str | None = None, pause_seconds: float = 0.0) -> Event:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return Event({**head, "choices": [choice]}, pause_seconds=pause_seconds)

    yield chunk({"role": "assistant", "content": ""})
    for part in reply.parts:
        if isinstance(part, Thought):
            yield chunk({"reasoning_content": part.text})
        elif isinstance(part, Speech):
            for piece in part.pieces:
                yield chunk({"content": piece}, pause_seconds=part.pause_seconds)
    for index, call in enumerate(_calls(reply, id)):
        # The arguments come in two pieces, as they would from a model that is still writing them.
        arguments: str = call["function"]["arguments"]
        middle = len(arguments) // 2
        begun = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        yield chunk({"tool_calls": [begun]})
        for piece in (arguments[:middle], arguments[middle:]):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, _reason(reply))
    yield Event({**head, "choices": [], "usage": _USAGE})
    yield Event("[DONE]")


def _head(question: Question, id: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{id}", "created": 1_700_000_000, "model": question.model}


def _reason(reply: Reply) -> str:
    return "tool_calls" if reply.uses_tools else "stop"


def _calls(reply: Reply, id: str) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(part for part in reply.parts if isinstance(part, ToolUse)):
        function = {"name": part.tool.name, "arguments": json.dumps(part.arguments)}
        yield {"id": f"call_{id}_{index}", "type": "function", "function": function}
