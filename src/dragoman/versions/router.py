"""The part that all translators share: requests and their responses, own requests, and what is sent where.

Requests keep their ids when they are passed on. A translator answers some itself and makes others of its own, whose
ids begin with a prefix; a request that reuses the id of an open one is refused, so an answer has one meaning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.errors import INTERNAL_ERROR, INVALID_REQUEST
from dragoman.versions.frames import OTHER, Frame, Sent, Side, error, members
from dragoman.versions.losses import Losses, Lost
from dragoman.wire.open_requests import OpenRequests

if TYPE_CHECKING:
    from collections.abc import Callable

OWN_ID: Final = "dragoman-translate-"
_MOST_OPEN: Final = 10_000  # of one side; more than any program has open at a time


class Translator(Protocol):
    """Frames of two sides in, frames for both sides out."""

    def feed(self, side: Side, frame: Frame) -> list[Sent]:
        """Return what to send after `side` sent `frame`, in order."""

    def closed(self, side: Side) -> list[Sent]:
        """Return what to send after the connection to `side` was lost."""

    @property
    def wait_seconds(self) -> float | None:
        """How long from now the caller should wait before it calls `elapsed`; None if nothing waits for time."""

    def elapsed(self) -> list[Sent]:
        """Return what to send after that time, unless it is no longer needed."""

    @property
    def losses(self) -> tuple[Lost, ...]:
        """What could not be translated so far, each kind once."""


class Handled:
    """The answer of a callback that has answered, or will answer, in another way."""


HANDLED: Final = Handled()


class _Open:
    """A request whose response is awaited."""

    __slots__ = ("is_own", "method", "on_error", "on_result")

    def __init__(
        self,
        method: str,
        on_result: Callable[[Any], Any],
        on_error: Callable[[Frame], Any],
        *,
        is_own: bool,
    ) -> None:
        self.method = method
        self.on_result = on_result
        self.on_error = on_error
        self.is_own = is_own


def unchanged(value: Any) -> Any:
    return value


class FrameRouter:
    """Routes frames to the methods of a translator, and responses to the side that asked."""

    def __init__(self) -> None:
        self.lost: Final = Losses()
        self._out: list[Sent] = []
        # By the side that asked; a request of ours stands where one that was passed on to the same side would.
        self._open: dict[Side, OpenRequests[_Open]] = {
            "client": OpenRequests(_MOST_OPEN, prefix=OWN_ID),
            "agent": OpenRequests(_MOST_OPEN, prefix=OWN_ID),
        }

    @property
    def losses(self) -> tuple[Lost, ...]:
        """What could not be translated so far, each kind once."""
        return self.lost.counted()

    @property
    def wait_seconds(self) -> float | None:
        """Nothing waits for time."""
        return None

    def elapsed(self) -> list[Sent]:
        """Return nothing."""
        return []

    def feed(self, side: Side, frame: Frame) -> list[Sent]:
        """Return what to send after `side` sent `frame`, in order."""
        method = frame.get("method")
        if isinstance(method, str):
            params = frame.get("params")
            if "id" not in frame:
                self.on_notification(side, method, params)
            elif self._is_new(side, frame["id"]):
                self.on_request(side, frame["id"], method, params)
        else:
            self._on_response(side, frame)
        return self.taken()

    def closed(self, side: Side) -> list[Sent]:
        """Return what to send after the connection to `side` was lost: every open request of the other side fails."""
        self.on_closed(side)
        reason = error(INTERNAL_ERROR, f"the connection to the {side} was lost")
        for request_id, waiting in self._open[OTHER[side]].close_all():
            if not waiting.is_own:
                self.fail(OTHER[side], request_id, reason)
        return self.taken()

    # For translators to override

    def on_request(self, side: Side, request_id: Any, method: str, params: Any) -> None:
        """Handle a request of `side`; by default it is passed on."""
        self.pass_request(side, request_id, method, params)

    def on_notification(self, side: Side, method: str, params: Any) -> None:
        """Handle a notification of `side`; by default it is passed on."""
        self.notify(OTHER[side], method, params)

    def on_closed(self, side: Side) -> None:
        """Handle the loss of the connection to `side`."""

    # For translators to use

    def pass_request(
        self,
        side: Side,
        request_id: Any,
        method: str,
        params: Any,
        on_result: Callable[[Any], Any] = unchanged,
        on_error: Callable[[Frame], Any] = unchanged,
    ) -> None:
        """Pass on a request of `side` under its id; the callbacks translate what is answered."""
        self._open[side].open(request_id, _Open(method, on_result, on_error, is_own=False))
        self._send(OTHER[side], {"jsonrpc": "2.0", "id": request_id, "method": method}, params)

    def ask(
        self,
        side: Side,
        method: str,
        params: Any,
        on_result: Callable[[Any], Any] = unchanged,
        on_error: Callable[[Frame], Any] = unchanged,
    ) -> str:
        """Send a request of our own to `side`; return its id."""
        request_id = str(self._open[OTHER[side]].open_own(_Open(method, on_result, on_error, is_own=True)))
        self._send(side, {"jsonrpc": "2.0", "id": request_id, "method": method}, params)
        return request_id

    def notify(self, side: Side, method: str, params: Any) -> None:
        """Send a notification to `side`."""
        self._send(side, {"jsonrpc": "2.0", "method": method}, params)

    def answer(self, side: Side, request_id: Any, result: Any) -> None:
        """Send `side` the result of its request."""
        self._out.append((side, {"jsonrpc": "2.0", "id": request_id, "result": result}))

    def fail(self, side: Side, request_id: Any, reason: Frame) -> None:
        """Send `side` an error for its request."""
        self._out.append((side, {"jsonrpc": "2.0", "id": request_id, "error": reason}))

    def is_open(self, side: Side, request_id: Any) -> bool:
        """Whether a request of `side` with this id awaits its response."""
        return _is_id(request_id) and request_id in self._open[side]

    def note_answered(self, side: Side, request_id: Any) -> None:
        """Take note that a request of `side` that was passed on is answered; its response is not passed on any more."""
        waiting = self._open[side].get(request_id)
        if waiting is not None:
            waiting.is_own = True

    def update(self, session_id: Any, update: Frame) -> None:
        """Send the client an update of a session."""
        self.notify("client", "session/update", {"sessionId": session_id, "update": update})

    def _send(self, side: Side, frame: Frame, params: Any) -> None:
        if params is not None:
            frame["params"] = params
        self._out.append((side, frame))

    def taken(self) -> list[Sent]:
        """Return what was sent since the last call."""
        out, self._out = self._out, []
        return out

    def _is_new(self, side: Side, request_id: Any) -> bool:
        if not _is_id(request_id):
            self.fail(side, None, error(INVALID_REQUEST, "the id of a request is a string, an integer or null"))
            return False
        refusal = self._open[side].refusal(request_id)
        if refusal is not None:
            self.fail(side, request_id, error(*refusal))
        return refusal is None

    def _on_response(self, side: Side, frame: Frame) -> None:
        asker = OTHER[side]
        request_id = frame.get("id")
        waiting = self._open[asker].close(request_id) if _is_id(request_id) else None
        if waiting is None:
            # An error without an id is about a frame that could not be read; any other answer has no reader.
            if request_id is None and "error" in frame:
                self.fail(asker, None, members(frame["error"]))
            return
        if "error" in frame:
            reason = waiting.on_error(members(frame["error"]))
            if not waiting.is_own and reason is not HANDLED:
                self.fail(asker, request_id, reason)
        else:
            result = waiting.on_result(frame.get("result"))
            if not waiting.is_own and result is not HANDLED:
                self.answer(asker, request_id, result)


def _is_id(value: Any) -> bool:
    return value is None or (isinstance(value, (int, str)) and not isinstance(value, bool))
