"""Which model a name means: the check of a user's choice, with near names for one that does not exist.

Owns the refusals and the effort levels of a model. A name is refused only if it cannot work: an unknown provider, or a
model that the provider's own list does not have. The catalogue is a help, not a limit: providers have newer models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.builtin.models.catalogue import facts_of, known_models
from dragoman.builtin.models.find import WITHOUT_PROVIDER, find_model
from dragoman.builtin.models.providers import CHOSEN, PROVIDERS, offered_models, provider_of
from dragoman.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from dragoman.builtin.models.catalogue import ModelFacts

# Levels of a model that is not known. Servers of chat completions mostly have these three, or none.
_USUAL_EFFORTS: Final = ("low", "medium", "high")
_ORDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Providers that list every model they serve. The lists of others, such as Fireworks, lack models that can be used.
_COMPLETE_LISTS: Final = frozenset(
    (
        *("anthropic", "openai", "openai-chat", "openai-responses", "google", "openrouter", "xai", "deepseek", "groq"),
        *("mistral", "moonshotai", "ollama", "llamacpp", "lmstudio", "vllm"),
    )
)
DEFAULT_EFFORT: Final = "medium"
_MOST_NAMES: Final = 3
_NEARNESS: Final = 0.6
_MILLION: Final = 1_000_000


def check_model(name: str, env: Mapping[str, str], listed: Collection[str] | None = None) -> None:
    """Check a name that a user chose.

    Args:
        listed: the ids of the models that the provider listed; None if its list is not known.

    Raises: ConfigError with near names if there is no such model.
    """
    source, _, model = name.partition(":")
    if provider_of(name) is None and source not in WITHOUT_PROVIDER:
        raise ConfigError(f"no model is called {name!r}{_did_you_mean(near_names(name, env))}")
    if listed and source in _COMPLETE_LISTS and not _is_listed(name, listed):
        provider = PROVIDERS.get(source)
        title = provider.title if provider is not None and provider.title else source
        near = [f"{source}:{close}" for close in _close_names(model, listed)]
        raise ConfigError(f"{title} lists no model {model!r}{_did_you_mean(near or near_names(name, env))}")
    find_model(name)


def near_names(name: str, env: Mapping[str, str]) -> list[str]:
    """Return the names of known models that are nearest to one that does not exist, at most three."""
    source, colon, model = name.partition(":")
    if colon and source in PROVIDERS:
        ids = [facts.id for facts in known_models(source) if not facts.is_deprecated]
        near = _close_names(model, ids)
        return [f"{source}:{close}" for close in near] or [
            f"{source}:{close}" for close in PROVIDERS[source].models[:1]
        ]
    if colon:  # perhaps only the provider is misspelled
        providers = _close_names(source, PROVIDERS)
        if providers:
            return [_nearest_of(provider, model, env) for provider in providers]
    word = model or source
    chosen = {f"{provider.id}:{facts.id}" for provider in CHOSEN for facts in known_models(provider.id)}
    by_id = {offered.partition(":")[2]: offered for offered in sorted(chosen | set(offered_models(env)))}
    return [by_id[word]] if word in by_id else [by_id[close] for close in _close_names(word, by_id)]


def _nearest_of(provider: str, model: str, env: Mapping[str, str]) -> str:
    """Return the model of a provider with this name, or with the nearest one.

    It is the name itself if none of the provider's models are known.
    """
    name = f"{provider}:{model}"
    return name if facts_of(name) is not None else next(iter(near_names(name, env)), name)


def _close_names(word: str, names: Iterable[str]) -> list[str]:
    """Return the names close to a word, with `difflib`, which is loaded only for a name that is wrong."""
    import difflib

    return difflib.get_close_matches(word, list(names), _MOST_NAMES, _NEARNESS)


def advice_for(name: str, env: Mapping[str, str]) -> str:
    """Return what to write behind a provider's own error about a model that it does not have."""
    near = [other for other in near_names(name, env) if other != name]
    return f"The model {name} may not exist there{_did_you_mean(near)}{'' if near else '.'}"


def efforts_of(name: str) -> tuple[str, ...]:
    """Return the effort levels that a model accepts, in ascending order; empty for a model that does not think."""
    facts = facts_of(name)
    if facts is None or (facts.thinks is None and not facts.efforts):
        return _USUAL_EFFORTS
    return facts.efforts


def effort_for(name: str, wanted: str | None) -> str | None:
    """Return the level nearest to a wanted one that the model accepts; None if it accepts none."""
    efforts = efforts_of(name)
    if not efforts:
        return None
    place = _ORDER.index(wanted) if wanted in _ORDER else _ORDER.index(DEFAULT_EFFORT)
    # Of two that are as near, the lower costs less.
    return min(efforts, key=lambda effort: (abs(_ORDER.index(effort) - place), _ORDER.index(effort)))


def describe(facts: ModelFacts) -> str:
    """Return what a user wants to know before choosing a model: its window and its price."""
    words = []
    if facts.window is not None:
        is_large = facts.window >= _MILLION
        size = f"{facts.window / _MILLION:.3g} million" if is_large else f"{facts.window // 1000:,},000"
        words.append(f"{size} tokens of context")
    if facts.prices is not None:
        words.append(f"${facts.prices.input:g} in and ${facts.prices.output:g} out per million tokens")
    return "; ".join(words)


def _is_listed(name: str, listed: Collection[str]) -> bool:
    """Whether a model is in its provider's list, perhaps under another name of the catalogue, such as with its date."""
    source, _, model = name.partition(":")
    # Ollama adds `:latest` itself; OpenRouter takes a suffix that chooses how a model is served, such as `:nitro`.
    if {model, f"{model}:latest", model.rpartition(":")[0]} & set(listed):
        return True
    facts = facts_of(name)
    if facts is None:
        return False
    return any((found := facts_of(f"{source}:{row}")) is not None and found.id == facts.id for row in listed)


def _did_you_mean(names: list[str]) -> str:
    if not names:
        named = f"anthropic:{CHOSEN[0].models[0]} or ollama:qwen3"
        return f"; a model is named PROVIDER:MODEL, such as {named}; for tests there are scripted and cassette:FILE"
    return f"; did you mean {' or '.join(names)}?"
