"""What the generated types are made of: the Struct base, number ranges, open unions.

Does not know the types of the protocol by name; the generated modules do.
"""

from collections.abc import Callable, Mapping, Sequence
from types import GenericAlias
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType

__all__ = ["UNSET", "Choice", "ExtensionValue", "Unknown", "UnsetType", "Wire", "extension"]


class Wire(Struct, frozen=True, rename="camel"):
    """The base of every generated type: frozen, camelCase on the wire, absent members are `UNSET`."""


class Unknown:
    """A variant of an open union this version of the protocol does not name; it is written back as it came."""

    __slots__ = ("raw", "tag")
    __match_args__ = ("tag", "raw")

    tag: Final[str | None]
    raw: Final[Mapping[str, Any]]

    def __init__(self, tag: str | None, raw: Mapping[str, Any]) -> None:
        self.tag = tag
        self.raw = raw

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Unknown):
            return NotImplemented
        return self.tag == other.tag and self.raw == other.raw

    __hash__ = None  # type: ignore[assignment]  # `raw` is mutable JSON

    def __repr__(self) -> str:
        # The body may hold what must not reach a log (headers, environment), so only the tag is shown.
        return f"Unknown(tag={self.tag!r})"


class ExtensionValue(str):
    """A value of the sender's own where the schema lists the values; made by `extension`."""

    __slots__ = ()


def extension(value: str) -> ExtensionValue:
    """Marks a value as one of your own, so that it may be sent where the schema lists the values.

    Use it only if the other side announced that it reads the value: a strict reader refuses the whole message.

    Raises:
        ValueError: It does not begin with an underscore, which the protocol reserves for extensions.
    """
    if not value.startswith("_") or value == "_":
        raise ValueError(f"the value of an extension begins with an underscore and a name, like '_x'; not {value!r}")
    return ExtensionValue(value)


class Choice(type):
    """The class of a union msgspec cannot express.

    As an annotation it makes msgspec call the decode hook, which asks `pick` for the type to read the value as.
    """

    kinds: tuple[type, ...]
    pick: Callable[[Any], Any]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.kinds)


def _choice(name: str, kinds: tuple[type, ...], pick: Callable[[Any], Any]) -> Choice:
    return Choice(name, (), {"kinds": kinds, "pick": staticmethod(pick), "__slots__": ()})


def by_tag(
    name: str,
    field: str,
    tagged: Mapping[str, type],
    untagged: type | None = None,
    *,
    own_tags: tuple[str, ...] = (),
    is_open: bool = True,
) -> Choice:
    """Variants told apart by a string member, and at most one variant without it.

    `own_tags` are values the untagged variant may carry all the same. Any other value is `Unknown`, never the
    untagged variant: what looks like a program to start must not come from a guess.
    """

    def pick(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError("expected an object")
        tag = value.get(field)
        if tag is None and untagged is not None:
            return untagged
        if type(tag) is not str:
            raise ValueError(f"member `{field}` is not a string")
        if tag in tagged:
            return tagged[tag]
        return Unknown(tag, value) if is_open and tag not in own_tags else untagged

    kinds = (*tagged.values(), *(() if untagged is None else (untagged,)))
    return _choice(name, (*kinds, Unknown) if is_open else kinds, pick)


def by_member(name: str, variants: Mapping[str, type]) -> Choice:
    """Variants told apart by which of these members is there; the first one wins."""

    def pick(value: Any) -> Any:
        if type(value) is not dict:
            raise ValueError("expected an object")
        for member, variant in variants.items():
            if member in value:
                return variant
        raise ValueError("none of the members " + ", ".join(f"`{member}`" for member in variants) + " is there")

    return _choice(name, tuple(variants.values()), pick)


def by_items(name: str, variants: Mapping[str, type]) -> Choice:
    """Arrays told apart by a member of their first item; when it has none of them, the first variant answers."""
    arrays = {member: GenericAlias(list, (variant,)) for member, variant in variants.items()}

    def pick(value: Any) -> Any:
        if type(value) is not list:
            raise ValueError("expected an array")
        first = value[0] if value and type(value[0]) is dict else {}
        found = [array for member, array in arrays.items() if member in first]
        return found[0] if found else next(iter(arrays.values()))

    return _choice(name, (list, tuple), pick)


def without_tag(value: Any, base: type[Wire]) -> Any:
    """`value` as a plain `base`; a tagged subclass in a place without tag would write its tag."""
    return base(*(getattr(value, name) for name in base.__struct_fields__))


JsonObject: TypeAlias = dict[str, Any]
MetaMember: TypeAlias = dict[str, Any] | UnsetType | None

if TYPE_CHECKING:
    Int32: TypeAlias = int
    Int64: TypeAlias = int
    UInt16: TypeAlias = int
    UInt32: TypeAlias = int
    UInt64: TypeAlias = int
    NonEmptyStr: TypeAlias = str
    RequestId: TypeAlias = str | int | None
    ElicitationContentValue: TypeAlias = str | int | float | bool | Sequence[str]
else:
    Int32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]
    Int64 = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]
    UInt16 = Annotated[int, Meta(ge=0, le=2**16 - 1)]
    UInt32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
    # msgspec does not know a bound above int64; the forgiving pass reads this one as 2**64 - 1.
    UInt64 = Annotated[int, Meta(ge=0, le=2**63 - 1)]
    NonEmptyStr = Annotated[str, Meta(min_length=1)]
    RequestId = str | Int64 | None
    ElicitationContentValue = str | Int64 | float | bool | list[str]
