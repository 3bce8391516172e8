"""Counters of a host in the text format of Prometheus. They hold numbers and names of agents and statuses, never texts.

What happens in sessions is counted where it is logged: `counting_log` is a log around another one.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final, cast

from dragoman.rpc.transport import ClosesWithCode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.rpc import Transport
    from dragoman.rpc.transport import Receiver
    from dragoman.store.event_log import (
        Accepted,
        Already,
        EventLog,
        LogEvent,
        NewEvent,
        OwnedSession,
        SessionRecord,
    )

CONTENT_TYPE: Final = b"text/plain; version=0.0.4; charset=utf-8"
_HELP: Final = {
    "dragoman_connections_total": ("counter", "ACP connections that were opened."),
    "dragoman_connections": ("gauge", "ACP connections that are open."),
    "dragoman_sessions_total": ("counter", "Sessions that were made."),
    "dragoman_sessions_running": ("gauge", "Sessions in which a turn runs, waits, or a question is open."),
    "dragoman_prompts_total": ("counter", "Prompts that were accepted."),
    "dragoman_turns_total": ("counter", "Turns that started."),
    "dragoman_turns_ended_total": ("counter", "Turns that ended."),
    "dragoman_updates_total": ("counter", "Updates of agents."),
    "dragoman_questions_total": ("counter", "Questions of agents to their users."),
    "dragoman_answers_total": ("counter", "Questions that were decided."),
    "dragoman_received_bytes_total": ("counter", "Bytes of messages from clients."),
    "dragoman_sent_bytes_total": ("counter", "Bytes of messages to clients."),
    "dragoman_requests_total": ("counter", "Requests over HTTP, upgrades included."),
    "dragoman_refusals_total": ("counter", "Requests over HTTP that were refused."),
}
_BY_KIND: Final = {
    "prompt": "dragoman_prompts_total",
    "start": "dragoman_turns_total",
    "end": "dragoman_turns_ended_total",
    "update": "dragoman_updates_total",
    "question": "dragoman_questions_total",
    "answer": "dragoman_answers_total",
}


class HostMetrics:
    """The counters of one host."""

    def __init__(self) -> None:
        self._counts: Counter[tuple[str, str]] = Counter()
        self._gauges: dict[str, Callable[[], int]] = {}

    def count(self, name: str, by: int = 1, *, labels: str = "") -> None:
        """Add to a counter.

        Args:
            labels: As Prometheus writes them, such as `status="401"`.
        """
        self._counts[name, labels] += by

    def value(self, name: str, labels: str = "") -> int:
        return self._counts[name, labels]

    def gauge(self, name: str, read: Callable[[], int]) -> None:
        """Add a number that is read when it is asked for."""
        self._gauges[name] = read

    def text(self) -> bytes:
        """Return everything, in the text format of Prometheus."""
        lines: list[str] = []
        for name, (kind, help) in _HELP.items():
            lines += [f"# HELP {name} {help}", f"# TYPE {name} {kind}"]
            if name in self._gauges:
                lines.append(f"{name} {self._gauges[name]()}")
                continue
            found = sorted((labels, count) for (each, labels), count in self._counts.items() if each == name)
            for labels, count in found or [("", 0)]:
                lines.append(f"{name}{{{labels}}} {count}" if labels else f"{name} {count}")
        return ("\n".join(lines) + "\n").encode()


class CountingLog:
    """Counts what is appended; everything else is the log behind it."""

    def __init__(self, log: EventLog, metrics: HostMetrics) -> None:
        self._log = log
        self._metrics = metrics

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        owned = await self._log.create(record, key)
        self._metrics.count("dragoman_sessions_total")
        return cast("OwnedSession", _CountingSession(owned, self._metrics))

    async def take(self, session: str, *, force: bool = False) -> OwnedSession:
        return cast("OwnedSession", _CountingSession(await self._log.take(session, force=force), self._metrics))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._log, name)


class _CountingSession:
    """Counts what is appended to one session."""

    def __init__(self, owned: OwnedSession, metrics: HostMetrics) -> None:
        self._owned = owned
        self._metrics = metrics

    def append(self, events: Sequence[NewEvent], committed: Callable[[list[LogEvent]], None]) -> None:
        self._count(events)
        self._owned.append(events, committed)

    def accept(self, prompt_id: str, events: Sequence[NewEvent], done: Callable[[Accepted | Already], None]) -> None:
        self._count(events)
        self._owned.accept(prompt_id, events, done)

    def _count(self, events: Sequence[NewEvent]) -> None:
        for event in events:
            name = _BY_KIND.get(event.kind)
            if name is not None:
                self._metrics.count(name)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._owned, name)


def counting_log(log: EventLog, metrics: HostMetrics) -> EventLog:
    """Return a log that counts what is appended to the one behind it."""
    return cast("EventLog", CountingLog(log, metrics))


class CountingTransport:
    """A transport that counts the bytes that pass through it."""

    def __init__(self, transport: Transport, metrics: HostMetrics) -> None:
        self._transport = transport
        self._metrics = metrics
        self._receiver: Receiver | None = None

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._transport.start(self)

    def write(self, data: bytes) -> None:
        self._metrics.count("dragoman_sent_bytes_total", len(data))
        self._transport.write(data)

    @property
    def unsent_bytes(self) -> int:
        return self._transport.unsent_bytes

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def set_close(self, code: int, reason: str) -> None:
        if isinstance(self._transport, ClosesWithCode):
            self._transport.set_close(code, reason)

    def close(self) -> None:
        self._transport.close()

    async def wait_closed(self) -> None:
        await self._transport.wait_closed()

    # Receiver

    def feed(self, data: bytes) -> None:
        self._metrics.count("dragoman_received_bytes_total", len(data))
        assert self._receiver is not None
        self._receiver.feed(data)

    def end(self, reason: object) -> None:
        assert self._receiver is not None
        self._receiver.end(reason)  # type: ignore[arg-type]  # passed on as it came

    def drained(self) -> None:
        assert self._receiver is not None
        self._receiver.drained()
