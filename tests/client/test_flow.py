"""Promise 6, incoming: one slow consumer neither eats the memory nor stops the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from dragoman.errors import ConnectionClosed, SlowConsumer
from dragoman.rpc import Limits
from dragoman.schema import v1
from tests.client.fixtures import AgentLine, by_one_stream, client_and_agent, in_memory_only, open_session

if TYPE_CHECKING:
    from dragoman.client import RemoteAgent, Session

LIMITS = Limits(in_mark_bytes=4_000, in_resume_bytes=1_000, in_limit_bytes=50_000, message_bytes=10_000)


async def _turns(count: int = 100) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def _is_paused(agent: RemoteAgent) -> bool:
    return agent._connection.peer.flow.is_paused


async def _flood(line: AgentLine, session_id: str, count: int = 30) -> None:
    for _ in range(count):
        line.send(line.chunk(session_id, "x" * 900))
    await _turns()


class Stuck:
    """A consumer that takes one update of its turn and then does nothing until released."""

    def __init__(self, session: Session) -> None:
        self.gate = asyncio.Event()
        self.seen = 0
        self.has_one = asyncio.Event()
        self.task = asyncio.create_task(self._run(session))

    async def _run(self, session: Session) -> None:
        async for _ in session.prompt("go"):
            self.seen += 1
            self.has_one.set()
            await self.gate.wait()


async def _stick(line: AgentLine, session: Session) -> tuple[Stuck, int]:
    stuck = Stuck(session)
    request = await line.expect("session/prompt")
    line.send(line.chunk(session.id, "first"))
    await stuck.has_one.wait()
    return stuck, request["id"]


@in_memory_only
async def test_a_stuck_consumer_pauses_reading_and_holds_no_more_than_its_mark() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        session = await open_session(agent, line)
        stuck, request_id = await _stick(line, session)
        await _flood(line, "s1", 200)
        assert _is_paused(agent)
        assert line.transport.unsent_bytes > 100_000
        stuck.gate.set()
        line.send(line.result(request_id, {"stopReason": "end_turn"}))
        await stuck.task
        assert stuck.seen == 201
        assert not _is_paused(agent)


async def test_a_slow_session_does_not_delay_a_live_one() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        slow, live = await open_session(agent, line, "slow"), await open_session(agent, line, "live")
        stuck, request_id = await _stick(line, slow)
        updates = live.updates()
        waiting = asyncio.ensure_future(anext(updates))
        await _flood(line, "slow", 20)
        line.send(line.chunk("live", "hello"))
        assert isinstance((await waiting).update, v1.AgentMessageChunk)
        stuck.gate.set()
        line.send(line.result(request_id, {"stopReason": "end_turn"}))
        await stuck.task


async def test_the_loop_body_of_one_session_may_run_a_turn_of_another() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        a, b = await open_session(agent, line, "a"), await open_session(agent, line, "b")
        stop_reasons: list[str] = []

        async def drive() -> None:
            async for _ in a.prompt("outer"):
                if not stop_reasons:
                    stop_reasons.append((await b.prompt("inner")).stop_reason)

        driving = asyncio.create_task(drive())
        outer = await line.expect("session/prompt")
        line.send(line.chunk("a", "first"))
        inner = await line.expect("session/prompt")
        await _flood(line, "a", 20)
        line.send(line.result(inner["id"], {"stopReason": "end_turn"}))
        line.send(line.result(outer["id"], {"stopReason": "end_turn"}))
        await driving
        assert stop_reasons == ["end_turn"]


async def test_a_consumer_that_costs_too_much_is_cut_and_its_state_stays_complete() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        slow, live = await open_session(agent, line, "slow"), await open_session(agent, line, "live")
        stuck, request_id = await _stick(line, slow)
        updates = live.updates()
        waiting = asyncio.ensure_future(anext(updates))
        await _flood(line, "slow", 100)
        stuck.gate.set()
        with pytest.raises(SlowConsumer):
            await stuck.task
        line.send(line.result(request_id, {"stopReason": "end_turn"}), line.chunk("live", "here"))
        await waiting
        assert len(slow.state.text) == len("first") + 100 * 900
        assert slow.state.stop_reason == "end_turn"


async def test_a_permission_behind_a_backlog_is_asked_once_the_backlog_is_consumed() -> None:
    asked = asyncio.Event()

    async def permission(request: v1.RequestPermissionRequest, session: object) -> str:
        asked.set()
        return "yes"

    async with client_and_agent(limits=LIMITS, permission=permission) as (agent, line):
        session = await open_session(agent, line)
        stuck, request_id = await _stick(line, session)
        await _flood(line, "s1")
        line.send(
            line.request(
                1,
                "session/request_permission",
                sessionId="s1",
                toolCall={"toolCallId": "t"},
                options=[{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
            )
        )
        await _turns()
        assert not asked.is_set()
        stuck.gate.set()
        await asked.wait()
        assert (await line.next())["result"]["outcome"]["optionId"] == "yes"
        line.send(line.result(request_id, {"stopReason": "end_turn"}))
        await stuck.task


@in_memory_only
async def test_a_cancel_leaves_while_reading_is_paused_and_its_answer_is_read() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        session = await open_session(agent, line)
        inside = asyncio.Event()

        async def drive() -> None:
            async with session.prompt("go") as turn:
                async for _ in turn:
                    inside.set()
                    await asyncio.Event().wait()

        driving = asyncio.create_task(drive())
        request = await line.expect("session/prompt")
        line.send(line.chunk("s1", "first"))
        await inside.wait()
        await _flood(line, "s1", 100)
        assert _is_paused(agent)
        driving.cancel()
        await line.expect("session/cancel")
        line.send(line.result(request["id"], {"stopReason": "cancelled"}))
        with pytest.raises(asyncio.CancelledError):
            await driving
        assert session.state.stop_reason == "cancelled"
        assert len(session.state.text) == len("first") + 100 * 900


@in_memory_only
async def test_when_the_agent_dies_while_reading_is_paused_none_of_its_updates_is_lost() -> None:
    async with client_and_agent(limits=LIMITS) as (agent, line):
        session = await open_session(agent, line)
        stuck, _ = await _stick(line, session)
        await _flood(line, "s1", 40)
        assert _is_paused(agent)
        line.transport.close()
        await agent.wait_closed()
        stuck.gate.set()
        with pytest.raises(ConnectionClosed):
            await stuck.task
        assert stuck.seen == 41


@pytest.mark.rule(103)
@by_one_stream
async def test_updates_of_sessions_that_are_not_opened_are_bounded() -> None:
    limits = Limits(unknown_sessions=4, unknown_bytes=10_000)
    async with client_and_agent(limits=limits) as (agent, line):
        for n in range(10):
            line.send(line.chunk(f"ghost{n}", "boo"))
        session = await open_session(agent, line, "ghost9")
        assert session.state.messages[0].text == "boo"
        line.send(*[line.chunk("other", "x" * 900) for _ in range(100)])
        await _turns()
        assert agent._connection.early._held_bytes <= 10_000


@pytest.mark.rule(195)
async def test_a_cancel_of_another_task_is_sent_within_the_burst_of_updates() -> None:
    seen = 0
    seen_at_cancel: list[int] = []
    is_time = asyncio.Event()

    async def cancel(session: Session) -> None:
        await is_time.wait()
        await session.cancel()
        seen_at_cancel.append(seen)

    async with client_and_agent() as (agent, line):
        session = await open_session(agent, line)
        cancelling = asyncio.create_task(cancel(session))

        async def answer() -> None:
            request = await line.expect("session/prompt")
            line.send(*[line.chunk(session.id, "word") for _ in range(300)])
            await line.expect("session/cancel")
            line.send(line.result(request["id"], {"stopReason": "cancelled"}))

        answering = asyncio.create_task(answer())
        async for _ in session.prompt("go"):
            seen += 1
            if seen == 100:
                is_time.set()
        await asyncio.gather(cancelling, answering)
    # All 300 were there before the cancel, and are delivered. Without a turn for others, it would have come after them.
    assert seen == 300
    assert seen_at_cancel[0] <= 120
