"""Hypothesis strategies for every generated type, made from the generator's model."""

from __future__ import annotations

from types import ModuleType
from typing import Any

from hypothesis import strategies as st

from dragoman.schema import Unknown, v1
from tests.schema.model import MODEL
from tools.schema.model import Choice, ListOf, MapOf, Member, Ref, Scalar, Schema, Type, Union

TEXT = st.text(max_size=4)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | FLOATS | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECTS = st.dictionaries(TEXT, JSON, max_size=2)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "str": TEXT,
    "NonEmptyStr": st.text(min_size=1, max_size=4),
    "bool": st.booleans(),
    "float": FLOATS,
    "Any": JSON,
    "JsonObject": OBJECTS,
    "Int32": st.integers(-(2**31), 2**31 - 1),
    "Int64": st.integers(-(2**63), 2**63 - 1),
    "UInt16": st.integers(0, 2**16 - 1),
    "UInt32": st.integers(0, 2**32 - 1),
    "UInt64": st.integers(0, 2**64 - 1),
    "RequestId": st.none() | st.integers(-(2**63), 2**63 - 1) | TEXT,
    "ElicitationContentValue": TEXT | st.integers(-(2**63), 2**63 - 1) | FLOATS | st.booleans() | st.lists(TEXT),
}


class Values:
    """Strategies by type name; with `unknown`, enums and unions also take values no schema names."""

    def __init__(self, *, unknown: bool, model: Schema = MODEL, types: ModuleType = v1) -> None:
        self.unknown = unknown
        self.model = model
        self.types = types
        self.made: dict[str, st.SearchStrategy[Any]] = {}

    def of(self, name: str) -> st.SearchStrategy[Any]:
        if name not in self.made:
            self.made[name] = self._make(name)
        return self.made[name]

    def _make(self, name: str) -> st.SearchStrategy[Any]:
        if name in self.model.enums:
            known = st.sampled_from(self.model.enums[name].values)
            return known | TEXT.map(lambda text: f"_{text}") if self.unknown else known
        if name in self.model.unions:
            union = self.model.unions[name]
            return self._choice(union) if isinstance(union, Choice) else self._union(union)
        return self._record(name)

    def _type(self, kind: Type) -> st.SearchStrategy[Any]:
        match kind:
            case Scalar(name):
                return SCALARS[name]
            case Ref(name):
                return self.of(name)
            case ListOf(item):
                return st.lists(self._type(item), max_size=2)
            case MapOf(value):
                return st.dictionaries(TEXT, self._type(value), max_size=2)

    def _member(self, member: Member) -> st.SearchStrategy[Any]:
        values = self._type(member.type)
        return st.none() | values if member.is_nullable else values

    def _record(self, name: str) -> st.SearchStrategy[Any]:
        given_record = self.model.records[name]
        record = self.model.records[given_record.base] if given_record.base else given_record
        required = {member.attribute for member in record.members if member.is_required} | set(record.needs_one_of[:1])
        members = {member.attribute: self._member(member) for member in self.model.members_of(name)}
        given = st.fixed_dictionaries(
            {attribute: values for attribute, values in members.items() if attribute in required},
            optional={attribute: values for attribute, values in members.items() if attribute not in required},
        )
        return given.map(lambda arguments: getattr(self.types, name)(**arguments))

    def _union(self, union: Union) -> st.SearchStrategy[Any]:
        known = st.one_of(*map(self.of, union.variants.values()))
        return known | _unknown(union.tag_field) if self.unknown else known

    def _choice(self, choice: Choice) -> st.SearchStrategy[Any]:
        names = [*choice.variants.values(), *([choice.untagged] if choice.untagged else [])]
        if choice.how == "items":
            return st.one_of(*(st.lists(self.of(name), max_size=2) for name in names))
        known = st.one_of(*map(self.of, names))
        return known | _unknown(choice.tag_field) if self.unknown and choice.is_open else known


def _unknown(tag_field: str) -> st.SearchStrategy[Unknown]:
    tags = TEXT.map(lambda text: f"_{text}")
    return st.builds(lambda tag, body: Unknown(tag, {**body, tag_field: tag}), tags, OBJECTS)
