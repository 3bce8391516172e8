"""Reading members of foreign values that are objects in a live stream and JSON objects in a recording."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def member(value: Any, name: str, default: Any = None) -> Any:
    """Return a member by name, of an object or of a JSON object; the default if it is missing or None."""
    found = value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
    return default if found is None else found


def as_input(arguments: Any) -> Any:
    """Return the input of a tool call: a JSON text is decoded; what cannot be decoded stays text."""
    if not isinstance(arguments, str):
        return {} if arguments is None else arguments
    if not arguments.strip():
        return {}
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def plain_json(value: Any) -> Any:
    """Return a value as JSON data: models become objects, what has no JSON form becomes its text."""
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if isinstance(value, Mapping):
        return {str(key): plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain_json(item) for item in value]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return dump(mode="json")
    return str(value)
