"""Questions of sources as forms: any JSON schema of an object with simple members, otherwise one field for text.

Owns both directions: the form, and how its answer is given back. Pure.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Callable

_ANSWER: Final = "answer"
_QUESTION_MEMBERS: Final = ("question", "message", "prompt", "text", "instruction", "description")


def form_for(schema: Any) -> tuple[v1.ElicitationSchema, Callable[[dict[str, Any]], Any]]:
    """Return the form for an answer, and the function that makes the answer of what the form gives.

    Args:
        schema: a JSON schema, a pydantic model, or None for any text.
    """
    schema = schema.model_json_schema() if hasattr(schema, "model_json_schema") else schema
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if isinstance(properties, dict) and properties:
        fields = {name: _field(schema) for name, schema in properties.items()}
        if all(field is not None for field in fields.values()):
            required = [name for name in schema.get("required", ()) if name in fields]
            return v1.ElicitationSchema(properties=fields, required=required), lambda given: given
    field = _field(schema) if isinstance(schema, dict) else None
    single = {_ANSWER: field if field is not None else v1.StringPropertySchema(title="Answer")}
    return v1.ElicitationSchema(properties=single, required=[_ANSWER]), lambda given: given.get(_ANSWER)


def words_of(value: Any) -> str:
    """Return the question of an interrupt as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        for name in _QUESTION_MEMBERS:
            if isinstance(value.get(name), str):
                return str(value[name])
    return json.dumps(value, indent=2, ensure_ascii=False)


def _field(schema: Any) -> Any:
    """Make one field for a simple schema; None for any other."""
    if not isinstance(schema, dict):
        return None
    shown = {name: schema[name] for name in ("title", "description") if isinstance(schema.get(name), str)}
    values = schema.get("enum")
    if isinstance(values, list) and all(isinstance(value, str) for value in values):
        return v1.StringPropertySchema(enum=values, **shown)
    kinds: dict[str, Any] = {
        "string": v1.StringPropertySchema,
        "boolean": v1.BooleanPropertySchema,
        "integer": v1.IntegerPropertySchema,
        "number": v1.NumberPropertySchema,
    }
    kind = kinds.get(str(schema.get("type")))
    return None if kind is None else kind(**shown)
