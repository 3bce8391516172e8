"""A line read as a JSON-RPC message.

Owns the four kinds of message and the one decode that tells them apart; what is wrong with a line that is none of
them is found out in `diagnosis.py`. Does not know methods, nor what params and results contain: these stay undecoded
views of the line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.wire.bounds import SHORT_BYTES, find_fault
from dragoman.wire.ids import Id, Kind

if TYPE_CHECKING:
    from dragoman.wire.ndjson import TooLong, Truncated

# gc=False below: none of these can be part of a cycle, and the collector is not woken by a stream of them.


class ErrorObject(msgspec.Struct, frozen=True, gc=False):
    """The `error` member of a response; `data` is left undecoded."""

    code: int
    message: str
    data: Raw | UnsetType = UNSET


class Request(msgspec.Struct, frozen=True, gc=False):
    """A message that needs an answer with the same id, of the same type."""

    id: Id
    method: str
    params: Raw | None


class Notification(msgspec.Struct, frozen=True, gc=False):
    """A message that must not be answered."""

    method: str
    params: Raw | None


class Response(msgspec.Struct, frozen=True, gc=False):
    """An answer: exactly one of `result` (`null` is a result too) and `error` is not None."""

    id: Id
    result: Raw | None
    error: ErrorObject | None


class Malformed(msgspec.Struct, frozen=True, gc=False):
    """A line that is not a message.

    kind "request": answer it with `code`, with `id` or, if that is UNSET, with null.
    kind "response": fail the waiter for `id`, if that is readable; answering an answer would never end.
    kind "unknown": answer it with `code` and id null.
    `why` is a sentence about form alone, it quotes nothing of the line (rule 345). `raw` is the line, or the head of
    one that was not kept.
    """

    raw: bytes
    why: str
    code: int
    kind: Kind = "unknown"
    id: Id | UnsetType = UNSET


Message: TypeAlias = Request | Notification | Response | Malformed


class _Strict(msgspec.Struct, gc=False):
    jsonrpc: Literal["2.0"]
    id: int | str | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: ErrorObject | UnsetType = UNSET


_decode_strict = msgspec.json.Decoder(_Strict).decode

_STRUCTURED: Final = b"{["
_NULL: Final = ord("n")


def read_message(line: bytes) -> Message:
    """Return the message that a line holds, and never raise, whatever the line is."""
    if len(line) > SHORT_BYTES or not line.isascii():
        fault = find_fault(line)
        if fault is not None:
            return _unreadable(line, *fault)
    try:
        message = _decode_strict(line)
    except (msgspec.DecodeError, RecursionError):
        return _diagnose(line)
    method, params, result, error = message.method, message.params, message.result, message.error
    if method is not UNSET and result is UNSET and error is UNSET:
        if params is not UNSET:
            start = memoryview(params)[0]
            if start not in _STRUCTURED:
                if start != _NULL:
                    return _diagnose(line)
                params = UNSET
        if message.id is UNSET:
            return Notification(method, None if params is UNSET else params)
        return Request(message.id, method, None if params is UNSET else params)
    if method is UNSET and message.id is not UNSET:
        if error is UNSET and result is not UNSET:
            return Response(message.id, result, None)
        if error is not UNSET and result is UNSET:
            return Response(message.id, None, error)
    return _diagnose(line)


def refuse(frame: TooLong | Truncated) -> Malformed:
    """Diagnose a frame that is not a whole line."""
    from dragoman.wire import diagnosis

    return diagnosis.refuse(frame)


# Most connections never see a broken line, so what it takes to judge one is loaded with the first of them.


def _diagnose(line: bytes) -> Malformed:
    from dragoman.wire import diagnosis

    return diagnosis.diagnose(line)


def _unreadable(line: bytes, code: int, why: str) -> Malformed:
    from dragoman.wire import diagnosis

    return diagnosis.unreadable(line, code, why)
