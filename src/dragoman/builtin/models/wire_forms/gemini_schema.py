"""The schemas of tools as Gemini accepts them.

Owns which words of JSON Schema are kept. Gemini reads a part of the language and refuses a request with some of the
others; schemas of MCP servers use all of them. What cannot be expressed is left out, so a tool can always be offered:
its arguments are checked again when it is called.
"""

from __future__ import annotations

from typing import Any, Final

# Words whose values are not schemas, as Google documents them for `parametersJsonSchema`.
_KEPT: Final = frozenset(
    {
        *("type", "description", "enum", "required", "minItems", "maxItems", "minimum", "maximum", "nullable"),
        *("minLength", "maxLength", "pattern", "default"),
    }
)
_SCHEMA_MAPS: Final = ("properties", "$defs")
_SCHEMA_LISTS: Final = {"anyOf": "anyOf", "oneOf": "anyOf", "prefixItems": "prefixItems"}
_SCHEMAS: Final = ("items", "additionalProperties")
_TYPES: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


def cleaned_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema without the words that Gemini refuses; the given one is not changed."""
    reference = schema.get("$ref")
    if isinstance(reference, str):
        # No other word may stand next to a reference. Older drafts call the place of definitions differently.
        return {"$ref": reference.replace("#/definitions/", "#/$defs/")}
    schema = _merged(schema)
    cleaned: dict[str, Any] = {name: value for name, value in schema.items() if name in _KEPT}
    if "const" in schema and "enum" not in cleaned:
        cleaned["enum"] = [schema["const"]]
    _check_enum(cleaned)
    if isinstance(schema.get("format"), str):
        note = f"(format: {schema['format']})"
        cleaned["description"] = f"{cleaned['description']} {note}" if cleaned.get("description") else note
    for name in _SCHEMA_MAPS:
        if isinstance(schema.get(name), dict):
            cleaned[name] = {key: _cleaned(value) for key, value in schema[name].items() if value is not False}
    for name, kept_as in _SCHEMA_LISTS.items():
        if isinstance(schema.get(name), list):
            cleaned[kept_as] = [_cleaned(value) for value in schema[name] if value is not False]
    for name in _SCHEMAS:
        if isinstance(schema.get(name), (dict, bool)):
            cleaned[name] = _cleaned(schema[name]) if name == "items" else _additional(schema[name])
    if isinstance(cleaned.get("required"), list):
        known = cleaned.get("properties", {})
        cleaned["required"] = [name for name in cleaned["required"] if isinstance(name, str) and name in known]
    return cleaned


def _cleaned(schema: Any) -> dict[str, Any]:
    return cleaned_schema(schema) if isinstance(schema, dict) else {}


def _additional(schema: Any) -> Any:
    return schema if isinstance(schema, bool) else cleaned_schema(schema)


def _merged(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with the members of its `allOf` put into it, and `definitions` under their newer name."""
    merged = dict(schema)
    if isinstance(merged.get("definitions"), dict):
        merged.setdefault("$defs", merged["definitions"])
    parts = merged.pop("allOf", None)
    for part in parts if isinstance(parts, list) else ():
        if not isinstance(part, dict):
            continue
        if set(part) == {"$ref"} and not {"type", "properties", "anyOf"} & set(merged):
            return {**{name: value for name, value in merged.items() if name == "$defs"}, "anyOf": [part]}
        part = _merged(part)
        for name, value in part.items():
            known = merged.get(name)
            if name == "properties" and isinstance(known, dict) and isinstance(value, dict):
                merged[name] = {**value, **known}
            elif name == "required" and isinstance(known, list) and isinstance(value, list):
                merged[name] = [*known, *(each for each in value if each not in known)]
            else:
                merged.setdefault(name, value)
    return merged


def _check_enum(schema: dict[str, Any]) -> None:
    """Keep an `enum` only if its values are of a type that Gemini lets choose from, and give that type."""
    values = schema.get("enum")
    if values is None:
        return
    types = {_TYPES.get(type(value), "") for value in values} if isinstance(values, list) else {""}
    if "" in types or not types:
        del schema["enum"]
        return
    if "type" not in schema and len(types) == 1:
        schema["type"] = next(iter(types))
    if types == {"boolean"}:
        del schema["enum"]
