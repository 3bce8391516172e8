"""Redaction of messages: their contents are replaced, their structure is kept.

Owns the choice of what is kept: everything is replaced unless its place in the protocol makes it harmless (names of
members, methods, tags, enumerations, numbers the protocol counts with). Ids become pseudonyms, the same one wherever
the id stands. The schema decodes a redacted message exactly like the original. `docs/recording.md` is the promise.
The placeholders and the masking of values without a schema are in `dragoman.text`; this module needs the schema.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, inspect

from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS, Unknown, v1
from dragoman.schema.parts import Choice
from dragoman.text.placeholder import (
    keep_currency,
    keep_media_type,
    keep_method,
    keep_program,
    keep_signal,
    keep_word,
    mask,
    mask_bytes,
)
from dragoman.text.redact import JsonMask
from dragoman.trace.entry import Entry, Frame, Header, Stderr
from dragoman.wire.bounds import find_fault

if TYPE_CHECKING:
    from dragoman.trace.entry import Direction

# Members with a value of an enumeration; a test compares this with the schema.
WORDS: Final = frozenset(
    {
        "apiType",
        "archived",
        "audience",
        "category",
        "format",
        "kind",
        "mode",
        "priority",
        "role",
        "severity",
        "state",
        "status",
        "stopReason",
        "supported",
        "type",
    }
)
# Members with an id that other messages use again; so does every member whose name ends in `Id`.
_IDS: Final = frozenset(
    {"id", "value", "currentValue", "group", "cursor", "nextCursor", "required", "enum", "const", "default"}
)
_SECRETS: Final = frozenset({("EnvVariable", "value"), ("HttpHeader", "value")})  # not ids, in spite of the name
_FREE: Final = frozenset({("AcceptElicitation", "content"), ("McpResult", "result"), ("McpError", "data")})
_PROGRAMS: Final = frozenset({("Implementation", "name"), ("Implementation", "version")})
# Members whose value is kept if it has the form it should have.
_FORMS: Final = {"mimeType": keep_media_type, "signal": keep_signal, "currency": keep_currency}
_SENTENCES: Final = frozenset(
    {
        "Parse error",
        "Invalid request",
        "Invalid Request",
        "Method not found",
        "Invalid params",
        "Internal error",
        "Request cancelled",
        "Resource not found",
        "Authentication required",
    }
)
_ENVELOPE: Final = ("jsonrpc", "id", "method", "params", "result", "error", "code", "message", "data")
_TRACE_CONTEXT: Final = ("traceparent", "tracestate", "baggage")  # names the protocol reserves in `_meta`


class Redactor:
    """The redaction of one conversation.

    Use a new one for each, because a response is decoded by the method of its request.
    """

    def __init__(self) -> None:
        self._json = JsonMask(_vocabulary())
        self._asked: dict[tuple[Direction, Any], str] = {}

    def entry(self, entry: Entry) -> Entry:
        """Redact an entry of a recording."""
        match entry:
            case Header():
                return Header(started=entry.started, by=entry.by, redacted=True)
            case Frame():
                return Frame(entry.t, entry.dir, self.frame(entry.dir, entry.data), entry.eol)
            case Stderr():
                return Stderr(entry.t, self.text(entry.text))
        return entry

    def frame(self, direction: Direction, data: bytes) -> bytes:
        """Redact a line; one that is not a message is replaced as a whole."""
        if not data or data.isspace():
            return data
        try:
            message = None if find_fault(data) else msgspec.json.decode(data)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            message = None
        if not isinstance(message, dict):
            return mask_bytes(data)
        return msgspec.json.encode(self._message(direction, message))

    def text(self, text: str) -> str:
        """Redact a line of a log."""
        return mask(text)

    # A message

    def _message(self, direction: Direction, message: dict[str, Any]) -> dict[str, Any]:
        method, id = message.get("method"), message.get("id")
        params: Any = None
        result: Any = None
        if isinstance(method, str):
            table = AGENT_METHODS if direction == "c2a" else CLIENT_METHODS
            known = table.get(method) or PROTOCOL_METHODS.get(method)
            params = known.params if known else None
            if isinstance(id, (int, str)):
                self._asked[direction, id] = method
        elif isinstance(id, (int, str)):
            asked = self._asked.pop(("a2c" if direction == "c2a" else "c2a", id), "")
            known = (CLIENT_METHODS if direction == "c2a" else AGENT_METHODS).get(asked)
            result = known.result if known else None
        return dict(self._envelope(name, value, params, result) for name, value in message.items())

    def _envelope(self, name: str, value: Any, params: Any, result: Any) -> tuple[str, Any]:
        match name, value:
            case "jsonrpc", "2.0":
                return name, value
            case "id", str():
                return name, self._json.pseudonym(value, "request")
            case "id", int() if not isinstance(value, bool):
                return name, value
            case "method", str():
                return name, keep_method(value)
            case "params", _ if params is not None:
                return name, self._typed(_shape(params), value)
            case "result", _ if result is not None:
                return name, self._typed(_shape(result), value)
            case "error", dict():
                return name, {self._json.name(key): self._error(key, member) for key, member in value.items()}
        return self._json.name(name), self._json.value(value)

    def _error(self, name: str, value: Any) -> Any:
        if name == "code" and isinstance(value, int):
            return value
        if name == "message" and value in _SENTENCES:
            return value
        return self._json.value(value)

    # Values of a known type

    def _typed(self, shape: inspect.Type, value: Any) -> Any:
        if isinstance(value, dict):
            return self._object(shape, value)
        if isinstance(value, list):
            item_shape = _item(shape, value)
            if item_shape is None:
                return self._json.value(value)
            return [self._typed(item_shape, item) for item in value]
        if isinstance(value, str) or _holds_numbers(shape):
            return mask(value) if isinstance(value, str) else value
        return self._json.value(value)

    def _object(self, shape: inspect.Type, value: dict[str, Any]) -> Any:
        variant = _variant(shape, value)
        if isinstance(variant, inspect.DictType):
            return {self._json.key(name): self._typed(variant.value_type, member) for name, member in value.items()}
        if not isinstance(variant, inspect.StructType):
            return self._unknown(shape, value)
        fields = _fields(variant.cls)
        tags = (variant.tag_field, _tag_field(shape))  # a variant without a tag may be written with one all the same
        known: dict[str, Any] = {}
        for name, member in value.items():
            if name in tags and isinstance(member, str):
                known[name] = keep_word(member)
            elif name in fields:
                known[name] = self._member(variant.cls.__name__, name, fields[name], member)
            else:
                known[self._json.name(name)] = self._json.value(member)
        return known

    def _unknown(self, shape: inspect.Type, value: dict[str, Any]) -> Any:
        """Redact a variant that the schema does not have: only its tag field is known."""
        tag = _tag_field(shape)
        return {
            self._json.name(name): keep_word(member)
            if name == tag and isinstance(member, str)
            else self._json.value(member)
            for name, member in value.items()
        }

    def _member(self, owner: str, name: str, shape: inspect.Type, value: Any) -> Any:
        if isinstance(value, list) and value and all(isinstance(item, str) for item in value):
            return [self._member(owner, name, shape, item) for item in value]
        if (owner, name) in _FREE:
            return self._json.value(value)
        if not isinstance(value, str):
            # The default of a form may be what its user once entered.
            return self._json.value(value) if name == "default" else self._typed(shape, value)
        if name in _FORMS:
            return _FORMS[name](value)
        if (owner, name) in _PROGRAMS:
            return keep_program(value)
        if name in WORDS:
            return keep_word(value)
        if (name.endswith("Id") or name in _IDS) and (owner, name) not in _SECRETS:
            return self._json.pseudonym(value, name.removesuffix("Id"))
        return mask(value)


@cache
def _shape(kind: Any) -> inspect.Type:
    return inspect.type_info(kind)


@cache
def _fields(kind: type[Struct]) -> dict[str, inspect.Type]:
    shape = _shape(kind)
    assert isinstance(shape, inspect.StructType)
    return {field.encode_name: field.type for field in shape.fields}


@cache
def _vocabulary() -> frozenset[str]:
    """Return all names of members in the protocol."""
    kinds = [getattr(v1, name) for name in v1.__all__]
    structs = [kind for kind in kinds if isinstance(kind, type) and issubclass(kind, Struct)]
    names = {name for kind in structs for name in kind.__struct_encode_fields__}
    tags = {kind.__struct_config__.tag_field for kind in structs} - {None}
    return frozenset({*names, *tags, *_ENVELOPE, *_TRACE_CONTEXT})  # type: ignore[arg-type]  # None was taken out


def _alternatives(shape: inspect.Type) -> tuple[inspect.Type, ...]:
    return shape.types if isinstance(shape, inspect.UnionType) else (shape,)


def _variant(shape: inspect.Type, value: dict[str, Any]) -> inspect.Type | None:
    """Return the type an object is decoded as, None if there is none."""
    for variant in _alternatives(shape):
        if isinstance(variant, inspect.CustomType):
            return _chosen(variant.cls, value)
        if isinstance(variant, inspect.DictType):
            return variant
        if isinstance(variant, inspect.StructType) and (
            variant.tag_field is None or value.get(variant.tag_field, UNSET) == variant.tag
        ):
            return variant
    # A tag may be left out where only one variant is possible.
    structs = [variant for variant in _alternatives(shape) if isinstance(variant, inspect.StructType)]
    return structs[0] if len(structs) == 1 and structs[0].tag_field not in value else None


def _chosen(choice: Any, value: Any) -> inspect.Type | None:
    assert isinstance(choice, Choice)
    try:
        chosen = choice.pick(value)
    except ValueError:
        return None
    return None if isinstance(chosen, Unknown) else _shape(chosen)


def _item(shape: inspect.Type, value: list[Any]) -> inspect.Type | None:
    """Return the type of the items of an array, None if no array is expected."""
    for variant in _alternatives(shape):
        array = _chosen(variant.cls, value) if isinstance(variant, inspect.CustomType) else variant
        if isinstance(array, inspect.ListType):
            return array.item_type
    return None


def _tag_field(shape: inspect.Type) -> str | None:
    for variant in _alternatives(shape):
        if isinstance(variant, inspect.StructType):
            return variant.tag_field
        if isinstance(variant, inspect.CustomType):
            return "type"
    return None


def _holds_numbers(shape: inspect.Type) -> bool:
    return any(
        isinstance(variant, (inspect.IntType, inspect.FloatType, inspect.BoolType, inspect.NoneType))
        for variant in _alternatives(shape)
    )
