"""What is wrong with a line that is not a message, and which request it belongs to.

Owns the result: code, sentence, kind and id. Slow and only ever run for broken lines, so nothing here is loaded
before the first of them. Does not send the answer.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.errors import INVALID_REQUEST, PARSE_ERROR
from dragoman.wire.envelope import ErrorObject, Malformed
from dragoman.wire.glimpse import glimpse, read_id
from dragoman.wire.ids import Id, Kind
from dragoman.wire.ndjson import HEAD_BYTES, TAIL_BYTES, TooLong, Truncated


class _Loose(msgspec.Struct, gc=False):
    jsonrpc: Raw | UnsetType = UNSET
    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


_decode_loose = msgspec.json.Decoder(_Loose).decode
_decode_error = msgspec.json.Decoder(ErrorObject).decode
_decode_string = msgspec.json.Decoder(str).decode
_decode_anything = msgspec.json.Decoder(Raw).decode

_PLACE: Final = re.compile(r"\(byte \d+\)$")


def refuse(frame: TooLong | Truncated) -> Malformed:
    """Diagnose a frame that is not a whole line."""
    if isinstance(frame, TooLong):
        seen = glimpse(frame.head, frame.tail)
        why = (
            f"a message of {frame.size_bytes} bytes was dropped: one may have {frame.limit_bytes} bytes; "
            "send it in smaller parts"
        )
        return Malformed(frame.head, why, INVALID_REQUEST, seen.kind, seen.id)
    seen = glimpse(frame.head)
    why = f"the stream ended inside a message, after {frame.size_bytes} bytes of it"
    return Malformed(frame.head, why, PARSE_ERROR, seen.kind, seen.id)


def unreadable(line: bytes, code: int, why: str) -> Malformed:
    seen = glimpse(line[:HEAD_BYTES], line[-TAIL_BYTES:])
    return Malformed(line, why, code, seen.kind, seen.id)


def diagnose(line: bytes) -> Malformed:
    """Find out why the strict decode, or the look at what it gave, failed. Slow, and only ever run for broken lines."""
    try:
        members = _decode_loose(line)
    except msgspec.ValidationError:
        return _diagnose_other(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return unreadable(line, PARSE_ERROR, _sentence(error))
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
    """Diagnose a line whose outermost value is not an object."""
    try:
        _decode_anything(line)
    except (msgspec.DecodeError, RecursionError) as error:
        return Malformed(line, _sentence(error), PARSE_ERROR)
    if line.lstrip().startswith(b"["):
        return Malformed(line, "a batch; the protocol has one message per line", INVALID_REQUEST)  # rules 10, 11
    return Malformed(line, "a message is a JSON object", INVALID_REQUEST)


def _sentence(error: Exception) -> str:
    """Put the decoder's finding in our words: the text of an exception does not go out on the wire."""
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
