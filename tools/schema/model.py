"""The small typed model between the JSON schema and the emitted Python.

It knows records, members, unions, enums and methods; it knows neither JSON Schema's spelling nor Python's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

MISSING: Final = object()
"""A member without a schema default; `None` could be one."""


@dataclass(frozen=True)
class Scalar:
    """A type that needs no declaration of its own, named as `dragoman.schema.parts` names it."""

    name: str


@dataclass(frozen=True)
class Ref:
    """A record, union or enum by its final Python name."""

    name: str


@dataclass(frozen=True)
class ListOf:
    item: Type


@dataclass(frozen=True)
class MapOf:
    value: Type


Type: TypeAlias = Scalar | Ref | ListOf | MapOf


@dataclass
class Member:
    wire: str
    type: Type
    is_required: bool = False
    is_nullable: bool = False
    default: Any = MISSING
    on_error: bool = False
    skip_items: bool = False
    on_null: bool = False

    @property
    def attribute(self) -> str:
        if self.wire == "_meta":
            return "meta"
        return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda found: "_" + found[1].lower(), self.wire)

    @property
    def marks(self) -> str:
        """What the forgiving pass may do: `e` default on error, `s` skip invalid items, `n` default on null."""
        return ("e" if self.on_error else "") + ("s" if self.skip_items else "") + ("n" if self.on_null else "")


@dataclass
class Record:
    """One Struct. With `base`, it is that record plus a tag."""

    name: str
    members: list[Member] = field(default_factory=list)
    tag_field: str = ""
    tag: str = ""
    base: str = ""
    needs_one_of: tuple[str, ...] = ()
    """Attributes of which at least one must be given."""

    def in_order(self) -> list[Member]:
        """Members as the constructor takes them: required ones first, `_meta` last."""
        return sorted(self.members, key=lambda member: (not member.is_required, member.wire == "_meta"))


@dataclass
class Enum:
    name: str
    values: tuple[str, ...]


@dataclass
class Union:
    """Variants told apart by a string member; any other string is an unknown variant."""

    name: str
    tag_field: str
    variants: dict[str, str]


@dataclass
class Choice:
    """A union msgspec cannot express: resolved by a hook.

    `tag`: tagged variants and one without tag; `member`: told apart by which member is there;
    `items`: arrays told apart by a member of their items.
    """

    name: str
    how: Literal["tag", "member", "items"]
    tag_field: str = ""
    variants: dict[str, str] = field(default_factory=dict)
    untagged: str = ""
    untagged_tags: tuple[str, ...] = ()
    is_open: bool = True


@dataclass
class Method:
    name: str
    side: str
    kind: Literal["request", "notification"]
    params: str
    result: str | None
    is_session_scoped: bool = False


@dataclass
class Schema:
    version: int = 1
    records: dict[str, Record] = field(default_factory=dict)
    unions: dict[str, Union | Choice] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)
    methods: list[Method] = field(default_factory=list)

    def members_of(self, name: str) -> list[Member]:
        record = self.records[name]
        return self.records[record.base].members if record.base else record.members

    def record_needs(self, record: Record) -> list[str]:
        names = [record.base] if record.base else []
        for member in record.members:
            names += named(member.type)
        return names

    def needs(self, name: str) -> list[str]:
        """The declared names `name` refers to directly."""
        if name in self.records:
            return self.record_needs(self.records[name])
        if name in self.unions:
            union = self.unions[name]
            rest = [union.untagged] if isinstance(union, Choice) and union.untagged else []
            return [*union.variants.values(), *rest]
        return []

    def closure(self, roots: list[str]) -> list[str]:
        """Everything `roots` reach, each name after what it needs."""
        found: dict[str, None] = {}

        def visit(name: str) -> None:
            if name not in found:
                for needed in self.needs(name):
                    visit(needed)
                found[name] = None

        for root in roots:
            visit(root)
        return list(found)


def named(kind: Type) -> list[str]:
    if isinstance(kind, Ref):
        return [kind.name]
    if isinstance(kind, ListOf):
        return named(kind.item)
    if isinstance(kind, MapOf):
        return named(kind.value)
    return []
