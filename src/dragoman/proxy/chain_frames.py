"""The two methods of proxy chains, which are an unstable draft, and how messages are wrapped for a hop. Pure.

The draft names them `proxy/initialize` and `proxy/successor`; programs that were written before it say `_proxy/...`.
Both are read, and a program is written to as it writes. Bytes of params and results pass as they are; envelopes are
written again, so a message has one meaning for all programs behind it, whatever else stood in its line.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec
from msgspec import UNSET, Raw, UnsetType

from dragoman.wire import Id, Response, write_error, write_result

PLAIN: Final = "proxy/"
UNDERSCORED: Final = "_proxy/"
CANCEL_REQUEST: Final = "$/cancel_request"
INITIALIZES: Final = frozenset((f"{PLAIN}initialize", f"{UNDERSCORED}initialize"))
SUCCESSORS: Final = frozenset((f"{PLAIN}successor", f"{UNDERSCORED}successor"))


class Inner(NamedTuple):
    """The message inside of `proxy/successor`."""

    method: str
    params: bytes | None


class _Wrapped(msgspec.Struct):
    method: str
    params: Raw | UnsetType = UNSET


class _Cancelled(msgspec.Struct):
    requestId: int | str | None  # noqa: N815 - the protocol's name


class _Version(msgspec.Struct):
    protocolVersion: int  # noqa: N815 - the protocol's name


def is_reserved(method: str) -> bool:
    """Whether a method belongs to the chain itself: such a message is never passed on."""
    return method.startswith((PLAIN, UNDERSCORED))


def spelling_of(method: str) -> str:
    """Return how the sender of this method writes the names of the chain."""
    return UNDERSCORED if method.startswith(UNDERSCORED) else PLAIN


def wrap(method: str, params: bytes | Raw | None) -> bytes:
    """Return the params of `proxy/successor`."""
    name = msgspec.json.encode(method)
    return b'{"method":%b}' % name if params is None else b'{"method":%b,"params":%b}' % (name, bytes(params))


def unwrap(params: Raw | None) -> Inner | None:
    """Undo `wrap`; None if the params are not those of `proxy/successor`."""
    try:
        found = msgspec.json.decode(params or b"", type=_Wrapped)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    given = None if found.params is UNSET else bytes(found.params).strip()
    if given is None or given == b"null":
        return Inner(found.method, None)
    return Inner(found.method, given) if given[:1] in (b"{", b"[") else None


def cancelled_id(params: Raw | None) -> Id | UnsetType:
    """Return the request that a `$/cancel_request` names; UNSET if it names none."""
    try:
        return msgspec.json.decode(params or b"", type=_Cancelled).requestId
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return UNSET


def version_in(value: bytes | Raw | None) -> int | None:
    """Return the `protocolVersion` of params or of a result."""
    try:
        return msgspec.json.decode(value or b"", type=_Version).protocolVersion
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def write_response(response: Response, request_id: Id) -> bytes:
    """Return the line of a response under another id."""
    if response.error is None:
        return write_result(request_id, bytes(response.result or b"null"))
    found = response.error
    return write_error(request_id, found.code, found.message, None if found.data is UNSET else found.data)
