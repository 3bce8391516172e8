"""Reads a stripped ACP JSON schema into the model.

It knows the shapes this schema uses and refuses any other, so that a new release fails here and not at run time.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeAlias

from tools.schema import choices
from tools.schema.model import (
    MISSING,
    Choice,
    Enum,
    ListOf,
    MapOf,
    Member,
    Method,
    Record,
    Ref,
    Scalar,
    Schema,
    Type,
    Union,
)

Node: TypeAlias = dict[str, Any]

OWN_SCALARS = frozenset({"RequestId", "ElicitationContentValue"})
"""Unions of plain JSON types; `dragoman.schema.parts` spells them out."""

INTEGERS = {"int32": "Int32", "int64": "Int64", "uint16": "UInt16", "uint32": "UInt32", "uint64": "UInt64"}


def read_schema(path: Path, version: int = 1) -> Schema:
    """The model of one schema file."""
    return _Reader(json.loads(path.read_text())["$defs"], choices.VERSIONS[version]).read()


def ref_name(node: Node) -> str:
    """The definition a node stands for, or "" when it says more than that."""
    if "$ref" in node:
        return str(node["$ref"]).rpartition("/")[2]
    only = node.get("allOf", [])
    return ref_name(only[0]) if len(only) == 1 and "properties" not in node else ""


def tag_of(node: Node) -> tuple[str, str] | None:
    for wire, value in node.get("properties", {}).items():
        if "const" in value and wire in node.get("required", ()):
            return wire, value["const"]
    return None


def alternatives(definition: Node) -> list[Node]:
    nodes: list[Node] = definition.get("oneOf") or definition.get("anyOf") or []
    return nodes


def pascal(tag: str) -> str:
    return "".join(part.capitalize() for part in tag.split("_"))


class _Reader:
    def __init__(self, definitions: dict[str, Node], decided: choices.Choices) -> None:
        self.decided = decided
        self.definitions = {
            name: node
            for name, node in definitions.items()
            if name not in choices.SKIPPED and node.get("x-side") not in choices.SKIPPED_SIDES
        }
        self.schema = Schema(decided.version)
        self.tagged_uses: dict[str, list[str]] = {}
        self.untagged_uses: set[str] = set()

    def read(self) -> Schema:
        for node in self.definitions.values():
            self._count_uses(node)
        self._read_methods()
        for method in self.schema.methods:
            for name in (method.params, method.result):
                if name is not None:
                    self._declare(name)
        return self.schema

    def _count_uses(self, definition: Node) -> None:
        for node in alternatives(definition):
            tag = tag_of(node)
            inner = [ref_name(each) for each in node.get("allOf", [])]
            if tag and inner:
                self.tagged_uses.setdefault(inner[0], []).append(tag[1])
            elif ref_name(node):
                self.untagged_uses.add(ref_name(node))
        for node in definition.get("properties", {}).values():
            self.untagged_uses.update(_refs(node))
        self.untagged_uses.update(_refs(definition.get("items", {})))

    def _read_methods(self) -> None:
        results = {
            (node["x-side"], node["x-method"]): name
            for name, node in self.definitions.items()
            if "x-method" in node and name.endswith("Response")
        }
        for name, node in self.definitions.items():
            if "x-method" not in node or name.endswith("Response"):
                continue
            side, method = node["x-side"], node["x-method"]
            is_request = name.endswith("Request")
            self.schema.methods.append(
                Method(
                    method,
                    side,
                    "request" if is_request else "notification",
                    name,
                    results[side, method] if is_request else None,
                    "sessionId" in node.get("required", ()),
                )
            )

    def _type(self, node: Node) -> tuple[Type, bool]:
        """The type of a node and whether null is one of its values."""
        name = ref_name(node)
        if name:
            return self._named(name), False
        options = node.get("anyOf", [])
        if options:
            inner, null = options
            if null != {"type": "null"}:
                raise ValueError(f"a union inside a member: {node}")
            return self._type(inner)[0], True
        kinds = node.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        plain = [kind for kind in kinds if kind != "null"]
        return (self._plain(plain[0], node) if plain else Scalar("Any")), "null" in kinds

    def _plain(self, kind: str, node: Node) -> Type:
        if kind == "array":
            return ListOf(self._type(node["items"])[0])
        if kind == "object":
            values = node.get("additionalProperties", True)
            return Scalar("JsonObject") if values is True else MapOf(self._type(values)[0])
        if kind == "integer":
            return Scalar(INTEGERS[node["format"]])
        if kind == "string" and node.get("minLength"):
            return Scalar("NonEmptyStr")
        return Scalar({"string": "str", "number": "float", "boolean": "bool"}[kind])

    def _named(self, name: str) -> Type:
        node = self.definitions[name]
        if name in self.decided.any_value:
            return Scalar("Any")
        if name in OWN_SCALARS:
            return Scalar(name)
        if name in self.decided.choices or self._is_tagged_union(node):
            self._declare(name)
            return Ref(name)
        options = alternatives(node)
        if options and "properties" not in node:
            if len(options) == 1 and ref_name(options[0]):
                return self._named(ref_name(options[0]))
            if all(option.get("type") == "integer" for option in options):
                return Scalar(INTEGERS[options[0]["format"]])
            values = tuple(option["const"] for option in options if "const" in option)
            self.schema.enums[name] = Enum(name, values)
            return Ref(name)
        if node.get("type") in ("string", "integer"):
            return self._plain(node["type"], node)
        self._declare(name)
        return Ref(self.decided.untagged_names.get(name, name))

    @staticmethod
    def _is_tagged_union(node: Node) -> bool:
        options = alternatives(node)
        tags = [tag for tag in map(tag_of, options) if tag]
        own = node.get("properties", {})
        return len(tags) > 1 and tags[0][0] not in own

    def _declare(self, name: str) -> None:
        final = self.decided.untagged_names.get(name, name)
        if final in self.schema.records or name in self.schema.unions:
            return
        node = self.definitions[name]
        if name in self.decided.choices:
            self._declare_choice(self.decided.choices[name], node)
        elif self._is_tagged_union(node):
            self._declare_union(name, node)
        else:
            self._declare_record(Record(final), node)

    def _declare_record(self, record: Record, *nodes: Node) -> None:
        self.schema.records[record.name] = record
        for node in nodes:
            record.members += self._members(node, record.tag_field)
            self._flatten_alternatives(record, node)
        record.members.sort(key=lambda member: member.wire == "_meta")
        for member in record.members:
            if member.is_required and member.marks and not isinstance(member.type, ListOf):
                raise ValueError(f"{record.name}.{member.wire} has a mark but no empty value to fall back on")

    def _members(self, node: Node, tag_field: str = "") -> list[Member]:
        required = node.get("required", ())
        members = []
        for wire, value in node.get("properties", {}).items():
            if wire == tag_field:
                continue
            kind, is_nullable = self._type(value)
            members.append(
                Member(
                    wire,
                    kind,
                    wire in required,
                    is_nullable,
                    value.get("default", MISSING),
                    value.get("x-deserialize-default-on-error", False),
                    value.get("x-deserialize-skip-invalid-items", False),
                    value.get("x-deserialize-default-on-null", False),
                )
            )
        return members

    def _flatten_alternatives(self, record: Record, node: Node) -> None:
        """A record with an `anyOf` next to its properties: the alternatives' members become optional ones."""
        if record.tag_field and tag_of({**node, "required": [record.tag_field]}):
            return
        values = []
        for option in alternatives(node):
            if ref_name(option):
                inner = self.definitions[ref_name(option)]
                record.needs_one_of += tuple(member.attribute for member in self._members(inner) if member.is_required)
                record.members += [replace(member, is_required=False) for member in self._members(inner)]
            elif tag := tag_of(option):
                values.append(tag[1])
                for inner in option.get("allOf", []):
                    record.members += self._members(self.definitions[ref_name(inner)])
        if values:
            wire, enum = choices.INNER_ENUMS[record.name]
            self.schema.enums[enum] = Enum(enum, tuple(values))
            for member in record.members:
                if member.wire == wire:
                    member.type = Ref(enum)

    def _declare_union(self, name: str, node: Node) -> None:
        own = {"properties": node.get("properties", {}), "required": node.get("required", ())}
        union = Union(name, "", {})
        self.schema.unions[name] = union
        for option in alternatives(node):
            tag = tag_of(option)
            if tag:
                union.tag_field = tag[0]
                union.variants[tag[1]] = self._declare_variant(name, tag, option, own)

    def _declare_variant(self, union: str, tag: tuple[str, str], option: Node, own: Node) -> str:
        inner = ref_name(option["allOf"][0]) if "allOf" in option else ""
        nodes = [own, {**option, "allOf": []}] + ([self.definitions[inner]] if inner else [])
        if inner in self.decided.flattened:
            return self._declare_flattened(inner, tag)
        given = self.decided.variant_names.get((union, tag[1]), "")
        is_shared = len(self.tagged_uses.get(inner, ())) > 1 or inner in self.untagged_uses
        if inner and is_shared and not own["properties"]:
            self._declare(inner)
            name = pascal(tag[1])
            base = self.decided.untagged_names.get(inner, inner)
            self.schema.records[name] = Record(name, tag_field=tag[0], tag=tag[1], base=base)
            return name
        name = given or inner
        self._declare_record(Record(name, tag_field=tag[0], tag=tag[1]), *nodes)
        return name

    def _declare_flattened(self, inner: str, tag: tuple[str, str]) -> str:
        """A variant that is itself a union: its own tag becomes a required member, its variants' members optional."""
        name = self.decided.flattened[inner]
        self._declare(inner)
        union = self.schema.unions[inner]
        members: dict[str, Member] = {}
        for variant in union.variants.values():
            for member in self.schema.records[variant].members:
                members.setdefault(member.wire, replace(member, is_required=False))
        enum = f"{name}Kind"
        self.schema.enums[enum] = Enum(enum, tuple(union.variants))
        record = self.schema.records[name] = Record(name, tag_field=tag[0], tag=tag[1])
        record.members = [Member(union.tag_field, Ref(enum), is_required=True), *members.values()]
        record.members.sort(key=lambda member: member.wire == "_meta")
        return name

    def _declare_choice(self, choice: Choice, node: Node) -> None:
        known: dict[str, str] = {}
        own = {"properties": node.get("properties", {}), "required": node.get("required", ())}
        self.schema.unions[choice.name] = replace(choice, variants=known)
        for option in alternatives(node):
            tag = tag_of(option) or ("", "")
            inner = [self.definitions[ref_name(each)] for each in option.get("allOf", [])]
            if choice.how == "items":
                item = ref_name(option["items"])
                key = next(key for key, name in choice.variants.items() if name == item)
                known[key] = item
                self._declare(item)
            elif ref_name(option):
                self._declare(ref_name(option))
                for key, name in choice.variants.items():
                    if name == ref_name(option):
                        known[key] = name
            elif "not" not in option:
                key = tag[1] or option["required"][0]
                name = choice.variants.get(key, choice.untagged)
                if name in choice.variants.values():
                    known[key] = name
                self._declare_record(Record(name, tag_field=tag[0], tag=tag[1]), own, option, *inner)


def _refs(node: Node) -> set[str]:
    found = {ref_name(node)} - {""}
    for each in (*node.get("anyOf", ()), *node.get("allOf", ())):
        found |= _refs(each)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            found |= _refs(node[key])
    return found
