"""One line for each request and each connection: when, from where, whose token, which path, which answer.

Never the text of a prompt, a token, a ticket, a query or a session's id. The file is made for its owner only.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from dragoman.errors import ConfigError
from dragoman.host.serving.host_log import shown_time, write_line
from dragoman.text.terminal import escape_json, one_line
from dragoman.workspace.private import make_private_folder, open_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

    from dragoman.transports.remote.answers import AnsweredRequest

LogFormat = Literal["json", "text"]


class AccessLog:
    """A log of lines in a file, or on stderr."""

    def __init__(
        self, stream: TextIO | None, format: LogFormat = "json", *, clock: Callable[[], float] = time.time
    ) -> None:
        self._stream = stream
        self._format = format
        self._clock = clock

    def request(self, exchange: AnsweredRequest) -> None:
        """Log a request that was answered."""
        self._write(
            {
                "event": "request",
                "peer": exchange.peer,
                "token": exchange.principal,
                "method": exchange.method,
                "path": exchange.path,
                "status": exchange.status,
                "received": exchange.received_bytes,
                "sent": exchange.sent_bytes,
                "seconds": round(exchange.seconds, 4),
                **({"request": exchange.request_id} if exchange.request_id else {}),
            }
        )

    def connection(self, event: Literal["opened", "closed"], **facts: str | float) -> None:
        """Log a connection that was opened or has ended."""
        self._write({"event": event, **facts})

    def close(self) -> None:
        if self._stream is not None and self._stream is not sys.stderr:
            self._stream.close()
        self._stream = None

    def _write(self, facts: dict[str, Any]) -> None:
        if self._stream is None:
            return
        at = shown_time(self._clock())
        if self._format == "json":
            line = escape_json(msgspec.json.encode({"time": at, "level": "info", **facts}).decode())
        else:
            line = " ".join([at, *(f"{name}={_word(value)}" for name, value in facts.items())])
        write_line(self._stream, line)


def open_access_log(path: str | None, format: LogFormat) -> AccessLog:
    """Open the log at a path; `-` is stderr, None writes none.

    Raises:
        ConfigError: the file cannot be written.
    """
    if path is None:
        return AccessLog(None, format)
    if path == "-":
        return AccessLog(sys.stderr, format)
    try:
        make_private_folder(os.path.dirname(os.path.abspath(path)))
        stream = os.fdopen(open_private(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "a", encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"the access log cannot be written ({error.strerror}): {path}") from None
    return AccessLog(stream, format)


def _word(value: object) -> str:
    text = one_line(str(value))
    return text if text and " " not in text else f'"{text}"'
