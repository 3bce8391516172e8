"""Requests of clients as they are answered: how long each took, whether it failed, and who changed something by it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.errors import DragomanError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from dragoman.host.connection import HostConnection
    from dragoman.host.serving.metrics import HostMetrics
    from dragoman.rpc import Call

_PROMPT: Final = "session/prompt"
_LIST: Final = "session/list"


class AnswerListener(Protocol):
    """What takes note of requests that were answered."""

    def came(self, client: HostConnection) -> None:
        """Take note of a client that sends a request; called with each."""

    def answered(self, client: HostConnection, call: Call, result: object, error: Exception | None) -> None:
        """Take note of a request that is not a prompt, and of its error if it failed."""


class WatchedRequests:
    """The requests of all clients to methods that the host has: names that clients make up never come here."""

    def __init__(self, metrics: HostMetrics, listeners: Sequence[AnswerListener] = ()) -> None:
        self._metrics = metrics
        self._listeners = listeners

    def follow(
        self, client: HostConnection, call: Call, work: Coroutine[Any, Any, object]
    ) -> Coroutine[Any, Any, object]:
        """Return the work on a request, followed to its end; a prompt is followed in the log of its session."""
        for listener in self._listeners:
            listener.came(client)
        return work if call.method == _PROMPT else self._follow(client, call, work)

    async def _follow(self, client: HostConnection, call: Call, work: Coroutine[Any, Any, object]) -> object:
        method, started = call.method, time.perf_counter()
        result: object = None
        error: Exception | None = None
        try:
            result = await work
            return result
        except DragomanError as failure:
            error = failure
            self._metrics.count("dragoman_method_errors_total", 1, method)
            raise
        finally:
            seconds = time.perf_counter() - started
            if method == _LIST:
                self._metrics.histogram("dragoman_list_seconds").observe(seconds)
            else:
                self._metrics.histogram("dragoman_method_seconds", method).observe(seconds)
            for listener in self._listeners:
                listener.answered(client, call, result, error)
