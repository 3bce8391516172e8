"""What only the unstable schema has: the types, the members, and whether a value uses any of them.

It lists what is unstable; the roles decide whether that may be sent. Loading it defines every type of the protocol.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from dragoman.schema import v1
from dragoman.schema.parts import Wire
from dragoman.schema.v1.stability import MEMBERS, TYPES, WITHIN

UNSTABLE_TYPES: Final[frozenset[type[Wire]]] = frozenset(getattr(v1, name) for name in TYPES)
"""Types, union variants among them, that the stable schema does not have."""

UNSTABLE_MEMBERS: Final[dict[type[Wire], tuple[str, ...]]] = {
    getattr(v1, name): members for name, members in MEMBERS.items()
}
"""Attributes of stable types that the stable schema does not have."""

_WITHIN: Final[frozenset[type]] = frozenset(getattr(v1, name) for name in WITHIN)


def find_unstable(value: object, path: str = "$") -> str | None:
    """Return the path, in wire names, of the first unstable part of a value; None when all of it is stable."""
    kind: Any = type(value)
    if kind is list or kind is tuple:
        items: Any = value
        found = (find_unstable(item, f"{path}[{index}]") for index, item in enumerate(items))
        return next((path for path in found if path is not None), None)
    if kind not in _WITHIN:
        return None
    if kind in UNSTABLE_TYPES:
        return path
    unstable = UNSTABLE_MEMBERS.get(kind, ())
    for attribute, wire in zip(kind.__struct_fields__, kind.__struct_encode_fields__, strict=True):
        member = getattr(value, attribute)
        if member is UNSET or member is None:
            continue
        place = f"{path}.{wire}"
        if attribute in unstable:
            return place
        if (inner := find_unstable(member, place)) is not None:
            return inner
    return None
