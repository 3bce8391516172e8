"""How what many connections stream leaves in a turn of the loop."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from dragoman.rpc.limits import DEFAULT_LIMITS
from dragoman.rpc.observer import Observers
from dragoman.rpc.outbox import Outbox


class Sink:
    """A transport that takes everything, or fails."""

    unsent_bytes = 0

    def __init__(self, error: Exception | None = None) -> None:
        self.written: list[bytes] = []
        self._error = error

    def write(self, data: bytes) -> None:
        if self._error is not None:
            raise self._error
        self.written.append(data)


def make_outbox(sink: Sink) -> Outbox:
    return Outbox(cast("Any", sink), DEFAULT_LIMITS, Observers(()), lambda why: None)


async def test_what_many_connections_stream_leaves_in_one_step_of_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    sinks = [Sink() for _ in range(50)]
    outboxes = [make_outbox(sink) for sink in sinks]
    loop, steps = asyncio.get_running_loop(), 0
    call_soon = loop.call_soon

    def counted(*args: Any, **options: Any) -> asyncio.Handle:
        nonlocal steps
        steps += 1
        return call_soon(*args, **options)

    monkeypatch.setattr(loop, "call_soon", counted)
    for outbox in outboxes:
        outbox.post(b"1\n")
        outbox.post(b"2\n")
    assert steps == 1
    monkeypatch.undo()
    await asyncio.sleep(0)
    assert [sink.written for sink in sinks] == [[b"1\n2\n"]] * 50


async def test_a_connection_that_fails_does_not_hold_up_the_others() -> None:
    sinks = [Sink(), Sink(RuntimeError("no")), Sink()]
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context))
    outboxes = [make_outbox(sink) for sink in sinks]
    for _ in range(2):
        for outbox in outboxes:
            outbox.post(b"x\n")
        await asyncio.sleep(0)
    assert [sink.written for sink in sinks] == [[b"x\n"] * 2, [], [b"x\n"] * 2]
    assert [str(context["exception"]) for context in reported] == ["no", "no"]
