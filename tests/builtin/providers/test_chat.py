"""Requests in the form of OpenAI's chat completions, and what servers want differently."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.builtin.models.providers import PROVIDERS
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.uistream.messages import FilePart, Part, ReasoningPart, TextPart, UIMessage
from tests.builtin.providers.forms import HELLO, PDF, PNG, agent, body_of, conversation, done, target_of, user

PLAIN = "openai-compatible:the-model"


def form(name: str = PLAIN) -> ChatForm:
    return ChatForm(target_of(name))


def messages_of(*messages: UIMessage, name: str = PLAIN) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(form(name), conversation(*messages))["messages"][1:]
    return found


def test_a_plain_request_has_only_members_that_every_server_knows() -> None:
    body = body_of(form(), conversation(user(TextPart("go")), effort="high", session_id="s"))
    assert body == {
        "model": "the-model",
        "messages": [{"role": "system", "content": "You are a test."}, {"role": "user", "content": "go"}],
        "tools": body["tools"],
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    (tool,) = body["tools"]
    assert (tool["type"], tool["function"]["name"]) == ("function", "look")
    assert form().headers("k") == {"authorization": "Bearer k"}
    assert form().headers("") == {}


def test_an_answer_goes_back_as_it_came() -> None:
    thought = ReasoningPart("Where?", provider_metadata={"deepseek": {"member": "reasoning_content"}})
    sent = messages_of(
        user(TextPart("go")),
        agent(thought, TextPart("I look."), done("c1"), done("c2")),
        name="deepseek:deepseek-flash",
    )
    asked, answered, *results = sent
    assert asked == {"role": "user", "content": "go"}
    assert answered["content"] == "I look."
    assert answered["reasoning_content"] == "Where?"
    assert answered["tool_calls"][0] == {
        "id": "c1",
        "type": "function",
        "function": {"name": "look", "arguments": '{"value":"c1"}'},
    }
    assert results == [
        {"role": "tool", "tool_call_id": "c1", "content": "ok"},
        {"role": "tool", "tool_call_id": "c2", "content": "ok"},
    ]


def test_two_messages_of_the_user_never_follow_each_other() -> None:
    """The templates of some models refuse that, and the session would be of no use any more."""
    one, two, three = (user(TextPart(each), id=each) for each in ("summary", "one", "two"))
    cancelled = UIMessage("a", "assistant", [], {"cancelled": True})
    found = messages_of(one, two, cancelled, three)
    assert [message["role"] for message in found] == ["user", "assistant", "user", "assistant", "user"]
    assert found[1]["content"] == found[3]["content"] == "(No answer was given here.)"
    partly = UIMessage("a", "assistant", [TextPart("I")], {"cancelled": True})
    assert messages_of(two, partly, three)[1]["content"] == "I"


def test_a_step_of_calls_alone_has_no_text() -> None:
    assert messages_of(user(TextPart("go")), agent(done("c1")))[1]["content"] is None


@pytest.mark.parametrize("name", ["mistral:mistral-large-latest", "openai-chat:gpt-5", PLAIN])
def test_thoughts_of_other_servers_and_to_strict_servers_are_left_out(name: str) -> None:
    own = {name.partition(":")[0]: {"member": "reasoning_content"}} if name != PLAIN else {}
    thought = ReasoningPart("Where?", provider_metadata={"deepseek": {"member": "reasoning_content"}, **own})
    answered = messages_of(user(TextPart("go")), agent(thought, TextPart("x")), name=name)[1]
    assert answered.keys() == {"role", "content"}


def test_reasoning_details_go_back_to_openrouter_as_they_came() -> None:
    details = [{"type": "reasoning.text", "text": "Where?", "signature": "c2ln", "index": 0}]
    thought = ReasoningPart("Where?", provider_metadata={"openrouter": {"member": "reasoning", "details": details}})
    answered = messages_of(user(TextPart("go")), agent(thought, TextPart("x")), name="openrouter:anthropic/claude-x")[1]
    assert answered["reasoning_details"] == details
    assert "reasoning" not in answered


@pytest.mark.parametrize(
    ("name", "effort", "sent"),
    [
        ("openai-chat:gpt-5", "low", {"reasoning_effort": "low"}),
        ("openai-chat:gpt-4o", "low", {}),
        ("openrouter:z-ai/glm-9", "high", {"reasoning": {"effort": "high"}}),
        ("groq:openai/gpt-oss-120b", "high", {"reasoning_effort": "high"}),
        ("groq:llama-3.3-70b-versatile", "high", {}),
        ("ollama:gpt-oss:20b", "low", {"reasoning_effort": "low"}),
        ("xai:grok-4", "high", {}),
        ("openai-chat:gpt-5", None, {}),
    ],
)
def test_the_effort_is_sent_where_it_is_accepted(name: str, effort: str | None, sent: dict[str, Any]) -> None:
    body = body_of(form(name), conversation(user(TextPart("go")), effort=effort))
    assert {key: body[key] for key in ("reasoning_effort", "reasoning") if key in body} == sent


@pytest.mark.parametrize(
    ("name", "member"),
    [("openai-chat:gpt-5", "max_completion_tokens"), ("groq:x", "max_completion_tokens"), ("ollama:x", "max_tokens")],
)
def test_the_output_is_limited_in_the_servers_own_words(name: str, member: str) -> None:
    body = body_of(form(name), conversation(user(TextPart("go")), max_output_tokens=99))
    assert body[member] == 99


def test_mistral_gets_no_members_it_refuses_and_ids_of_nine_characters() -> None:
    name = "mistral:mistral-large-latest"
    assert "stream_options" not in body_of(form(name), HELLO)
    _, answered, result, _ = messages_of(user(TextPart("go")), agent(done("call_one"), done("a1b2c3d4e")), name=name)
    first, second = (call["id"] for call in answered["tool_calls"])
    assert second == "a1b2c3d4e"
    assert first == result["tool_call_id"]
    assert len(first) == 9
    assert first.isalnum()


def test_the_cache_of_anthropics_models_is_marked_where_a_gateway_serves_them() -> None:
    body = body_of(form("openrouter:anthropic/claude-sonnet-5-5"), HELLO)
    assert body["messages"][0]["content"][0]["cache_control"] == body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in str(body_of(form("openrouter:z-ai/glm-9"), HELLO))
    assert body_of(form("openai-chat:gpt-5"), conversation(session_id="s"))["prompt_cache_key"] == "s"


def test_images_go_into_prompts_and_follow_results() -> None:
    image = f"data:image/png;base64,{PNG}"
    asked = user(TextPart("see"), FilePart(image, "image/png"))
    result = done("c1", "a picture", images=[{"data": PNG, "media_type": "image/png"}])
    first, _, tool, second, images = messages_of(asked, agent(result, done("c2")))
    shown = {"type": "image_url", "image_url": {"url": image}}
    assert first["content"] == [{"type": "text", "text": "see"}, shown]
    assert (tool["role"], tool["content"]) == ("tool", "a picture")
    assert second["role"] == "tool", "the results of a step stand together"
    assert images["role"] == "user"
    assert images["content"][-1] == shown


@pytest.mark.parametrize(
    ("name", "types"),
    [
        ("openrouter:a/b", ["image_url", "file"]),
        (PLAIN, ["image_url", "text"]),
        ("deepseek:deepseek-flash", ["text", "text"]),
    ],
)
def test_what_a_server_cannot_read_is_named_instead_of_sent(name: str, types: list[str]) -> None:
    parts: list[Part] = [
        FilePart(f"data:image/png;base64,{PNG}", "image/png", "a.png"),
        FilePart(f"data:application/pdf;base64,{PDF}", "application/pdf", "a.pdf"),
    ]
    (asked,) = messages_of(user(*parts), name=name)
    assert [part["type"] for part in asked["content"]] == types


@pytest.mark.parametrize("id", [id for id, provider in PROVIDERS.items() if provider.form == "chat"])
def test_a_request_can_be_made_for_every_server_of_the_table(id: str) -> None:
    body = body_of(form(f"{id}:some-model"), conversation(user(TextPart("go")), agent(done("c1")), effort="low"))
    assert body["model"] == "some-model"
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
