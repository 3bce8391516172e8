"""The host's own log: one line of JSON for each event that is worth knowing, and the sink of its audit log.

A line says when, how grave, what, in which session, of which user, agent and prompt, and by which token or device. It
has no text of users or agents: what the host's library logs as a warning is the exception, as it is on a terminal.
"""

from __future__ import annotations

import logging
import os
import re
import time
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.text.terminal import escape_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import TextIO

    from dragoman.host.serving.acts import Act
    from dragoman.proxy.audit.log import AuditLog

_log = logging.getLogger("dragoman.host")
_NAMES: Final = ("session", "user", "agent", "request", "client", "token", "device")
_SESSION: Final = re.compile(r"\b[a-z2-7]{26}\b")
_UNIMPORTANT: Final = frozenset(("connected", "disconnected", "question", "prompt_dropped", "agent_ended"))


class HostLog(logging.Handler):
    """Lines of JSON on a stream: acts, notes, and what the library logs."""

    def __init__(self, stream: TextIO, *, clock: Callable[[], float] = time.time) -> None:
        super().__init__(logging.INFO)
        self._stream = stream
        self._clock = clock

    def note(self, text: str) -> None:
        """Write a sentence about the host itself."""
        self._write("info", "note", {"text": text})

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Write what the library logs, while entered."""
        logger = logging.getLogger("dragoman")
        level = logger.level
        logger.addHandler(self)
        logger.setLevel(min(level or logging.INFO, logging.INFO))
        try:
            yield
        finally:
            logger.removeHandler(self)
            logger.setLevel(level)

    def take(self, act: Act) -> None:
        self._write(act.level, act.kind, {**_named(act), **act.facts}, act.at)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        found = _SESSION.search(text)
        facts: dict[str, Any] = {"logger": record.name, "text": text}
        if found is not None:
            facts["session"] = found[0]
        if record.exc_info and record.exc_info[0] is not None:
            # Its text may hold what a user wrote.
            is_debugged = bool(os.environ.get("DRAGOMAN_DEBUG"))
            facts["error"] = (
                logging.Formatter().formatException(record.exc_info) if is_debugged else record.exc_info[0].__name__
            )
        self._write(record.levelname.lower(), "log", facts)

    def _write(self, level: str, event: str, facts: dict[str, Any], at: float = 0.0) -> None:
        line = msgspec.json.encode({"time": shown_time(at or self._clock()), "level": level, "event": event, **facts})
        write_line(self._stream, escape_json(line.decode()))


def write_line(stream: TextIO, line: str) -> None:
    """Write a line at once, or not at all if what reads the stream is gone: a host goes on without its log."""
    with suppress(OSError, ValueError):
        stream.write(f"{line}\n")
        stream.flush()


class AuditTaker:
    """Acts as records of the audit log."""

    def __init__(self, log: AuditLog) -> None:
        self._log = log
        self._problem = ""

    def take(self, act: Act) -> None:
        problem = self._log.problem
        if problem != self._problem:
            self._problem = problem
            if problem:
                _log.error("the audit log cannot be written: %s", problem)
            else:
                _log.warning("the audit log is written again")
        for notice in self._log.take_notices():
            _log.warning("audit log: %s", notice)
        if act.is_audited:
            fields = {**_named(act), **act.facts, **({"title": act.title} if act.title else {})}
            if act.at:
                fields["time"] = shown_time(act.at)
            self._log.add(act.kind, fields, is_important=act.kind not in _UNIMPORTANT)


def shown_time(at: float) -> str:
    """Return a time as all logs of the host have it."""
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _named(act: Act) -> dict[str, Any]:
    return {name: value for name in _NAMES if (value := getattr(act, name))}
