"""Bounds in seconds that run out when what a test waits for has happened, on any machine.

A program that is given up after half a second may not have begun by then where the machine is busy; and a bound that is
long enough for every machine makes each run of the test as long.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

LONG = 3600.0
"""The seconds of a bound that `run_out_when` ends early."""


def run_out_when(monkeypatch: pytest.MonkeyPatch, has_happened: Callable[[], object]) -> None:
    """Let each `asyncio.timeout(LONG)` run out when something has happened that raises no event here."""
    plain = asyncio.timeout
    watching: set[asyncio.Task[None]] = set()

    async def watch(bound: asyncio.Timeout) -> None:
        while not has_happened():  # noqa: ASYNC110 - it raises no event here
            await asyncio.sleep(0.01)
        with suppress(RuntimeError):  # it is over already
            bound.reschedule(0.0)

    def timeout(seconds: float | None) -> asyncio.Timeout:
        bound = plain(seconds)
        if seconds == LONG:
            task = asyncio.get_running_loop().create_task(watch(bound))
            watching.add(task)
            task.add_done_callback(watching.discard)
        return bound

    monkeypatch.setattr(asyncio, "timeout", timeout)
