"""The task that a batch of input wakes goes on in the turn of the loop that read the batch, if it is the only one."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConnectionClosed
from dragoman.rpc import Call
from tests.rpc.fixtures import RecordingRole, peer_and_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.rpc import Peer


def _answer(request_id: int, result: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n"


def _request(request_id: int) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": request_id, "method": "ask", "params": {}}).encode() + b"\n"


async def _in_a_callback(*calls: Callable[[], None]) -> None:
    """Call them as the loop calls a reader: in a turn of its own, in no task, with nothing else queued."""
    loop = asyncio.get_running_loop()
    done = asyncio.Event()

    def turn() -> None:
        for call in calls:
            call()
        loop.call_soon(done.set)

    # One turn later, so that what this task has queued is out of the way.
    loop.call_later(0, turn)
    await done.wait()


async def test_a_task_that_waits_for_an_answer_goes_on_in_the_turn_that_read_it() -> None:
    order: list[object] = []
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            order.append(await peer.request("question", {}, str))
            order.append(asyncio.current_task() is asking)

        asking = asyncio.create_task(ask())
        question = await line.next()
        await _in_a_callback(lambda: peer.feed(_answer(question["id"], "yes")), lambda: order.append("read"))
        await asking
    assert order == ["yes", True, "read"]


async def test_two_tasks_that_were_woken_run_in_the_order_of_their_answers_in_the_next_turn() -> None:
    order: list[str] = []
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            order.append(await peer.request("question", {}, str))

        asking = [asyncio.create_task(ask()), asyncio.create_task(ask())]
        first, second = await line.next(), await line.next()
        both = _answer(first["id"], "first") + _answer(second["id"], "second")
        await _in_a_callback(lambda: peer.feed(both), lambda: order.append("read"))
        await asyncio.gather(*asking)
    assert order == ["read", "first", "second"]


async def test_what_was_queued_before_the_input_was_read_runs_before_what_the_input_woke() -> None:
    order: list[str] = []
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            order.append(await peer.request("question", {}, str))

        asking = asyncio.create_task(ask())
        question = await line.next()

        def read() -> None:
            asyncio.get_running_loop().call_soon(order.append, "queued")
            peer.feed(_answer(question["id"], "yes"))

        await _in_a_callback(read)
        await asking
    assert order == ["queued", "yes"]


async def test_a_task_that_feeds_the_peer_itself_is_not_interrupted() -> None:
    order: list[object] = []
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            order.append(await peer.request("question", {}, str))

        asking = asyncio.create_task(ask())
        question = await line.next()
        outer = asyncio.current_task()
        peer.feed(_answer(question["id"], "yes"))
        order.append(asyncio.current_task() is outer)
        await asking
    assert order == [True, "yes"]


async def test_a_task_that_was_woken_can_set_a_timeout_and_be_cancelled_by_it() -> None:
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> str:
            answer = await peer.request("question", {}, str)
            try:
                async with asyncio.timeout(0.01):
                    await asyncio.Event().wait()
            except TimeoutError:
                return answer
            return "waited"

        asking = asyncio.create_task(ask())
        question = await line.next()
        await _in_a_callback(lambda: peer.feed(_answer(question["id"], "yes")))
        assert await asking == "yes"


async def test_a_task_that_closes_the_connection_when_it_is_woken_ends_it_cleanly() -> None:
    async with peer_and_line() as (peer, line, role):

        async def ask() -> None:
            await peer.request("question", {}, str)
            await peer.close("enough")

        asking = asyncio.create_task(ask())
        question = await line.next()
        await _in_a_callback(lambda: peer.feed(_answer(question["id"], "yes") + _answer(99, "unknown")))
        await asking
        assert role.closed_by is not None
        assert role.closed_by.reason == "enough"
        # A transport that has more to deliver in the same turn does not know yet.
        noted = list(role.events)
        peer.feed(json.dumps(line.note("hot", n=1)).encode() + b"\n" + _request(1))
        peer.end(ConnectionClosed("late"))
        assert role.events == noted


async def test_an_error_of_a_task_that_was_woken_is_its_own() -> None:
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            await peer.request("question", {}, str)
            raise ValueError("mine")

        asking = asyncio.create_task(ask())
        question = await line.next()
        read: list[str] = []
        await _in_a_callback(lambda: peer.feed(_answer(question["id"], "yes")), lambda: read.append("on"))
        assert read == ["on"]
        results = await asyncio.gather(asking, return_exceptions=True)
        assert isinstance(results[0], ValueError)


async def test_with_the_loops_debug_mode_the_task_has_a_turn_of_its_own() -> None:
    order: list[str] = []
    async with peer_and_line() as (peer, line, _role):

        async def ask() -> None:
            order.append(await peer.request("question", {}, str))

        asking = asyncio.create_task(ask())
        question = await line.next()
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        try:
            await _in_a_callback(lambda: peer.feed(_answer(question["id"], "yes")), lambda: order.append("read"))
            await asking
        finally:
            loop.set_debug(False)
    assert order == ["read", "yes"]


async def test_the_last_answer_of_a_batch_is_written_before_the_clean_up_that_follows_it() -> None:
    written: list[bytes] = []
    seen: list[int] = []

    async def ask(params: Any, call: Call) -> object:
        call.after_response(lambda: seen.append(len(written)))
        return "at hand"

    async with peer_and_line(RecordingRole(ask=ask)) as (peer, _line, _role):
        _note_writes(peer, written)
        peer.feed(_request(1) + _request(2))
    # One write for both answers, made when the second was there.
    assert seen == [0, 1]
    assert len(written) == 1
    assert written[0].count(b"at hand") == 2


def _note_writes(peer: Peer, written: list[bytes]) -> None:
    transport: Any = peer._transport
    write = transport.write

    def note(data: bytes) -> None:
        written.append(data)
        write(data)

    transport.write = note
