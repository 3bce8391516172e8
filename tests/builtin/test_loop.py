"""The loop asks, does, tells, and ends the way it has to."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec import UNSET

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.uistream import chunks as c
from dragoman.uistream.display import display_of
from dragoman.uistream.messages import OtherPart, TextPart, ToolPart, Usage
from dragoman.uistream.updates import Projector
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture


def stop_reason(fixture: SessionFixture) -> str | None:
    projector = Projector()
    for chunk in fixture.seen:
        projector.project(chunk)
    return projector.stop_reason


async def test_a_turn_is_a_well_formed_stream_from_start_to_finish(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        end = await fixture.prompt("think hm", 'call poke {"value":"x"}', "say done: {result}")
        assert end.error is None
        kinds = [type(chunk) for chunk in fixture.seen]
        assert kinds[0] is c.Start
        assert kinds[-1] is c.Finish
        assert kinds.count(c.StartStep) == kinds.count(c.FinishStep) == 2
        assert fixture.texts() == ["done: did x"]
        assert stop_reason(fixture) == "end_turn"


async def test_tools_of_one_step_run_side_by_side_and_answer_in_the_order_they_finish(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        started = asyncio.Event()

        async def first(arguments: object, context: object) -> None:
            await started.wait()

        fixture.add(FakeTool("first", first), FakeTool("second", lambda arguments, context: started.set()))
        await fixture.prompt("call first", "& call second", "say ok")
        outputs = [chunk.tool_call_id for chunk in fixture.seen if isinstance(chunk, c.ToolOutputAvailable)]
        assert [id.rsplit(".", 1)[1] for id in outputs] == ["1", "0"]


async def test_edits_of_one_step_do_not_run_into_each_other(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        at_it, most = 0, 0

        async def edit(arguments: object, context: object) -> None:
            nonlocal at_it, most
            at_it += 1
            most = max(most, at_it)
            for _ in range(5):
                await asyncio.sleep(0)
            at_it -= 1

        fixture.add(FakeTool("a", edit, kind="edit"), FakeTool("b", edit, kind="edit"))
        await fixture.prompt("call a", "& call b", "say ok")
        assert most == 1


async def test_a_tool_that_fails_is_an_outcome_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:

        def fail(arguments: object, context: object) -> None:
            raise ToolError("no such file; look with glob first")

        def break_down(arguments: object, context: object) -> None:
            raise ZeroDivisionError("oh")

        fixture.add(FakeTool("fail", fail), FakeTool("broken", break_down))
        await fixture.prompt("call fail", "& call broken", "say went on")
        errors = {
            part.name: part.error_text for part in fixture.session.history[-1].parts if isinstance(part, ToolPart)
        }
        assert errors == {
            "fail": "no such file; look with glob first",
            "broken": "broken failed: ZeroDivisionError: oh",
        }
        assert fixture.texts() == ["went on"]


async def test_wrong_arguments_and_unknown_tools_are_reported_to_the_model(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        poke = FakeTool("poke")
        fixture.add(poke)
        await fixture.prompt('call poke {"value":[1]}', "& call nosuch {}", "say {result}")
        errors = [chunk.error_text for chunk in fixture.seen if isinstance(chunk, c.ToolInputError)]
        assert "arguments of poke are wrong" in errors[0]
        assert "there is no tool 'nosuch'; there are: poke" in errors[1]
        assert poke.called == []
        assert "no tool" in fixture.texts()[0]


async def test_progress_of_a_tool_is_shown_before_its_output(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:

        async def work(arguments: object, context: object) -> ToolOutput:
            await context.progress(ToolOutput("half"))  # type: ignore[attr-defined]
            await context.data("plan", {"entries": []}, "plan")  # type: ignore[attr-defined]
            return ToolOutput("whole")

        fixture.add(FakeTool("slow", work))
        await fixture.prompt("call slow")
        outputs = [chunk for chunk in fixture.seen if isinstance(chunk, c.ToolOutputAvailable)]
        assert [(chunk.output["text"], chunk.preliminary) for chunk in outputs] == [("half", True), ("whole", UNSET)]
        assert any(isinstance(chunk, c.Data) and chunk.name == "plan" for chunk in fixture.seen)


async def test_a_busy_provider_is_asked_again_after_longer_and_longer_waits(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        states: list[str] = []
        fixture.limits = TurnLimits(retries=3, retry_seconds=(1, 2, 4))

        async def note(seconds: float) -> None:
            states.append(fixture.session.state)
            await fixture.sleep(seconds)

        fixture.session.retries.sleep = note
        end = await fixture.prompt("busy 3", "say at last")
        assert end.error is None
        assert fixture.slept == [1, 2, 4]
        assert states == ["retrying"] * 3
        assert fixture.texts() == ["at last"]
        notices = [chunk for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"]
        assert len(notices) == 3


async def test_a_provider_that_stays_busy_ends_the_turn_with_its_own_words(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.limits = TurnLimits(retries=2, retry_seconds=(1,))
        end = await fixture.prompt("busy 99")
        assert isinstance(end.error, ModelError)
        assert "busy" in str(end.error)
        assert fixture.slept == [1, 1]
        states = [fixture.session.state]
        assert isinstance(fixture.seen[-1], c.Finish)
        assert (await fixture.prompt("say again")).error is None
        assert [*states, fixture.session.state] == ["error", "idle"]


async def test_the_time_a_provider_names_is_believed_within_reason(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        waits = iter([7.5, 9999.0])

        def player(request: object) -> list[c.Chunk | StepEnd]:
            raise ModelError("slow down", is_retryable=True, retry_after_seconds=next(waits))

        fixture.model = ScriptedModel(player)
        end = await fixture.prompt("x")
        assert fixture.slept == [7.5]
        assert str(end.error) == "slow down"


async def test_an_answer_that_broke_off_is_taken_back_and_asked_for_again(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        await fixture.prompt("cut", "say fine")
        assert any(isinstance(chunk, c.ResetStep) for chunk in fixture.seen)
        assert fixture.texts() == ["half an answer", "fine"]


async def test_an_error_that_cannot_be_helped_is_not_tried_again(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        end = await fixture.prompt("say so far", "error no such model")
        assert str(end.error) == "no such model"
        assert fixture.slept == []
        failure, finish = fixture.seen[-2:]
        assert failure == c.ErrorChunk("no such model")
        assert finish == c.Finish("error")


async def test_too_many_steps_end_the_turn_as_max_turn_requests(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        fixture.limits = TurnLimits(steps=3)
        await fixture.prompt(*['call poke {"value":"x"}'] * 10)
        assert stop_reason(fixture) == "max_turn_requests"
        assert len(fixture.tools["poke"].called) == 3


async def test_too_many_tokens_end_the_turn_as_max_tokens(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        fixture.limits = TurnLimits(tokens=10)
        fixture.model = ScriptedModel(
            lambda request: [c.ToolInputAvailable("a", "poke", {}), StepEnd("tool-calls", Usage(output=6, reasoning=5))]
        )
        await fixture.prompt("x")
        assert stop_reason(fixture) == "max_tokens"


@pytest.mark.parametrize(("word", "expected"), [("length", "max_tokens"), ("refuse", "refusal")])
async def test_the_model_may_end_the_turn_early(tmp_path: Path, word: str, expected: str) -> None:
    async with open_fixture(tmp_path) as fixture:
        await fixture.prompt("say so far", word)
        assert stop_reason(fixture) == expected


async def test_words_that_steer_reach_the_model_at_the_next_step(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        received: list[object] = []

        def player(request: object) -> list[c.Chunk | StepEnd]:
            parts = request.messages[-1].parts  # type: ignore[attr-defined]
            words = [part.raw["parts"][0]["text"] for part in parts if isinstance(part, OtherPart)]
            received.append(words)
            if not received[:-1]:
                return [c.ToolInputAvailable("a", "poke", {}), StepEnd("tool-calls")]
            return [StepEnd("stop")]

        fixture.model = ScriptedModel(player)
        fixture.add(FakeTool("poke", lambda arguments, context: fixture.session.steer("use tabs") and None))
        assert not fixture.session.steer("nobody listens")
        await fixture.prompt("x")
        assert received == [[], ["use tabs"]]
        assert any(isinstance(chunk, c.SteeringMessage) for chunk in fixture.seen)


async def test_words_are_never_accepted_and_then_dropped(tmp_path: Path) -> None:
    """Whenever they arrive while a turn ends: they are refused, so that the client prompts, or stored."""
    async with open_fixture(tmp_path) as fixture:
        accepted: list[str] = []
        append = fixture.store.append_log

        def steer() -> None:
            words = f"word {len(accepted)}"
            if fixture.session.steer(words):
                accepted.append(words)

        async def appending(message_id: str, position: int, chunks: Sequence[bytes]) -> None:
            steer()
            await append(message_id, position, chunks)

        def player(request: object) -> list[c.Chunk | StepEnd]:
            steer()
            return [StepEnd("stop")]

        fixture.store.append_log = appending  # type: ignore[method-assign]  # to act while it is written
        fixture.model = ScriptedModel(player)
        fixture.limits = TurnLimits(steps=3)
        await fixture.prompt("x")
        parts = fixture.session.history[-1].parts
        stored = [part.raw["parts"][0]["text"] for part in parts if isinstance(part, OtherPart)]
        assert len(accepted) >= 3
        assert stored == accepted


async def test_usage_is_reported_after_every_model_call_and_stored(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        await fixture.prompt("call poke", "say done")
        reported = [chunk.data for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "usage"]
        assert len(reported) == 2
        assert reported[1]["used"] > reported[0]["used"] > 0
        assert reported[0]["size"] == 200_000
        kept = await fixture.store.usage(fixture.session.row.id)
        assert (kept.input, kept.output) == (sum(u["input"] for u in reported), sum(u["output"] for u in reported))


async def test_history_goes_to_the_model_whole(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        await fixture.prompt("say one")
        roles: list[str] = []

        def player(request: object) -> list[c.Chunk | StepEnd]:
            roles.extend(message.role for message in request.messages)  # type: ignore[attr-defined]
            return [StepEnd("stop")]

        fixture.model = ScriptedModel(player)
        await fixture.prompt("two")
        assert roles == ["user", "assistant", "user", "assistant"]
        first = fixture.session.history[0].parts[0]
        assert isinstance(first, TextPart)
        assert first.text == "say one"


def writing(*pieces: str) -> ScriptedModel:
    """A model that streams the arguments of one call of `poke` in these pieces."""

    def player(request: object) -> list[c.Chunk | StepEnd]:
        if any(isinstance(part, ToolPart) for part in request.messages[-1].parts):  # type: ignore[attr-defined]  # a ModelRequest
            return [StepEnd("stop")]
        deltas = [c.ToolInputDelta("x", piece) for piece in pieces]
        arguments = json.loads("".join(pieces))
        return [c.ToolInputStart("x", "poke"), *deltas, c.ToolInputAvailable("x", "poke", arguments), StepEnd("stop")]

    return ScriptedModel(player)


async def test_arguments_that_stream_in_are_shown_at_most_ten_times_a_second_and_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0

    def clock() -> float:
        nonlocal now
        now += 0.06
        return now

    monkeypatch.setattr("dragoman.builtin.loop.monotonic", clock)
    async with open_fixture(tmp_path) as fixture:
        stored: list[bytes] = []
        append = fixture.store.append_log

        async def append_log(message_id: str, position: int, chunks: Sequence[bytes]) -> None:
            stored.extend(chunks)
            await append(message_id, position, chunks)

        monkeypatch.setattr(fixture.store, "append_log", append_log)
        fixture.add(FakeTool("poke"))
        fixture.model = writing('{"val', 'ue":"one', " two", '"', ', "more":"x', "x", '"}')
        await fixture.prompt("go")
        shown = [chunk.data for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "tool-preview"]
        # No half of a value, and never the arguments themselves.
        assert {data["title"] for data in shown} == {"poke one two"}
        assert 1 <= len(shown) <= 3
        assert not any("input" in data for data in shown)
        assert stored
        assert not any(b"tool-preview" in chunk for chunk in stored)


async def test_a_call_is_announced_with_the_title_and_kind_its_tool_gives_it(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke", kind="edit"))
        fixture.model = writing('{"value":"x"}')
        await fixture.prompt("go")
        inputs = (c.ToolInputStart, c.ToolInputAvailable)
        started, complete = [chunk for chunk in fixture.seen if isinstance(chunk, inputs)]
        assert (started.title, complete.title) == ("poke", "poke x")
        assert display_of("poke", complete.provider_metadata).kind == "edit"
