"""Google's Gemini form: `streamGenerateContent` of the Gemini API.

Owns the request. `gemini_stream.py` reads the answer, `gemini_schema.py` prepares the schemas of tools. The model signs
its thoughts; a signature goes back on exactly the part that carried it, so a text keeps the places of its signatures.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import msgspec

from dragoman.builtin.models.wire_forms.conversation import (
    Media,
    PromptEntry,
    StepEntry,
    SystemNote,
    arguments_of,
    call_id_of,
    entries_of,
    kept_by_package,
    kept_of,
    result_of,
)
from dragoman.builtin.models.wire_forms.form import HttpRequest, Pieces, Target, WireForm, encode
from dragoman.builtin.models.wire_forms.gemini_stream import GeminiReader
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.builtin.models.model import ModelError, ModelRequest, ToolSpec
    from dragoman.uistream.messages import UIMessage

# Base64 of `skip_thought_signature_validator`, which Google documents for calls that the model has not signed: those of
# another model. Without a signature on the first call of a step, newer models refuse the request.
UNSIGNED: Final = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="
_OLD: Final = re.compile(r"gemini-(?:1|2)\b|gemini-pro$|gemma|learnlm")
_UNTHINKING: Final = re.compile(r"gemini-1|gemini-2\.0|gemini-pro$|gemma|learnlm|gemini-2\.5-flash-image")
# In front of a conversation that begins with the model, which Google refuses.
_NO_PROMPT: Final = {"role": "user", "parts": [{"text": ""}]}
# Media types that newer models accept within the result of a call.
_IN_RESULTS: Final = frozenset({"image/png", "image/jpeg", "image/webp", "application/pdf"})
# Tokens that models before Gemini 3 may think, by effort; 24,576 is the most that all of them accept.
_BUDGETS: Final = {"none": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24_576}
_LEAST_OF_PRO: Final = 128
# "Thinking level MINIMAL is not supported for this model", "Budget 0 is invalid", "Thinking is not enabled..."
_NO_EFFORT: Final = re.compile(r"(?:thinking|budget).*(?:not supported|not enabled|invalid|out of range)")


class GeminiForm(WireForm):
    """The Gemini form for one model."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._is_old = _OLD.search(target.model) is not None
        self._are_signatures_sent = True
        self._is_effort_sent = True
        self._pieces = Pieces(self._contents)
        self._tools: tuple[tuple[ToolSpec, ...], msgspec.Raw] = ((), msgspec.Raw(b"[]"))

    def headers(self, key: str) -> dict[str, str]:
        return {"x-goog-api-key": key} if key else {}

    def request(self, request: ModelRequest) -> HttpRequest:
        body: dict[str, Any] = {}
        if request.system:
            body["systemInstruction"] = {"parts": [{"text": request.system}]}
        if request.tools:
            body["tools"] = self._tools_of(request.tools)
        config: dict[str, Any] = {}
        if request.max_output_tokens is not None:
            config["maxOutputTokens"] = request.max_output_tokens
        if thinking := self._thinking(request.effort):
            config["thinkingConfig"] = thinking
        if config:
            body["generationConfig"] = config
        begins_with_model = bool(request.messages) and request.messages[0].role == "assistant"
        body["contents"] = self._pieces.join(request.messages, first=[_NO_PROMPT] if begins_with_model else ())
        model = quote(self._target.model.removeprefix("models/"), safe="/")
        folder = "" if "/" in model else "models/"  # `tunedModels/NAME` has its own
        return HttpRequest(f"/v1beta/{folder}{model}:streamGenerateContent?alt=sse", encode(body))

    def reader(self, request: ModelRequest) -> GeminiReader:
        return GeminiReader(request, self._target)

    def recovers_from(self, error: ModelError) -> bool:
        """Give up what the server refuses. Returns whether that was possible, so that the request can be sent again."""
        if error.status not in (400, 404, 422):
            return False
        message = str(error).lower()
        if self._are_signatures_sent and "thought" in message and "signature" in message:
            self._are_signatures_sent = False
            self._pieces = Pieces(self._contents)
            return True
        if self._is_effort_sent and _NO_EFFORT.search(message):
            self._is_effort_sent = False
            return True
        return False

    def _thinking(self, effort: str | None) -> dict[str, Any]:
        facts = self._target.facts
        if not self._is_effort_sent:
            return {}
        if _UNTHINKING.search(self._target.model) or (facts is not None and facts.thinks is False):
            return {}
        if self._is_old:
            if effort is None:
                return {"includeThoughts": True}
            budget = _BUDGETS.get(effort, _BUDGETS["high"])
            if not budget and "pro" in self._target.model:
                budget = _LEAST_OF_PRO
            return {"includeThoughts": budget > 0, "thinkingBudget": budget}
        if effort is None:
            return {"includeThoughts": True}
        # These cannot stop thinking; there is no level above high.
        level = self._target.effort("minimal" if effort == "none" else effort)
        return {"includeThoughts": True, "thinkingLevel": "HIGH" if level in ("xhigh", "max") else level.upper()}

    def _tools_of(self, tools: tuple[ToolSpec, ...]) -> msgspec.Raw:
        if self._tools[0] is not tools:
            declared = [
                {
                    "name": tool.name,
                    "description": tool.description,
                    "parametersJsonSchema": cleaned_schema(tool.parameters),
                }
                for tool in tools
            ]
            self._tools = tools, msgspec.Raw(encode([{"functionDeclarations": declared}]))
        return self._tools[1]

    # Contents

    def _contents(self, message: UIMessage) -> Iterator[dict[str, Any]]:
        for entry in entries_of(message):
            if isinstance(entry, PromptEntry):
                content = entry.content if entry.text is None else (entry.text,)
                yield _user([self._content(piece) for piece in content])
            elif isinstance(entry, SystemNote):
                yield _user([{"text": entry.text}])
            else:
                yield {"role": "model", "parts": list(self._parts(entry))}
                if entry.calls:
                    yield from self._results(entry.calls)

    def _parts(self, step: StepEntry) -> Iterator[dict[str, Any]]:
        is_first_call = True
        for part in step.parts:
            if isinstance(part, Media):
                yield _inline(part)
                continue
            kept = kept_of(part, self._target.provider.id) or _kept_by_package(part)
            if not self._are_signatures_sent:
                kept = {}
            if isinstance(part, ToolPart):
                call: dict[str, Any] = {"functionCall": self._call(part, "args", arguments_of(part))}
                signature = kept.get("signature") or (UNSIGNED if is_first_call else None)
                is_first_call = False
                yield call if signature is None else {**call, "thoughtSignature": signature}
            elif isinstance(part, TextPart) or kept.get("is_thought"):
                yield from _signed(part, kept)
            # A thought of another model is left out: this one would take it for its own.

    def _call(self, part: ToolPart, member: str, value: Any) -> dict[str, Any]:
        return {"id": call_id_of(part, self._target.provider.id), "name": part.name, member: value}

    def _results(self, calls: list[ToolPart]) -> Iterator[dict[str, Any]]:
        """Yield all results in one content, then what cannot stand in a result in another.

        In a content with results, Gemini takes it for something the model wrote.
        """
        results: list[dict[str, Any]] = []
        apart: list[dict[str, Any]] = []
        for call in calls:
            result = result_of(call)
            response = self._call(call, "response", {"error" if result.is_error else "output": result.text})
            for media in result.media:
                if not self._is_shown(media):
                    apart.append({"text": media.note})
                elif self._is_old or media.media_type not in _IN_RESULTS:
                    apart += [
                        {"text": f"A file that {call.name} returned, in its call {response['id']}:"},
                        _inline(media),
                    ]
                else:
                    response.setdefault("parts", []).append(_inline(media))
            results.append({"functionResponse": response})
        yield _user(results)
        if apart:
            yield _user(apart)

    def _content(self, content: str | Media) -> dict[str, Any]:
        if isinstance(content, str):
            return {"text": content}
        return _inline(content) if self._is_shown(content) else {"text": content.note}

    def _is_shown(self, media: Media) -> bool:
        if media.is_image:
            return self._target.sees_images
        return self._target.reads_documents if media.is_document else True


def _user(parts: list[dict[str, Any]]) -> dict[str, Any]:
    return {"role": "user", "parts": parts}


def _inline(media: Media) -> dict[str, Any]:
    return {"inlineData": {"mimeType": media.media_type, "data": media.data}}


def _signed(part: TextPart | ReasoningPart, kept: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the text as the parts that it had in the answer.

    One that was signed is never merged with one that was not.
    """
    thought = {"thought": True} if isinstance(part, ReasoningPart) else {}
    at = 0
    for start, end, signature in _marks(kept):
        if start > at:
            yield {"text": part.text[at:start], **thought}
        yield {"text": part.text[start:end], **thought, "thoughtSignature": signature}
        at = end
    if at < len(part.text):
        yield {"text": part.text[at:], **thought}
    if kept.get("then"):
        yield {"text": "", "thoughtSignature": kept["then"]}


def _kept_by_package(part: TextPart | ReasoningPart | ToolPart) -> dict[str, Any]:
    """Return what earlier versions kept.

    They stored one signature with a part, whatever its place in the text was.
    """
    kept = kept_by_package(part, "google")
    if not kept:
        return {}
    details = kept.get("details")
    signature = details.get("thought_signature") if isinstance(details, dict) else None
    if isinstance(part, ToolPart):
        return {"signature": signature}
    return {"is_thought": True, "signatures": [(0, len(part.text), signature)] if signature else []}


def _marks(kept: dict[str, Any]) -> list[tuple[int, int, str]]:
    try:
        return msgspec.convert(kept.get("signatures") or [], list[tuple[int, int, str]])
    except msgspec.ValidationError:
        return []


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
    """Return the schema without the words that Gemini refuses; the given one is not changed.

    Schemas of MCP servers use all words. What cannot be expressed is left out, so that a tool can always be offered:
    its arguments are checked again when it is called.
    """
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
                merged[name] = [*known, *(word for word in value if word not in known)]
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
