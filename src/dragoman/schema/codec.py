"""Bytes to typed values and back: one encoder, one decode point.

The first decode is strict and one pass; only when it fails does `forgiving.py` decode again. Every failure is a
`RemoteProtocolError` whose message contains nothing of the input. Does not know methods or framing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import PARSE_ERROR, LocalProtocolError, RemoteProtocolError
from dragoman.schema.parts import Choice, ExtensionValue, Unknown

T = TypeVar("T")


class Loss(Struct, frozen=True):
    """A part of a message that could not be read and was replaced or skipped."""

    path: str
    """Where, in wire names: `$.update.content[2]`."""
    why: str
    """What was wrong and what was done; never quotes the input."""


def _write_own(value: Any) -> Any:
    if isinstance(value, Unknown):
        return value.raw
    if isinstance(value, ExtensionValue):
        return str(value)  # only a plain string can be written
    raise NotImplementedError(f"{type(value).__name__} cannot be written as JSON")


def read_choice(kind: Any, value: Any) -> Any:
    """Read a union that msgspec cannot express; its hook."""
    if not isinstance(kind, Choice):
        raise NotImplementedError(f"no way to read {kind!r}")
    chosen = kind.pick(value)
    if isinstance(chosen, Unknown):
        return chosen
    return msgspec.convert(value, chosen, dec_hook=read_choice)


_encoder: Final = msgspec.json.Encoder(enc_hook=_write_own)
_decoders: Final[dict[Any, msgspec.json.Decoder[Any]]] = {}


def encode(value: object) -> bytes:
    """Encode `value` as JSON; lone surrogates, which UTF-8 cannot carry, become U+FFFD.

    Raises:
        LocalProtocolError: something in it is not a JSON value, or it is nested too deeply.
    """
    try:
        try:
            return _encoder.encode(value)
        except UnicodeEncodeError:
            return _encoder.encode(_without_surrogates(msgspec.to_builtins(value, enc_hook=_write_own)))
    except (NotImplementedError, TypeError, ValueError, OverflowError, RecursionError) as error:
        raise LocalProtocolError(f"cannot be written as JSON: {error}") from error


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        # UTF-16 joins a pair that was split into two escapes and leaves one mark per lone half.
        return value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(member) for key, member in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_surrogates(item) for item in value]
    return value


def decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    """Return the strict one-pass decoder of a type, made on first use."""
    try:
        return _decoders[kind]
    except KeyError:
        made = _decoders[kind] = msgspec.json.Decoder(kind, dec_hook=read_choice)
        return made


@overload
def decode(kind: type[T], data: bytes | Raw | memoryview, report: Callable[[Loss], None] | None = None) -> T: ...
@overload
def decode(kind: Any, data: bytes | Raw | memoryview, report: Callable[[Loss], None] | None = None) -> Any: ...
def decode(kind: Any, data: bytes | Raw | memoryview, report: Callable[[Loss], None] | None = None) -> Any:
    """Decode `data` as a value of `kind`; what the forgiving pass gave up is passed to `report`.

    Raises:
        RemoteProtocolError: -32700 when it is not JSON, -32602 with the member's path when it does not fit.
    """
    made = decoder(kind)
    try:
        return made.decode(data)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        value = msgspec.json.decode(data)
    except RecursionError:
        raise RemoteProtocolError("the JSON is nested too deeply", code=PARSE_ERROR) from None
    except UnicodeDecodeError:
        raise RemoteProtocolError("the JSON is not UTF-8", code=PARSE_ERROR) from None
    except msgspec.ValidationError:
        # Without a type to check against, only a number that no Python value can hold ends up here.
        raise RemoteProtocolError("the JSON holds a number out of every range", code=PARSE_ERROR) from None
    except (msgspec.MsgspecError, ValueError):
        raise RemoteProtocolError("not valid JSON", code=PARSE_ERROR) from None
    from dragoman.schema.forgiving import read  # msgspec.inspect is needed for unclean input only

    return read(kind, value, report)
