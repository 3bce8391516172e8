"""What happens when a conversation cannot be shortened as planned: bad summaries, errors, sizes that never fit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import ContextOverflowError, ModelError, ModelRequest, StepEnd
from dragoman.builtin.models.overflow import overflow_in
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ToolPart, Usage
from tests.builtin.fixtures import SessionFixture, open_fixture
from tests.builtin.test_overflow import SHAPES
from tests.builtin.window.counting_model import GOOD_SUMMARY, CountingModel, message_text, text_of, words
from tests.builtin.window.test_compaction import RULE, WISH, check_requests, facts, turn, use


async def fill(fixture: SessionFixture, model: CountingModel, turns: int = 6) -> None:
    """Let a session grow beyond its window once."""
    for number in range(turns):
        assert await turn(fixture, f"{WISH} {RULE}" if not number else f"part {number}") is None


async def no_answer() -> str:
    await asyncio.Event().wait()
    return ""


def failing(error: Exception) -> Callable[[ModelRequest], Any]:
    def fail(request: ModelRequest) -> Any:
        raise error

    return fail


BAD: dict[str, tuple[Callable[[ModelRequest], Any], int]] = {
    "nothing": (lambda request: "", 4),
    "no headings": (lambda request: "It went well.", 4),
    "too long": (lambda request: GOOD_SUMMARY + words(4_000), 4),
    "error": (failing(ModelError("the server is broken")), 1),
    "busy": (failing(ModelError("slow down", is_retryable=True, status=429)), 3),
    "hangs": (lambda request: no_answer(), 1),
}


@pytest.mark.parametrize("name", BAD)
async def test_without_a_usable_summary_one_is_made_without_the_model(tmp_path: Path, name: str) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        model.summarise, calls = BAD[name]
        fixture.limits = TurnLimits(cleanup_seconds=2.0, summary_seconds=0.05)
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, f"{WISH} {RULE}" if not model.calls else "go on") is None
        (fact,) = facts(fixture)
        assert fact.data["made_by"] == "mechanical"
        assert len(model.summaries) >= calls
        assert len(model.summaries) <= 2 * calls
        check_requests(model)
        assert WISH in model.texts[-1]
        assert RULE in model.texts[-1]


async def test_a_stricter_instruction_helps(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        model.summarise = lambda request: GOOD_SUMMARY if "could not be used" in request.system else "hm"
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        assert facts(fixture)[0].data.get("made_by", "model") == "model"
        assert len(model.summaries) == 2


async def test_a_transcript_longer_than_the_window_is_summarised_in_chunks(tmp_path: Path) -> None:
    """The user switches from a model with a large window to one with a small one."""
    async with open_fixture(tmp_path) as fixture:
        large = CountingModel(1_000_000, steps=4, states_window=True)
        use(fixture, large)
        for number in range(30):
            assert await turn(fixture, f"part {number}: {words(900)}") is None
        assert not facts(fixture)
        small = CountingModel(12_000, steps=1, states_window=True)
        small.name = "counting:small"
        seen: list[str] = []

        def summarise(request: ModelRequest) -> str:
            seen.append(text_of(request))
            return GOOD_SUMMARY

        small.summarise = summarise
        use(fixture, small)
        assert await turn(fixture, "now with the small one") is None
        assert small.refused == 0
        assert len(seen) > 3
        assert all("Earlier summary" in text for text in seen[1:])
        assert facts(fixture)[0].data.get("made_by", "model") == "model"
        check_requests(small)


async def test_a_summariser_that_is_refused_itself_goes_on_with_less(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        refused: list[int] = []

        def summarise(request: ModelRequest) -> str:
            if len(refused) < 2:
                refused.append(1)
                raise ContextOverflowError("too long")
            return GOOD_SUMMARY

        model.summarise = summarise
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        assert facts(fixture)[0].data.get("made_by", "model") == "model"


@pytest.mark.parametrize("name", [name for name, shape in SHAPES.items() if shape[0] in (400, 413)])
async def test_the_step_runs_again_after_any_refusal_for_size(tmp_path: Path, name: str) -> None:
    """Whether or not the error states a size, and however wrong our estimate of it was."""
    status, body, used, window = SHAPES[name]
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(20_000, steps=4)
        model.bytes_per_token = 2.0

        def refusal(used_here: int, window_here: int) -> ContextOverflowError | None:
            found = overflow_in(status, body)
            assert found is not None
            scale = ContextOverflowError(str(found), status=status)
            scale.used = used_here if used is not None else None
            scale.window = window_here if window is not None else None
            return scale

        model.refusal = refusal
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, f"{WISH} {RULE}" if not model.calls else "go on") is None
        assert model.refused in (1, 2)
        for _ in range(4):
            assert await turn(fixture, "go on") is None
        check_requests(model)
        if window is not None:
            assert model.refused == 1
            assert fixture.session.row.metadata["windows"] == {model.name: 20_000}
            again = await fixture.open_again()
            assert again.row.metadata["windows"] == {model.name: 20_000}


async def test_a_refused_conversation_that_cannot_be_shortened_is_an_error_with_advice(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(20_000, steps=0)
        model.window = 10
        use(fixture, model)
        error = await turn(fixture, "hi")
        assert error is not None
        assert "start a new session" in str(error)
        assert model.refused <= 4


async def test_a_model_that_refuses_everything_is_given_up(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(20_000, steps=3)
        use(fixture, model)
        await fill(fixture, model, 3)
        model.window = 10
        model.refusal = lambda used, window: overflow_in(400, "context_length_exceeded")
        error = await turn(fixture, "more")
        assert error is not None
        assert "start a new session" in str(error)
        assert model.refused <= 12


async def test_one_output_of_three_windows_is_cut_and_kept_in_a_file(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=1, states_window=True)
        use(fixture, model, output_tokens=36_000)
        assert await turn(fixture, WISH) is None
        check_requests(model)
        (call,) = [part for part in fixture.session.history[-1].parts if isinstance(part, ToolPart)]
        assert len(call.output["text"]) > 36_000, "what is stored and shown stays whole"
        assert "characters left out to save room; all of it is in" in model.texts[-1]
        path = Path(model.texts[-1].split("all of it is in ")[1].split(",")[0])
        assert path.read_text() == call.output["text"]  # noqa: ASYNC240 - a small file of the test
        assert WISH in model.texts[-1]


async def test_a_prompt_of_two_windows_is_cut_in_its_middle(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=1, states_window=True)
        use(fixture, model)
        assert await turn(fixture, f"FIRST {words(24_000)} LAST") is None
        check_requests(model)
        assert "FIRST" in model.texts[0]
        assert "LAST" in model.texts[0]
        assert "too long for the model's context window" in model.texts[0]
        assert len(message_text(fixture.session.history[0])) > 60_000


async def test_a_turn_whose_window_is_full_again_and_again_is_stopped(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(8_000, steps=40, states_window=True)
        use(fixture, model, output_tokens=4_500)
        error = await turn(fixture, WISH)
        assert error is not None
        assert "full again 3 times within 5 steps" in str(error)
        assert len(model.summaries) <= 4
        # The next prompt has its own chance.
        model.steps = 0
        assert await turn(fixture, "and now?") is None


async def test_an_answer_cut_by_the_window_is_discarded_and_made_again(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(30_000, steps=4, states_window=True)
        use(fixture, model)
        await fill(fixture, model, 4)
        real = model.stream
        cuts: list[int] = []

        async def stream(request: ModelRequest) -> Any:
            if not cuts:
                cuts.append(1)
                yield c.TextStart("x")
                yield c.TextDelta("x", "half an ans")
                yield c.TextEnd("x")
                yield StepEnd("context-window", Usage(input=29_000, output=1_000), model=model.name)
                return
            async for item in real(request):
                yield item

        model.stream = stream  # type: ignore[method-assign]
        assert await turn(fixture, "and?") is None
        assert fixture.texts() == [f"done {model.calls}"]
        assert len(facts(fixture)) == 1


async def test_a_refusal_without_a_reason_in_a_nearly_full_window_is_taken_for_an_overflow_once(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(7_500, steps=4)
        model.context_tokens = 14_000  # the catalogue is wrong
        model.refusal = lambda used, window: ModelError("Bad Request", status=400)  # type: ignore[assignment, return-value]
        use(fixture, model, output_tokens=500)
        while not model.refused:
            assert await turn(fixture, "go on") is None
        assert len(facts(fixture)) == 1
        model.window = 10
        error = await turn(fixture, words(7_500))
        assert error is not None


async def test_other_errors_are_not_taken_for_an_overflow(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=1, states_window=True)
        use(fixture, model)
        await fill(fixture, model, 1)
        model.window = 1
        model.refusal = lambda used, window: ModelError("roles must alternate", status=400)  # type: ignore[assignment, return-value]
        error = await turn(fixture, "go on")
        assert str(error) == "roles must alternate"
        assert not facts(fixture)
        assert not model.summaries
