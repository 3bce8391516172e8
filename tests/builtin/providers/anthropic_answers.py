"""An answer in Anthropic's form, event by event, as its documentation shows them."""

from __future__ import annotations

from typing import Any


def start(index: int, **block: Any) -> dict[str, Any]:
    return {"type": "content_block_start", "index": index, "content_block": block}


def delta(index: int, **members: Any) -> dict[str, Any]:
    return {"type": "content_block_delta", "index": index, "delta": members}


def stop(index: int) -> dict[str, Any]:
    return {"type": "content_block_stop", "index": index}


def ended(reason: str | None = "end_turn", **usage: Any) -> list[dict[str, Any]]:
    delta = {"stop_reason": reason, "stop_sequence": None}
    return [
        {"type": "message_delta", "delta": delta, "usage": {"output_tokens": 30, **usage}},
        {"type": "message_stop"},
    ]


BEGUN = {
    "type": "message_start",
    "message": {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5-20260901",
        "content": [],
        "usage": {
            "input_tokens": 100,
            "cache_read_input_tokens": 40,
            "cache_creation_input_tokens": 10,
            "output_tokens": 1,
        },
    },
}
STREAM: list[Any] = [
    BEGUN,
    {"type": "ping"},
    start(0, type="thinking", thinking="", signature=""),
    delta(0, type="thinking_delta", thinking="Where "),
    delta(0, type="thinking_delta", thinking="is it?"),
    delta(0, type="signature_delta", signature="c2ln"),
    stop(0),
    start(1, type="redacted_thinking", data="xyz"),
    stop(1),
    start(2, type="text", text=""),
    delta(2, type="text_delta", text="I "),
    delta(2, type="text_delta", text="look."),
    stop(2),
    start(3, type="tool_use", id="toolu_1", name="look", input={}),
    start(4, type="tool_use", id="toolu_2", name="look", input={}),
    delta(3, type="input_json_delta", partial_json='{"value": '),
    delta(4, type="input_json_delta", partial_json='{"value": "b"}'),
    delta(3, type="input_json_delta", partial_json='"a"}'),
    stop(3),
    stop(4),
    *ended("tool_use", output_tokens_details={"thinking_tokens": 12}),
]
