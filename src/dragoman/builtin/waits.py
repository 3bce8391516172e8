"""Waiting for a model, and how the user is shown that: before the next try, and while an answer is silent.

Owns the sentences and when they are due, for the steps of a turn and for its summaries. They are notices; a client that
cannot show notices is shown them as a line of thought (`viewer.py`).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import StoreError
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from dragoman.builtin.models.model import ModelError
    from dragoman.builtin.turn import TurnContext

_log = logging.getLogger("dragoman.builtin")

# Statuses that mean "not now": too many requests, unavailable, overloaded.
_BUSY: Final = (429, 503, 529)
# After 10 s, 30 s, 90 s and so on: often enough to see that the agent is alive, and not a page of lines.
_GROWTH: Final = 3


class Retries:
    """The waiting before a model call that failed is made again.

    Args:
        set_retrying: called when a wait begins and when it ends.
    """

    def __init__(
        self,
        set_retrying: Callable[[bool], None] = lambda is_retrying: None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._set_retrying = set_retrying
        self.sleep = sleep

    async def wait(self, context: TurnContext, error: ModelError, tries: int, most: int) -> None:
        """Wait, and show that. Raises: the error if the call must not be made again, or not yet.

        Args:
            tries: how often it was tried again so far.
            most: how often it may be.
        """
        limits = context.limits
        seconds = error.retry_after_seconds
        if seconds is None:
            seconds = limits.retry_seconds[min(tries, len(limits.retry_seconds) - 1)]
        if not error.is_retryable or tries >= most or seconds > limits.longest_wait_seconds:
            raise error
        _log.warning("the model failed, next try in %g s: %s", seconds, error)
        await context.emit(retry_notice(context.model.name, error, seconds, tries + 1, most))
        self._set_retrying(True)
        try:
            await self.sleep(seconds)
        finally:
            self._set_retrying(False)


def retry_notice(model: str, error: ModelError, seconds: float, number: int, of: int) -> c.Data:
    """State that a call failed, and when it is tried again.

    Args:
        number: which of the further tries it is, counted from 1.
    """
    what = "is busy" if error.status in _BUSY else "did not answer"
    title = f"{model} {what}: next try in {seconds:g} s ({number} of {of})"
    return _notice("warning", title, str(error))


def silence_notice(model: str, seconds: float, *, has_begun: bool) -> c.Data:
    """State what the turn waits for."""
    what = "the rest of the answer" if has_begun else "the answer"
    return _notice("info", f"Waiting for {what} of {model}: nothing has arrived for {seconds:.0f} s")


def _notice(severity: str, title: str, description: str = "") -> c.Data:
    data: dict[str, Any] = {"severity": severity, "title": title}
    return c.Data("notice", {**data, "description": description} if description else data, transient=True)


class SilenceWatch:
    """A watch that calls `report` with the seconds of silence when nothing was noted for a while.

    It calls again after three times as long. It watches until `stop` is called.
    """

    def __init__(self, seconds: float, report: Callable[[float], Awaitable[None]]) -> None:
        self._seconds = seconds
        self._report = report
        self._time = asyncio.get_running_loop().time
        self._noted = self._time()
        self._task = asyncio.ensure_future(self._watch())

    def note(self) -> None:
        """Note that something has arrived."""
        self._noted = self._time()

    def stop(self) -> None:
        self._task.cancel()

    async def _watch(self) -> None:
        due, noted = self._seconds, self._noted
        while True:
            if self._noted != noted:
                due, noted = self._seconds, self._noted
            silent = self._time() - noted
            if silent < due:
                await asyncio.sleep(due - silent)
                continue
            due *= _GROWTH
            with suppress(StoreError):  # the loop meets it with its next chunk
                await self._report(silent)
