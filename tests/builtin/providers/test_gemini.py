"""Google's Gemini form: what is sent."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.model import ModelError, ToolSpec
from dragoman.builtin.models.wire_forms.gemini import UNSIGNED, GeminiForm, cleaned_schema
from dragoman.uistream.messages import FilePart, OtherPart, Part, ReasoningPart, TextPart, ToolPart, UIMessage
from tests.builtin.providers.forms import (
    PDF,
    PNG,
    agent,
    answer_of,
    body_of,
    conversation,
    done,
    user,
)
from tests.builtin.providers.gemini_answers import NEW, OLD, STOP, STREAM, call, form, piece, sent_back


def refusal(message: str) -> ModelError:
    return ModelError(f"Google Gemini (400): {message}", status=400)


def test_a_request_has_the_key_in_a_header_and_the_model_in_its_path() -> None:
    sent = form().request(conversation(user(TextPart("hi"))))
    assert sent.path == "/v1beta/models/gemini-3.8-flash:streamGenerateContent?alt=sse"
    assert form().headers("a-key") == {"x-goog-api-key": "a-key"}
    assert b"a-key" not in sent.body
    strange = form("google:models/a b?c").request(conversation(user(TextPart("hi"))))
    assert strange.path == "/v1beta/models/a%20b%3Fc:streamGenerateContent?alt=sse"


def test_system_prompt_tools_and_limits_are_sent() -> None:
    body = body_of(form(), conversation(user(TextPart("hi")), effort="low", max_output_tokens=99, session_id="s"))
    assert body == {
        "systemInstruction": {"parts": [{"text": "You are a test."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {
                        "name": "look",
                        "description": "looks",
                        "parametersJsonSchema": {"type": "object", "properties": {"value": {"type": "string"}}},
                    }
                ]
            }
        ],
        "generationConfig": {
            "maxOutputTokens": 99,
            "thinkingConfig": {"includeThoughts": True, "thinkingLevel": "LOW"},
        },
        "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    }


@pytest.mark.parametrize(
    ("name", "effort", "sent"),
    [
        ("google:gemini-3.8-flash", "minimal", {"thinkingLevel": "LOW"}),
        ("google:gemini-3.8-flash", "max", {"thinkingLevel": "HIGH"}),
        ("google:gemini-3.8-flash", "none", {"thinkingLevel": "LOW"}),
        ("google:gemini-3.8-flash", None, {}),
        ("google:gemini-9-unheard-of", "minimal", {"thinkingLevel": "MINIMAL"}),
        ("google:gemini-2.5-flash", "low", {"thinkingBudget": 2048}),
        ("google:gemini-2.5-pro", "max", {"thinkingBudget": 24_576}),
        ("google:gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("google:gemini-2.5-flash", None, {}),
    ],
)
def test_thoughts_are_asked_for_as_the_model_wants_it(name: str, effort: str | None, sent: dict[str, Any]) -> None:
    config = body_of(form(name), conversation(user(TextPart("hi")), effort=effort))["generationConfig"]
    assert config == {"thinkingConfig": {"includeThoughts": True, **sent}}


def test_thinking_can_be_turned_off_where_the_model_allows_it() -> None:
    config = body_of(form(OLD), conversation(user(TextPart("hi")), effort="none"))["generationConfig"]
    assert config == {"thinkingConfig": {"includeThoughts": False, "thinkingBudget": 0}}


@pytest.mark.parametrize("name", ["google:gemini-2.0-flash", "google:gemma-3-27b-it", "google:gemini-1.5-pro"])
def test_a_model_that_does_not_think_gets_no_word_about_it(name: str) -> None:
    assert "generationConfig" not in body_of(form(name), conversation(user(TextPart("hi")), effort="high"))


def test_an_answer_goes_back_with_each_signature_on_its_own_part() -> None:
    parts, _ = answer_of(form(), *STREAM)
    for part in parts:
        if isinstance(part, ToolPart):
            part.state, part.output = "output-available", {"text": f"did {part.input['value']}"}
    contents = body_of(form(), conversation(user(TextPart("go")), agent(*parts)))["contents"]
    assert contents[1:] == [
        {
            "role": "model",
            "parts": [
                {"text": "Where is it?", "thought": True},
                {"text": "I look."},
                {
                    "functionCall": {"id": "c1", "name": "look", "args": {"value": "a"}},
                    "thoughtSignature": "c2lnMQ==",
                },
                {"functionCall": {"id": "c2", "name": "look", "args": {"value": "b"}}},
                {"text": "", "thoughtSignature": "c2lnMg=="},
            ],
        },
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c1", "name": "look", "response": {"output": "did a"}}},
                {"functionResponse": {"id": "c2", "name": "look", "response": {"output": "did b"}}},
            ],
        },
    ]


def test_a_signed_piece_of_a_text_is_not_merged_with_the_others() -> None:
    pieces = [{"text": "one "}, {"text": "twö ", "thoughtSignature": "QQ=="}, {"text": "three"}, {"text": " four"}]
    parts, _ = answer_of(form(), *(piece(each) for each in pieces), STOP)
    (text,) = parts
    assert isinstance(text, TextPart)
    assert text.text == "one twö three four", "the user is shown one text"
    assert sent_back(parts) == [
        {"text": "one "},
        {"text": "twö ", "thoughtSignature": "QQ=="},
        {"text": "three four"},
    ]


def test_a_signature_at_the_end_of_a_text_goes_back_behind_it() -> None:
    parts, _ = answer_of(form(), piece({"text": "hi"}), piece({"text": "", "thoughtSignature": "QQ=="}, reason="STOP"))
    assert sent_back(parts) == [{"text": "hi"}, {"text": "", "thoughtSignature": "QQ=="}]


def test_a_signed_thought_goes_back_signed() -> None:
    thought = {"text": "hm", "thought": True, "thoughtSignature": "QQ=="}
    parts, _ = answer_of(form(), piece(thought), piece({"text": "hi"}), STOP)
    assert sent_back(parts) == [thought, {"text": "hi"}]


def test_a_signature_behind_thoughts_goes_back_before_the_call() -> None:
    alone = {"text": "", "thoughtSignature": "QQ=="}
    parts, _ = answer_of(form(), piece({"text": "hm", "thought": True}), piece(alone), piece(call("a", id="c")), STOP)
    assert sent_back(parts) == [
        {"text": "hm", "thought": True},
        alone,
        {"functionCall": {"id": "c", "name": "look", "args": {"value": "a"}}, "thoughtSignature": UNSIGNED},
    ]


def test_the_first_call_of_another_model_is_marked_as_unsigned() -> None:
    kept = {"anthropic": {"signature": "s1g", "is_thought": True}}
    parts: list[Part] = [ReasoningPart("hm", provider_metadata=kept), done("1"), done("2")]
    first, second = sent_back(parts)
    assert first["thoughtSignature"] == UNSIGNED
    assert "thoughtSignature" not in second


def test_signatures_that_the_server_refuses_are_given_up() -> None:
    learnt = form()
    parts, _ = answer_of(learnt, *STREAM)
    request = conversation(user(TextPart("go")), agent(*parts), user(TextPart("on")))
    assert b"c2lnMQ==" in learnt.request(request).body
    assert learnt.recovers_from(refusal("Thought signature is not valid."))
    body = learnt.request(request).body
    assert b"c2lnMQ==" not in body
    assert UNSIGNED.encode() in body
    assert not learnt.recovers_from(refusal("Thought signature is not valid."))
    assert not form().recovers_from(refusal("Unknown name"))


@pytest.mark.parametrize(
    "message",
    [
        "Thinking level MINIMAL is not supported for this model.",
        "Budget 0 is invalid. This model only works in thinking mode.",
        "Thinking is not enabled for this model",
    ],
)
def test_an_effort_that_the_server_refuses_is_given_up(message: str) -> None:
    learnt, request = form(), conversation(user(TextPart("hi")), effort="low")
    assert learnt.recovers_from(refusal(message))
    assert "generationConfig" not in body_of(learnt, request)
    assert not learnt.recovers_from(refusal(message))


def test_the_signature_of_a_call_with_wrong_arguments_is_kept() -> None:
    parts, _ = answer_of(form(), piece({**call("a"), "thoughtSignature": "QQ=="}), STOP)
    (part,) = parts
    assert isinstance(part, ToolPart)
    part.state, part.error_text = "output-error", "wrong"
    assert sent_back(parts)[0]["thoughtSignature"] == "QQ=="


def test_images_and_documents_go_into_prompts() -> None:
    image, pdf = f"data:image/png;base64,{PNG}", f"data:application/pdf;base64,{PDF}"
    prompt = user(TextPart("see"), FilePart(image, "image/png"), FilePart(pdf, "application/pdf", "a.pdf"))
    assert body_of(form(), conversation(prompt))["contents"] == [
        {
            "role": "user",
            "parts": [
                {"text": "see"},
                {"inlineData": {"mimeType": "image/png", "data": PNG}},
                {"inlineData": {"mimeType": "application/pdf", "data": PDF}},
            ],
        }
    ]


LOOKED = done("1", "a picture", images=[{"data": PNG, "media_type": "image/png"}])
IMAGE = {"inlineData": {"mimeType": "image/png", "data": PNG}}


def test_images_stand_in_the_result_for_models_that_accept_them_there() -> None:
    contents = body_of(form(NEW), conversation(user(TextPart("go")), agent(LOOKED)))["contents"]
    response = {"id": "1", "name": "look", "response": {"output": "a picture"}, "parts": [IMAGE]}
    assert contents[2:] == [{"role": "user", "parts": [{"functionResponse": response}]}]


def test_images_follow_the_results_for_older_models() -> None:
    contents = body_of(form(OLD), conversation(user(TextPart("go")), agent(LOOKED, done("2"))))["contents"]
    assert [len(content["parts"]) for content in contents[2:]] == [2, 2]
    assert contents[3]["parts"][1] == IMAGE
    assert "look" in contents[3]["parts"][0]["text"]
    assert all("functionResponse" in part for part in contents[2]["parts"])


def test_a_call_that_failed_is_reported_as_an_error() -> None:
    failed = ToolPart("1", "look", "output-error", {"value": "a"}, error_text="no such file")
    contents = body_of(form(), conversation(user(TextPart("go")), agent(failed)))["contents"]
    assert contents[2]["parts"][0]["functionResponse"]["response"] == {"error": "no such file"}


def test_text_that_reached_the_running_turn_stands_in_a_content_of_its_own() -> None:
    steering = OtherPart({"type": "steering-message", "parts": [{"type": "text", "text": "faster"}]})
    contents = body_of(form(), conversation(user(TextPart("go")), agent(done("1"), steering)))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user", "user"]
    assert contents[3]["parts"] == [{"text": "faster"}]


def test_a_conversation_that_begins_with_the_agent_gets_a_user_first() -> None:
    """Google refuses a conversation that begins with the model."""
    contents = body_of(form(), conversation(agent(TextPart("hi")), user(TextPart("go"))))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]


# Schemas


@pytest.mark.parametrize(
    ("given_schema", "expected"),
    [
        ({"$schema": "x", "title": "T", "type": "object", "examples": [1]}, {"type": "object"}),
        ({"const": "a"}, {"enum": ["a"], "type": "string"}),
        ({"const": True}, {"type": "boolean"}),
        ({"enum": ["a", None]}, {}),
        (
            {"oneOf": [{"type": "string"}, {"const": 1}]},
            {"anyOf": [{"type": "string"}, {"enum": [1], "type": "integer"}]},
        ),
        ({"$ref": "#/definitions/A", "description": "d"}, {"$ref": "#/$defs/A"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": "(format: uri)"}),
        ({"type": "integer", "exclusiveMinimum": 0, "minimum": 1}, {"type": "integer", "minimum": 1}),
        ({"type": "object", "required": ["a", "b"], "properties": {"a": True}}, None),
        ({"allOf": [{"type": "object", "properties": {"a": {}}}, {"required": ["a"]}]}, None),
        ({"type": "object", "patternProperties": {"^x": {}}, "not": {}, "if": {}}, {"type": "object"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
    ],
)
def test_words_that_gemini_refuses_are_left_out(given_schema: dict[str, Any], expected: dict[str, Any] | None) -> None:
    before = json.dumps(given_schema)
    if expected is None:
        expected = {"type": "object", "required": ["a"], "properties": {"a": {}}}
    assert cleaned_schema(given_schema) == expected
    assert json.dumps(given_schema) == before


def test_schemas_within_schemas_are_cleaned_too() -> None:
    schema = {
        "type": "object",
        "properties": {"title": {"type": "array", "items": {"title": "T", "type": "string"}}},
        "additionalProperties": {"$schema": "x"},
        "definitions": {"A": {"title": "A", "type": "object"}},
    }
    assert cleaned_schema(schema) == {
        "type": "object",
        "properties": {"title": {"type": "array", "items": {"type": "string"}}},
        "additionalProperties": {},
        "$defs": {"A": {"type": "object"}},
    }


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "properties", "items", "anyOf", "allOf", "enum", "const", "$ref", "required", "$defs"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(st.dictionaries(st.sampled_from(["properties", "items", "allOf", "required", "enum", "$defs"]), JSON))
def test_any_schema_of_a_server_can_be_offered(schema: dict[str, Any]) -> None:
    tool = ToolSpec("x", "y", schema)
    assert body_of(form(), conversation(user(TextPart("hi")), tools=(tool,)))["tools"]


# The cost of a long conversation


def test_a_longer_conversation_only_appends() -> None:
    sent = form()
    messages = [user(TextPart("go"), id="u0"), agent(done("0"), id="a0")]
    before = b""
    for number in range(1, 5):
        body = sent.request(conversation(*messages, effort="low")).body
        assert body.startswith(before[: -len(b"]}")])
        before = body
        messages[-1].parts.append(done(str(number)))


def test_a_finished_message_is_converted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    converted: list[str] = []
    original = GeminiForm._contents

    def counted(self: GeminiForm, message: UIMessage) -> Any:
        converted.append(message.id)
        return original(self, message)

    monkeypatch.setattr(GeminiForm, "_contents", counted)
    sent = form()
    messages = [m for n in range(500) for m in (user(TextPart("go"), id=f"u{n}"), agent(done(str(n)), id=f"a{n}"))]
    sent.request(conversation(*messages, user(TextPart("on"))))
    assert len(converted) == 1002
    converted.clear()
    sent.request(conversation(*messages, user(TextPart("on"), id="other")))
    assert converted == ["other", "reply"]
