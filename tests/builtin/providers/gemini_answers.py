"""Answers in Google's Gemini form, event by event."""

from __future__ import annotations

from typing import Any

from dragoman.builtin.models.wire_forms.gemini import GeminiForm
from dragoman.uistream.messages import Part, TextPart
from tests.builtin.providers.forms import agent, body_of, conversation, target_of, user

OLD, NEW = "google:gemini-2.5-flash", "google:gemini-3.8-flash"


def form(name: str = NEW) -> GeminiForm:
    return GeminiForm(target_of(name))


def piece(*parts: dict[str, Any], reason: str | None = None, **members: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"index": 0, "content": {"role": "model", "parts": list(parts)}}
    if reason is not None:
        candidate["finishReason"] = reason
    return {"candidates": [candidate], "modelVersion": "gemini-3.8-flash-001", "responseId": "r", **members}


def call(value: str, **members: Any) -> dict[str, Any]:
    signature = members.pop("signature", None)
    part: dict[str, Any] = {"functionCall": {"name": "look", "args": {"value": value}, **members}}
    return part if signature is None else {**part, "thoughtSignature": signature}


STOP = piece({"text": ""}, reason="STOP")
STREAM: list[Any] = [
    piece({"text": "Where ", "thought": True}),
    piece({"text": "is it?", "thought": True}, usageMetadata={"promptTokenCount": 140, "thoughtsTokenCount": 5}),
    piece({"text": "I "}),
    piece({"text": "look."}),
    piece(call("a", id="c1", signature="c2lnMQ=="), call("b", id="c2")),
    piece(
        {"text": "", "thoughtSignature": "c2lnMg=="},
        reason="STOP",
        usageMetadata={
            "promptTokenCount": 140,
            "cachedContentTokenCount": 40,
            "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 18,
            "thoughtsTokenCount": 12,
            "totalTokenCount": 175,
        },
    ),
]


def sent_back(parts: list[Part], name: str = NEW) -> list[dict[str, Any]]:
    """The parts of the model's content when an answer goes back."""
    contents = body_of(form(name), conversation(user(TextPart("go")), agent(*parts), user(TextPart("on"))))["contents"]
    (content,) = [content for content in contents if content["role"] == "model"]
    found: list[dict[str, Any]] = content["parts"]
    return found
