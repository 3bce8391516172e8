"""A request that the peer sent, while it is being answered.

Owns the single answer: whatever the handler does, and however often it is cancelled, exactly one response is sent. This
is also the one place where exceptions become JSON-RPC errors; the text of an exception is logged and never sent.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from dragoman.errors import ConnectionClosed, RequestError
from dragoman.rpc.loop_queue import start_eagerly
from dragoman.schema import encode
from dragoman.wire import write_error, write_result

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from msgspec import Raw

_log = logging.getLogger("dragoman.rpc")


class Call:
    """One incoming request: what was asked, and how it can end early."""

    __slots__ = (
        "_after",
        "_task",
        "cancelled_result",
        "has_details",
        "id",
        "is_cancelled",
        "is_running",
        "method",
        "params",
    )

    def __init__(self, request_id: int | str | None, method: str, params: Raw | None) -> None:
        self.id = request_id
        self.method = method
        self.params = params
        self.is_cancelled = False
        self.is_running = False
        self.has_details = False
        """Whether an error repeats its message as `data.details`: some clients show nothing else."""
        # What a cancelled request of this method answers with; without it that is error -32800 (rule 204).
        self.cancelled_result: Callable[[], object] | None = None
        self._after: list[Callable[[], None]] | None = None
        self._task: asyncio.Task[Any] | None = None

    def after_response(self, callback: Callable[[], None]) -> None:
        """Run `callback` right after the response was written, successful or not."""
        if self._after is None:
            self._after = []
        self._after.append(callback)

    def cancel(self) -> None:
        """Cancel the handler, now or at its first step. A handler that has already finished keeps its result."""
        self.is_cancelled = True
        # A task that is cancelled before its first step never runs at all and could not answer, so until then the
        # flag alone has to do.
        if self.is_running and self._task is not None:
            self._task.cancel()

    def start(
        self,
        work: Coroutine[Any, Any, object],
        respond: Callable[[Call, bytes | None], None],
        loop: asyncio.AbstractEventLoop,
        *,
        is_eager: bool = False,
    ) -> asyncio.Task[None]:
        """Run the handler in its own task; `respond` is called with the response's frame, or None if there is none.

        With `is_eager` the first step is taken here; the task that is returned may be done.
        """
        serving = self._serve(work, respond, loop)
        return start_eagerly(serving, loop) if is_eager else loop.create_task(serving)

    async def _serve(
        self,
        work: Coroutine[Any, Any, object],
        respond: Callable[[Call, bytes | None], None],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        # An eager task runs before `start` has it. (The loop is passed on: asking for it is a system call on 3.11.)
        self._task = asyncio.current_task(loop)
        self.is_running = True
        frame: bytes | None = None
        try:
            if self.is_cancelled:
                work.close()  # it was never awaited, and would be warned about
                frame = self._cancelled()
            else:
                frame = write_result(self.id, encode(await work))
        except RequestError as error:
            frame = self.refused(error)
        except asyncio.CancelledError:
            frame = self._cancelled()
        except ConnectionClosed as error:
            _log.debug("%s: %s", self.method, error)
            frame = self.refused(RequestError.internal_error())
        except Exception:
            _log.exception("the handler of %s failed", self.method)
            frame = self.refused(RequestError.internal_error())
        finally:
            # Before the answer is written: a cancel that comes now finds a handler that has finished.
            self.is_running = False
            respond(self, frame)
            # What waits for the answer (the next turn, updates of a new session) must come after it on the wire.
            for callback in self._after or ():
                callback()

    def refused(self, error: RequestError) -> bytes:
        """Return the frame that answers with `error`, without its data if that has no JSON form."""
        data = error.data
        if self.has_details and (data is None or isinstance(data, dict)):
            data = {"details": error.message, **(data or {})}
        try:
            return write_error(self.id, error.code, error.message, data)
        except Exception:
            # The data is whatever a handler passed. The peer waits for an answer, so it gets the rest of the error.
            _log.exception("an error of %s is sent without its data, which has no JSON form", self.method)
            return write_error(self.id, error.code, error.message)

    def _cancelled(self) -> bytes:
        if self.is_cancelled and self.cancelled_result is not None:
            return write_result(self.id, encode(self.cancelled_result()))
        return self.refused(RequestError.request_cancelled())
