"""Frames as the translators see them: JSON objects, and small functions that read members of uncertain shape.

Peers send what they like, so nothing here raises: a member of another type reads as empty.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias

Side: TypeAlias = Literal["client", "agent"]
Frame: TypeAlias = dict[str, Any]
Sent: TypeAlias = tuple[Side, Frame]
"""A frame and the side that it is sent to."""

OTHER: Final[dict[Side, Side]] = {"client": "agent", "agent": "client"}


def members(value: Any) -> Frame:
    """Return the value if it is an object, else an empty one."""
    return value if isinstance(value, dict) else {}


def items(value: Any) -> list[Any]:
    """Return the value if it is an array, else an empty one."""
    return value if isinstance(value, list) else []


def objects(value: Any) -> list[Frame]:
    """Return the objects of an array; other items are left out."""
    return [item for item in items(value) if isinstance(item, dict)]


def text(value: Any, default: str = "") -> str:
    """Return the value if it is a string, else `default`."""
    return value if isinstance(value, str) else default


def without(value: Frame, *names: str) -> Frame:
    """Return a copy without these members."""
    return {name: member for name, member in value.items() if name not in names}


def kept(value: Frame, *names: str) -> Frame:
    """Return a copy with these members only, as far as they are there and not null."""
    return {name: value[name] for name in names if value.get(name) is not None}


def with_own(value: Frame, **more: Any) -> Frame:
    """Return a copy with members added to `_meta.dragoman`."""
    meta = members(value.get("_meta"))
    return {**value, "_meta": {**meta, "dragoman": {**members(meta.get("dragoman")), **more}}}


def own_meta(value: Frame) -> Frame:
    """Return the members of `_meta.dragoman`."""
    return members(members(value.get("_meta")).get("dragoman"))


def error(code: int, message: str, data: Any = None) -> Frame:
    """Make a JSON-RPC error object."""
    return {"code": code, "message": message} if data is None else {"code": code, "message": message, "data": data}
