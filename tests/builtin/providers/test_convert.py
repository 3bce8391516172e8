"""Our messages as providers' requests: roles and order, and nothing that was only for the user."""

import base64
from typing import Any

from msgspec import UNSET
from pydantic_ai import messages as pm

from dragoman.builtin.models.package.convert import METADATA, messages_of
from dragoman.builtin.models.wire_forms.conversation import INTERRUPTED
from dragoman.uistream.messages import (
    DataPart,
    FilePart,
    OtherPart,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)

PNG = base64.b64encode(b"\x89PNG").decode()


def user(*parts: Part) -> UIMessage:
    return UIMessage("u", "user", list(parts))


def agent(*parts: Part) -> UIMessage:
    return UIMessage("a", "assistant", list(parts))


def done(id: str, text: str = "ok", **output: Any) -> ToolPart:
    return ToolPart(id, "look", "output-available", {"value": id}, {"text": text, **output})


def shape(*messages: UIMessage) -> list[list[str]]:
    """The kinds of parts in each message."""
    return [[part.part_kind for part in message.parts] for message in messages_of(messages)]


def prompt_of(*parts: Part) -> Any:
    (request,) = messages_of([user(*parts)])
    (part,) = request.parts
    assert isinstance(part, pm.UserPromptPart)
    return part.content


def results_of(*calls: ToolPart) -> list[tuple[Any, str]]:
    request = messages_of([user(TextPart("go")), agent(StepStartPart(), *calls)])[-1]
    return [(part.content, part.outcome) for part in request.parts if isinstance(part, pm.ToolReturnPart)]


def test_steps_of_a_turn_become_answers_with_their_results_behind_them() -> None:
    turn = agent(
        StepStartPart(),
        ReasoningPart("hm"),
        TextPart("I look."),
        done("1"),
        done("2"),
        DataPart("plan", {"entries": []}),
        StepStartPart(),
        TextPart("Done."),
    )
    assert shape(user(TextPart("go")), turn, user(TextPart("more"))) == [
        ["user-prompt"],
        ["thinking", "text", "tool-call", "tool-call"],
        ["tool-return", "tool-return"],
        ["text"],
        ["user-prompt"],
    ]


def test_the_running_message_with_an_open_step_asks_for_its_next() -> None:
    assert shape(user(TextPart("go")), agent(StepStartPart(), done("1"), StepStartPart())) == [
        ["user-prompt"],
        ["tool-call"],
        ["tool-return"],
    ]


def test_words_that_steer_come_after_the_results_they_followed() -> None:
    words = OtherPart({"type": "steering-message", "id": "s", "parts": [{"type": "text", "text": "other way"}]})
    turn = agent(StepStartPart(), done("1"), words, StepStartPart())
    assert shape(user(TextPart("go")), turn)[-1] == ["tool-return", "user-prompt"]


def test_a_turn_that_came_to_nothing_leaves_no_answer() -> None:
    cut = agent(StepStartPart(), ReasoningPart("I was about to"))
    assert shape(user(TextPart("go")), cut, user(TextPart("again"))) == [["user-prompt", "user-prompt"]]


def test_every_way_a_call_can_end_is_a_result_the_model_reads() -> None:
    denied = ToolPart("1", "look", "output-denied", {}, permission={"id": "a", "approved": False, "reason": "a rule"})
    failed = ToolPart("2", "look", "output-error", {}, error_text="no such file")
    running = ToolPart("3", "look", "input-available", {})
    exited = done("4", "exit code 1", is_error=True)
    assert results_of(denied, failed, running, exited, done("5")) == [
        ("a rule", "denied"),
        ("no such file", "failed"),
        (INTERRUPTED, "interrupted"),
        ("exit code 1", "failed"),
        ("ok", "success"),
    ]


def test_a_refusal_stored_without_a_reason_is_not_reported_as_the_users() -> None:
    ((content, _),) = results_of(ToolPart("1", "look", "output-denied", {}))
    assert content.startswith("Not permitted.")
    assert "user refused" not in content


def test_pictures_of_a_tool_follow_its_text() -> None:
    ((content, _),) = results_of(done("1", "a picture", images=[{"data": PNG, "media_type": "image/png"}]))
    assert content[0] == "a picture"
    assert (content[1].data, content[1].media_type) == (b"\x89PNG", "image/png")


def test_arguments_that_are_not_an_object_are_passed_on_as_text() -> None:
    call = ToolPart("1", "look", "output-error", '{"value": ', error_text="no JSON")
    answer = messages_of([user(TextPart("go")), agent(StepStartPart(), call)])[1]
    assert isinstance(answer.parts[0], pm.ToolCallPart)
    assert answer.parts[0].args == {"input": '{"value": '}


def test_a_prompt_has_its_files_in_place_and_its_links_as_text() -> None:
    assert prompt_of(TextPart("one"), TextPart("two")) == "one\n\ntwo"
    image = prompt_of(TextPart("see"), FilePart(f"data:image/png;base64,{PNG}", "image/png"))
    assert image[0] == "see"
    assert image[1].data == b"\x89PNG"
    link = DataPart("resource-link", {"name": "a.py", "uri": "file:///w/a.py", "description": "the main file"})
    assert prompt_of(link) == "[a.py](file:///w/a.py): the main file"
    embedded = DataPart("resource", {"uri": "file:///w/a.py", "text": "x = 1"})
    assert prompt_of(embedded) == '<resource uri="file:///w/a.py">\nx = 1\n</resource>'
    blob = DataPart("resource", {"uri": "file:///w/a.png", "blob": PNG, "media_type": "image/png"})
    assert prompt_of(blob)[0].data == b"\x89PNG"
    other = DataPart("resource", {"uri": "file:///w/a.bin", "blob": PNG, "media_type": "application/x-thing"})
    assert prompt_of(other) == '<resource uri="file:///w/a.bin" type="application/x-thing"/>'
    broken = FilePart("data:image/png;base64,###", "image/png")
    assert "cannot be shown" in prompt_of(broken)


def test_what_a_provider_wants_back_it_gets_back() -> None:
    kept = {
        METADATA: {"provider": "anthropic", "url": "http://x", "signature": "s1g", "id": "th_1", "details": {"a": 1}}
    }
    call = done("ours")
    call.provider_metadata = {METADATA: {"provider": "anthropic", "call_id": "theirs"}}
    answer, results = messages_of(
        [user(TextPart("go")), agent(StepStartPart(), ReasoningPart("hm", provider_metadata=kept), call)]
    )[1:]
    assert isinstance(answer, pm.ModelResponse)
    assert (answer.provider_name, answer.provider_url) == ("anthropic", "http://x")
    thinking, called = answer.parts
    assert isinstance(thinking, pm.ThinkingPart)
    assert (thinking.signature, thinking.id, thinking.provider_details) == ("s1g", "th_1", {"a": 1})
    assert isinstance(called, pm.ToolCallPart)
    assert isinstance(results.parts[0], pm.ToolReturnPart)
    assert called.tool_call_id == results.parts[0].tool_call_id == "theirs"


def test_metadata_of_others_is_left_alone() -> None:
    part = TextPart("hi", provider_metadata={"elsewhere": {"id": 1}})
    (answer,) = messages_of([agent(part)])
    assert isinstance(answer.parts[0], pm.TextPart)
    assert answer.parts[0].id is None
    assert TextPart("hi").provider_metadata is UNSET
