"""The loop asks, does, tells, and ends the way it has to."""

import asyncio
from pathlib import Path

import pytest
from msgspec import UNSET

from dragoman.builtin.limits import Limits
from dragoman.builtin.models.model import ModelError, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.builtin.tools.tool import ToolError, ToolOutput
from dragoman.builtin.updates import Projector
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import OtherPart, TextPart, ToolPart, Usage
from tests.builtin.fixtures import Prop, Stage, staged


def stop_reason(stage: Stage) -> str | None:
    projector = Projector()
    for chunk in stage.seen:
        projector.project(chunk)
    return projector.stop_reason


async def test_a_turn_is_a_well_formed_stream_from_start_to_finish(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("poke"))
        end = await stage.prompt("think hm", 'call poke {"value":"x"}', "say done: {result}")
        assert end.error is None
        kinds = [type(chunk) for chunk in stage.seen]
        assert kinds[0] is c.Start
        assert kinds[-1] is c.Finish
        assert kinds.count(c.StartStep) == kinds.count(c.FinishStep) == 2
        assert stage.texts() == ["done: did x"]
        assert stop_reason(stage) == "end_turn"


async def test_tools_of_one_step_run_side_by_side_and_answer_in_the_order_they_finish(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        started = asyncio.Event()

        async def first(arguments: object, context: object) -> None:
            await started.wait()

        stage.add(Prop("first", first), Prop("second", lambda arguments, context: started.set()))
        await stage.prompt("call first", "& call second", "say ok")
        outputs = [chunk.tool_call_id for chunk in stage.seen if isinstance(chunk, c.ToolOutputAvailable)]
        assert [id.rsplit(".", 1)[1] for id in outputs] == ["1", "0"]


async def test_edits_of_one_step_do_not_run_into_each_other(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        at_it, most = 0, 0

        async def edit(arguments: object, context: object) -> None:
            nonlocal at_it, most
            at_it += 1
            most = max(most, at_it)
            for _ in range(5):
                await asyncio.sleep(0)
            at_it -= 1

        stage.add(Prop("a", edit, kind="edit"), Prop("b", edit, kind="edit"))
        await stage.prompt("call a", "& call b", "say ok")
        assert most == 1


async def test_a_tool_that_fails_is_an_outcome_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        def fail(arguments: object, context: object) -> None:
            raise ToolError("no such file; look with glob first")

        def break_down(arguments: object, context: object) -> None:
            raise ZeroDivisionError("oh")

        stage.add(Prop("fail", fail), Prop("broken", break_down))
        await stage.prompt("call fail", "& call broken", "say went on")
        errors = {part.name: part.error_text for part in stage.host.history[-1].parts if isinstance(part, ToolPart)}
        assert errors == {
            "fail": "no such file; look with glob first",
            "broken": "broken failed: ZeroDivisionError: oh",
        }
        assert stage.texts() == ["went on"]


async def test_wrong_arguments_and_unknown_tools_are_told_to_the_model(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        prop = Prop("poke")
        stage.add(prop)
        await stage.prompt('call poke {"value":[1]}', "& call nosuch {}", "say {result}")
        errors = [chunk.error_text for chunk in stage.seen if isinstance(chunk, c.ToolInputError)]
        assert "arguments of poke are wrong" in errors[0]
        assert "there is no tool 'nosuch'; there are: poke" in errors[1]
        assert prop.called == []
        assert "no tool" in stage.texts()[0]


async def test_progress_of_a_tool_is_shown_before_its_output(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        async def work(arguments: object, context: object) -> ToolOutput:
            await context.progress(ToolOutput("half"))  # type: ignore[attr-defined]
            await context.data("plan", {"entries": []}, "plan")  # type: ignore[attr-defined]
            return ToolOutput("whole")

        stage.add(Prop("slow", work))
        await stage.prompt("call slow")
        outputs = [chunk for chunk in stage.seen if isinstance(chunk, c.ToolOutputAvailable)]
        assert [(chunk.output["text"], chunk.preliminary) for chunk in outputs] == [("half", True), ("whole", UNSET)]
        assert any(isinstance(chunk, c.Data) and chunk.name == "plan" for chunk in stage.seen)


async def test_a_busy_provider_is_asked_again_after_longer_and_longer_waits(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        states: list[str] = []
        stage.limits = Limits(retries=3, retry_seconds=(1, 2, 4))
        sleep = stage._sleep

        async def note(seconds: float) -> None:
            states.append(stage.host.state)
            await sleep(seconds)

        stage._sleep = note  # type: ignore[method-assign]
        end = await stage.prompt("busy 3", "say at last")
        assert end.error is None
        assert stage.slept == [1, 2, 4]
        assert states == ["retrying"] * 3
        assert stage.texts() == ["at last"]
        notices = [chunk for chunk in stage.seen if isinstance(chunk, c.Data) and chunk.name == "notice"]
        assert len(notices) == 3


async def test_a_provider_that_stays_busy_ends_the_turn_with_its_own_words(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.limits = Limits(retries=2, retry_seconds=(1,))
        end = await stage.prompt("busy 99")
        assert isinstance(end.error, ModelError)
        assert "busy" in str(end.error)
        assert stage.slept == [1, 1]
        states = [stage.host.state]
        assert isinstance(stage.seen[-1], c.Finish)
        assert (await stage.prompt("say again")).error is None
        assert [*states, stage.host.state] == ["error", "idle"]


async def test_the_time_a_provider_names_is_believed_within_reason(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        waits = iter([7.5, 9999.0])

        def player(request: object) -> list[c.Chunk | StepEnd]:
            raise ModelError("slow down", is_retryable=True, retry_after_seconds=next(waits))

        stage.model = ScriptedModel(player)
        end = await stage.prompt("x")
        assert stage.slept == [7.5]
        assert str(end.error) == "slow down"


async def test_an_answer_that_broke_off_is_taken_back_and_asked_for_again(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.prompt("cut", "say fine")
        assert any(isinstance(chunk, c.ResetStep) for chunk in stage.seen)
        assert stage.texts() == ["half an answer", "fine"]


async def test_an_error_that_cannot_be_helped_is_not_tried_again(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        end = await stage.prompt("say so far", "error no such model")
        assert str(end.error) == "no such model"
        assert stage.slept == []
        failure, finish = stage.seen[-2:]
        assert failure == c.Failure("no such model")
        assert finish == c.Finish("error")


async def test_too_many_steps_end_the_turn_as_max_turn_requests(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("poke"))
        stage.limits = Limits(steps=3)
        await stage.prompt(*['call poke {"value":"x"}'] * 10)
        assert stop_reason(stage) == "max_turn_requests"
        assert len(stage.tools["poke"].called) == 3


async def test_too_many_tokens_end_the_turn_as_max_tokens(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("poke"))
        stage.limits = Limits(tokens=10)
        stage.model = ScriptedModel(
            lambda request: [c.ToolInputAvailable("a", "poke", {}), StepEnd("tool-calls", Usage(output=6, reasoning=5))]
        )
        await stage.prompt("x")
        assert stop_reason(stage) == "max_tokens"


@pytest.mark.parametrize(("word", "expected"), [("length", "max_tokens"), ("refuse", "refusal")])
async def test_the_model_may_end_the_turn_early(tmp_path: Path, word: str, expected: str) -> None:
    async with staged(tmp_path) as stage:
        await stage.prompt("say so far", word)
        assert stop_reason(stage) == expected


async def test_words_that_steer_reach_the_model_at_the_next_step(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        heard: list[object] = []

        def player(request: object) -> list[c.Chunk | StepEnd]:
            parts = request.messages[-1].parts  # type: ignore[attr-defined]
            words = [part.raw["parts"][0]["text"] for part in parts if isinstance(part, OtherPart)]
            heard.append(words)
            if not heard[:-1]:
                return [c.ToolInputAvailable("a", "poke", {}), StepEnd("tool-calls")]
            return [StepEnd("stop")]

        stage.model = ScriptedModel(player)
        stage.add(Prop("poke", lambda arguments, context: stage.host.steer("use tabs") and None))
        assert not stage.host.steer("nobody listens")
        await stage.prompt("x")
        assert heard == [[], ["use tabs"]]
        assert any(isinstance(chunk, c.SteeringMessage) for chunk in stage.seen)


async def test_usage_is_told_after_every_model_call_and_kept(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("poke"))
        await stage.prompt("call poke", "say done")
        told = [chunk.data for chunk in stage.seen if isinstance(chunk, c.Data) and chunk.name == "usage"]
        assert len(told) == 2
        assert told[1]["used"] > told[0]["used"] > 0
        assert told[0]["size"] == 200_000
        kept = await stage.store.usage(stage.host.row.id)
        assert (kept.input, kept.output) == (sum(u["input"] for u in told), sum(u["output"] for u in told))


async def test_history_goes_to_the_model_whole(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.prompt("say one")
        roles: list[str] = []

        def player(request: object) -> list[c.Chunk | StepEnd]:
            roles.extend(message.role for message in request.messages)  # type: ignore[attr-defined]
            return [StepEnd("stop")]

        stage.model = ScriptedModel(player)
        await stage.prompt("two")
        assert roles == ["user", "assistant", "user", "assistant"]
        first = stage.host.history[0].parts[0]
        assert isinstance(first, TextPart)
        assert first.text == "say one"
