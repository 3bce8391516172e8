"""The generator's model as the tests' source of cases: which types there are, and JSON that fits or does not."""

from __future__ import annotations

import json
from typing import Any, Final, NoReturn

from dragoman.schema import Loss
from tools.schema.files import HERE
from tools.schema.model import Choice, ListOf, MapOf, Member, Record, Ref, Scalar, Schema, Type
from tools.schema.reader import read_schema

MODEL: Final = read_schema(HERE / "acp-v1-unstable.json")
STABLE: Final = read_schema(HERE / "acp-v1.json")
MODEL_V2: Final = read_schema(HERE / "acp-v2-unstable.json", 2)
DEFINITIONS: Final[dict[str, Any]] = json.loads((HERE / "acp-v1-unstable.json").read_text())["$defs"]
DEFINITIONS_V2: Final[dict[str, Any]] = json.loads((HERE / "acp-v2-unstable.json").read_text())["$defs"]

JSON_VALUES: Final[tuple[Any, ...]] = (None, True, 7, 1.5, "text", [], {})
"""One value of each JSON type; 7 fits every integer range of the schema."""

_SCALARS: Final[dict[str, Any]] = {"bool": True, "float": 1.5, "Any": 7, "JsonObject": {}, "RequestId": "r"}


def members_of(name: str) -> list[Member]:
    return MODEL.members_of(name)


def root(record: Record) -> Record:
    return MODEL.records[record.base] if record.base else record


def smallest(kind: Type) -> Any:
    """The least JSON that is a value of this type."""
    match kind:
        case Scalar(name):
            return _SCALARS.get(name, 7 if "Int" in name else "text")
        case ListOf():
            return []
        case MapOf():
            return {}
        case Ref(name):
            return smallest_named(name)


def smallest_named(name: str) -> Any:
    if name in MODEL.enums:
        return MODEL.enums[name].values[0]
    if name in MODEL.unions:
        union = MODEL.unions[name]
        if isinstance(union, Choice) and union.how == "items":
            return []
        return smallest_named(next(iter(union.variants.values())))
    record = MODEL.records[name]
    found = {record.tag_field: record.tag} if record.tag else {}
    for member in members_of(name):
        if member.is_required or member.attribute in root(record).needs_one_of[:1]:
            found[member.wire] = smallest(member.type)
    return found


def accepts(member: Member, value: Any) -> bool:
    """Whether one of `JSON_VALUES` fits a member, by the schema alone."""
    return (value is None and member.is_nullable) or _fits(member.type, value)


def _fits(kind: Type, value: Any) -> bool:
    match kind:
        case Scalar("Any"):
            return True
        case Scalar("RequestId"):
            return value is None or type(value) in (int, str)
        case Scalar("float"):
            return type(value) in (int, float)
        case Scalar("JsonObject") | MapOf():
            return value == {} and value is not None and not isinstance(value, list)
        case ListOf():
            return isinstance(value, list)
        case Scalar(name):
            return type(value) is (bool if name == "bool" else int if "Int" in name else str)
        case Ref(name):
            return _fits_named(name, value)


def _fits_named(name: str, value: Any) -> bool:
    if name in MODEL.enums:
        return isinstance(value, str)
    if name in MODEL.unions:
        union = MODEL.unions[name]
        if isinstance(union, Choice) and union.how == "items":
            return isinstance(value, list)
        untagged = union.untagged if isinstance(union, Choice) else ""
        return bool(untagged) and _fits_named(untagged, value)
    return isinstance(value, dict) and not any(member.is_required for member in members_of(name))


def no_loss(loss: Loss) -> NoReturn:
    """A report that fails the test: nothing may be given up."""
    raise AssertionError(f"{loss.path}: {loss.why}")


def stable_records() -> list[str]:
    """Every record a stable method can carry."""
    roots = [name for method in STABLE.methods for name in (method.params, method.result) if name]
    return [name for name in STABLE.closure(roots) if name in STABLE.records]


def definition_of(name: str, model: Schema = MODEL) -> str:
    """The definition a value of this type must be valid against: its union's, if it is a variant."""
    for union in model.unions.values():
        names = list(union.variants.values()) if not isinstance(union, Choice) or union.how != "items" else []
        if name in names or (isinstance(union, Choice) and name == union.untagged):
            return union.name
    return {"ToolCallPatch": "ToolCallUpdate"}.get(name, name)
