"""What a remote transport needs to know of a message: its kind, its id, its method and its session.

The wire of Streamable HTTP sends messages of a session on a stream of their own, so that the transport has to look into
each one. It decides nothing else about them. Pure.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec
from msgspec import UNSET, Raw, UnsetType

Kind = Literal["request", "notification", "response", "batch", "other"]

CONNECTION_ID: Final = b"acp-connection-id"
SESSION_ID: Final = b"acp-session-id"
POST_NUMBER: Final = b"dragoman-post"
"""Counts the posts of a client of ours, so that one that is sent again is recognised."""

# Requests and notifications about one session: they need the session's header even if their parameters are broken.
SESSION_METHODS: Final = frozenset(
    f"session/{name}"
    for name in (
        "cancel",
        "close",
        "delete",
        "fork",
        "load",
        "prompt",
        "resume",
        "set_config_option",
        "set_mode",
        "set_model",
    )
)


# Those that attach to a session: some clients do not have its stream yet, and leave the header out.
ATTACHING_METHODS: Final = frozenset(("session/load", "session/resume", "session/fork"))


class Seen(msgspec.Struct, frozen=True, gc=False):
    """What is seen of one message."""

    kind: Kind
    id: bytes | None = None
    """The JSON text of the id, with which two ids can be compared; None if there is none."""
    method: str | None = None
    session: str | None = None
    """Of the parameters; None for a response."""

    @property
    def is_initialize(self) -> bool:
        return self.method == "initialize" and self.kind == "request"


class _Params(msgspec.Struct, gc=False):
    sessionId: str | UnsetType = UNSET  # noqa: N815 - the protocol's name


class _Message(msgspec.Struct, gc=False):
    id: Raw | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: _Params | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Loose(msgspec.Struct, gc=False):
    """The same for messages whose parts have wrong types."""

    id: Raw | UnsetType = UNSET
    method: Raw | UnsetType = UNSET
    params: Raw | UnsetType = UNSET
    result: Raw | UnsetType = UNSET
    error: Raw | UnsetType = UNSET


class _Made(msgspec.Struct, gc=False):
    result: _Params | UnsetType = UNSET


class _CancelParams(msgspec.Struct, gc=False):
    requestId: Raw | UnsetType = UNSET  # noqa: N815 - the protocol's name


class _Cancel(msgspec.Struct, gc=False):
    params: _CancelParams | UnsetType = UNSET


_cancel: Final = msgspec.json.Decoder(_Cancel)
_message: Final = msgspec.json.Decoder(_Message)
_loose: Final = msgspec.json.Decoder(_Loose)
_made: Final = msgspec.json.Decoder(_Made)
_params: Final = msgspec.json.Decoder(_Params)
_string: Final = msgspec.json.Decoder(str)
_anything: Final = msgspec.json.Decoder(Raw)


def look(data: bytes) -> Seen | None:
    """Return what is seen of one JSON text; None if it is not JSON."""
    try:
        found = _message.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _look_closer(data)
    return _seen(found, found.method, found.params)


def _look_closer(data: bytes) -> Seen | None:
    try:
        found = _loose.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return _not_an_object(data)
    method: str | UnsetType = UNSET
    params: _Params | UnsetType = UNSET
    if found.method is not UNSET:
        try:
            method = _string.decode(found.method)
        except msgspec.DecodeError:
            return Seen("other", _id(found.id))
    if found.params is not UNSET:
        try:
            params = _params.decode(found.params)
        except msgspec.DecodeError:
            params = UNSET
    return _seen(found, method, params)


def _not_an_object(data: bytes) -> Seen | None:
    try:
        text = bytes(_anything.decode(data)).lstrip()
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    # `Raw` passes over the text without checking what is in it, so an object that ends up here is not JSON.
    return None if text[:1] == b"{" else Seen("batch" if text[:1] == b"[" else "other")


def _seen(message: _Message | _Loose, method: str | UnsetType, params: _Params | UnsetType) -> Seen:
    id = _id(message.id)
    if method is UNSET:
        is_response = message.result is not UNSET or message.error is not UNSET
        return Seen("response" if is_response else "other", id)
    session = None if params is UNSET or params.sessionId is UNSET else params.sessionId
    return Seen("notification" if message.id is UNSET else "request", id, method, session)


def _id(id: Raw | UnsetType) -> bytes | None:
    return None if id is UNSET else bytes(id).strip()


def request_cancelled(data: bytes) -> bytes | None:
    """Return the id that a `$/cancel_request` names, as JSON."""
    try:
        params = _cancel.decode(data).params
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if params is UNSET else _id(params.requestId)


def session_made(data: bytes) -> str | None:
    """Return the session that a response names in its result: one that was made."""
    if b'"sessionId"' not in data:
        return None
    try:
        result = _made.decode(data).result
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if result is UNSET or result.sessionId is UNSET else result.sessionId


_LINE_ENDS: Final = bytes.maketrans(b"\r\n", b"  ")


def one_line(data: bytes) -> bytes:
    """Return the same JSON as one line with its end; a line end in JSON stands only between its parts."""
    if b"\n" in data or b"\r" in data:
        data = data.translate(_LINE_ENDS)
    return data + b"\n"
