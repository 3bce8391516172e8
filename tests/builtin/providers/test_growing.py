"""A turn of many steps: each request has all of them, and encodes only what the last one added."""

import json
from collections.abc import Iterable
from typing import Any

import pytest

from dragoman.builtin.context.history import ModelConversation
from dragoman.builtin.context.window import estimate
from dragoman.builtin.context.window.estimate import TokenCounter
from dragoman.builtin.context.window.facts import PRUNING
from dragoman.builtin.models.model import ModelRequest
from dragoman.builtin.models.wire_forms.anthropic import AnthropicForm
from dragoman.builtin.models.wire_forms.chat import ChatForm
from dragoman.builtin.models.wire_forms.form import Pieces, Target, WireForm
from dragoman.builtin.models.wire_forms.gemini import GeminiForm
from dragoman.builtin.models.wire_forms.responses import ResponsesForm
from dragoman.uistream.messages import (
    DataPart,
    OtherPart,
    Part,
    ReasoningPart,
    StepStartPart,
    TextPart,
    ToolPart,
    UIMessage,
)
from tests.builtin.providers.forms import LOOK, done, target_of, user

FORMS: dict[str, tuple[str, type[Any]]] = {
    "anthropic": ("anthropic:claude-sonnet-5-5", AnthropicForm),
    "responses": ("openai:gpt-5", ResponsesForm),
    "chat": ("openai-compatible:local-model", ChatForm),
    "gemini": ("google:gemini-2.5-flash", GeminiForm),
}
STEPS = 60
PAST = (user(TextPart("the first wish"), id="u1"), UIMessage("a1", "assistant", [StepStartPart(), TextPart("done")]))


def step(number: int, target: Target) -> list[Part]:
    """The parts of a step; every kind that a wire form sends occurs."""
    kept = {target.provider.id: {"signature": f"s{number}", "id": f"r{number}", "encrypted": "e", "is_thought": True}}
    parts: list[Part] = [StepStartPart()]
    if number % 3 == 0:
        parts.append(ReasoningPart(f"thought {number}", provider_metadata=kept))
    if number % 2 == 0:
        parts.append(TextPart(f"text {number}"))
    parts += [done(f"call{number}"), done(f"also{number}", "found", images=[])]
    if number % 5 == 0:
        sent = [{"type": "text", "text": f"look at {number} too"}]
        parts.append(OtherPart({"type": "steering-message", "parts": sent}))
    return parts


def request_of(message: UIMessage, **settings: Any) -> ModelRequest:
    return ModelRequest((*PAST, user(TextPart("go on"), id="u2"), message), "You are a test.", (LOOK,), **settings)


@pytest.mark.parametrize("name", FORMS)
def test_a_request_is_the_same_whether_its_steps_were_encoded_before_or_not(name: str) -> None:
    model, make = FORMS[name]
    target = target_of(model)
    form: WireForm = make(target)
    message = UIMessage("a2", "assistant", [])
    for number in range(STEPS):
        message.parts += step(number, target)
        message.parts.append(StepStartPart())
        settings = {"stable_until": 1} if number % 7 == 0 else {}
        request = request_of(message, **settings)
        assert form.request(request).body == make(target).request(request).body
        # An attempt that broke off leaves its beginning, which is then removed.
        message.parts.append(TextPart("a beginning"))
        form.request(request)
        del message.parts[-2:]


def test_a_step_encodes_what_the_step_before_it_has_added() -> None:
    encoded: list[int] = []

    def items_of(message: UIMessage) -> Iterable[Any]:
        encoded.append(len(message.parts))
        return [{"role": message.role, "parts": len(message.parts)}]

    pieces = Pieces(items_of)
    message = UIMessage("a2", "assistant", [])
    for _ in range(STEPS):
        message.parts += [StepStartPart(), TextPart("one"), done("call")]
        pieces.join((*PAST, message))
    finished = (*PAST, message, user(TextPart("next"), id="u3"), UIMessage("a3", "assistant", [StepStartPart()]))
    pieces.join(finished)
    pieces.join(finished)
    whole = sum(len(each.parts) for each in finished)
    assert sum(encoded) < 5 * whole, "each part a few times, and not once for every step after it"


def test_tokens_of_a_growing_message_are_counted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Part] = []
    tokens_of_part = estimate.tokens_of_part

    def counting(part: Part) -> int:
        counted.append(part)
        return tokens_of_part(part)

    monkeypatch.setattr(estimate, "tokens_of_part", counting)
    counter = TokenCounter()
    message = UIMessage("a2", "assistant", [])
    for number in range(STEPS):
        message.parts += [StepStartPart(), TextPart(f"text {number}"), done(f"call{number}")]
        assert counter.conversation((*PAST, message)) == TokenCounter().conversation((*PAST, message))
    counted.clear()
    counter.conversation((*PAST, message))
    assert len(counted) == 3, "only the running step"


def test_outputs_that_were_left_out_of_the_running_turn_are_the_same_objects_in_every_step() -> None:
    target = target_of("anthropic:claude-sonnet-5-5")
    message = UIMessage("a2", "assistant", [])
    for number in range(4):
        message.parts += step(number, target)
    cuts = {"calls": {"call0": {"keep": 0, "path": ""}, "also1": {"keep": 2, "path": "/x"}}, "users": {}}
    message.parts.append(DataPart(PRUNING, cuts, "fact_1"))
    conversation = ModelConversation(PAST)
    message.parts.append(StepStartPart())
    first = conversation.view(message).messages[-1].parts
    message.parts += [done("call9"), StepStartPart()]
    second = conversation.view(message).messages[-1].parts
    left_out = [part for part in first if isinstance(part, ToolPart) and "left out" in json.dumps(part.output)]
    assert [part.tool_call_id for part in left_out] == ["call0", "also1"]
    assert all(one is other for one, other in zip(first, second, strict=False))


def test_a_call_with_the_id_of_an_older_one_keeps_its_output() -> None:
    """Some servers number their calls from one in every answer."""
    cuts = {"calls": {"call1": {"keep": 0, "path": ""}}, "users": {}}
    old = UIMessage("a0", "assistant", [StepStartPart(), done("call1", "old"), DataPart(PRUNING, cuts, "fact_1")])
    running = UIMessage("a2", "assistant", [StepStartPart(), done("call1", "new"), StepStartPart()])
    past, shown = ModelConversation((old, *PAST)).view(running).messages[::3]
    outputs = [part.output["text"] for part in (*past.parts, *shown.parts) if isinstance(part, ToolPart)]
    assert "left out" in outputs[0]
    assert outputs[1] == "new"
    # Within one message, too.
    whole = UIMessage("a3", "assistant", [*old.parts, *running.parts])
    (both,) = ModelConversation(()).view(whole).messages
    outputs = [part.output["text"] for part in both.parts if isinstance(part, ToolPart)]
    assert "left out" in outputs[0]
    assert outputs[1] == "new"
