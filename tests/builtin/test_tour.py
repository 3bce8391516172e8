"""The scripted model of the demo: any sentence, in any state of its project, has an answer."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import ModelRequest, StepEnd
from dragoman.builtin.models.tour import PROJECT, TourModel
from dragoman.uistream.chunks import TextDelta, ToolInputAvailable
from dragoman.uistream.messages import StepStartPart, TextPart, ToolPart, UIMessage

MOST_STEPS = 12


async def play(*sentences: str, results: Any) -> tuple[str, list[ToolInputAvailable]]:
    """Plays the turn of the last sentence; `results` makes the part of a finished call."""
    asked = [UIMessage(f"u{number}", "user", [TextPart(text)]) for number, text in enumerate(sentences)]
    reply = UIMessage("reply", "assistant", [StepStartPart()])
    answer, calls = "", []
    for _ in range(MOST_STEPS):
        items = [item async for item in TourModel().stream(ModelRequest((*asked, reply)))]
        answer += "".join(item.delta for item in items if isinstance(item, TextDelta))
        new = [item for item in items if isinstance(item, ToolInputAvailable)]
        calls += new
        reply.parts += [results(call) for call in new]
        reply.parts.append(StepStartPart())
        assert isinstance(items[-1], StepEnd)
        if items[-1].reason != "tool-calls":
            return answer, calls
    raise AssertionError(f"it does not end: {calls}")


def given_back(text: str) -> Any:
    return lambda call: ToolPart(call.tool_call_id, call.tool_name, "output-available", output={"text": text})


def refused(call: ToolInputAvailable) -> ToolPart:
    return ToolPart(call.tool_call_id, call.tool_name, "output-denied")


def failed(call: ToolInputAvailable) -> ToolPart:
    return ToolPart(call.tool_call_id, call.tool_name, "output-error", error_text="there is no such file")


@given(st.text(max_size=60), st.text(max_size=60), st.sampled_from(["", "edit ", "run ", "rewind ", "plan ", "read "]))
def test_any_sentence_has_an_answer_whatever_its_calls_give(sentence: str, output: str, step: str) -> None:
    for results in (given_back(output), refused, failed):
        answer, _ = asyncio.run(play("hello", f"{step}{sentence}", results=results))
        assert "Next" in answer or "6. `rewind`" in answer


@pytest.mark.parametrize("step", ["read", "edit", "run", "plan", "review", "rewind", "agents", "hello", "who are you?"])
async def test_the_same_sentence_twice_has_two_answers(step: str) -> None:
    answers = [(await play(*[step] * count, results=given_back("1\tWelcome back!")))[0] for count in (1, 2, 3, 4, 5)]
    assert all(one != other for one, other in pairwise(answers))


async def test_a_greeting_that_was_removed_is_written_again_and_one_of_the_user_is_replaced() -> None:
    _, calls = await play("edit", results=failed)
    assert [call.tool_name for call in calls] == ["read", "write"]
    _, calls = await play("edit", results=given_back('     1\tMy "own" => {result}\n     2\tmore'))
    assert (calls[1].tool_name, calls[1].input["old"]) == ("edit", 'My "own" => {result}')


async def test_the_project_is_small_and_the_model_is_marked_as_scripted() -> None:
    model = find_model("tour")
    assert model.is_scripted
    assert model.introduction.count("\n") == 2
    assert all(len(line) <= 76 for line in model.introduction.splitlines()), "two lines of a narrow terminal"
    assert sum(map(len, PROJECT.values())) < 1_000
