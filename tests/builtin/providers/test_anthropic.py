"""Requests in Anthropic's form."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.uistream.messages import DataPart, FilePart, OtherPart, Part, ReasoningPart, TextPart, ToolPart, UIMessage
from tests.builtin.providers.forms import HELLO, PDF, PNG, agent, body_of, conversation, done, target_of, user

NEW, OLD, UNTHINKING = "anthropic:claude-sonnet-5-5", "anthropic:claude-sonnet-4-5", "anthropic:claude-3-haiku"
ADAPTIVE = {"type": "adaptive", "display": "summarized"}
SIGNED = {"anthropic": {"signature": "c2ln"}}


def form(name: str = NEW) -> AnthropicForm:
    return AnthropicForm(target_of(name))


def messages_of(*messages: UIMessage) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = body_of(form(), conversation(*messages))["messages"]
    return found


def test_the_key_and_the_version_are_headers() -> None:
    assert form().headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert form().headers("") == {"anthropic-version": "2023-06-01"}
    assert form().request(HELLO).path == "/v1/messages"


@pytest.mark.parametrize(
    ("name", "effort", "thinking", "output"),
    [
        (NEW, "low", ADAPTIVE, {"effort": "low"}),
        (NEW, None, None, None),
        (OLD, "high", {"type": "enabled", "budget_tokens": 16_384}, None),
        (UNTHINKING, "high", None, None),
        (
            "anthropic:claude-unheard-of-9",
            "medium",
            ADAPTIVE,
            {"effort": "medium"},
        ),
        ("anthropic:another-server's-model", "medium", None, None),
        ("anthropic:claude-opus-4-6", "xhigh", ADAPTIVE, {"effort": "high"}),
    ],
)
def test_thinking_is_asked_for_as_the_model_wants_it(name: str, effort: str | None, thinking: Any, output: Any) -> None:
    body = body_of(form(name), conversation(user(TextPart("go")), effort=effort))
    assert (body.get("thinking"), body.get("output_config")) == (thinking, output)
    if thinking is not None and "budget_tokens" in thinking:
        assert body["max_tokens"] > thinking["budget_tokens"]


def test_the_output_is_limited_by_the_request_or_by_the_model() -> None:
    assert body_of(form(), conversation(user(TextPart("go")), max_output_tokens=99))["max_tokens"] == 99
    assert body_of(form(), HELLO)["max_tokens"] == 64_000
    assert body_of(form(UNTHINKING), HELLO)["max_tokens"] == 8_192


def test_the_cache_may_end_behind_the_system_prompt_the_stable_messages_and_the_last_message() -> None:
    request = conversation(user(TextPart("summary")), agent(TextPart("yes")), user(TextPart("go")), stable_until=1)
    body = body_of(form(), request)
    mark = {"type": "ephemeral"}
    assert body["system"] == [{"type": "text", "text": "You are a test.", "cache_control": mark}]
    assert body["messages"][0]["content"] == [{"type": "text", "text": "summary", "cache_control": mark}]
    assert body["cache_control"] == mark
    assert str(body).count("cache_control") == 3, "Anthropic accepts four at most"
    assert "cache_control" in body_of(form(), conversation(user(TextPart("go")), system=""))["tools"][-1]


def test_an_answer_goes_back_as_it_came() -> None:
    redacted = ReasoningPart("", provider_metadata={"anthropic": {"redacted": "xyz"}})
    parts: list[Part] = [ReasoningPart("Where?", provider_metadata=SIGNED), redacted, TextPart("I look."), done("c1")]
    asked, answered, result = messages_of(user(TextPart("go")), agent(*parts))
    assert asked == {"role": "user", "content": [{"type": "text", "text": "go"}]}
    assert answered["content"] == [
        {"type": "thinking", "thinking": "Where?", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "xyz"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"value": "c1"}},
    ]
    assert result == {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "ok"}]}


def test_sessions_of_earlier_versions_keep_their_signatures() -> None:
    kept = {"pydantic-ai": {"provider": "anthropic", "signature": "c2ln"}}
    hidden = {"pydantic-ai": {"provider": "anthropic", "id": "redacted_thinking", "signature": "xyz"}}
    parts = [ReasoningPart("Where?", provider_metadata=kept), ReasoningPart("", provider_metadata=hidden)]
    answered = messages_of(user(TextPart("go")), agent(*parts, TextPart("here")))[1]
    assert [block["type"] for block in answered["content"]] == ["thinking", "redacted_thinking", "text"]


@pytest.mark.parametrize("metadata", [{"openai": {"encrypted": "x"}}, {"pydantic-ai": {"provider": "openai"}}, {}])
def test_thoughts_of_another_provider_are_left_out(metadata: Any) -> None:
    thought = ReasoningPart("Where?", provider_metadata=metadata)
    assert [
        block["type"] for block in messages_of(user(TextPart("go")), agent(thought, TextPart("x")))[1]["content"]
    ] == ["text"]


def test_ids_of_other_providers_are_written_in_the_characters_that_anthropic_accepts() -> None:
    _, answered, result = messages_of(user(TextPart("go")), agent(done("call.1:b|fc")))
    assert answered["content"][0]["id"] == result["content"][0]["tool_use_id"] == "call_1_b_fc"


def test_a_call_without_a_result_and_one_that_failed_are_errors() -> None:
    running = ToolPart("c1", "look", "input-available", {"value": "a"})
    failed = ToolPart("c2", "look", "output-error", "not an object", error_text="no such file")
    _, answered, result = messages_of(user(TextPart("go")), agent(running, failed))
    assert [block["input"] for block in answered["content"]] == [{"value": "a"}, {"input": "not an object"}]
    assert [(block["is_error"], block["content"].partition(";")[0]) for block in result["content"]] == [
        (True, "This call was interrupted"),
        (True, "no such file"),
    ]


def test_images_and_documents_go_into_prompts_and_results() -> None:
    image, pdf = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
    asked = user(TextPart("see"), FilePart(image, "image/png"), FilePart(pdf, "application/pdf", "a.pdf"))
    result = done("c1", "a picture", images=[{"data": PNG, "media_type": "image/png"}])
    sent = messages_of(asked, agent(result))
    source = {"type": "base64", "media_type": "image/png", "data": PNG}
    assert [block["type"] for block in sent[0]["content"]] == ["text", "image", "document"]
    assert sent[0]["content"][1]["source"] == source
    assert sent[2]["content"][0]["content"] == [
        {"type": "text", "text": "a picture"},
        {"type": "image", "source": source},
    ]


@pytest.mark.parametrize(
    ("name", "type"), [(NEW, "audio/wav"), (NEW, "image/tiff"), ("anthropic:claude-v1", "image/png")]
)
def test_what_the_model_cannot_read_is_named_instead_of_sent(name: str, type: str) -> None:
    asked = user(FilePart(f"data:{type};base64,{PNG}", type, "the-file"))
    (block,) = body_of(form(name), conversation(asked))["messages"][0]["content"]
    assert block["type"] == "text"
    assert "the-file" in block["text"]


def test_what_the_agent_knows_of_the_environment_is_text() -> None:
    asked = user(TextPart("go"), DataPart("environment", {"text": "branch: main"}), DataPart("plan", {"text": "no"}))
    assert messages_of(asked)[0]["content"] == [{"type": "text", "text": "go\n\nbranch: main"}]


def test_text_that_reached_the_running_turn_stands_behind_the_results() -> None:
    steering = OtherPart({"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "faster"}]})
    sent = messages_of(user(TextPart("go")), agent(done("c1"), steering))
    assert [message["role"] for message in sent] == ["user", "assistant", "user", "user"]
    assert sent[-1]["content"] == [{"type": "text", "text": "faster"}]


def test_thoughts_bound_to_another_conversation_are_given_up_and_the_rest_is_sent_again() -> None:
    sent = form()
    stale = ModelError("Anthropic (400): The block is bound to a different conversation prefix.", status=400)
    assert not sent.recovers_from(ModelError("Anthropic (400): something else", status=400))
    assert "anthropic-beta" not in sent.request(HELLO).headers
    assert sent.recovers_from(stale)
    again = sent.request(HELLO)
    assert again.headers == {"anthropic-beta": "thinking-binding-controls-2026-08-01"}
    assert body_of(sent, HELLO)["thinking"]["block_binding"] == {"prefix_mismatch_behavior": "drop_block"}
    assert not sent.recovers_from(stale), "once is enough"


def test_a_finished_message_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[str] = []
    original = AnthropicForm._items_of

    def counted(self: AnthropicForm, message: Any) -> Any:
        converted.append(message.id)
        return original(self, message)

    monkeypatch.setattr(AnthropicForm, "_items_of", counted)
    sent = form()
    messages = [m for n in range(500) for m in (user(TextPart("go"), id=f"u{n}"), agent(done(str(n)), id=f"a{n}"))]
    first = sent.request(conversation(*messages, user(TextPart("on")))).body
    assert len(converted) == 1002
    converted.clear()
    assert len(sent.request(conversation(*messages, user(TextPart("on"), id="other"))).body) == len(first)
    assert converted == ["other", "reply"]


def test_a_message_that_grew_since_it_was_the_last_one_is_sent_whole() -> None:
    sent, reply = form(), agent(done("c1"))
    sent.request(conversation(user(TextPart("go")), reply))
    reply.parts.append(TextPart("all done"))
    body = sent.request(conversation(user(TextPart("go")), reply, user(TextPart("on")))).body
    assert b"all done" in body
