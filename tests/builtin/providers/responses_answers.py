"""Answers in OpenAI's Responses form, event by event."""

from __future__ import annotations

from typing import Any

from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from tests.builtin.providers.forms import target_of


def form(name: str = "openai:gpt-5") -> ResponsesForm:
    return ResponsesForm(target_of(name))


def event(type: str, **members: Any) -> dict[str, Any]:
    return {"type": f"response.{type}", **members}


def completed(status: str = "completed", **members: Any) -> dict[str, Any]:
    return event(status, response={"id": "resp_1", "model": "gpt-5-2025", "status": status, **members})


def reasoning(id: str = "rs_1", *summaries: str, encrypted: str | None = "gAAA") -> list[dict[str, Any]]:
    item = {"type": "reasoning", "id": id, "summary": []}
    texts = [{"type": "summary_text", "text": text} for text in summaries]
    return [
        event("output_item.added", output_index=0, item={**item, "encrypted_content": "partial"}),
        *(
            each
            for index, text in enumerate(summaries)
            for each in (
                event(
                    "reasoning_summary_part.added",
                    output_index=0,
                    summary_index=index,
                    part={"type": "summary_text", "text": ""},
                ),
                event("reasoning_summary_text.delta", output_index=0, summary_index=index, delta=text),
            )
        ),
        event("output_item.done", output_index=0, item={**item, "summary": texts, "encrypted_content": encrypted}),
    ]


def speech(*pieces: str, index: int = 1, **members: Any) -> list[dict[str, Any]]:
    item = {"type": "message", "id": "msg_1", "role": "assistant", **members}
    text = {"type": "output_text", "text": "".join(pieces), "annotations": []}
    return [
        event("output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []}),
        *(event("output_text.delta", output_index=index, content_index=0, delta=piece) for piece in pieces),
        event("output_item.done", output_index=index, item={**item, "status": "completed", "content": [text]}),
    ]


def call(number: int, arguments: str = '{"value":"a"}', index: int = 2) -> list[dict[str, Any]]:
    item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": "look"}
    half = len(arguments) // 2
    return [
        event("output_item.added", output_index=index, item={**item, "arguments": ""}),
        event("function_call_arguments.delta", output_index=index, delta=arguments[:half]),
        event("function_call_arguments.delta", output_index=index, delta=arguments[half:]),
        event("output_item.done", output_index=index, item={**item, "arguments": arguments}),
    ]


STREAM: list[Any] = [
    event("created", response={"id": "resp_1", "model": "gpt-5-2025", "status": "in_progress", "output": []}),
    *reasoning("rs_1", "Where is it?", "Perhaps here."),
    *speech("I ", "look.", phase="commentary"),
    *call(1),
    *call(2, '{"value":"b"}', index=3),
    completed(
        usage={
            "input_tokens": 140,
            "input_tokens_details": {"cached_tokens": 40, "cache_write_tokens": 10},
            "output_tokens": 30,
            "output_tokens_details": {"reasoning_tokens": 12},
        }
    ),
]
