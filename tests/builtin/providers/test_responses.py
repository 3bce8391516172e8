"""OpenAI's Responses form: what is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.builtin.models.model import ModelError
from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from dragoman.uistream.messages import FilePart, OtherPart, ReasoningPart, TextPart, ToolPart, UIMessage
from tests.builtin.providers.forms import (
    HELLO,
    PDF,
    PNG,
    agent,
    answer_of,
    body_of,
    conversation,
    done,
    user,
)
from tests.builtin.providers.responses_answers import STREAM, call, completed, event, form, reasoning, speech

# What is sent


def test_nothing_is_stored_at_the_provider_and_reasoning_comes_encrypted() -> None:
    body = body_of(form(), conversation(user(TextPart("hi")), effort="low", max_output_tokens=99, session_id="ses_1"))
    assert body == {
        "model": "gpt-5",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "reasoning": {"effort": "low", "summary": "auto"},
        "instructions": "You are a test.",
        "tools": [
            {
                "type": "function",
                "name": "look",
                "description": "looks",
                "parameters": {"type": "object", "properties": {"value": {"type": "string"}}},
                "strict": False,
            }
        ],
        "max_output_tokens": 99,
        "prompt_cache_key": "ses_1",
        "input": [{"role": "user", "content": "hi"}],
    }


@pytest.mark.parametrize("name", ["openai:gpt-4.1", "openai:gpt-5-chat-latest", "openai:gpt-4o"])
def test_a_model_that_does_not_reason_gets_no_word_about_reasoning(name: str) -> None:
    body = body_of(form(name), conversation(user(TextPart("hi")), effort="high"))
    assert not {"reasoning", "include"} & body.keys()


@pytest.mark.parametrize(
    ("name", "effort", "sent"),
    [
        ("openai:gpt-5", "max", "high"),
        ("openai:gpt-6.1-sol", "minimal", "low"),
        ("openai:gpt-6.1-sol", "max", "max"),
        ("openai:a-model-of-tomorrow", "xhigh", "xhigh"),
    ],
)
def test_the_effort_is_the_nearest_that_the_model_accepts(name: str, effort: str, sent: str) -> None:
    assert body_of(form(name), conversation(user(TextPart("hi")), effort=effort))["reasoning"]["effort"] == sent


def test_an_answer_goes_back_as_the_items_it_came_in() -> None:
    parts, _ = answer_of(form(), *STREAM)
    for part in parts:
        if isinstance(part, ToolPart):
            part.state, part.output = "output-available", {"text": f"did {part.input['value']}"}
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts)))["input"]
    assert sent[1:] == [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [
                {"type": "summary_text", "text": "Where is it?"},
                {"type": "summary_text", "text": "Perhaps here."},
            ],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "role": "assistant",
            "id": "msg_1",
            "status": "completed",
            "content": [{"type": "output_text", "text": "I look.", "annotations": []}],
            "phase": "commentary",
        },
        {
            "type": "function_call",
            "call_id": "call_1",
            "name": "look",
            "arguments": '{"value":"a"}',
            "id": "fc_1",
        },
        {
            "type": "function_call",
            "call_id": "call_2",
            "name": "look",
            "arguments": '{"value":"b"}',
            "id": "fc_2",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "did a"},
        {"type": "function_call_output", "call_id": "call_2", "output": "did b"},
    ]


def test_reasoning_without_words_goes_back_too() -> None:
    parts, _ = answer_of(form(), *reasoning(), *speech("hi"), completed())
    assert isinstance(parts[0], ReasoningPart)
    assert parts[0].text == ""
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts), user(TextPart("on"))))["input"]
    assert sent[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAA"}


def test_reasoning_that_was_not_encrypted_stays_here_and_so_do_the_ids_that_depend_on_it() -> None:
    """The provider has stored nothing: it would search for the item and refuse the request."""
    parts, _ = answer_of(form(), *reasoning("rs_1", "hm", encrypted=None), *speech("hi"), *call(1), completed())
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts)))["input"]
    assert [item.get("type", item.get("role")) for item in sent] == [
        "user",
        "assistant",
        "function_call",
        "function_call_output",
    ]
    assert not any("id" in item for item in sent)
    assert "not known" in sent[-1]["output"], "a call that did not run has a result nevertheless"


def test_raw_reasoning_goes_back_as_content() -> None:
    """Servers of open models send the thoughts themselves."""
    item = {"type": "reasoning", "id": "rs_1", "summary": []}
    raw = [{"type": "reasoning_text", "text": "let me see"}]
    parts, _ = answer_of(
        form(),
        event("output_item.added", output_index=0, item=item),
        event("reasoning_text.delta", output_index=0, content_index=0, delta="let me see"),
        event("output_item.done", output_index=0, item={**item, "content": raw}),
        *speech("hi"),
        completed(),
    )
    assert isinstance(parts[0], ReasoningPart)
    assert parts[0].text == "let me see"
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts), user(TextPart("on"))))["input"]
    assert sent[1] == {"type": "reasoning", "id": "rs_1", "summary": [], "content": raw}


def test_what_another_provider_signed_is_not_sent() -> None:
    kept = {"anthropic": {"signature": "s1g", "id": "x"}}
    spoken = agent(ReasoningPart("hm", provider_metadata=kept), TextPart("hi", provider_metadata=kept))
    sent = body_of(form(), conversation(user(TextPart("go")), spoken, user(TextPart("on"))))["input"]
    assert sent[1:-1] == [{"role": "assistant", "content": "hi"}]


def test_images_and_documents_go_into_prompts_and_results() -> None:
    image, pdf = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
    prompt = user(TextPart("see"), FilePart(image, "image/png"), FilePart(pdf, "application/pdf", "a.pdf"))
    looked = done("1", "two files", images=[{"data": PNG, "media_type": "image/png"}])
    sent = body_of(form(), conversation(prompt, agent(looked)))["input"]
    assert sent[0]["content"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": image, "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": pdf},
    ]
    assert sent[2]["output"] == [
        {"type": "input_text", "text": "two files"},
        {"type": "input_image", "image_url": image, "detail": "auto"},
    ]


def test_sound_is_named_instead_of_sent() -> None:
    prompt = user(TextPart("hear"), FilePart("data:audio/wav;base64,UklGRg==", "audio/wav", "a.wav"))
    content = body_of(form(), conversation(prompt))["input"][0]["content"]
    assert content[1]["type"] == "input_text"
    assert "audio/wav" in content[1]["text"]


def test_text_that_reached_the_running_turn_stands_behind_the_results() -> None:
    steering = OtherPart({"type": "steering-message", "parts": [{"type": "text", "text": "faster"}]})
    sent = body_of(form(), conversation(user(TextPart("go")), agent(done("1"), steering)))["input"]
    assert [item.get("type", item.get("role")) for item in sent] == [
        "user",
        "function_call",
        "function_call_output",
        "user",
    ]


def test_a_message_of_the_system_is_one_that_every_server_knows() -> None:
    note = UIMessage("s", "system", [TextPart("be brief")])
    assert body_of(form(), conversation(note, user(TextPart("go"))))["input"][0] == {
        "role": "system",
        "content": "be brief",
    }


def test_arguments_that_were_not_an_object_are_sent_as_one() -> None:
    parts, _ = answer_of(form(), *call(1, '{"value": '), completed())
    sent = body_of(form(), conversation(user(TextPart("go")), agent(*parts)))["input"]
    assert json.loads(sent[1]["arguments"]) == {"input": '{"value": '}
    assert "not a JSON object" in sent[2]["output"]


# What a server refuses is given up


def refusal(message: str) -> ModelError:
    return ModelError(f"OpenAI (400): {message}", status=400)


@pytest.mark.parametrize(
    ("message", "left"),
    [
        ("Your organization must be verified to generate reasoning summaries.", {"effort": "xhigh"}),
        ("Unsupported parameter: 'reasoning.summary'", {"effort": "xhigh"}),
        ("Unsupported parameter: 'reasoning.effort' is not supported with this model.", None),
        ("Model grok-4 does not support parameter reasoningEffort.", None),
        (
            "Unsupported value: 'xhigh' is not supported with the 'x' model. Supported values are: 'low' and 'medium'.",
            {"effort": "medium", "summary": "auto"},
        ),
    ],
)
def test_what_a_server_refuses_about_reasoning_is_given_up(message: str, left: dict[str, str] | None) -> None:
    learnt, request = form("openai:a-model-of-tomorrow"), conversation(user(TextPart("hi")), effort="xhigh")
    assert body_of(learnt, request)["reasoning"] == {"effort": "xhigh", "summary": "auto"}
    assert learnt.recovers_from(refusal(message))
    assert body_of(learnt, request).get("reasoning") == left
    assert not learnt.recovers_from(refusal(message)), "a second time nothing is left to give up"


@pytest.mark.parametrize(
    ("message", "member"),
    [
        ("Encrypted content is not supported with this model.", "include"),
        ("Unrecognized request argument supplied: prompt_cache_key", "prompt_cache_key"),
        ("Extra inputs are not permitted: prompt_cache_key", "prompt_cache_key"),
    ],
)
def test_a_member_that_a_server_does_not_know_is_given_up(message: str, member: str) -> None:
    learnt, request = form(), conversation(user(TextPart("hi")), session_id="s")
    before = body_of(learnt, request)
    assert learnt.recovers_from(refusal(message))
    assert body_of(learnt, request) == {name: value for name, value in before.items() if name != member}


def test_reasoning_that_another_key_encrypted_is_given_up() -> None:
    learnt = form()
    parts, _ = answer_of(learnt, *STREAM)
    request = conversation(user(TextPart("go")), agent(*parts), user(TextPart("on")))
    assert b"gAAA" in learnt.request(request).body
    assert learnt.recovers_from(refusal("The encrypted content gAAA... could not be verified."))
    sent = body_of(learnt, request)["input"]
    assert not any("id" in item or item.get("type") == "reasoning" for item in sent)
    assert [item["call_id"] for item in sent if "call_id" in item] == ["call_1", "call_2"] * 2


@pytest.mark.parametrize(
    "error",
    [
        refusal("Unknown parameter: 'tools[0].name'."),
        refusal("Your organization must be verified to stream this model."),
        ModelError("OpenAI (500): the reasoning.summary is not supported right now", status=500),
    ],
)
def test_another_error_changes_nothing(error: ModelError) -> None:
    assert not form().recovers_from(error)


# The cost of a long conversation


def test_a_longer_conversation_only_appends() -> None:
    sent = form()
    messages = [user(TextPart("go"), id="u0"), agent(done("0"), id="a0")]
    before = b""
    for number in range(1, 5):
        request = conversation(*messages, effort="low", session_id="s")
        body = sent.request(request).body
        head, _, items = body.partition(b'"input":[')
        if before:
            assert head == before[: len(head)]
            assert items.startswith(before[len(head) + len(b'"input":[') : -2])
        before = body
        messages[-1].parts.append(done(str(number)))
    assert sent.request(HELLO).body != before


def test_a_finished_message_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = form()
    converted: list[str] = []
    original = ResponsesForm._items

    def counted(self: ResponsesForm, message: Any) -> Any:
        converted.append(message.id)
        return original(self, message)

    monkeypatch.setattr(ResponsesForm, "_items", counted)
    sent = form()
    messages = [m for n in range(500) for m in (user(TextPart("go"), id=f"u{n}"), agent(done(str(n)), id=f"a{n}"))]
    first = sent.request(conversation(*messages, user(TextPart("on")))).body
    assert len(converted) == 1002
    converted.clear()
    request = conversation(*messages, user(TextPart("on"), id="other"))
    assert len(sent.request(request).body) == len(first)
    assert converted == ["other", "reply"]
