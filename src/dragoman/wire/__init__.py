"""Bytes to messages and messages to bytes, without I/O.

Owns framing, limits and the JSON-RPC envelope, for input of any shape and in any chunks. Does not know the protocol's
methods and types, nor where bytes come from; uses no clock.
Read `envelope.py` first, then `ndjson.py`.
"""

from dragoman.wire.bounds import DEPTH_LIMIT, NODE_LIMIT
from dragoman.wire.envelope import (
    ErrorObject,
    Malformed,
    Message,
    Notification,
    Request,
    Response,
    read_message,
    refuse,
)
from dragoman.wire.ids import Id, Kind
from dragoman.wire.ndjson import HEAD_BYTES, LIMIT_BYTES, Frame, Framer, TooLong, Truncated
from dragoman.wire.run import decode_run
from dragoman.wire.write import (
    NOTIFICATION_END,
    notification_start,
    write_error,
    write_notification,
    write_request,
    write_result,
)

__all__ = [
    "DEPTH_LIMIT",
    "HEAD_BYTES",
    "LIMIT_BYTES",
    "NODE_LIMIT",
    "NOTIFICATION_END",
    "ErrorObject",
    "Frame",
    "Framer",
    "Id",
    "Kind",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "Response",
    "TooLong",
    "Truncated",
    "decode_run",
    "notification_start",
    "read_message",
    "refuse",
    "write_error",
    "write_notification",
    "write_request",
    "write_result",
]
