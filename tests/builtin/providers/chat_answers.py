"""An answer in the form of OpenAI's chat completions, event by event."""

from __future__ import annotations

from typing import Any

USAGE = {
    "prompt_tokens": 140,
    "prompt_tokens_details": {"cached_tokens": 40},
    "completion_tokens": 30,
    "completion_tokens_details": {"reasoning_tokens": 12},
    "total_tokens": 170,
}


def piece(reason: str | None = None, **delta: Any) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion.chunk", "model": "the-model", "choices": [choice]}


def call(**members: Any) -> dict[str, Any]:
    """A piece of a call: `name` and `arguments` are members of its function."""
    function = {name: members.pop(name) for name in ("name", "arguments") if name in members}
    return {**members, "function": function}


def ended(reason: str | None = "stop") -> list[Any]:
    return [piece(reason), {"id": "c", "model": "the-model", "choices": [], "usage": USAGE}, "[DONE]"]


STREAM: list[Any] = [
    piece(role="assistant", content=""),
    piece(reasoning_content="Where "),
    piece(reasoning_content="is it?"),
    piece(content="I "),
    piece(content="look."),
    piece(tool_calls=[call(index=0, id="call_1", type="function", name="look", arguments="")]),
    piece(tool_calls=[call(index=0, arguments='{"value": ')]),
    piece(tool_calls=[call(index=1, id="call_2", type="function", name="look", arguments='{"value": "b"}')]),
    piece(tool_calls=[call(index=0, arguments='"a"}')]),
    *ended("tool_calls"),
]
