"""What a request over HTTP is answered with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.transports.remote.messages import SESSION_ID

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from dragoman.transports.remote.gate import Entered

JSON: Final = b"application/json"


class HttpReply(NamedTuple):
    """What a page of the application answers."""

    status: int
    body: bytes
    content_type: bytes = b"text/plain; charset=utf-8"
    headers: tuple[tuple[bytes, bytes], ...] = ()


class StreamedReply(NamedTuple):
    """What a page answers piece by piece. The generator is closed when the client goes away."""

    pieces: AsyncGenerator[bytes, None]
    content_type: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


PageReply = HttpReply | StreamedReply


class AnsweredRequest(NamedTuple):
    """A request that was answered, for logs and counters: without its content."""

    peer: str
    method: str
    path: str
    """Without its query; empty if the head of the request could not be read."""
    status: int
    principal: str
    """Empty if the request was refused before its token was looked at."""
    received_bytes: int
    sent_bytes: int
    seconds: float = 0.0
    """From its head to the answer, or to the head of a stream."""
    request_id: str = ""
    """What a proxy in front calls it, in `X-Request-Id`."""


def text_answer(status: int, reason: str) -> HttpReply:
    """Return the answer with a status and a sentence."""
    return HttpReply(status, reason.encode())


def session_of(entered: Entered) -> str | None:
    """Return the session that the header of a request names."""
    session = entered.headers.get(SESSION_ID)
    return session.decode("latin-1") if session else None
