"""The catalogue of models: their windows, output limits, prices, abilities and effort levels.

Owns what is known of a model without asking its provider. The rows are in `catalogue.json`, which `python -m
tools.catalogue` writes from published packages before a release; nothing here reads the network. A provider's rows are
decoded when one of its models is first asked for.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.uistream.messages import Usage

# Names of providers in PROVIDER:MODEL that serve the models of another one.
_SERVES: Final = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "openai-chatgpt": "openai",
    "openai-codex": "openai",
    "azure": "openai",
    "azure-responses": "openai",
    "google-cloud": "google",
}
_GATEWAY: Final = "gateway/"
# Providers date their models in these ways: -20260217, @20260217, -2026-02-17, -04-17, -0417; or they name the newest.
DATE: Final = re.compile(
    r"[-@](?:20\d{2}-?(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|(?:0[1-9]|1[0-2])-?(?:0[1-9]|[12]\d|3[01])|latest)$"
)
"""The date or `latest` at the end of a model's name."""
_MILLION: Final = 1_000_000


class PriceTier(Struct, frozen=True, array_like=True):
    """The prices of a call whose input has more than `start` tokens; they then count for all of its tokens."""

    start: int
    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None


class Prices(Struct, frozen=True, array_like=True):
    """What a model costs, in USD per million tokens. A cache price that is None is the price of input."""

    input: float
    output: float
    cache_read: float | None = None
    cache_write: float | None = None
    tiers: tuple[PriceTier, ...] = ()
    """In ascending order of `start`."""


class ModelFacts(Struct, frozen=True, array_like=True):
    """What is known of one model. None states that something is not known."""

    id: str
    """The model's name at its provider, without the provider: `claude-sonnet-4-5`."""
    title: str = ""
    window: int | None = None
    """Size of the context window in tokens."""
    output_limit: int | None = None
    """Most tokens of one answer."""
    prices: Prices | None = None
    sees_images: bool | None = None
    reads_documents: bool | None = None
    thinks: bool | None = None
    efforts: tuple[str, ...] = ()
    """The levels of thinking effort that the model accepts, in ascending order."""
    is_deprecated: bool = False
    aliases: tuple[str, ...] = ()
    """Other names of the model, as the provider documents them."""


class _Catalogue(Struct, frozen=True):
    generated: str
    """The day whose prices these are."""
    offered: dict[str, tuple[str, ...]]
    """By provider, the ids of its current main models, the default first."""
    providers: dict[str, msgspec.Raw]


def facts_of(name: str) -> ModelFacts | None:
    """Return what is known of the model `PROVIDER:MODEL`, or None.

    A name is found by its id, then by an alias, then without the date at its end. Upper and lower case are the same.
    """
    provider, _, model = name.partition(":")
    provider = provider.removeprefix(_GATEWAY)
    model = model.lower()
    for source in (provider, _SERVES.get(provider, "")):
        rows = _rows(source)
        found = rows.get(model) or rows.get(DATE.sub("", model))
        if found is not None:
            return found
    return None


def known_models(provider: str) -> tuple[ModelFacts, ...]:
    """Return every model of a provider that the catalogue has; empty for a provider that it does not have."""
    rows = {**_rows(_SERVES.get(provider, "")), **_rows(provider)}
    return tuple({facts.id: facts for facts in rows.values()}.values())


def offered_by(provider: str) -> tuple[str, ...]:
    """Return the ids of a provider's current main models, the default first."""
    return _catalogue().offered.get(provider, ())


def cost_usd(facts: ModelFacts, usage: Usage) -> float | None:
    """Return what a call costs in USD, or None if the prices are not known. Reasoning is charged as output."""
    prices: Prices | PriceTier | None = facts.prices
    if facts.prices is None or prices is None:
        return None
    size = usage.input + usage.cache_read + usage.cache_write
    for tier in facts.prices.tiers:
        if size > tier.start:
            prices = tier
    read = prices.input if prices.cache_read is None else prices.cache_read
    write = prices.input if prices.cache_write is None else prices.cache_write
    total = usage.input * prices.input + usage.cache_read * read + usage.cache_write * write
    return (total + (usage.output + usage.reasoning) * prices.output) / _MILLION


@cache
def _catalogue() -> _Catalogue:
    return msgspec.json.decode(Path(__file__).with_name("catalogue.json").read_bytes(), type=_Catalogue)


@cache
def _rows(provider: str) -> dict[str, ModelFacts]:
    """Return the models of a provider by their names in lower case.

    An id goes before an alias, an alias before the rest.
    """
    raw = _catalogue().providers.get(provider)
    if raw is None:
        return {}
    found = msgspec.json.decode(raw, type=tuple[ModelFacts, ...])
    undated = {DATE.sub("", facts.id.lower()): facts for facts in found}  # of several dates the last is the newest
    by_alias = {alias.lower(): facts for facts in reversed(found) for alias in facts.aliases}
    return undated | by_alias | {facts.id.lower(): facts for facts in found}
