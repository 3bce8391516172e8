"""The catalogue of models: it agrees with the packages it is made of, and finds a model by each of its names."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from importlib.resources import files

import msgspec
import pytest
from genai_prices import Usage as PackageUsage
from genai_prices.data_snapshot import get_snapshot

from dragoman.builtin.models.catalogue import (
    ModelFacts,
    Prices,
    PriceTier,
    cost_usd,
    facts_of,
    known_models,
    offered_by,
)
from dragoman.builtin.models.providers import PROVIDERS
from dragoman.uistream.messages import Usage
from tools import catalogue as tool


def _committed() -> bytes:
    return files("dragoman.builtin.models").joinpath("catalogue.json").read_bytes()


def _day() -> date:
    return date.fromisoformat(msgspec.json.decode(_committed())["generated"])


def test_the_file_is_what_the_installed_packages_give() -> None:
    assert _committed() == tool.catalogue(_day()), "the catalogue is old: run `python -m tools.catalogue`"


def test_the_file_has_no_address_to_download_from() -> None:
    assert b"://" not in _committed()


@pytest.mark.parametrize("provider", [*tool.OFFERED])
def test_every_offered_model_is_known_with_window_price_and_abilities(provider: str) -> None:
    assert provider in PROVIDERS
    for id in offered_by(provider):
        facts = facts_of(f"{provider}:{id}")
        assert facts is not None, id
        assert facts.id == id
        assert not facts.is_deprecated, id
        assert facts.prices is not None, id
    default = facts_of(f"{provider}:{offered_by(provider)[0]}")
    assert default is not None
    assert default.window is not None


@pytest.mark.parametrize(
    ("name", "id"),
    [
        ("anthropic:claude-sonnet-4-5", "claude-sonnet-4-5"),
        ("anthropic:claude-sonnet-4-5-20250929", "claude-sonnet-4-5"),
        ("anthropic:claude-opus-4-20250514", "claude-opus-4-0"),
        ("anthropic:claude-3-5-haiku-20241022", "claude-3-5-haiku-latest"),
        ("openai:gpt-5.2-2025-12-11", "gpt-5.2"),
        ("openai:gpt-5.2-chat-latest", "gpt-5.2"),
        ("openai:GPT-5", "gpt-5"),
        ("openai-chat:gpt-5", "gpt-5"),
        ("openai-responses:gpt-5", "gpt-5"),
        ("gateway/openai:gpt-5", "gpt-5"),
        ("google:gemini-flash-latest", "gemini-3.8-flash"),
        ("google-cloud:gemini-3.8-flash", "gemini-3.8-flash"),
        ("google-cloud:claude-opus-5", "claude-opus-5"),
        ("azure:gpt-5.4-mini", "gpt-5.4-mini"),
        ("openrouter:anthropic/claude-sonnet-5.5", "anthropic/claude-sonnet-5.5"),
        ("xai:grok-4", "grok-4-0709"),
        ("zai:GLM-5.3", "glm-5.3"),
    ],
)
def test_a_model_is_found_by_id_alias_date_and_provider(name: str, id: str) -> None:
    facts = facts_of(name)
    assert facts is not None
    assert facts.id == id


@pytest.mark.parametrize(
    "name",
    [
        "anthropic:claude-sonnet-99",
        "anthropic:claude-sonnet",
        "anthropic:",
        "anthropic",
        "google:claude-opus-5",
        "openai:text-embedding-3-large",
        "openai-compatible:gpt-5",
        "ollama:gpt-5",
        "nowhere:gpt-5",
        "scripted",
        "",
    ],
)
def test_a_name_that_is_not_a_known_model_has_no_facts(name: str) -> None:
    assert facts_of(name) is None


def test_abilities_and_efforts_differ_by_model() -> None:
    new, old = facts_of("anthropic:claude-opus-5-5"), facts_of("openai:gpt-3.5-turbo")
    assert new is not None
    assert old is not None
    assert (new.sees_images, new.reads_documents, new.thinks) == (True, True, True)
    assert new.efforts == ("low", "medium", "high", "xhigh", "max")
    assert new.output_limit == 128_000
    assert (old.sees_images, old.reads_documents, old.thinks, old.efforts) == (False, False, False, ())
    unknown = facts_of("mistral:codestral-2508")
    assert unknown is not None
    assert unknown.sees_images is None


def test_known_models_lists_each_model_once() -> None:
    ids = [facts.id for facts in known_models("anthropic")]
    assert "claude-sonnet-5-5" in ids
    assert len(ids) == len(set(ids))
    assert known_models("nowhere") == ()


@pytest.mark.parametrize(
    "name",
    ["anthropic:claude-sonnet-5-5", "anthropic:claude-haiku-5-5", "openai:gpt-6.1-sol", "google:gemini-2.5-pro"],
)
@pytest.mark.parametrize("size", [1_000, 150_000, 300_000])
def test_a_cost_is_that_of_the_package_that_has_the_prices(name: str, size: int) -> None:
    provider, _, id = name.partition(":")
    facts = facts_of(name)
    assert facts is not None
    usage = Usage(input=size, output=700, reasoning=300, cache_read=size // 2, cache_write=0)
    source = next(each for each in get_snapshot().providers if each.id == provider)
    model = source.find_model(id)
    assert model is not None
    theirs = model.calc_price(
        PackageUsage(input_tokens=size + size // 2, cache_read_tokens=size // 2, output_tokens=1_000),
        source,
        genai_request_timestamp=datetime.combine(_day(), time(12), UTC),
    )
    assert cost_usd(facts, usage) == pytest.approx(float(theirs.total_price))


def test_a_cost_counts_each_kind_of_token_at_its_price_and_changes_at_a_tier() -> None:
    prices = Prices(1.0, 10.0, 0.5, 2.0, (PriceTier(100, 3.0, 30.0),))
    facts = ModelFacts("m", prices=prices)
    assert cost_usd(facts, Usage(40, 1, 1, 40, 20)) == pytest.approx((40 + 20 + 20 + 40) / 1e6)
    # Above the tier every token has its price, and a cache price that is not stated is that of input.
    assert cost_usd(facts, Usage(41, 1, 1, 40, 20)) == pytest.approx((101 * 3 + 60) / 1e6)
    assert cost_usd(ModelFacts("m"), Usage(1)) is None
