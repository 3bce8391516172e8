"""The forgiving decode: reads a value that the strict decode refused.

Unknown variants are kept as `Unknown`; what is invalid follows the schema's mark of the nearest member around it
(default on error, skip invalid items, default on null), and without a mark the whole value fails with its path.
It works on plain Python values, never on bytes, and never runs for clean traffic.

Most flawed messages have one flaw. So every object is first tried as a whole, strictly, by msgspec; a member that it
names as wrong is taken out, read by the rules above, and the rest is tried again. Only what remains unclear after a few
of these is read member by member. The result, the losses and the errors are those of the member-by-member reading.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, ValidationError, convert, inspect, structs

from dragoman.errors import RemoteProtocolError
from dragoman.schema.codec import Loss, read_choice
from dragoman.schema.parts import Choice, Unknown
from dragoman.schema.v1 import marks as v1_marks

_INT64_MAX: Final = 2**63 - 1
_UINT64_MAX: Final = 2**64 - 1
_META_ONLY: Final = {"_meta": "e"}
_shapes: Final[dict[Any, inspect.Type]] = {}
# What is needed at each object and each union, computed at the first of its kind.
_optional: Final[dict[type, dict[str, inspect.Field]]] = {}
_unions: Final[dict[int, _Union]] = {}
# Record -> what may be done to which member, and other names of members; by class, since two versions share names.
_marks: Final[dict[type, tuple[dict[str, str], dict[str, str]]]] = {}

# The member in the path that ends every message of msgspec: "Expected `str`, got `int` - at `$.title`".
_MEMBER: Final = re.compile(r"`\$\.([^.\[`]+)[^`]*`\Z")
# Members of one object that are read by themselves; beyond that, trying the rest again costs more than it saves.
_FLAWS: Final = 3


class _MisfitError(Exception):
    def __init__(self, path: str, why: str) -> None:
        super().__init__(path, why)
        self.path = path
        self.why = why


def read(kind: Any, value: Any, report: Callable[[Loss], None] | None, *, tries_whole: bool = True) -> Any:
    """Read `value` as `kind`, as far as the marks allow; `tries_whole=False` reads everything member by member.

    Raises:
        RemoteProtocolError: -32602 with the path of the member that does not fit.
    """
    losses: list[Loss] = []
    shape = _shape(kind)
    if value is None and isinstance(shape, inspect.StructType) and not any(field.required for field in shape.fields):
        value = {}  # rules 109 and 279: a null result means the empty object
    try:
        result = _Reader(losses, tries_whole=tries_whole).read(shape, value, "$")
    except _MisfitError as error:
        raise RemoteProtocolError(error.why, path=error.path) from None
    if report is not None:
        for loss in losses:
            report(loss)
    return result


def _shape(kind: Any) -> inspect.Type:
    try:
        return _shapes[kind]
    except KeyError:
        made = _shapes[kind] = inspect.type_info(kind)
        return made


def _name(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return names.get(type(value), "an object")


def _no(path: str, expected: str, value: Any) -> _MisfitError:
    return _MisfitError(path, f"expected {expected}, got {_name(value)}")


class _Reader:
    def __init__(self, losses: list[Loss], *, tries_whole: bool) -> None:
        self.losses = losses
        self.tries_whole = tries_whole

    def read(self, shape: inspect.Type, value: Any, path: str, marks: str = "") -> Any:
        match shape:
            case inspect.StructType():
                return self._struct(shape, value, path)
            case inspect.UnionType():
                return self._union(shape, value, path, marks)
            case inspect.AnyType():
                return value
            case inspect.ListType():
                return self._list(shape, value, path, marks)
            case inspect.DictType():
                return self._dict(shape, value, path)
            case inspect.CustomType():
                return self._choice(shape.cls, value, path)
        return _scalar(shape, value, path)

    def _struct(self, shape: inspect.StructType, value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _no(path, "an object", value)
        marks, lenient = _marks_of(shape.cls)
        # The outermost object was tried already: that is why this runs. Other names than the schema's are looked up.
        if self.tries_whole and path != "$" and not lenient:
            found = self._whole(shape.cls, value, path)
            if found is not None:
                return found
        self._check_tag(shape, value, path)
        members: dict[str, Any] = {}
        for field in shape.fields:
            wire = field.encode_name
            if wire not in value and wire in lenient:
                wire = lenient[wire]
                if wire in value:
                    self.losses.append(Loss(f"{path}.{wire}", f"read as `{field.encode_name}`"))
            if wire in value:
                members[field.name] = self._member(field, value[wire], f"{path}.{wire}", marks.get(wire, ""))
            elif field.required:
                raise _MisfitError(f"{path}.{field.encode_name}", "a required member is missing")
        try:
            return shape.cls(**members)
        except ValueError as error:
            raise _MisfitError(path, str(error)) from None

    def _whole(self, kind: type, value: dict[str, Any], path: str) -> Any:
        """Return the object, if all of it but a few optional members is as the schema says; None otherwise."""
        optional = _optional_fields(kind)
        flawed: dict[str, inspect.Field] = {}
        rest = value
        while True:
            try:
                found: Any = convert(rest, kind, dec_hook=read_choice)
                break
            except ValidationError as error:
                named = _MEMBER.search(str(error))
            name = "" if named is None else named[1]
            if name not in optional or name not in rest or len(flawed) == _FLAWS:
                return None
            flawed[name] = optional[name]
            rest = rest.copy()
            del rest[name]
        if not flawed:
            return found
        if len(flawed) > 1:  # losses are reported in the order of the schema
            flawed = {name: field for name, field in optional.items() if name in flawed}
        marks, _ = _marks_of(kind)
        changes = {}
        for name, field in flawed.items():
            member = self._member(field, value[name], f"{path}.{name}", marks.get(name, ""))
            if member is not UNSET:
                changes[field.name] = member
        return structs.replace(found, **changes) if changes else found

    @staticmethod
    def _check_tag(shape: inspect.StructType, value: dict[str, Any], path: str) -> None:
        if shape.tag_field is not None and value.get(shape.tag_field, shape.tag) != shape.tag:
            raise _MisfitError(f"{path}.{shape.tag_field}", f"expected `{shape.tag}`")

    def _member(self, field: inspect.Field, value: Any, path: str, marks: str) -> Any:
        default: Any = [] if field.required else UNSET
        if value is None and "n" in marks and not _accepts_null(field.type):
            self.losses.append(Loss(path, "null read as the default"))
            return default
        if "e" not in marks:
            return self.read(field.type, value, path, marks)
        known = len(self.losses)
        try:
            return self.read(field.type, value, path, marks)
        except _MisfitError as error:
            del self.losses[known:]
            self.losses.append(Loss(error.path, f"{error.why}; the default was taken for {path}"))
            return default

    def _list(self, shape: inspect.ListType, value: Any, path: str, marks: str) -> list[Any]:
        if type(value) is not list:
            raise _no(path, "an array", value)
        items = []
        for index, item in enumerate(value):
            known = len(self.losses)
            try:
                items.append(self.read(shape.item_type, item, f"{path}[{index}]"))
            except _MisfitError as error:
                if "s" not in marks:
                    raise
                del self.losses[known:]
                self.losses.append(Loss(error.path, f"{error.why}; item {index} of {path} was skipped"))
        return items

    def _dict(self, shape: inspect.DictType, value: Any, path: str) -> dict[str, Any]:
        if type(value) is not dict:
            raise _no(path, "an object", value)
        # Keys are the peer's words (names of environment variables, say) and stay out of messages.
        return {key: self.read(shape.value_type, member, f"{path}[...]") for key, member in value.items()}

    def _choice(self, choice: type, value: Any, path: str) -> Any:
        assert isinstance(choice, Choice)
        try:
            chosen = choice.pick(value)
        except ValueError as error:
            raise _MisfitError(path, str(error)) from None
        if isinstance(chosen, Unknown):
            return chosen
        return self.read(_shape(chosen), value, path)

    def _union(self, shape: inspect.UnionType, value: Any, path: str, marks: str) -> Any:
        union = _taken_apart(shape)
        if value is None and union.has_null:
            return None
        if union.tag_field is not None:
            return self._variant(union, union.tag_field, value, path)
        if len(union.others) == 1:
            return self.read(union.others[0], value, path, marks)
        for variant in union.others:
            try:
                return self.read(variant, value, path, marks)
            except _MisfitError:
                continue
        raise _MisfitError(path, f"{_name(value)} is not allowed here or is out of range")

    def _variant(self, union: _Union, field: str, value: Any, path: str) -> Any:
        if type(value) is not dict:
            raise _no(path, "an object", value)
        tag = value.get(field)
        if type(tag) is not str:
            why = "a required member is missing" if field not in value else f"expected a string, got {_name(tag)}"
            raise _MisfitError(f"{path}.{field}", why)
        known = union.by_tag.get(tag)
        return Unknown(tag, value) if known is None else self._struct(known, value, path)


class _Union:
    """A union taken apart: null or not, and the rest; variants by their tags, if it has several objects."""

    __slots__ = ("by_tag", "has_null", "others", "shape", "tag_field")

    def __init__(self, shape: inspect.UnionType) -> None:
        self.shape = shape  # kept, because unions are found by identity
        self.has_null = _accepts_null(shape)
        self.others = [variant for variant in shape.types if not isinstance(variant, inspect.NoneType)]
        variants = [variant for variant in self.others if isinstance(variant, inspect.StructType)]
        self.by_tag: dict[object, inspect.StructType] = {}
        self.tag_field: str | None = None
        if len(variants) > 1:
            self.by_tag = {variant.tag: variant for variant in variants}
            self.tag_field = variants[0].tag_field


def _taken_apart(shape: inspect.UnionType) -> _Union:
    try:
        return _unions[id(shape)]
    except KeyError:
        made = _unions[id(shape)] = _Union(shape)
        return made


def _marks_of(kind: type) -> tuple[dict[str, str], dict[str, str]]:
    """Return the marks of a record's members, and the other names they are read from."""
    try:
        return _marks[kind]
    except KeyError:
        tables = v1_marks
        if kind.__module__.startswith("dragoman.schema.v2."):
            from dragoman.schema.v2 import marks as tables  # type: ignore[no-redef]  # the same two names
        name = kind.__name__
        made = _marks[kind] = (tables.MARKS.get(name, _META_ONLY), tables.LENIENT_NAMES.get(name, {}))
        return made


def _optional_fields(kind: type) -> dict[str, inspect.Field]:
    """Return the members that may be missing, by their names on the wire."""
    try:
        return _optional[kind]
    except KeyError:
        shape = _shape(kind)
        assert isinstance(shape, inspect.StructType)
        made = _optional[kind] = {field.encode_name: field for field in shape.fields if not field.required}
        return made


def _accepts_null(shape: inspect.Type) -> bool:
    if isinstance(shape, inspect.UnionType):
        return any(isinstance(variant, inspect.NoneType) for variant in shape.types)
    return isinstance(shape, (inspect.NoneType, inspect.AnyType))


def _scalar(shape: inspect.Type, value: Any, path: str) -> Any:
    match shape:
        case inspect.StrType():
            if type(value) is not str:
                raise _no(path, "a string", value)
            if len(value) < (shape.min_length or 0):
                raise _MisfitError(path, f"expected a string of at least {shape.min_length} characters")
            return value
        case inspect.BoolType():
            if type(value) is not bool:
                raise _no(path, "a boolean", value)
            return value
        case inspect.IntType():
            return _integer(shape, value, path)
        case inspect.FloatType():
            if type(value) not in (int, float):
                raise _no(path, "a number", value)
            try:
                return float(value)
            except OverflowError:
                raise _MisfitError(path, "expected a number a double can hold") from None
        case inspect.LiteralType():
            if value not in shape.values:
                raise _MisfitError(path, "not one of the values allowed here")
            return value
    raise _MisfitError(path, f"{_name(value)} is not allowed here")


def _integer(shape: inspect.IntType, value: Any, path: str) -> int:
    low = shape.ge if shape.ge is not None else -_INT64_MAX - 1
    high = shape.le if shape.le is not None else _INT64_MAX
    if low == 0 and high == _INT64_MAX:
        high = _UINT64_MAX  # msgspec cannot state this bound, see `parts.UInt64`
    if type(value) is not int:
        raise _no(path, "an integer", value)
    if not low <= value <= high:
        raise _MisfitError(path, f"expected an integer from {low} to {high}")
    return value
