"""Requests of clients as they are answered: how long each took, whether it failed, and who changed something by it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.errors import DragomanError, RequestError
from dragoman.host.methods.table import ACP_RIGHTS, METHODS
from dragoman.host.quotas import Quota
from dragoman.host.serving.metrics import OTHER

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from dragoman.host.connection import HostConnection
    from dragoman.host.serving.metrics import HostMetrics
    from dragoman.rpc import Call

_PROMPT: Final = "session/prompt"
_LIST: Final = "session/list"
_LIMITS: Final = frozenset((*Quota.__struct_fields__, "agent_processes"))


class AnswerListener(Protocol):
    """What takes note of requests that were answered."""

    def came(self, client: HostConnection) -> None:
        """Take note of a client that sends a request; called with each."""

    def answered(self, client: HostConnection, call: Call, result: object, error: Exception | None) -> None:
        """Take note of a request that was answered, and of its error if it failed."""


class WatchedRequests:
    """The requests of all clients to methods that the host has: names that clients make up never become labels."""

    def __init__(self, metrics: HostMetrics, listeners: Sequence[AnswerListener] = ()) -> None:
        self._metrics = metrics
        self._listeners = listeners

    def follow(
        self, client: HostConnection, call: Call, work: Coroutine[Any, Any, object]
    ) -> Coroutine[Any, Any, object]:
        """Return the work on a request, followed to its end."""
        for listener in self._listeners:
            listener.came(client)
        return self._follow(client, call, work)

    def refuse(self, client: HostConnection, call: Call, error: RequestError) -> None:
        """Take note of a request that nothing is done about: mostly because the client has no right to it."""
        if call.method in METHODS or call.method in ACP_RIGHTS:
            self._note(client, call, None, error)

    async def _follow(self, client: HostConnection, call: Call, work: Coroutine[Any, Any, object]) -> object:
        started = time.perf_counter()
        try:
            result = await work
        except DragomanError as error:
            self._note(client, call, None, error)
            raise
        finally:
            if call.method == _LIST:
                self._metrics.histogram("dragoman_list_seconds").observe(time.perf_counter() - started)
            elif call.method != _PROMPT:  # whose time is that of a turn, which the log of its session has
                self._metrics.histogram("dragoman_method_seconds", call.method).observe(time.perf_counter() - started)
        self._note(client, call, result, None)
        return result

    def _note(self, client: HostConnection, call: Call, result: object, error: Exception | None) -> None:
        if error is not None:
            self._metrics.count("dragoman_method_errors_total", 1, call.method)
            if reason_of(error) == "limit":
                limit = reason_of(error, "limit")
                self._metrics.count("dragoman_limit_refusals_total", 1, limit if limit in _LIMITS else OTHER)
        for listener in self._listeners:
            listener.answered(client, call, result, error)


def reason_of(error: Exception | None, member: str = "reason") -> str:
    """Return the word in the data of an error that says why; empty if there is none."""
    data = error.data if isinstance(error, RequestError) else None
    found = data.get(member) if isinstance(data, dict) else None
    return found if isinstance(found, str) else ""
