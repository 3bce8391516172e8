"""A conversation with the judged program, and the verbs that cases for both sides are written with.

Owns calling and waiting for the answer, the ping that shows that everything before it was read, and the log of what
the program printed. How each side is played belongs to `agent/probe.py` and `client/probe.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.conformance.conversation import Conversation
from dragoman.trace.entry import Exit, Stderr

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.conformance.conversation import Direction, WireMessage
    from dragoman.conformance.passive import Stretch
    from dragoman.rpc import Transport

PING: Final = "_dragoman.check/ping"
"""A method that no program has. It is answered with an error; whatever the answer is, everything before was read."""


class Probe(Conversation):
    """One connection to the judged program."""

    def __init__(self, transport: Transport, outgoing: Direction, folder: Path, timeout_seconds: float) -> None:
        super().__init__(transport, outgoing)
        self.folder = folder
        """A folder for this connection alone."""
        self._timeout_seconds = timeout_seconds
        self._pings: set[str] = set()
        self.stretches: list[Stretch] = []
        """Which part of the log belongs to which case."""
        self.provoked: set[str] = set()
        """Sessions that the judge opened with what no client may send; the whole run shares them."""
        self.is_provoking = False
        """Whether a case runs that sends what no peer may send."""

    async def answer(self, id: object, what: str = "answer", within_seconds: float | None = None) -> WireMessage:
        """Wait for the response to the request `id`. Raises: Silence, Gone."""
        seconds = within_seconds or self._timeout_seconds
        return await self.wait_for(lambda message: message.answers(id), what, seconds)

    async def call(self, method: str, params: object = msgspec.UNSET, *, id: object = msgspec.UNSET) -> WireMessage:
        """Send a request and wait for its response. Raises: Silence, Gone."""
        return await self.answer(self.request(method, params, id=id), f"answer to {method}")

    def ping(self) -> str:
        """Send a request that every program has to answer; return its id."""
        id = f"ping-{len(self._pings)}"
        self._pings.add(id)
        self.request(PING, {}, id=id)
        return id

    def responses(self, mark: int) -> list[WireMessage]:
        """Return responses since the mark, without those to pings."""
        return self.since(mark, lambda message: message.is_response and not self._is_ping(message.id))

    def _is_ping(self, id: object) -> bool:
        return isinstance(id, str) and id in self._pings

    def take_output(self, data: bytes) -> None:
        """Log what the program printed, line by line."""
        self.entries.extend(Stderr(self.now, line) for line in data.decode(errors="replace").splitlines())

    def log_exit(self, code: int | None) -> None:
        """Log how the program ended, if it did; a negative code is a signal."""
        if code is not None:
            self.entries.append(Exit(self.now, code if code >= 0 else None, None if code >= 0 else str(-code)))


def member_at(value: Any, path: str) -> Any:
    """Return the member at a path such as `fs.readTextFile`; None if there is none."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def is_offered(capabilities: Any, gate: str) -> bool:
    """Whether the capability `gate`, a path such as `fs.readTextFile`, is true or an object."""
    found = member_at(capabilities, gate)
    return found is True or isinstance(found, dict)
