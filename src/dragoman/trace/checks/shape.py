"""What a decoded JSON value has and its type does not name: extra members, unknown variants, unknown words.

The decoder ignores the first, keeps the second and accepts any string for the third, as a peer should; a reader who
looks for mistakes wants to see them. Compiled once per type; does not depend on rule numbers or methods.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec
from msgspec import inspect

from dragoman.schema import decoder, v1
from dragoman.schema.parts import Choice, Unknown

# Members whose values the schema lists. Where the list is open, a leading underscore marks a custom value.
CLOSED: Final[dict[tuple[str, str], str]] = {
    ("ToolCall", "kind"): "ToolKind",
    ("ToolCall", "status"): "ToolCallStatus",
    ("ToolCallPatch", "kind"): "ToolKind",
    ("ToolCallPatch", "status"): "ToolCallStatus",
    ("ToolCallUpdate", "kind"): "ToolKind",
    ("ToolCallUpdate", "status"): "ToolCallStatus",
    ("PermissionOption", "kind"): "PermissionOptionKind",
    ("PromptResponse", "stopReason"): "StopReason",
    ("PlanEntry", "priority"): "PlanEntryPriority",
    ("PlanEntry", "status"): "PlanEntryStatus",
    ("Annotations", "audience"): "Role",
    ("ElicitationSchema", "type"): "ElicitationSchemaType",
    ("StringPropertySchema", "format"): "StringFormat",
}
OWN_WORDS: Final[dict[tuple[str, str], str]] = {
    ("Notice", "severity"): "NoticeSeverity",
    ("CompactionUpdate", "status"): "CompactionStatus",
    ("SessionConfigSelect", "category"): "SessionConfigOptionCategory",
    ("SessionConfigBoolean", "category"): "SessionConfigOptionCategory",
}
# Unions whose schema allows other variants; the first variant stands for the union.
OPEN_UNIONS: Final = frozenset(
    {"ElicitationFormMode", "StringPropertySchema", "RunningStateUpdate", "AcceptElicitation"}
)

_STEP: Final = re.compile(r"\.([^.\[]+)|\[([^\]]*)\]")

What: TypeAlias = Literal["extra", "variant", "word"]


class Oddity(NamedTuple):
    """One thing the type does not name: `owner` is the type around it, `member` the member it is or is in."""

    what: What
    path: str
    owner: str
    member: str
    value: str = ""
    names: frozenset[str] = frozenset()
    """The members that type has."""


class _Node:
    """A compiled type that can have members."""

    __slots__ = ()

    def walk(self, value: Any, path: str, collected: list[Oddity]) -> None:
        raise NotImplementedError

    def record(self, value: Any) -> _Record | None:
        """Return the record this value is decoded as."""
        return None

    def item(self) -> _Node | None:
        return None


class _Record(_Node):
    __slots__ = ("name", "names", "nested", "words")

    def __init__(self, name: str, names: frozenset[str]) -> None:
        self.name = name
        self.names = names
        self.nested: dict[str, _Node] = {}
        self.words = [
            (member, v1.KNOWN_VALUES[enum], has_own)
            for table, has_own in ((CLOSED, False), (OWN_WORDS, True))
            for (owner, member), enum in table.items()
            if owner == name
        ]

    def walk(self, value: Any, path: str, collected: list[Oddity]) -> None:
        if type(value) is not dict:
            return
        if not value.keys() <= self.names:
            collected.extend(
                Oddity("extra", f"{path}.{name}", self.name, name, names=self.names)
                for name in sorted(value.keys() - self.names)
            )
        for member, known, has_own in self.words:
            words = value.get(member)
            for word in words if type(words) is list else (words,):
                if type(word) is str and word not in known and not (has_own and word.startswith("_")):
                    collected.append(Oddity("word", f"{path}.{member}", self.name, member, word))
        for member, node in self.nested.items():
            inner = value.get(member)
            if inner is not None:
                node.walk(inner, f"{path}.{member}", collected)

    def record(self, value: Any) -> _Record:
        return self


class _Items(_Node):
    __slots__ = ("_item",)

    def __init__(self, item: _Node) -> None:
        self._item = item

    def walk(self, value: Any, path: str, collected: list[Oddity]) -> None:
        if type(value) is list:
            for index, item in enumerate(value):
                self._item.walk(item, f"{path}[{index}]", collected)
        elif type(value) is dict:
            for item in value.values():
                self._item.walk(item, f"{path}[...]", collected)

    def item(self) -> _Node:
        return self._item


class _Variants(_Node):
    __slots__ = ("first", "tag_field", "variants")

    def __init__(self, first: str, tag_field: str, variants: dict[str, _Record]) -> None:
        self.first = first
        self.tag_field = tag_field
        self.variants = variants

    def walk(self, value: Any, path: str, collected: list[Oddity]) -> None:
        record = self.record(value)
        if record is not None:
            record.walk(value, path, collected)
        elif type(value) is dict and type(tag := value.get(self.tag_field)) is str and self.first not in OPEN_UNIONS:
            collected.append(Oddity("variant", f"{path}.{self.tag_field}", self.first, self.tag_field, tag))

    def record(self, value: Any) -> _Record | None:
        tag = value.get(self.tag_field) if type(value) is dict else None
        return self.variants.get(tag) if type(tag) is str else None


class _Chosen(_Node):
    """A union whose variant the decoder chooses by the value (`schema.parts.Choice`)."""

    __slots__ = ("choice",)

    def __init__(self, choice: Choice) -> None:
        self.choice = choice

    def walk(self, value: Any, path: str, collected: list[Oddity]) -> None:
        kind, is_known = self._kind(value)
        node = None if kind is None else node_of(kind)
        if node is None:
            return
        if not is_known and not _fits(value, kind):
            collected.append(Oddity("variant", f"{path}.type", kind.__name__, "type", str(value.get("type"))))
            return
        node.walk(value, path, collected)

    def record(self, value: Any) -> _Record | None:
        kind, _ = self._kind(value)
        node = None if kind is None else node_of(kind)
        return None if node is None else node.record(value)

    def _kind(self, value: Any) -> tuple[Any, bool]:
        """Return the type to decode it as. To the schema an unknown tag is an extra member of the untagged variant."""
        try:
            chosen = self.choice.pick(value)
        except ValueError:
            return None, False
        return (self.choice.kinds[-2], False) if isinstance(chosen, Unknown) else (chosen, True)


_nodes: Final[dict[Any, _Node | None]] = {}


def node_of(kind: Any) -> _Node | None:
    """Compile a type; None if it cannot have members."""
    try:
        return _nodes[kind]
    except KeyError:
        _nodes[kind] = None  # a type inside itself ends here
        made = _nodes[kind] = _compile(inspect.type_info(kind))
        return made


def oddities(kind: Any, value: Any) -> list[Oddity]:
    """Find everything in `value` that `kind` does not name, in wire order."""
    found: list[Oddity] = []
    node = node_of(kind)
    if node is not None:
        node.walk(value, "$", found)
    return found


def owner_of(kind: Any, value: Any, path: str) -> tuple[str, str]:
    """Return the type and the member a path of the decoder (`$.update.content[2].text`) ends in."""
    node = node_of(kind)
    root = node.record(value) if node is not None else None
    owner, member = root.name if root is not None else "", ""
    for name, index in _STEP.findall(path):
        if node is None:
            break
        if name:
            record = node.record(value)
            if record is None:
                return (node.first, name) if isinstance(node, _Variants) else (owner, member)
            owner, member = record.name, name
            node = record.nested.get(name)
            value = value.get(name) if type(value) is dict else None
        else:
            node = node.item()
            value = value[int(index)] if index.isdigit() and type(value) is list and int(index) < len(value) else None
    return owner, member


def _compile(shape: inspect.Type) -> _Node | None:
    match shape:
        case inspect.StructType():
            return _record(shape)
        case inspect.ListType() | inspect.CollectionType():
            item = _compile(shape.item_type)
            return None if item is None else _Items(item)
        case inspect.DictType():
            item = _compile(shape.value_type)
            return None if item is None else _Items(item)
        case inspect.UnionType():
            return _union([kind for kind in shape.types if not isinstance(kind, inspect.NoneType)])
        case inspect.CustomType():
            return _Chosen(shape.cls) if isinstance(shape.cls, Choice) else None
    return None


def _record(shape: inspect.StructType) -> _Record:
    names = {field.encode_name for field in shape.fields}
    if shape.tag_field is not None:
        names.add(shape.tag_field)
    record = _Record(shape.cls.__name__, frozenset(names))
    for field in shape.fields:
        if field.encode_name == "_meta":
            continue
        node = _compile(field.type)
        if node is not None:
            record.nested[field.encode_name] = node
    return record


def _union(shapes: list[inspect.Type]) -> _Node | None:
    records = [shape for shape in shapes if isinstance(shape, inspect.StructType)]
    if len(shapes) == 1:
        return _compile(shapes[0])
    if len(records) == len(shapes) and records[0].tag_field is not None:
        variants = {str(shape.tag): _record(shape) for shape in records}
        return _Variants(records[0].cls.__name__, records[0].tag_field, variants)
    return None


def _fits(value: Any, kind: Any) -> bool:
    try:
        decoder(kind).decode(msgspec.json.encode(value))
    except msgspec.ValidationError:
        return False
    return True
