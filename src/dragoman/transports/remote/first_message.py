"""What a server does with the messages of a WebSocket that do not reach the application.

Those are the messages before `initialize`, and every further `initialize`. Our own server and the ASGI application
share it. Pure.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from dragoman.transports.remote.messages import Seen, look

_PARSE_ERROR: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}\n'
_INVALID: Final = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}\n'
_AGAIN: Final = (
    b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32600,"message":"Initialize not allowed on existing connection"}}\n'
)


class First(NamedTuple):
    """What a message before `initialize` leads to: an answer, the end of the connection with a reason, or its start."""

    answer: bytes | None = None
    wrong: str | None = None
    is_initialize: bool = False


def judge_first(message: bytes) -> First:
    """Return what to do with a message that comes before the connection is open."""
    seen = look(message)
    if seen is None:
        return First(_PARSE_ERROR)
    if seen.kind == "response":
        return First()
    if seen.kind in ("batch", "other"):
        return First(_INVALID)
    if seen.is_initialize and seen.id not in (None, b"null"):
        return First(is_initialize=True)
    if seen.method == "initialize":
        return First(wrong="Initialize request must include an ID")
    return First(wrong="First message must be initialize")


def answer_again(message: bytes) -> bytes | None:
    """Return the answer to an `initialize` on a connection that is open already; None for every other message."""
    if b'"initialize"' not in message:
        return None
    seen = look(message)
    if not isinstance(seen, Seen) or not seen.is_initialize:
        return None
    return _AGAIN % (seen.id or b"null")
