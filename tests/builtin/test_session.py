"""A session keeps its order: one turn at a time, every cancel ends, nothing that was shown is lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.turn import TurnContext, TurnEnd
from dragoman.errors import StoreError
from dragoman.policy import Command, Request
from dragoman.store.sessions import Store
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import INTERRUPTED
from dragoman.uistream.messages import ToolPart
from tests.builtin.fixtures import FakeTool, FakeViewer, SessionFixture, open_fixture, texts

RUN = Request("dragoman", "execute", command=Command(("make",)), root="/w")


def forever(arguments: object, context: object) -> object:
    return asyncio.Event().wait()


async def queued(fixture: SessionFixture, count: int) -> None:
    """Waits until so many prompts wait on disk."""
    async with asyncio.timeout(60):
        while len(await fixture.store.queued(fixture.session.row.id)) < count:
            pass  # every look at the store lets the others run


async def cancel(fixture: SessionFixture, turn: "asyncio.Task[TurnEnd]") -> None:
    turn.cancel()
    end = await asyncio.wait_for(turn, 60)
    assert end.was_cancelled
    assert isinstance(fixture.seen[-1], c.Abort)
    assert fixture.session.turn is None
    assert fixture.session.state == "idle"
    assert (await fixture.prompt("say alive")).error is None
    assert fixture.texts() == ["alive"]


async def test_a_cancel_before_the_first_event_ends_the_turn(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        turn = fixture.start("pause 60")
        await fixture.until(c.StartStep)
        await cancel(fixture, turn)


async def test_a_cancel_while_text_streams_keeps_the_text_so_far(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        turn = fixture.start("slow 500")
        await fixture.until(c.TextDelta, 3)
        turn.cancel()
        await turn
        kept = fixture.texts()[0]
        assert kept.startswith("1 2 3 ")
        shown = "".join(chunk.delta for chunk in fixture.seen if isinstance(chunk, c.TextDelta))
        assert kept == shown


async def test_a_cancel_in_a_tool_fails_the_call_and_ends_the_turn(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("wait", forever))
        turn = fixture.start("call wait")
        await fixture.until(c.Data)
        turn.cancel()
        await turn
        assert fixture.outcomes() == {"wait": "output-error"}
        assert c.ToolOutputError(fixture.seen[-2].tool_call_id, "cancelled") == fixture.seen[-2]  # type: ignore[union-attr]  # a chunk of a call


async def test_a_cancel_with_a_question_open_ends_the_turn(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("make", request=RUN))
        asked = asyncio.Event()

        async def never(options: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        fixture.answers = never
        turn = fixture.start("call make")
        await asked.wait()
        assert any(isinstance(chunk, c.ToolApprovalRequest) for chunk in fixture.seen)
        await cancel(fixture, turn)
        assert fixture.tools["make"].called == []


async def test_the_turn_ends_without_a_tool_that_ignores_its_cancellation_and_drops_its_output(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        release = asyncio.Event()
        finished = asyncio.Event()

        async def stubborn(arguments: object, context: object) -> None:
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            await context.data("plan", {"entries": []})  # type: ignore[attr-defined]
            finished.set()

        fixture.limits = TurnLimits(cleanup_seconds=0.01)
        fixture.add(FakeTool("stubborn", stubborn))
        turn = fixture.start("call stubborn")
        await fixture.until(c.Data)
        turn.cancel()
        end = await turn
        assert end.was_cancelled
        seen = len(fixture.seen)
        release.set()
        await finished.wait()
        assert len(fixture.seen) == seen
        assert (await fixture.prompt("say next")).error is None


async def test_a_second_prompt_waits_on_disk_and_runs_after_the_first(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        gate = asyncio.Event()
        fixture.add(FakeTool("wait", lambda arguments, context: gate.wait()))
        first = fixture.start("call wait", "say first")
        await fixture.until(c.Data)
        second, third = fixture.start("say second"), fixture.start("say third")
        await queued(fixture, 2)
        gate.set()
        await asyncio.gather(first, second, third)
        kept = [texts(message)[-1] for message in fixture.session.history if message.role == "assistant"]
        assert kept == ["first", "second", "third"]
        stored = await fixture.store.messages(fixture.session.row.id)
        assert [message.id for message in stored] == [message.id for message in fixture.session.history]
        assert [message.role for message in stored] == ["user", "assistant"] * 3


async def test_a_prompt_withdrawn_while_it_waits_leaves_no_trace(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        gate = asyncio.Event()
        fixture.add(FakeTool("wait", lambda arguments, context: gate.wait()))
        first = fixture.start("call wait", "say first")
        await fixture.until(c.Data)
        second = fixture.start("say second")
        await queued(fixture, 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.set()
        await first
        assert await fixture.store.queued(fixture.session.row.id) == ()
        assert len(fixture.session.history) == 2


async def test_a_prompt_that_never_became_a_turn_is_still_there_after_a_restart(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        gate = asyncio.Event()
        fixture.add(FakeTool("wait", lambda arguments, context: gate.wait()))
        first = fixture.start("call wait")
        await fixture.until(c.Data)
        second = fixture.start("say second")
        await queued(fixture, 1)
        again = await fixture.open_again()
        assert texts(again.history[-1]) == ["say second"]
        gate.set()
        await asyncio.gather(first, second)


async def test_a_turn_whose_program_died_is_ended_when_the_session_is_opened(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("wait", forever))
        turn = fixture.start("say before", "call wait")
        await fixture.until(c.Data)
        shown = list(fixture.seen)
        # Another store, as a program started later has it, after this one's mark is gone like that of a dead one.
        fixture.store._presence.close()
        later = await Store.open(tmp_path / "s.db")
        try:
            opened = await fixture.open_again(later)
            reply = opened.history[-1]
            assert texts(reply) == ["before"]
            (call,) = [part for part in reply.parts if isinstance(part, ToolPart)]
            assert (call.state, call.error_text) == ("output-error", INTERRUPTED)
            assert reply.metadata["interrupted"]
            assert [chunk for chunk in shown if isinstance(chunk, c.TextDelta)]
            again = await fixture.open_again(later)
            assert [message.id for message in again.history] == [message.id for message in opened.history]
        finally:
            await later.close()
        turn.cancel()
        await turn


async def test_a_turn_that_runs_in_another_program_is_seen_and_left_alone(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("wait", forever))
        turn = fixture.start("say before", "call wait")
        await fixture.until(c.Data)
        other = await Store.open(tmp_path / "s.db")
        try:
            opened = await fixture.open_again(other)
            assert texts(opened.history[-1]) == ["before"]
            with pytest.raises(StoreError, match="another program"):
                await opened.prompt(fixture.prompt_of("say mine"))
            assert [message.role for message in await other.messages(fixture.session.row.id)] == ["user"]
        finally:
            await other.close()
        turn.cancel()
        await turn
        assert fixture.outcomes() == {"wait": "output-error"}


def test_the_context_of_a_turn_holds_what_several_of_its_parts_use() -> None:
    # What one part alone uses is a parameter of that part: otherwise every part depends on all of them.
    assert len(TurnContext.__struct_fields__) <= 25


async def test_a_client_that_takes_over_gets_the_turn_from_its_first_chunk_on(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        gate = asyncio.Event()
        fixture.add(FakeTool("wait", lambda arguments, context: gate.wait()))
        turn = fixture.start("say before", "call wait", "say after")
        await fixture.until(c.Data)
        before = list(fixture.seen)
        late: list[c.Chunk] = list(fixture.session.live_chunks)

        class LateViewer(FakeViewer):
            async def show_chunks(self, chunks: Sequence[c.Chunk]) -> None:
                late.extend(chunks)

        fixture.session.viewer = LateViewer(fixture)  # type: ignore[assignment]  # a fake viewer
        gate.set()
        await turn
        assert fixture.seen == before  # the client before it is shown nothing more
        assert late[: len(before)] == before
        assert isinstance(late[-1], c.Finish)
        assert fixture.session.live_chunks == ()


async def test_a_client_that_is_gone_disturbs_neither_the_turn_nor_the_client_after_it(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:

        class LostViewer(FakeViewer):
            async def show_chunks(self, chunks: Sequence[c.Chunk]) -> None:
                raise ConnectionError

        fixture.session.viewer = LostViewer(fixture)  # type: ignore[assignment]  # a fake viewer
        assert (await fixture.prompt("say hello")).error is None
        assert fixture.texts() == ["hello"]
        assert fixture.session.viewer is None
        await fixture.session.warn("A hook failed", "No client is there to see it")
        fixture.session.viewer = fixture.viewer
        seen = len(fixture.seen)
        await fixture.session.warn("A hook failed", "It ended with 1")
        assert [chunk.data["title"] for chunk in fixture.seen[seen:] if isinstance(chunk, c.Data)] == ["A hook failed"]


async def test_a_disk_that_fills_up_ends_the_turn_cleanly_and_the_next_one_works(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        await fixture.prompt("say small")
        database = fixture.store._database
        pages = await database.write(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await database.write(lambda db: db.execute(f"PRAGMA max_page_count={pages + 4}").fetchone())
        end = await fixture.prompt("flood 30000", "say never")
        assert isinstance(end.error, StoreError)
        assert "disk is full" in str(end.error)
        await database.write(lambda db: db.execute("PRAGMA max_page_count=1000000").fetchone())
        assert (await fixture.prompt("say again")).error is None
        reopened = await fixture.open_again()
        assert [message.id for message in reopened.history] == [message.id for message in fixture.session.history]


async def test_a_prompt_the_store_cannot_keep_never_runs(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("poke"))
        await fixture.store.delete_session(fixture.session.row.id)
        with pytest.raises(StoreError):
            await fixture.prompt("call poke")
        assert fixture.tools["poke"].called == []


async def test_a_cancel_while_the_turn_is_being_stored_ends_it_properly(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        begin, reached = fixture.store.begin_turn, asyncio.Event()

        async def slow_begin(*arguments: Any, **options: Any) -> None:
            reached.set()
            await begin(*arguments, **options)

        fixture.store.begin_turn = slow_begin  # type: ignore[method-assign]  # to cancel in the middle
        turn = fixture.start("say never")
        await reached.wait()
        turn.cancel()
        end = await turn
        assert end.was_cancelled
        assert await fixture.store.live_log(fixture.session.row.id) is None
        assert (await fixture.prompt("say next")).error is None
        assert fixture.texts() == ["next"]
