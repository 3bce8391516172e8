"""When to show that a run goes on, and in which words: the status line of a terminal, or a line from time to time.

CI systems end a job that prints nothing for some minutes, and a user without a sign of life ends it sooner. Does not
write anything; `view.py` does.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator

    from dragoman.cli.exec.activity import Doing
    from dragoman.cli.exec.options import ProgressForm
    from dragoman.cli.exec.view import ShownRun

_STATUS_SECONDS: Final = 1.0
_HEARTBEAT_SECONDS: Final = 30.0
VARIABLE: Final = "DRAGOMAN_HEARTBEAT"


class Heartbeat:
    """The signs of life of one run."""

    def __init__(self) -> None:
        self.name = ""
        """The agent's name, as it was configured."""
        self.seconds = _heartbeat_seconds()
        self._count = -1
        self._shown_at = monotonic()

    @contextmanager
    def ticking(self, loop: asyncio.AbstractEventLoop, form: ProgressForm, tick: Callable[[], None]) -> Iterator[None]:
        """Call `tick` as often as the form needs it, while entered."""
        if form == "none":
            yield
            return
        seconds = self.interval(form)
        handle: asyncio.TimerHandle | None = None

        def beat() -> None:
            nonlocal handle
            tick()
            handle = loop.call_later(seconds, beat)

        handle = loop.call_later(seconds, beat)
        try:
            yield
        finally:
            handle.cancel()

    def interval(self, form: ProgressForm) -> float:
        """Return how many seconds are between two ticks."""
        return _STATUS_SECONDS if form == "terminal" else self.seconds / 2

    def is_due(self, count: int = 0) -> bool:
        """Return whether nothing was shown for the time of a heartbeat; `count` changes with what is shown."""
        now = monotonic()
        if count != self._count:
            self._count, self._shown_at = count, now
        if now - self._shown_at < self.seconds:
            return False
        self._count, self._shown_at = count + 1, now  # the line that is shown now is counted as well
        return True

    def status(self, run: ShownRun | None, doing: Doing, seconds: float) -> str:
        """Return the text of the status line."""
        from dragoman.text.visible import label

        parts = [self._agent(run), *self._model(run), _elapsed(seconds), _words(doing), *_tokens(run)]
        return " · ".join(label(part, 80) for part in parts)

    def still(self, run: ShownRun | None, doing: Doing, seconds: float) -> str:
        """Return the line for a log."""
        return ", ".join([f"still waiting for {doing.phrase}", _elapsed(seconds), *_tokens(run)])

    def opened(self, run: ShownRun) -> str:
        """Return the line about the session that was opened."""
        model = "".join(f", model {name}" for name in self._model(run))
        return f"{self._agent(run)}{model}, session {run.record.session_id}"

    def _agent(self, run: ShownRun | None) -> str:
        if run is None:
            return self.name
        agent = run.record.agent
        return " ".join(filter(None, (agent.name or agent.title or self.name, agent.version)))

    def _model(self, run: ShownRun | None) -> list[str]:
        return [run.model] if run is not None and run.model else []


def _words(doing: Doing) -> str:
    if doing.what == "tool":
        return doing.name
    short = {"start": "starting", "session": "opening the session", "model": "the model works"}.get(doing.what)
    return short or f"waiting for {doing.phrase}"


def _elapsed(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02}s" if minutes else f"{rest}s"


def _tokens(run: ShownRun | None) -> list[str]:
    usage = None if run is None or run.state is None else run.state.usage
    if usage is None or not usage.used:
        return []
    from dragoman.text.terminal import size

    return [f"{size(usage.used)} tokens"]


def _heartbeat_seconds() -> float:
    try:
        seconds = float(os.environ.get(VARIABLE, ""))
    except ValueError:
        return _HEARTBEAT_SECONDS
    return seconds if 0.01 <= seconds <= 3600 else _HEARTBEAT_SECONDS
