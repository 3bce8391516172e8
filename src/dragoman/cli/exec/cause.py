"""The cause of an agent's error, from the `data` of its answer.

Agents answer "Internal error" and put what happened into `data`, each in its own form: a text, `details`, `message`, or
a JSON document of the model's server as a text. Pure.
"""

from __future__ import annotations

from typing import Any, Final

# In this order; then the first text of any member.
_NAMES: Final = ("details", "message", "error", "reason", "detail", "cause")
# What some agents send where they have nothing to say.
_EMPTY: Final = frozenset({"", "unknown", "error", "internal error"})
_DEPTH: Final = 6
_CHARACTERS: Final = 500


def cause_of(data: Any) -> str | None:
    """Return the cause that the data of an error names, on one line; None if it names none."""
    found = _find(data, 0)
    if found is None:
        return None
    text = " ".join(found.split())
    return text if len(text) <= _CHARACTERS else text[: _CHARACTERS - 1] + "…"


def _find(value: Any, depth: int) -> str | None:
    if depth > _DEPTH:
        return None
    if isinstance(value, str):
        inner = _document(value)
        found = None if inner is None else _find(inner, depth + 1)
        return found or (None if value.strip().lower() in _EMPTY else value)
    if isinstance(value, dict):
        named = [value[name] for name in _NAMES if name in value]
        return _first([*named, *value.values()], depth)
    return _first(value, depth) if isinstance(value, list) else None


def _first(values: list[Any], depth: int) -> str | None:
    causes = (_find(value, depth + 1) for value in values)
    return next((cause for cause in causes if cause is not None), None)


def _document(text: str) -> Any:
    """Return the JSON object or list that a text is, None if it is something else."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    from msgspec import DecodeError, json

    try:
        return json.decode(text)
    except (DecodeError, RecursionError):
        return None
