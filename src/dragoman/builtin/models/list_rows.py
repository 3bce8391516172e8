"""What the rows of providers' model lists state about the models.

Owns the names that servers give to the same facts. Pure: decoded JSON of any shape in, facts out. A row that is not a
model for conversations (embeddings, images, speech) gives None, and a member of a wrong type counts as absent.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.builtin.models.catalogue import ModelFacts, Prices, facts_of
from dragoman.builtin.models.wire_forms.form import EFFORT_LEVELS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

# Models that cannot hold a conversation, where the list does not state what they are.
_OTHER_USES: Final = re.compile(
    r"embed|whisper|tts|dall-e|gpt-image|sora|moderation|rerank|transcribe|realtime|davinci|babbage|-audio|gpt-live"
    r"|-instruct-0914|imagen|veo-",
    re.IGNORECASE,
)
_OTHER_TYPES: Final = frozenset(
    {"embedding", "embeddings", "image", "rerank", "reranker", "audio", "moderation", "transcribe", "video", "speech"}
)
# The window that a server really has comes before the one that a model could have.
_WINDOWS: Final = (
    *("loaded_context_length", "max_model_len", "context_window", "context_length", "max_context_length"),
    *("max_input_tokens", "context_size", "max_prompt_length"),
)
_OUTPUTS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_MILLION: Final = 1_000_000
_NUM_CTX: Final = re.compile(r"^num_ctx\s+(\d+)", re.MULTILINE)


def rows_in(answer: Any) -> list[dict[str, Any]] | None:
    """Return the rows of a list, None if the answer is none."""
    if isinstance(answer, dict):
        answer = next((answer[name] for name in ("data", "models") if isinstance(answer.get(name), list)), None)
    if not isinstance(answer, list):
        return None
    return [row for row in answer if isinstance(row, dict)]


def facts_in(
    provider: str, rows: Iterable[dict[str, Any]], read: Callable[[dict[str, Any]], ModelFacts | None]
) -> list[ModelFacts]:
    """Return the facts of the rows; what a row does not state is taken from the catalogue."""
    found = [facts for row in rows if (facts := read(row)) is not None]
    return [_completed(facts, facts_of(f"{provider}:{facts.id}")) for facts in found]


def _completed(facts: ModelFacts, known: ModelFacts | None) -> ModelFacts:
    if known is None:
        return facts
    defaults = ModelFacts("")
    stated = {
        name: value
        for name in facts.__struct_fields__
        if (value := getattr(facts, name)) != getattr(defaults, name) or name == "is_deprecated"
    }
    return msgspec.structs.replace(known, **{"aliases": (), **stated})


def anthropic_facts(row: dict[str, Any]) -> ModelFacts | None:
    if not isinstance(row.get("id"), str) or row.get("lifecycle") == "retired":
        return None
    abilities = _object(row.get("capabilities"))
    effort = _object(abilities.get("effort"))
    return ModelFacts(
        row["id"],
        _text(row, "display_name"),
        _number(row, "max_input_tokens"),
        _number(row, "max_tokens"),
        sees_images=_is_supported(abilities.get("image_input")),
        reads_documents=_is_supported(abilities.get("pdf_input")),
        thinks=_is_supported(abilities.get("thinking")),
        efforts=tuple(level for level in EFFORT_LEVELS if _is_supported(effort.get(level))),
        is_deprecated=row.get("lifecycle") == "deprecated",
    )


def google_facts(row: dict[str, Any]) -> ModelFacts | None:
    name = _text(row, "name").removeprefix("models/")
    methods = row.get("supportedGenerationMethods")
    if not name or (isinstance(methods, list) and "generateContent" not in methods) or _OTHER_USES.search(name):
        return None
    thinks = row.get("thinking")
    return ModelFacts(
        name,
        _text(row, "displayName"),
        _number(row, "inputTokenLimit"),
        _number(row, "outputTokenLimit"),
        thinks=thinks if isinstance(thinks, bool) else None,
    )


def compatible_facts(row: dict[str, Any]) -> ModelFacts | None:
    """Return the facts of a list in the shape of OpenAI's, with the members that other servers add to it."""
    id = _text(row, "id", "name")
    abilities = row.get("capabilities")
    modalities = _modalities(row, "input_modalities")
    if not id or row.get("active") is False or row.get("type") in _OTHER_TYPES:
        return None
    if "type" not in row and _OTHER_USES.search(id):
        return None
    if (written := _modalities(row, "output_modalities")) is not None and "text" not in written:
        return None
    if isinstance(abilities, dict) and abilities.get("completion_chat") is False:
        return None
    title = _text(row, "display_name", "name")
    return ModelFacts(
        id,
        "" if title == id else title,
        _number(row, *_WINDOWS) or _number(_object(row.get("meta")), "n_ctx", "n_ctx_train"),
        _number(_object(row.get("top_provider")), *_OUTPUTS) or _number(row, *_OUTPUTS),
        _prices(row),
        sees_images=_either(_has(abilities, "vision"), _includes(modalities, "image"), _is_type(row, "vlm")),
        reads_documents=_includes(modalities, "file", "pdf"),
        thinks=_either(
            _has(abilities, "reasoning", "thinking"), _includes(row.get("supported_parameters"), "reasoning")
        ),
        is_deprecated=any(row.get(name) for name in ("deprecation", "deprecated", "shutdown_date", "expiration_date")),
        aliases=tuple(alias for alias in _list(row.get("aliases")) if isinstance(alias, str) and alias != id),
    )


# Servers on the user's machine


def ollama_loaded(answer: Any) -> dict[str, int]:
    """Return the window of each model that is loaded."""
    found = {}
    for row in rows_in(answer) or ():
        window = _number(row, "context_length")
        if window is not None:
            found[_text(row, "model", "name")] = window
    return found


def ollama_facts(row: dict[str, Any]) -> ModelFacts | None:
    """Return the facts of a model of Ollama; None for one that does not complete text.

    `loaded` is the window of a model that is loaded. One that is not gets the window of its own setting, if it has one:
    what Ollama chooses otherwise depends on its memory, and it cuts longer prompts without an error.
    """
    abilities = row.get("capabilities")
    if isinstance(abilities, list) and abilities and "completion" not in abilities:
        return None
    parameters = row.get("parameters")
    setting = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    return ModelFacts(
        row["id"],
        window=row.get("loaded") or (int(setting[1]) if setting is not None else None),
        sees_images=_includes(abilities, "vision"),
        thinks=_includes(abilities, "thinking"),
    )


def llama_cpp_started(properties: Any) -> dict[str, Any]:
    """Return the facts that follow from how the server was started."""
    given = _object(properties)
    window = _number(_object(given.get("default_generation_settings")), "n_ctx")
    vision = _object(given.get("modalities")).get("vision")
    found: dict[str, Any] = {} if window is None else {"window": window}
    return {**found, "sees_images": vision} if isinstance(vision, bool) else found


# Members


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _text(row: dict[str, Any], *names: str) -> str:
    return next((row[name] for name in names if isinstance(row.get(name), str) and row[name]), "")


def _number(row: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = row.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _is_supported(ability: Any) -> bool | None:
    supported = _object(ability).get("supported")
    return supported if isinstance(supported, bool) else None


def _modalities(row: dict[str, Any], name: str) -> list[Any] | None:
    for place in (_object(row.get("architecture")), row):
        if isinstance(place.get(name), list):
            return place[name]  # type: ignore[no-any-return]  # checked in the line above
    return None


def _includes(values: Any, *names: str) -> bool | None:
    return any(name in values for name in names) if isinstance(values, list) else None


def _has(abilities: Any, *names: str) -> bool | None:
    if isinstance(abilities, list):
        return True if any(name in abilities for name in names) else None
    stated = [_object(abilities)[name] for name in names if isinstance(_object(abilities).get(name), bool)]
    return any(stated) if stated else None


def _is_type(row: dict[str, Any], name: str) -> bool | None:
    return True if row.get("type") == name else None


def _either(*stated: bool | None) -> bool | None:
    return True if True in stated else False if False in stated else None


def _prices(row: dict[str, Any]) -> Prices | None:
    """Return prices in USD per million tokens.

    Texts are USD per token, numbers USD per million, those of xAI another unit.
    """
    pricing = _object(row.get("pricing"))
    read, written = (_price(pricing, "prompt", "input"), _price(pricing, "completion", "output"))
    if read is not None and written is not None:
        cache = _price(pricing, "input_cache_read", "cached_input"), _price(pricing, "input_cache_write")
        return Prices(read, written, *cache)
    read, written = _number(row, "prompt_text_token_price"), _number(row, "completion_text_token_price")
    if read is None or written is None:
        return None
    cached = _number(row, "cached_prompt_text_token_price")
    return Prices(read / 10_000, written / 10_000, None if cached is None else cached / 10_000)


def _price(pricing: dict[str, Any], *names: str) -> float | None:
    for name in names:
        value = pricing.get(name)
        if isinstance(value, bool):
            continue
        if isinstance(value, (int, float)) and value >= 0:
            return float(value)
        if isinstance(value, str):
            try:
                price = float(value) * _MILLION
            except ValueError:
                continue
            if 0 <= price < float("inf"):
                return round(price, 6)
    return None
