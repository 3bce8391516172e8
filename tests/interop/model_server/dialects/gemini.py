"""Gemini `generateContent` and `streamGenerateContent`. Which of the two it is, and the model, stand in the address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.interop.model_server.intents import is_wanted
from tests.interop.model_server.question import Event, Part, Question, Reply, Speech, Thought, Tool

_USAGE = {"promptTokenCount": 100, "candidatesTokenCount": 20, "totalTokenCount": 120}


def read(body: dict[str, Any]) -> Question:
    prompt, results = "", list[str]()
    for content in reversed(body.get("contents") or []):
        parts = content.get("parts") or [] if content.get("role") != "model" else []
        answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
        results[:0] = [json.dumps(answer.get("response")) for answer in answers]
        text = "\n".join(part["text"] for part in parts if "text" in part)
        if is_wanted(text) or (text and not results):
            prompt = text
            break
    config = body.get("generationConfig") or {}
    schema = config.get("responseJsonSchema") or config.get("responseSchema")
    if schema is None and config.get("responseMimeType") == "application/json":
        schema = {"type": "object"}
    return Question(prompt, tuple(_tools(body)), tuple(results), schema)


def _tools(body: dict[str, Any]) -> Iterator[Tool]:
    for group in body.get("tools") or []:
        for declared in group.get("functionDeclarations") or []:
            schema = declared.get("parametersJsonSchema") or declared.get("parameters") or {}
            yield Tool(declared["name"], schema)


def whole(question: Question, reply: Reply, id: str) -> Any:
    parts = [each for index, part in enumerate(reply.parts) for each, _ in _parts(part, f"{id}_{index}")]
    return _frame(parts, question, id, is_last=True)


def stream(question: Question, reply: Reply, id: str) -> Iterator[Event]:
    for index, part in enumerate(reply.parts):
        for each, pause_seconds in _parts(part, f"{id}_{index}"):
            yield Event(_frame([each], question, id), pause_seconds=pause_seconds)
    yield Event(_frame([{"text": ""}], question, id, is_last=True))


def _frame(parts: list[dict[str, Any]], question: Question, id: str, *, is_last: bool = False) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": parts}}
    if is_last:
        candidate["finishReason"] = "STOP"
    return {"candidates": [candidate], "usageMetadata": _USAGE, "modelVersion": question.model, "responseId": id}


def _parts(part: Part, id: str) -> Iterator[tuple[dict[str, Any], float]]:
    if isinstance(part, Thought):
        yield {"text": f"**Thinking**\n{part.text}", "thought": True}, 0.0
    elif isinstance(part, Speech):
        for piece in part.pieces:
            yield {"text": piece}, part.pause_seconds
    else:
        yield {"functionCall": {"id": f"call_{id}", "name": part.tool.name, "args": part.arguments}}, 0.0
