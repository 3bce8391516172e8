"""Messages written as lines.

Owns the envelope of what goes out: one message is one line, ids keep their type, the text is always UTF-8.
Does not encode params and results; they come as JSON from the caller, which knows their types.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET

from dragoman.wire.ids import Id

# Pieces are joined instead of encoding an envelope: what is already JSON is copied once, 50 MB as well as 50 bytes.

NOTIFICATION_END: Final = b"}\n"

_encode = msgspec.json.Encoder().encode


def notification_start(method: str) -> bytes:
    """Return what precedes the params of a notification; `NOTIFICATION_END` follows them.

    For a method that is sent a hundred thousand times a second: made once, then added.
    """
    return b'{"jsonrpc":"2.0","method":' + _json(method) + b',"params":'


def write_request(id: Id, method: str, params: bytes | None = None) -> bytes:
    """Return the line for a request; `params` is encoded JSON."""
    if params is None:
        return b"".join((b'{"jsonrpc":"2.0","id":', _json(id), b',"method":', _json(method), b"}\n"))
    params = _one_line(params)
    return b"".join((b'{"jsonrpc":"2.0","id":', _json(id), b',"method":', _json(method), b',"params":', params, b"}\n"))


def write_notification(method: str, params: bytes | None = None) -> bytes:
    """Return the line for a notification; `params` is encoded JSON."""
    if params is None:
        return b"".join((b'{"jsonrpc":"2.0","method":', _json(method), b"}\n"))
    return b"".join((notification_start(method), _one_line(params), NOTIFICATION_END))


def write_result(id: Id, result: bytes) -> bytes:
    """Return the line that answers a request; `result` is encoded JSON."""
    return b"".join((b'{"jsonrpc":"2.0","id":', _json(id), b',"result":', _one_line(result), b"}\n"))


def write_error(id: Id, code: int, message: str, data: object = None) -> bytes:
    """Return the line that answers a request with an error; without `data` if that is None.

    Raises: TypeError if `data` has no JSON form.
    """
    start = b'{"jsonrpc":"2.0","id":%b,"error":{"code":%d,"message":%b' % (_json(id), code, _json(message))
    if data is None or data is UNSET:
        return start + b"}}\n"
    return b"".join((start, b',"data":', _one_line(_json(data)), b"}}\n"))


def _one_line(json: bytes) -> bytes:
    """Rule 5. Only JSON that another program formatted has line ends, and between its tokens alone."""
    return json.replace(b"\n", b" ") if b"\n" in json else json


def _json(value: object) -> bytes:
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return _encode(_mend(value))


def _mend(value: Any) -> Any:
    """Return the value with U+FFFD for every lone surrogate: half a character has no UTF-8."""
    if isinstance(value, str):
        return value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, dict):
        return {_mend(name): _mend(member) for name, member in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_mend(item) for item in value]
    if isinstance(value, msgspec.Struct):
        return _mend(msgspec.to_builtins(value))
    return value
