"""Our conversations in Anthropic's form and in chat completions, next to those that pydantic-ai makes of them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.builtin.models.model import ModelRequest
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.uistream.messages import FilePart, ReasoningPart, TextPart, ToolPart
from tests.builtin.providers.forms import PDF, PNG, agent, body_of, conversation, done, target_of, user
from tests.builtin.providers.server import WIRES, ProviderServer, text_answer

KEPT = {
    "pydantic-ai": {"provider": "anthropic", "system": "anthropic", "signature": "c2ln"},
    "anthropic": {"signature": "c2ln"},
}
GO = user(TextPart("go"), TextPart("on"))
FAILED = ToolPart("call_3", "look", "output-error", {"value": "x"}, error_text="no such file")
THOUGHT = ReasoningPart("Where?", provider_metadata=KEPT)
IMAGE, DOCUMENT = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
CASES: dict[str, ModelRequest] = {
    "text": conversation(GO, agent(TextPart("one")), user(TextPart("zwei ✓"))),
    "calls": conversation(GO, agent(TextPart("I look."), done("call_1"), done("call_2", "two\nlines")), GO),
    "failures": conversation(GO, agent(FAILED), GO),
    "image": conversation(user(TextPart("see"), FilePart(IMAGE, "image/png"))),
    "document": conversation(user(TextPart("see"), FilePart(DOCUMENT, "application/pdf"))),
    "thoughts": conversation(
        GO, agent(ReasoningPart("Where?", provider_metadata=KEPT), TextPart("x"), done("call_1")), GO
    ),
}


async def package_body(form: str, request: ModelRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    with ProviderServer(text_answer("hi")) as server:
        for variable, value in WIRES[form].variables(server.url).items():
            monkeypatch.setenv(variable, value)
        model = ProviderModel(WIRES[form].model)
        try:
            [_ async for _ in model.stream(request)]
        finally:
            await model.close()
    return server.asked[0].body


def joined(messages: list[dict[str, Any]]) -> list[tuple[str, list[Any]]]:
    """Messages of one role in a row are one to Anthropic, and a text is a list of one block."""
    found: list[tuple[str, list[Any]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if not found or found[-1][0] != message["role"]:
            found.append((message["role"], []))
        found[-1][1].extend(map(plain, blocks))
    return found


def plain(block: dict[str, Any]) -> dict[str, Any]:
    """A block without what is the default, and without its cache mark, which the package spells out."""
    found = {name: value for name, value in block.items() if name not in ("cache_control",) and value is not False}
    content = found.get("content")
    if isinstance(content, list) and len(content) == 1 and content[0]["type"] == "text":
        found["content"] = content[0]["text"]
    return found


@pytest.mark.parametrize("case", CASES)
async def test_anthropic_gets_the_same_conversation(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = await package_body("anthropic", CASES[case], monkeypatch)
    ours = body_of(AnthropicForm(target_of(WIRES["anthropic"].model)), CASES[case])
    assert joined(ours["messages"]) == joined(theirs["messages"])
    assert list(map(plain, ours["system"])) == list(map(plain, theirs["system"]))


@pytest.mark.parametrize("case", [case for case in CASES if case not in ("document", "thoughts")])
async def test_a_chat_server_gets_the_same_conversation(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = await package_body("openai-chat", CASES[case], monkeypatch)
    ours = body_of(ChatForm(target_of(WIRES["openai-chat"].model)), CASES[case])
    assert chat_messages(ours) == chat_messages(theirs)


def chat_messages(body: dict[str, Any]) -> list[dict[str, Any]]:
    for message in body["messages"]:
        for call in message.get("tool_calls", ()):
            call["function"]["arguments"] = json.loads(call["function"]["arguments"])
        # The package writes the error of a tool as JSON; the model reads the same words.
        if message["role"] == "tool" and message["content"].startswith('{"error":'):
            message["content"] = json.loads(message["content"])["error"]
    messages: list[dict[str, Any]] = body["messages"]
    return messages
