"""The peer's seven promises, one heading each; docs/architecture.md lists them."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.errors import ConnectionClosed, RemoteProtocolError, RequestError
from dragoman.rpc import Call, Limits
from tests.rpc.fixtures import HotFrame, RecordingRole, peer_and_line


async def _echo(params: Any, call: Call) -> object:
    return params


# 1. Frames are handled in arrival order, and no handler can block the reader.


@pytest.mark.rule(31)
async def test_promise_1_frames_are_handled_in_arrival_order() -> None:
    async with peer_and_line(RecordingRole(echo=_echo)) as (_, line, role):
        line.send(
            *[line.note("hot", n=n) for n in range(3)],
            line.request(1, "echo"),
            line.note("cold", n=3),
            *[line.note("hot", n=n) for n in range(4, 6)],
        )
        await role.until(lambda events: len(events) == 7)
        assert role.events == [
            ("hot", 0),
            ("hot", 1),
            ("hot", 2),
            ("echo", "began"),
            ("cold", {"n": 3}),
            ("hot", 4),
            ("hot", 5),
        ]


@pytest.mark.rule(32)
async def test_promise_1_a_handler_that_waits_does_not_block_later_frames() -> None:
    gate = asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        await gate.wait()
        return "done"

    async with peer_and_line(RecordingRole(stuck=stuck, echo=_echo)) as (_, line, _role):
        line.send(line.request(1, "stuck"), line.request(2, "echo", a=1))
        assert await line.next() == {"jsonrpc": "2.0", "id": 2, "result": {"a": 1}}
        gate.set()
        assert (await line.next())["id"] == 1


@pytest.mark.rule(32)
async def test_promise_1_a_handler_may_ask_the_peer_while_it_is_being_asked() -> None:
    async def curious(params: Any, call: Call) -> object:
        return {"heard": await role.peer.request("question", {}, str)}

    role = RecordingRole(curious=curious)
    async with peer_and_line(role) as (_, line, _role):
        line.send(line.request("a", "curious"))
        question = await line.next()
        line.send(line.result(question["id"], "yes"))
        assert (await line.next())["result"] == {"heard": "yes"}


# 2. A response resolves only after every earlier notification was delivered.


@pytest.mark.rule(31)
async def test_promise_2_a_response_resolves_after_every_earlier_notification() -> None:
    async with peer_and_line() as (peer, line, role):
        asked = asyncio.create_task(peer.request("ask", {}, str))
        question = await line.next()
        line.send(*[line.note("hot", n=n) for n in range(200)], line.result(question["id"], "ok"))
        assert await asked == "ok"
        assert role.events[:200] == [("hot", n) for n in range(200)]


async def test_promise_2_the_result_is_seen_before_any_later_frame() -> None:
    seen: list[object] = []
    async with peer_and_line() as (peer, line, role):
        asked = asyncio.create_task(
            peer.request("ask", {}, str, on_result=lambda result: seen.append((result, len(role.events))))
        )
        question = await line.next()
        line.send(line.note("hot", n=0), line.result(question["id"], "ok"), line.note("hot", n=1))
        await asked
        assert seen == [("ok", 1)]


# 3. When the transport ends, what arrived is handled first; then everybody who waits is told.


async def test_promise_3_frames_that_arrived_are_handled_before_the_end() -> None:
    async with peer_and_line() as (peer, line, role):
        asked = asyncio.create_task(peer.request("ask", {}, str))
        question = await line.next()
        unanswered = asyncio.create_task(peer.request("ask", {}, str))
        await line.next()
        line.send(line.note("hot", n=1), line.result(question["id"], "last words"))
        line.transport.close()
        assert await asked == "last words"
        with pytest.raises(ConnectionClosed):
            await unanswered
        assert [event[0] for event in role.events] == ["hot", "closed"]


async def test_promise_3_running_handlers_are_cancelled_when_the_connection_ends() -> None:
    began, ended = asyncio.Event(), asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return None

    async with peer_and_line(RecordingRole(stuck=stuck)) as (peer, line, _role):
        line.send(line.request(1, "stuck"))
        await began.wait()
        line.transport.close()
        await peer.wait_closed()
        assert ended.is_set()


async def test_promise_3_a_request_after_the_end_fails_at_once() -> None:
    async with peer_and_line() as (peer, line, _role):
        line.transport.close()
        await peer.wait_closed()
        with pytest.raises(ConnectionClosed):
            await peer.request("ask", {}, str)
        with pytest.raises(ConnectionClosed):
            await peer.notify("tell", {})


@pytest.mark.rule(13)
async def test_promise_3_a_last_line_without_newline_counts_if_it_is_complete() -> None:
    async with peer_and_line() as (peer, line, role):
        line.send(b'{"jsonrpc": "2.0", "method": "tell", "params": {"n": 1}}')
        line.transport.close()
        await peer.wait_closed()
        assert role.events[0] == ("tell", {"n": 1})


# 4. Every request is answered exactly once.


@pytest.mark.rule(25, 204)
async def test_promise_4_a_cancelled_request_is_answered_once_with_32800() -> None:
    began = asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        began.set()
        await asyncio.Event().wait()
        return None

    async with peer_and_line(RecordingRole(stuck=stuck, echo=_echo)) as (_, line, _role):
        line.send(line.request(7, "stuck"))
        await began.wait()
        line.send(line.note("$/cancel_request", requestId=7), line.note("$/cancel_request", requestId=7))
        answer = await line.next()
        assert (answer["id"], answer["error"]["code"]) == (7, -32800)
        line.send(line.request(8, "echo"))
        assert (await line.next())["id"] == 8


@pytest.mark.rule(204)
async def test_promise_4_a_cancel_before_the_first_step_is_answered_too() -> None:
    ran = asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        ran.set()
        return None

    async with peer_and_line(RecordingRole(stuck=stuck)) as (_, line, _role):
        line.send(line.request(7, "stuck"), line.note("$/cancel_request", requestId=7))
        assert (await line.next())["error"]["code"] == -32800
        assert not ran.is_set()


async def test_promise_4_a_method_may_have_its_own_cancelled_result() -> None:
    began = asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        began.set()
        await asyncio.Event().wait()
        return None

    role = RecordingRole(stuck=stuck)
    role.cancelled_results["stuck"] = {"stopped": True}
    async with peer_and_line(role) as (_, line, _role):
        line.send(line.request("x", "stuck"))
        await began.wait()
        line.send(line.note("$/cancel_request", requestId="x"))
        assert await line.next() == {"jsonrpc": "2.0", "id": "x", "result": {"stopped": True}}


async def test_promise_4_a_handler_that_finished_first_keeps_its_result() -> None:
    async with peer_and_line(RecordingRole(echo=_echo)) as (_, line, _role):
        line.send(line.request(1, "echo", a=1))
        assert (await line.next())["result"] == {"a": 1}
        line.send(line.note("$/cancel_request", requestId=1), line.request(2, "echo"))
        assert (await line.next())["id"] == 2


@pytest.mark.rule(209)
async def test_promise_4_a_cancel_for_an_unknown_id_is_ignored() -> None:
    async with peer_and_line(RecordingRole(echo=_echo)) as (_, line, _role):
        line.send(
            line.note("$/cancel_request", requestId=99),
            line.note("$/cancel_request", requestId={"a": 1}),
            line.note("$/cancel_request"),
            line.request(1, "echo"),
        )
        assert (await line.next())["id"] == 1


@pytest.mark.rule(201)
async def test_promise_4_cancelling_the_asking_task_sends_a_cancellation() -> None:
    async with peer_and_line() as (peer, line, role):
        asked = asyncio.create_task(peer.request("ask", {}, str))
        question = await line.next()
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        assert await line.next() == line.note("$/cancel_request", requestId=question["id"])
        # The answer that comes anyway belongs to nobody and harms nobody.
        line.send(line.result(question["id"], "late"), line.note("hot", n=1))
        await role.until(lambda events: events)


@pytest.mark.rule(337)
async def test_promise_4_no_exception_text_reaches_the_wire(caplog: pytest.LogCaptureFixture) -> None:
    async def broken(params: Any, call: Call) -> object:
        raise RuntimeError("the password is swordfish")

    async with peer_and_line(RecordingRole(broken=broken)) as (_, line, _role):
        line.send(line.request(1, "broken"))
        assert await line.next() == {
            "jsonrpc": "2.0",
            "id": 1,
            "error": {"code": -32603, "message": "Internal error"},
        }
    assert "swordfish" in caplog.text


async def test_promise_4_a_request_error_reaches_the_wire_as_it_is() -> None:
    async def refuse(params: Any, call: Call) -> object:
        raise RequestError(-31999, "No tea", {"kettle": "cold"})

    async with peer_and_line(RecordingRole(refuse=refuse)) as (_, line, _role):
        line.send(line.request(1, "refuse"))
        assert (await line.next())["error"] == {"code": -31999, "message": "No tea", "data": {"kettle": "cold"}}


@pytest.mark.parametrize("is_at_once", [False, True])
async def test_promise_4_an_error_whose_data_has_no_json_form_is_sent_without_it(
    is_at_once: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async def refuse(params: Any, call: Call) -> object:
        raise RequestError(-32042, "not now", {"cause": object()})

    class RefusingRole(RecordingRole):
        def on_request(self, call: Call) -> Any:
            if is_at_once:
                raise RequestError(-32042, "not now", {"cause": object()})
            return super().on_request(call)

    async with peer_and_line(RefusingRole(refuse=refuse)) as (_, line, _role):
        line.send(line.request(1, "refuse"))
        assert (await line.next())["error"] == {"code": -32042, "message": "not now"}
    assert "refuse" in caplog.text


@pytest.mark.rule(339)
async def test_promise_4_an_error_answer_raises_with_its_code_and_data() -> None:
    async with peer_and_line() as (peer, line, _role):
        asked = asyncio.create_task(peer.request("ask", {}, str))
        question = await line.next()
        line.send({"jsonrpc": "2.0", "id": question["id"], "error": {"code": -31999, "message": "No", "data": [1]}})
        with pytest.raises(RequestError) as caught:
            await asked
        assert (caught.value.code, caught.value.message, caught.value.data) == (-31999, "No", [1])


async def test_promise_4_an_unreadable_result_fails_its_waiter_alone() -> None:
    async with peer_and_line() as (peer, line, _role):
        asked = asyncio.create_task(peer.request("ask", {}, str))
        question = await line.next()
        line.send(line.result(question["id"], 5))
        with pytest.raises(RemoteProtocolError):
            await asked
        assert peer.is_open


# 5. What a handler sent goes out before its response.


@pytest.mark.rule(185)
async def test_promise_5_what_a_handler_sent_goes_out_before_its_response() -> None:
    async def chatty(params: Any, call: Call) -> object:
        for n in range(100):
            if role.peer.post(b'{"jsonrpc":"2.0","method":"word","params":{"n":%d}}\n' % n):
                await role.peer.breathe()
        call.after_response(lambda: role.peer.outbox.send(b'{"jsonrpc":"2.0","method":"after"}\n'))
        return "done"

    role = RecordingRole(chatty=chatty)
    async with peer_and_line(role) as (_, line, _role):
        line.send(line.request(1, "chatty"))
        words = [await line.next() for _ in range(100)]
        assert [word["params"]["n"] for word in words] == list(range(100))
        assert (await line.next())["result"] == "done"
        assert (await line.next())["method"] == "after"


# 6. Memory is bounded (the incoming side of it is tested with sessions, in tests/client).


async def test_promise_6_a_sender_waits_while_the_peer_does_not_read() -> None:
    posted = 0

    async def flood(params: Any, call: Call) -> object:
        nonlocal posted
        while True:
            if role.peer.post(b'{"jsonrpc":"2.0","method":"x","params":"%s"}\n' % (b"x" * 1000)):
                await role.peer.breathe()
            posted += 1

    role = RecordingRole(flood=flood, echo=_echo)
    async with peer_and_line(role) as (_, line, _role):
        line.transport.pause_reading()
        line.send(line.request(1, "flood"))
        await role.until(lambda events: events)
        for _ in range(1000):
            await asyncio.sleep(0)
        assert 10 < posted < 100
        # Reading never pauses because output is full: the next request is still served.
        line.send(line.request(2, "echo"))
        await role.until(lambda events: ("echo", "began") in events)


async def test_promise_6_a_peer_that_never_reads_is_given_up() -> None:
    async with peer_and_line(limits=Limits(out_limit_bytes=100_000)) as (peer, line, role):
        line.transport.pause_reading()
        for _ in range(200):
            peer.post(b"x" * 999 + b"\n")
        await role.until(lambda events: events)
        assert role.closed_by is not None
        assert "does not read" in role.closed_by.reason


async def test_promise_6_a_peer_that_makes_no_progress_is_given_up() -> None:
    async with peer_and_line(limits=Limits(out_stall_seconds=0.05)) as (peer, line, role):
        line.transport.pause_reading()
        peer.post(b"x" * 99_999 + b"\n")
        await role.until(lambda events: events)
        assert role.closed_by is not None
        assert "read nothing" in role.closed_by.reason


async def test_promise_6_too_many_requests_at_once_are_refused() -> None:
    gate = asyncio.Event()

    async def stuck(params: Any, call: Call) -> object:
        await gate.wait()
        return None

    async with peer_and_line(RecordingRole(stuck=stuck), limits=Limits(running_requests=3)) as (_, line, _role):
        line.send(*[line.request(n, "stuck") for n in range(4)])
        refused = await line.next()
        assert (refused["id"], refused["error"]["code"]) == (3, -32603)
        gate.set()
        assert {(await line.next())["id"] for _ in range(3)} == {0, 1, 2}


# 7. The reader is served while a handler streams at full speed.


@pytest.mark.rule(195)
async def test_promise_7_a_cancel_is_seen_while_a_handler_streams_at_full_speed() -> None:
    sent = 0

    async def forever(params: Any, call: Call) -> object:
        nonlocal sent
        while True:
            if role.peer.post(b'{"jsonrpc":"2.0","method":"word"}\n'):
                await role.peer.breathe()
            sent += 1

    role = RecordingRole(forever=forever)
    async with peer_and_line(role) as (_, line, _role):
        line.send(line.request(1, "forever"))
        await line.next()
        before = sent
        line.send(line.note("$/cancel_request", requestId=1))
        while "error" not in await line.next():
            pass
        # In memory both sides take turns, so the number of words after the cancel is what a few turns allow.
        assert sent - before < 10 * Limits().quantum


async def test_promise_7_many_senders_share_one_quantum() -> None:
    counts = [0] * 50

    async def forever(params: Any, call: Call) -> object:
        while True:
            if role.peer.post(b'{"jsonrpc":"2.0","method":"word"}\n'):
                await role.peer.breathe()
            counts[params["n"]] += 1

    role = RecordingRole(forever=forever)
    async with peer_and_line(role) as (_, line, _role):
        line.send(*[line.request(n, "forever", n=n) for n in range(50)])
        while max(counts) < 500:
            await line.next()
        assert min(counts) > 0.9 * max(counts)


async def test_the_role_gets_the_lines_of_what_it_is_passed_in_one_order_with_responses() -> None:
    class Lines(RecordingRole):
        def on_hot(self, frames: list[HotFrame], lines: list[bytes]) -> None:
            self._note(*[("hot", msgspec.json.decode(line)["params"]) for line in lines])

        def on_notification(self, method: str, params: Raw | None, line: bytes) -> None:
            self._note((method, msgspec.json.decode(line)["params"]))

    async with peer_and_line(Lines()) as (peer, line, role):
        asked = asyncio.ensure_future(
            peer.request("ask", {}, Any, on_result=lambda result: role.events.append(("response", result)))
        )
        request = await line.next()
        line.send(
            line.note("hot", n=1),
            line.note("hot", n=2),
            line.note("cold", n=3),
            line.note("hot", n=4),
            line.result(request["id"], 5),
            line.note("cold", n=6),
        )
        await asked
        assert role.events == [
            ("hot", {"n": 1}),
            ("hot", {"n": 2}),
            ("cold", {"n": 3}),
            ("hot", {"n": 4}),
            ("response", 5),
            ("cold", {"n": 6}),
        ]
