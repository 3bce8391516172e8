"""Reads a line as a JSON-RPC message.

Owns the four kinds of message, the one decode that tells them apart, and the verdict on a line that is none of them.
Does not know methods, nor what params and results contain: these stay undecoded views of the line.
"""

from __future__ import annotations

import re
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR
from dragoman.wire.bounds import SHORT_BYTES, find_fault
from dragoman.wire.glimpse import Id, Kind, glimpse, read_id
from dragoman.wire.ndjson import HEAD_BYTES, TAIL_BYTES, TooLong, Truncated

# gc=False below: none of these can be part of a cycle, and the collector is not woken by a stream of them.


class ErrorObject(msgspec.Struct, frozen=True, gc=False):
    """The `error` member of a response; `data` is left undecoded."""

    code: int
    message: str
    data: Raw | UnsetType = UNSET


class Request(msgspec.Struct, frozen=True, gc=False):
    """A message that wants an answer with the same id, of the same type."""

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
    """A line that is no message.

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


class _Loose(msgspec.Struct, gc=False):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_strict = msgspec.json.Decoder(_Strict).decode
_decode_loose = msgspec.json.Decoder(_Loose).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_anything = msgspec.json.Decoder(Raw).decode

_STRUCTURED: Final = b"{["
_NULL: Final = ord("n")
_PLACE: Final = re.compile(r"\(byte \d+\)$")


def read_message(line: bytes) -> Message:
    """The message a line holds; never raises, whatever the line is."""
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
    """What to make of a frame that is not a whole line."""
    if isinstance(frame, TooLong):
        seen = glimpse(frame.head, frame.tail)
        why = f"a line of {frame.size_bytes} bytes is over the limit of {frame.limit_bytes}"
        return Malformed(frame.head, why, INVALID_REQUEST, seen.kind, seen.id)
    seen = glimpse(frame.head)
    why = f"the stream ended inside a message, after {frame.size_bytes} bytes of it"
    return Malformed(frame.head, why, PARSE_ERROR, seen.kind, seen.id)


def _unreadable(line: bytes, code: int, why: str) -> Malformed:
    seen = glimpse(line[:HEAD_BYTES], line[-TAIL_BYTES:])
    return Malformed(line, why, code, seen.kind, seen.id)


def _diagnose(line: bytes) -> Malformed:
    """Why the strict decode, or the look at what it gave, failed. Slow, and only ever run for broken lines."""
    try:
        members = _decode_loose(line)
    except msgspec.ValidationError:
        return _diagnose_other(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return _unreadable(line, PARSE_ERROR, _sentence(error))
    id = UNSET if members.id is UNSET else read_id(members.id)
    has_outcome = members.result is not UNSET or members.error is not UNSET
    kind: Kind = "unknown"
    if members.method is not UNSET or (members.params is not UNSET and not has_outcome):
        kind = "request"
    elif has_outcome or not (id is UNSET or id is None):
        kind = "response"
    why = _fault_of_any(members, id) or (_fault_of_request if kind == "request" else _fault_of_response)(members)
    # A name that occurs twice counts by its last value, but the strict decode minds the first one as well.
    return Malformed(line, why or "a member occurs twice and one of its values is wrong", INVALID_REQUEST, kind, id)


def _diagnose_other(line: bytes) -> Malformed:
    """A line whose outermost value is not an object."""
    try:
        _decode_anything(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return Malformed(line, _sentence(error), PARSE_ERROR)
    if line.lstrip().startswith(b"["):
        return Malformed(line, "a batch; the protocol has one message per line", INVALID_REQUEST)  # rules 10, 11
    return Malformed(line, "a message is a JSON object", INVALID_REQUEST)


def _sentence(error: Exception) -> str:
    """The decoder's finding in our words: the text of an exception does not go out on the wire."""
    if isinstance(error, RecursionError):
        return "the line nests too deeply"
    place = _PLACE.search(str(error))
    return f"the line is not valid JSON {place[0]}" if place else "the line is not valid JSON: it ends too early"


def _fault_of_any(members: _Loose, id: Id | UnsetType) -> str | None:
    if members.jsonrpc is UNSET:
        return '"jsonrpc" is missing'
    if _read_string(members.jsonrpc) != "2.0":
        return '"jsonrpc" must be "2.0"'
    if members.id is not UNSET and id is UNSET:
        return '"id" must be a string, an integer or null'
    return None


def _fault_of_request(members: _Loose) -> str | None:
    if members.method is UNSET:
        return '"method" is missing'
    if _read_string(members.method) is None:
        return '"method" must be a string'
    if members.result is not UNSET or members.error is not UNSET:
        return 'a message has "method", or else "result" or "error"'
    if members.params is not UNSET and memoryview(members.params)[0] not in b"{[n":
        return '"params" must be an object'
    return None


def _fault_of_response(members: _Loose) -> str | None:
    if members.id is UNSET:
        return 'a message has "method" or "id"'
    if (members.result is UNSET) == (members.error is UNSET):
        return 'a response has exactly one of "result" and "error"'
    if members.error is not UNSET:
        try:
            _decode_error(members.error)
        except msgspec.DecodeError:
            return '"error" must have an integer "code" and a string "message"'
    return None


def _read_string(text: Raw) -> str | None:
    try:
        return _decode_string(text)
    except msgspec.DecodeError:
        return None
