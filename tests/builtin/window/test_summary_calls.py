"""The model calls of a compaction: what is shown while it waits for them, and that all of them are counted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd
from dragoman.store.sessions import UsageRow
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Usage
from tests.builtin.fixtures import SessionFixture, open_fixture
from tests.builtin.window.counting_model import GOOD_SUMMARY, CountingModel, is_summary, words
from tests.builtin.window.test_compaction import facts, turn, use


def notices(fixture: SessionFixture) -> list[str]:
    return [chunk.data["title"] for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"]


class Counted(CountingModel):
    """Sums up what it reported."""

    def __init__(self, window: int) -> None:
        super().__init__(window, steps=4, states_window=True)
        self.reported = Usage()
        self.calls_reported = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        async for item in super().stream(request):
            if isinstance(item, StepEnd) and item.usage is not None:
                self.reported += item.usage
                self.calls_reported += 1
            yield item


async def used_by(fixture: SessionFixture) -> Usage:
    row: UsageRow = await fixture.store.usage(fixture.session.row.id)
    return Usage(row.input, row.output, row.reasoning, row.cache_read, row.cache_write)


async def test_a_busy_provider_is_shown_while_the_conversation_is_summarised(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        fixture.limits = TurnLimits(cleanup_seconds=2.0, retry_seconds=(7.0, 9.0))
        errors = [ModelError("slow down", is_retryable=True, status=429, retry_after_seconds=3.0)]
        errors.append(ModelError("overloaded", is_retryable=True, status=529))

        def summarise(request: ModelRequest) -> str:
            if errors:
                raise errors.pop(0)
            return GOOD_SUMMARY

        model.summarise = summarise
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        assert facts(fixture)[0].data.get("made_by", "model") == "model"
        assert notices(fixture) == [
            "counting:one is busy: next try in 3 s (1 of 2)",
            "counting:one is busy: next try in 9 s (2 of 2)",
        ]
        assert fixture.slept == [3.0, 9.0]


async def test_a_silent_model_is_named_while_the_conversation_is_summarised(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = CountingModel(12_000, steps=4, states_window=True)
        fixture.limits = TurnLimits(cleanup_seconds=2.0, silence_seconds=0.05)

        async def summarise() -> str:
            async with asyncio.timeout(60):
                while not any("nothing has arrived" in title for title in notices(fixture)):
                    fixture.saw.clear()
                    await fixture.saw.wait()
            return GOOD_SUMMARY

        model.summarise = lambda request: summarise()
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        assert any(title.startswith("Waiting for the answer of counting:one") for title in notices(fixture))


async def test_calls_for_summaries_that_are_not_used_are_counted(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = Counted(12_000)
        model.summarise = lambda request: "It went well."
        use(fixture, model)
        while not facts(fixture):
            assert await turn(fixture, "go on") is None
        assert facts(fixture)[0].data["made_by"] == "mechanical"
        assert len(model.summaries) >= 4
        assert await used_by(fixture) == model.reported


async def test_calls_for_summaries_are_counted_when_the_conversation_does_not_fit_anyway(tmp_path: Path) -> None:
    """The tail is too large, so that the summary of the first round is replaced by one without the model."""
    async with open_fixture(tmp_path) as fixture:
        model = Counted(12_000)
        model.summarise = lambda request: GOOD_SUMMARY + words(600)
        use(fixture, model, output_tokens=1_500)
        for number in range(12):
            if await turn(fixture, f"part {number}: {words(2_500)}") is not None:
                break
        assert model.summaries
        assert await used_by(fixture) == model.reported


async def test_calls_for_a_summary_are_counted_when_the_turn_is_cancelled(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        model = Counted(12_000)
        waiting = asyncio.Event()
        answers = iter(["hm"])

        async def hang() -> str:
            waiting.set()
            await asyncio.Event().wait()
            return ""

        # The first answer cannot be used, the second one never comes.
        model.summarise = lambda request: next(answers, None) or hang()
        use(fixture, model)
        while not waiting.is_set():
            model.begin_turn()
            running = fixture.start("go on")
            stopped = asyncio.ensure_future(waiting.wait())
            async with asyncio.timeout(60):
                await asyncio.wait({running, stopped}, return_when=asyncio.FIRST_COMPLETED)
            stopped.cancel()
            if waiting.is_set():
                running.cancel()
            await running
        assert (await running).was_cancelled
        assert len(model.summaries) == 2
        assert await used_by(fixture) == model.reported


async def test_an_answer_that_was_cut_because_the_window_was_full_is_counted(tmp_path: Path) -> None:
    class Cutting(Counted):
        has_cut = False

        async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
            async for item in super().stream(request):
                if isinstance(item, StepEnd) and self.calls_reported == 8 and not self.has_cut:
                    assert not is_summary(request)
                    self.has_cut = True
                    item = StepEnd("context-window", item.usage, model=self.name)
                yield item

    async with open_fixture(tmp_path) as fixture:
        model = Cutting(12_000)
        use(fixture, model, output_tokens=500)
        for _ in range(3):
            assert await turn(fixture, "go on") is None
        assert model.has_cut
        assert await used_by(fixture) == model.reported
