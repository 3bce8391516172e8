"""Writes the catalogue of models: `python -m tools.catalogue`. A test compares it with what is committed.

The sources are installed packages, never the network: genai-prices for names, windows and prices, and the profiles of
pydantic-ai for abilities and effort levels. Prices that depend on the day are those of the day in the file.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from pathlib import Path
from typing import Any, Final

import msgspec
from genai_prices.data_snapshot import get_snapshot
from genai_prices.types import ClauseEquals, ClauseOr, ModelInfo, ModelPrice, TieredPrices
from genai_prices.types import Provider as Source
from pydantic_ai.models import infer_model_profile, known_model_names
from pydantic_ai.profiles.grok import grok_model_profile
from pydantic_ai.profiles.groq import groq_model_profile
from pydantic_ai.profiles.mistral import mistral_model_profile

from dragoman.builtin.models.catalogue import DATE, ModelFacts, Prices, PriceTier

FILE: Final = Path(__file__).parent.parent / "src/dragoman/builtin/models/catalogue.json"

# Our names of providers, and those of genai-prices.
PROVIDERS: Final = {
    "anthropic": "anthropic",
    "openai": "openai",
    "google": "google",
    "google-cloud": "google",
    "azure": "azure",
    "bedrock": "aws",
    "cerebras": "cerebras",
    "cohere": "cohere",
    "deepseek": "deepseek",
    "fireworks": "fireworks",
    "github-copilot": "github-copilot",
    "groq": "groq",
    "meta": "meta",
    "minimax": "minimax",
    "mistral": "mistral",
    "moonshotai": "moonshotai",
    "openrouter": "openrouter",
    "ovhcloud": "ovhcloud",
    "together": "together",
    "xai": "x-ai",
    "zai": "zai",
}

# The models that are offered when a provider's key is set: current, general, with tools; the default first.
OFFERED: Final = {
    "anthropic": ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "claude-fable-5-1"),
    "openai": ("gpt-6.1-sol", "gpt-6.1-terra", "gpt-6-astra", "gpt-6-luna"),
    "google": ("gemini-3.8-flash", "gemini-4-argon", "gemini-3.5-flash-lite", "gemini-2.5-pro"),
    "deepseek": ("deepseek-v4-pro", "deepseek-v4-flash"),
    "groq": ("openai/gpt-oss-120b", "qwen/qwen3.8-27b", "openai/gpt-oss-20b"),
    "mistral": ("mistral-large-4", "mistral-medium-3-5", "codestral-2508"),
    "moonshotai": ("kimi-k3.1-pro", "kimi-k3", "kimi-k2.7-code"),
    "openrouter": ("anthropic/claude-sonnet-5.5", "openai/gpt-6.1-sol", "google/gemini-3.8-flash", "z-ai/glm-5.3"),
    "xai": ("grok-4.7", "grok-4.3", "grok-build-0.1"),
    "zai": ("glm-5.3", "glm-5.3-flash", "glm-5.2"),
}

# Models that do not hold a conversation in text with tools.
_NOT_FOR_CHAT: Final = re.compile(
    r"embed|rerank|whisper|transcri|tts|speech|voice|audio|realtime|live|image|dall-e|sora|veo|imagen|moderation|guard"
    r"|ocr|^ada$|babbage|curie|davinci|^ft:|\.ft-|instruct-turbo-edit|nano-banana|robotics|computer-use|flux"
    r"|stable-diffusion|bge-|m2-bert|orpheus|sonic|translate|lyria|video|titan-",
    re.IGNORECASE,
)
_EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
_USUAL_EFFORTS: Final = ("low", "medium", "high")
# The profiles do not state for these families what they can be shown; their providers' pages do.
_SIGHTED: Final = re.compile(r"claude-(?![12v]|instant)|gemini-|gpt-[4-9]|chatgpt-|codex-|\bo[134]\b|grok-4")
_TEXT_ONLY: Final = re.compile(
    r"claude-[12v]|claude-instant|gpt-3\.5|gpt-oss|o1-mini|o1-preview|o3-mini|gpt-4(-32k|-\d{4}|$)"
)
_DOCUMENTS: Final = re.compile(r"claude-(?![12v]|instant|3-(haiku|sonnet|opus))|gemini-|gpt-(4o|4\.1|[5-9])|\bo[134]\b")
_NEVER_THINKS: Final = re.compile(r"claude-(?:[12v]|instant|3[-.](?!7))")
# Who makes the models that OpenRouter serves, where the makers' own profiles say more.
_MAKERS: Final = {
    "openai": "openai",
    "google": "google",
    "x-ai": "xai",
    "deepseek": "deepseek",
    "moonshotai": "moonshotai",
    "mistralai": "mistral",
    "z-ai": "zai",
    "meta": "meta",
}
# Profiles whose provider would need a package that is not installed.
_PROFILES: Final = {"xai": grok_model_profile, "groq": groq_model_profile, "mistral": mistral_model_profile}


def main() -> int:
    FILE.write_bytes(catalogue(datetime.now(UTC).date()))
    print(f"{FILE.name}: {FILE.stat().st_size} bytes")
    return 0


def catalogue(day: date) -> bytes:
    """Return the file's content, with the prices of a day; a row per line, so that a change can be read."""
    sources = {source.id: source for source in get_snapshot().providers}
    parts = [f'{{"generated": "{day.isoformat()}",\n"offered": {{']
    offered = [f"{_json(name)}: {_json(models)}" for name, models in OFFERED.items()]
    parts.append(",\n".join(offered) + '},\n"providers": {')
    providers = []
    for name, source in PROVIDERS.items():
        rows = _rows(name, sources[source], day)
        lacking = set(OFFERED.get(name, ())) - {row.id for row in rows if not row.is_deprecated}
        if lacking:
            raise SystemExit(f"{name}: the packages do not have {', '.join(sorted(lacking))}; choose others in OFFERED")
        providers.append(f"{_json(name)}: [\n" + ",\n".join(_line(row) for row in rows) + "]")
    return ("\n".join(parts) + "\n" + ",\n".join(providers) + "\n}}\n").encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _line(row: ModelFacts) -> str:
    """The row without the defaults at its end."""
    values = msgspec.to_builtins(row)
    defaults = msgspec.to_builtins(ModelFacts(row.id))
    while values and values[-1] == defaults[len(values) - 1] and len(values) > 1:
        values = values[:-1]
    return _json(values)


def _rows(provider: str, source: Source, day: date) -> list[ModelFacts]:
    spelled = {name.lower(): name for name in _known(provider)}
    rows = [
        _facts(provider, spelled.get(model.id.lower(), model.id), model, day)
        for model in source.models
        if not _NOT_FOR_CHAT.search(model.id) and _belongs(provider, model.id)
    ]
    names = {name.lower() for row in rows for name in (row.id, *row.aliases)}
    for lower, name in spelled.items():
        if not _NOT_FOR_CHAT.search(name) and not names & {lower, DATE.sub("", lower)}:
            rows.append(_facts(provider, name, source.find_model(name), day))
    return sorted(rows, key=lambda row: row.id.lower())


def _belongs(provider: str, id: str) -> bool:
    """Whether a provider serves a model of its source. Google's own interface has Google's models only."""
    if provider == "google-cloud":
        return id.startswith("claude")
    if provider == "openrouter":  # names without a maker are old, and a batch is not a conversation
        return "/" in id and not id.startswith("~") and not id.endswith(":batch")
    return provider != "google" or not id.startswith("claude")


def _known(provider: str) -> Iterable[str]:
    prefix = f"{provider}:"
    return [name.removeprefix(prefix) for name in known_model_names() if name.startswith(prefix)]


def _facts(provider: str, id: str, model: ModelInfo | None, day: date) -> ModelFacts:
    profile = _profile(provider, id)
    thinks = False if _NEVER_THINKS.search(id) else profile.get("supports_thinking")
    return ModelFacts(
        id=id,
        title=(model.name or "") if model is not None and model.name != id else "",
        window=(model.context_window if model is not None else None) or profile.get("context_window"),
        output_limit=profile.get("anthropic_max_output_tokens"),
        prices=_prices(model, day) if model is not None else None,
        sees_images=_shown(_SIGHTED, id),
        reads_documents=_shown(_DOCUMENTS, id),
        thinks=thinks,
        efforts=_efforts(profile) if thinks else (),
        is_deprecated=bool(model is not None and model.deprecated),
        aliases=_aliases(model) if model is not None and model.id.lower() == id.lower() else (),
    )


def _profile(provider: str, id: str) -> dict[str, Any]:
    """What pydantic-ai states of a model; empty where it only repeats its own defaults."""
    provider, id = _maker(provider, id)
    try:
        make = _PROFILES.get(provider)
        found = make(id) if make is not None else infer_model_profile(f"{provider}:{id}")
    except (ImportError, ValueError):
        return {}
    return dict(found or {}) if found != infer_model_profile("unknown:unknown") else {}


def _maker(provider: str, id: str) -> tuple[str, str]:
    """The provider whose own profile describes the model best: Claude is Claude wherever it is served."""
    claude = re.search(r"claude-[\w.-]+?(?=-v\d|[:@]|$)", id)
    if claude:
        return "anthropic", claude[0].replace(".", "-")
    if provider == "openrouter":
        maker, _, rest = id.partition("/")
        return _MAKERS.get(maker, "unknown"), rest.partition(":")[0]
    return provider, id


def _shown(able: re.Pattern[str], id: str) -> bool | None:
    return False if _TEXT_ONLY.search(id) else True if able.search(id) else None


def _efforts(profile: dict[str, Any]) -> tuple[str, ...]:
    """The levels in ascending order. A model that takes a budget of tokens gets the usual three."""
    for member in ("openai_reasoning_efforts", "grok_reasoning_efforts", "google_thinking_levels"):
        if member in profile:
            levels = {str(level).lower() for level in profile[member]}
            return tuple(level for level in _EFFORTS if level in levels)
    if profile.get("google_supports_thinking_level"):
        return ("minimal", *_USUAL_EFFORTS)
    if profile.get("anthropic_supports_effort"):
        more = (("xhigh", "anthropic_supports_xhigh_effort"), ("max", "anthropic_supports_max_effort"))
        return (*_USUAL_EFFORTS, *(level for level, member in more if profile.get(member)))
    return _USUAL_EFFORTS


def _aliases(model: ModelInfo) -> tuple[str, ...]:
    """The other names that are stated exactly. Patterns for dates are left to the lookup."""
    clauses = model.match.or_ if isinstance(model.match, ClauseOr) else [model.match]
    names = {clause.equals for clause in clauses if isinstance(clause, ClauseEquals)} - {model.id, model.id.lower()}
    return tuple(sorted(name for name in names if DATE.sub("", name) != model.id.lower()))


def _prices(model: ModelInfo, day: date) -> Prices | None:
    if not model.prices:
        return None
    found = model.get_prices(datetime.combine(day, time(12), UTC))
    if found.input_mtok is None or found.output_mtok is None:
        return None
    kinds = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
    starts = sorted({tier.start for kind in kinds for tier in _tiers(found, kind)})
    tiers = tuple(PriceTier(start, *(_price(found, kind, start) for kind in kinds)) for start in starts)  # type: ignore[arg-type]  # input and output are there
    return Prices(*(_price(found, kind) for kind in kinds), tiers=tiers)  # type: ignore[arg-type, misc]  # the same


def _tiers(prices: ModelPrice, kind: str) -> Iterable[Any]:
    value = getattr(prices, kind)
    return value.tiers if isinstance(value, TieredPrices) else ()


def _price(prices: ModelPrice, kind: str, start: int = -1) -> float | None:
    value = getattr(prices, kind)
    if isinstance(value, TieredPrices):
        return float(next((tier.price for tier in reversed(value.tiers) if tier.start <= start), value.base))
    return None if value is None else float(value)


if __name__ == "__main__":
    sys.exit(main())
