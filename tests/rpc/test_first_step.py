"""The first step of a handler: taken in the turn of the loop that read the request, and yet a task's step like any."""

from __future__ import annotations

import asyncio
import json
from contextvars import ContextVar
from typing import Any

import pytest

from dragoman.rpc import Call, Observer
from tests.rpc.fixtures import RecordingRole, peer_and_line

_word: ContextVar[str] = ContextVar("_word", default="none")


class Sent(Observer):
    """What was sent, known at once."""

    def __init__(self) -> None:
        self.lines: list[Any] = []

    def sent(self, line: bytes) -> None:
        self.lines.append(json.loads(line))


def _request(request_id: int, method: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}}).encode() + b"\n"


async def _at_hand(params: Any, call: Call) -> object:
    return "at hand"


async def test_an_answer_at_hand_is_sent_in_the_turn_that_read_its_request() -> None:
    sent = Sent()
    async with peer_and_line(RecordingRole(ask=_at_hand), observers=[sent]) as (peer, _line, _role):
        peer.feed(_request(1, "ask") + _request(2, "ask"))
        assert [line["id"] for line in sent.lines] == [1, 2]


async def test_the_answers_to_one_batch_leave_in_one_write() -> None:
    async with peer_and_line(RecordingRole(ask=_at_hand)) as (peer, line, _role):
        pieces: list[bytes] = []

        def note(data: bytes) -> None:
            pieces.append(data)

        line.feed = note  # type: ignore[method-assign]  # pieces, not lines
        peer.feed(_request(1, "ask") + _request(2, "ask"))
        await asyncio.sleep(0)
        assert len(pieces) == 1


async def test_the_first_step_is_a_step_of_the_handlers_own_task() -> None:
    seen: list[object] = []

    async def look(params: Any, call: Call) -> object:
        seen.append(asyncio.current_task())
        _word.set("changed")
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())
        return _word.get()

    async with peer_and_line(RecordingRole(look=look)) as (peer, line, _role):
        outer = asyncio.current_task()
        peer.feed(_request(1, "look"))
        assert asyncio.current_task() is outer
        assert (await line.next())["result"] == "changed"
    assert seen[0] is seen[1] is not None
    assert seen[0] is not outer
    assert _word.get() == "none"


async def test_a_timeout_that_starts_in_the_first_step_ends_the_handlers_wait() -> None:
    async def impatient(params: Any, call: Call) -> object:
        try:
            async with asyncio.timeout(0.01):
                await asyncio.Event().wait()
        except TimeoutError:
            return "gave up"
        return "waited"

    async with peer_and_line(RecordingRole(impatient=impatient)) as (_, line, _role):
        line.send(line.request(1, "impatient"))
        assert (await line.next())["result"] == "gave up"


async def test_a_task_group_that_starts_in_the_first_step_ends_with_its_tasks() -> None:
    async def fail() -> None:
        raise ValueError("no")

    async def grouped(params: Any, call: Call) -> object:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(fail())
                await asyncio.Event().wait()
        except ExceptionGroup:
            return "failed together"
        return "not reached"

    async with peer_and_line(RecordingRole(grouped=grouped)) as (_, line, _role):
        line.send(line.request(1, "grouped"))
        assert (await line.next())["result"] == "failed together"


async def test_a_handler_that_waits_after_its_first_step_can_be_cancelled() -> None:
    async def stuck(params: Any, call: Call) -> object:
        await asyncio.Event().wait()
        return None

    async with peer_and_line(RecordingRole(stuck=stuck)) as (peer, line, _role):
        peer.feed(_request(7, "stuck"))
        line.send(line.note("$/cancel_request", requestId=7))
        assert (await line.next())["error"]["code"] == -32800


async def test_a_call_that_is_cancelled_in_its_own_first_step_ends_cancelled() -> None:
    async def itself(params: Any, call: Call) -> object:
        call.cancel()
        await asyncio.sleep(0)
        return "went on"

    async with peer_and_line(RecordingRole(itself=itself)) as (_, line, _role):
        line.send(line.request(7, "itself"))
        assert (await line.next())["error"]["code"] == -32800


@pytest.mark.rule(31)
async def test_what_an_earlier_update_woke_runs_before_the_first_step_of_a_later_request() -> None:
    order: list[str] = []
    woken = asyncio.Event()

    class Waking(RecordingRole):
        def on_hot(self, frames: list[Any], lines: list[bytes]) -> None:
            woken.set()

    async def ask(params: Any, call: Call) -> object:
        order.append("request")
        return None

    async def consume() -> None:
        await woken.wait()
        order.append("update")

    async with peer_and_line(Waking(ask=ask)) as (_, line, _role):
        consumer = asyncio.create_task(consume())
        await asyncio.sleep(0)
        line.send(line.note("hot", n=1), line.request(1, "ask"))
        await line.next()
        await consumer
    assert order == ["update", "request"]


@pytest.mark.rule(31)
async def test_what_an_earlier_response_woke_runs_before_the_first_step_of_a_later_request() -> None:
    order: list[str] = []

    async def ask(params: Any, call: Call) -> object:
        order.append("request")
        return None

    async with peer_and_line(RecordingRole(ask=ask)) as (peer, line, _role):

        async def wait() -> None:
            await peer.request("question", {}, str)
            order.append("response")

        waiting = asyncio.create_task(wait())
        question = await line.next()
        line.send(line.result(question["id"], "yes"), line.request(1, "ask"))
        await line.next()
        await waiting
    assert order == ["response", "request"]


async def test_a_task_factory_of_the_program_is_still_asked() -> None:
    made: list[asyncio.Task[Any]] = []

    def factory(loop: asyncio.AbstractEventLoop, work: Any, **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(work, loop=loop, **options)
        made.append(task)
        return task

    async with peer_and_line(RecordingRole(ask=_at_hand)) as (_, line, _role):
        loop = asyncio.get_running_loop()
        loop.set_task_factory(factory)
        try:
            line.send(line.request(1, "ask"))
            assert (await line.next())["result"] == "at hand"
        finally:
            loop.set_task_factory(None)
    assert made
