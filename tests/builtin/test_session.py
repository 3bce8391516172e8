"""A session keeps its order: one turn at a time, every cancel ends, nothing that was shown is lost."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from dragoman.builtin.limits import Limits
from dragoman.builtin.session import Host, TurnEnd
from dragoman.errors import StoreError
from dragoman.policy import Request
from dragoman.store.sessions import Store
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import INTERRUPTED
from dragoman.uistream.messages import TextPart, ToolPart
from tests.builtin.fixtures import Prop, Stage, staged, texts

RUN = Request("dragoman", "execute", command=("make",), shell=None, root="/w")


def forever(arguments: object, context: object) -> object:
    return asyncio.Event().wait()


async def queued(stage: Stage, count: int) -> None:
    """Waits until so many prompts wait on disk."""
    async with asyncio.timeout(10):
        while len(await stage.store.queued(stage.host.row.id)) < count:
            pass  # every look at the store lets the others run


async def cancel(stage: Stage, turn: "asyncio.Task[TurnEnd]") -> None:
    turn.cancel()
    end = await asyncio.wait_for(turn, 10)
    assert end.was_cancelled
    assert isinstance(stage.seen[-1], c.Abort)
    assert not stage.host.is_running
    assert stage.host.state == "idle"
    assert (await stage.prompt("say alive")).error is None
    assert stage.texts() == ["alive"]


async def test_a_cancel_before_the_first_event_ends_the_turn(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        turn = stage.start("pause 60")
        await stage.until(c.StartStep)
        await cancel(stage, turn)


async def test_a_cancel_while_text_streams_keeps_what_was_said(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        turn = stage.start("slow 500")
        await stage.until(c.TextDelta, 3)
        turn.cancel()
        await turn
        said = stage.texts()[0]
        assert said.startswith("1 2 3 ")
        shown = "".join(chunk.delta for chunk in stage.seen if isinstance(chunk, c.TextDelta))
        assert said == shown


async def test_a_cancel_in_a_tool_fails_the_call_and_ends_the_turn(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("wait", forever))
        turn = stage.start("call wait")
        await stage.until(c.Data)
        turn.cancel()
        await turn
        assert stage.outcomes() == {"wait": "output-error"}
        assert c.ToolOutputError(stage.seen[-2].tool_call_id, "cancelled") == stage.seen[-2]  # type: ignore[union-attr]


async def test_a_cancel_with_a_question_open_ends_the_turn(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("make", request=RUN))
        asked = asyncio.Event()

        async def never(options: object) -> None:
            asked.set()
            await asyncio.Event().wait()

        stage.answers = never
        turn = stage.start("call make")
        await asked.wait()
        assert any(isinstance(chunk, c.ToolApprovalRequest) for chunk in stage.seen)
        await cancel(stage, turn)
        assert stage.tools["make"].called == []


async def test_a_tool_that_ignores_its_cancellation_is_left_behind_and_never_heard_of(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
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

        stage.limits = Limits(cleanup_seconds=0.01)
        stage.add(Prop("stubborn", stubborn))
        turn = stage.start("call stubborn")
        await stage.until(c.Data)
        turn.cancel()
        end = await turn
        assert end.was_cancelled
        seen = len(stage.seen)
        release.set()
        await finished.wait()
        assert len(stage.seen) == seen
        assert (await stage.prompt("say next")).error is None


async def test_a_second_prompt_waits_on_disk_and_runs_after_the_first(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gate = asyncio.Event()
        stage.add(Prop("wait", lambda arguments, context: gate.wait()))
        first = stage.start("call wait", "say first")
        await stage.until(c.Data)
        second, third = stage.start("say second"), stage.start("say third")
        await queued(stage, 2)
        gate.set()
        await asyncio.gather(first, second, third)
        said = [texts(message)[-1] for message in stage.host.history if message.role == "assistant"]
        assert said == ["first", "second", "third"]
        stored = await stage.store.messages(stage.host.row.id)
        assert [message.id for message in stored] == [message.id for message in stage.host.history]
        assert [message.role for message in stored] == ["user", "assistant"] * 3


async def test_a_prompt_withdrawn_while_it_waits_leaves_no_trace(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gate = asyncio.Event()
        stage.add(Prop("wait", lambda arguments, context: gate.wait()))
        first = stage.start("call wait", "say first")
        await stage.until(c.Data)
        second = stage.start("say second")
        await queued(stage, 1)
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        gate.set()
        await first
        assert await stage.store.queued(stage.host.row.id) == ()
        assert len(stage.host.history) == 2


async def test_a_prompt_that_never_became_a_turn_is_still_there_after_a_restart(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gate = asyncio.Event()
        stage.add(Prop("wait", lambda arguments, context: gate.wait()))
        first = stage.start("call wait")
        await stage.until(c.Data)
        second = stage.start("say second")
        await queued(stage, 1)
        again = await Host.open(stage.store, stage.host.row)
        assert texts(again.history[-1]) == ["say second"]
        gate.set()
        await asyncio.gather(first, second)


async def test_a_turn_whose_program_died_is_ended_when_the_session_is_opened(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("wait", forever))
        turn = stage.start("say before", "call wait")
        await stage.until(c.Data)
        shown = list(stage.seen)
        # Another store, as a program started later has it, after this one's mark is gone like that of a dead one.
        stage.store._presence.close()
        later = await Store.open(tmp_path / "s.db")
        try:
            host = await Host.open(later, stage.host.row)
            reply = host.history[-1]
            assert texts(reply) == ["before"]
            (call,) = [part for part in reply.parts if isinstance(part, ToolPart)]
            assert (call.state, call.error_text) == ("output-error", INTERRUPTED)
            assert reply.metadata["interrupted"]
            assert [chunk for chunk in shown if isinstance(chunk, c.TextDelta)]
            again = await Host.open(later, stage.host.row)
            assert [message.id for message in again.history] == [message.id for message in host.history]
        finally:
            await later.close()
        turn.cancel()
        await turn


async def test_a_turn_that_runs_in_another_program_is_seen_and_left_alone(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("wait", forever))
        turn = stage.start("say before", "call wait")
        await stage.until(c.Data)
        other = await Store.open(tmp_path / "s.db")
        try:
            host = await Host.open(other, stage.host.row)
            assert texts(host.history[-1]) == ["before"]
            with pytest.raises(StoreError, match="another program"):
                await host.prompt([TextPart("say mine")], stage.work)
        finally:
            await other.close()
        turn.cancel()
        await turn
        assert stage.outcomes() == {"wait": "output-error"}


async def test_who_comes_late_gets_the_turn_from_its_first_chunk_on(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        gate = asyncio.Event()
        stage.add(Prop("wait", lambda arguments, context: gate.wait()))
        turn = stage.start("say before", "call wait", "say after")
        await stage.until(c.Data)
        late: list[c.Chunk] = list(stage.host.live)

        async def watch(batch: Sequence[c.Chunk]) -> None:
            late.extend(batch)

        stage.host.watch(watch)
        gate.set()
        await turn
        assert late == stage.seen
        assert stage.host.live == ()


async def test_a_watcher_that_fails_disturbs_neither_the_turn_nor_the_others(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:

        async def gone(batch: Sequence[c.Chunk]) -> None:
            raise ConnectionError

        stage.host.watch(gone)
        assert (await stage.prompt("say hello")).error is None
        assert stage.texts() == ["hello"]


async def test_a_disk_that_fills_up_ends_the_turn_cleanly_and_the_next_one_works(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        await stage.prompt("say small")
        database = stage.store._database
        pages = await database.write(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        await database.write(lambda db: db.execute(f"PRAGMA max_page_count={pages + 4}").fetchone())
        end = await stage.prompt("flood 30000", "say never")
        assert isinstance(end.error, StoreError)
        assert "disk is full" in str(end.error)
        await database.write(lambda db: db.execute("PRAGMA max_page_count=1000000").fetchone())
        assert (await stage.prompt("say again")).error is None
        reopened = await Host.open(stage.store, stage.host.row)
        assert [message.id for message in reopened.history] == [message.id for message in stage.host.history]


async def test_a_prompt_the_store_cannot_keep_never_runs(tmp_path: Path) -> None:
    async with staged(tmp_path) as stage:
        stage.add(Prop("poke"))
        await stage.store.delete_session(stage.host.row.id)
        with pytest.raises(StoreError):
            await stage.prompt("call poke")
        assert stage.tools["poke"].called == []
