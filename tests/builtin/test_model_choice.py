"""Choosing a model: any name of a provider is accepted and listed, what cannot exist is refused with near names."""

from __future__ import annotations

from pathlib import Path

import pytest

from dragoman.builtin.models.catalogue import ModelFacts, Prices, offered_by
from dragoman.builtin.models.choice import advice_for, check_model, describe, effort_for, efforts_of, near_names
from dragoman.builtin.models.providers import default_model, offered_models
from dragoman.client import Session
from dragoman.errors import AuthRequired, ConfigError, RequestError
from dragoman.schema import v1
from tests.builtin.http_service import Service, ask
from tests.builtin.providers.server import VARIABLES, WIRES, ProviderServer, refused, text_answer


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHLVL", "1")
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def option(session: Session, id: str) -> v1.SessionConfigSelect | None:
    for each in session.state.config_options:
        if isinstance(each, v1.SessionConfigSelect) and each.id == id:
            return each
    return None


def values(session: Session, id: str) -> list[str]:
    found = option(session, id)
    return (
        []
        if found is None
        else [each.value for each in found.options if isinstance(each, v1.SessionConfigSelectOption)]
    )


# The rules, without a session


def test_a_key_offers_the_main_models_of_its_provider_and_no_others() -> None:
    assert offered_models({}) == []
    assert offered_models({"XAI_API_KEY": "x"}) == [f"xai:{id}" for id in offered_by("xai")]
    both = offered_models({"ANTHROPIC_API_KEY": "x", "DEEPSEEK_API_KEY": "x"})
    assert both[0] == default_model({"ANTHROPIC_API_KEY": "x", "DEEPSEEK_API_KEY": "x"})
    assert {name.partition(":")[0] for name in both} == {"anthropic", "deepseek"}
    assert len(both) < 10
    assert default_model({"DEEPSEEK_API_KEY": "x"}) == f"deepseek:{offered_by('deepseek')[0]}"


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("antropic:claude-sonnet-5-5", "anthropic:claude-sonnet-5-5"),
        ("antropic:claude-sonet-5-5", "anthropic:claude-sonnet-5-5"),
        ("olama:qwen3", "ollama:qwen3"),
        ("anthropic:", "anthropic:claude-sonnet-5-5"),
        ("gemini-3.8", "google:gemini-3.8-flash"),
        ("oracle:delphi", "PROVIDER:MODEL"),
        ("", "PROVIDER:MODEL"),
    ],
)
def test_a_name_without_a_provider_is_refused_with_near_names(name: str, near: str) -> None:
    with pytest.raises(ConfigError, match="no model is called") as raised:
        check_model(name, {})
    assert near in str(raised.value)


def test_a_model_that_the_providers_list_does_not_have_is_refused() -> None:
    listed = ["claude-sonnet-4-5-20250929", "claude-brand-new"]
    check_model("anthropic:claude-brand-new", {}, listed)
    check_model("anthropic:claude-sonnet-4-5", {}, listed)  # another name of the first
    with pytest.raises(ConfigError, match=r"Anthropic lists no model 'claude-bland-new'.*anthropic:claude-brand-new"):
        check_model("anthropic:claude-bland-new", {}, listed)
    check_model("anthropic:claude-bland-new", {}, None)  # not known: the provider decides
    check_model("ollama:qwen3", {}, ["qwen3:latest"])
    check_model("openrouter:some/model:nitro", {}, ["some/model"])
    check_model("fireworks:accounts/me/models/own", {}, ["accounts/fireworks/models/other"])  # its list is not complete
    with pytest.raises(ConfigError, match="Ollama lists no model 'qwen4'"):
        check_model("ollama:qwen4", {}, ["qwen3:latest"])


def test_advice_names_models_but_not_the_one_that_failed() -> None:
    assert near_names("anthropic:claude-sonet-5-5", {})[0] == "anthropic:claude-sonnet-5-5"
    assert "did you mean anthropic:claude-sonnet-5-5" in advice_for("anthropic:claude-sonet-5-5", {})
    assert advice_for("anthropic:claude-sonet-5-5", {}).endswith("?")
    assert "anthropic:claude-sonnet-5-5 or" not in advice_for("anthropic:claude-sonnet-5-5", {}).partition("mean")[2]


def test_effort_levels_are_those_of_the_model() -> None:
    assert efforts_of("anthropic:claude-opus-5-5") == ("low", "medium", "high", "xhigh", "max")
    assert efforts_of("openai:gpt-4o") == ()
    assert efforts_of("ollama:qwen3") == ("low", "medium", "high")
    assert effort_for("openai:gpt-4o", "high") is None
    assert effort_for("anthropic:claude-haiku-4-5", "max") == "high"
    assert effort_for("openai:gpt-5-pro", "low") == "high"
    assert effort_for("google:gemini-3-pro-preview", "medium") == "low"
    assert effort_for("anthropic:claude-opus-5-5", None) == "medium"
    assert effort_for("anthropic:claude-opus-5-5", "nonsense") == "medium"


def test_a_description_has_what_is_known() -> None:
    assert describe(ModelFacts("m")) == ""
    assert describe(ModelFacts("m", window=200_000)) == "200,000 tokens of context"
    facts = ModelFacts("m", window=1_050_000, prices=Prices(2.0, 10.0))
    assert describe(facts) == "1.05 million tokens of context; $2 in and $10 out per million tokens"


# A session


async def test_any_model_of_a_provider_is_accepted_and_then_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "x")
    async with Service(tmp_path).session() as session:
        assert "anthropic:claude-opus-5-5" in values(session, "model")
        assert len(values(session, "model")) < 10
        await session.set_config_option("model", "anthropic:claude-of-tomorrow")
        found = option(session, "model")
        assert found is not None
        assert found.current_value == "anthropic:claude-of-tomorrow"
        assert "anthropic:claude-of-tomorrow" in values(session, "model")
        await session.set_config_option("model", "anthropic:claude-opus-5-5")
        assert "anthropic:claude-of-tomorrow" in values(session, "model"), "a model that was used stays listed"
        titles = {each.name: each.description for each in (option(session, "model") or found).options}  # type: ignore[union-attr]  # no groups
        assert "tokens of context" in str(titles["Claude Opus 5.5"])


@pytest.mark.parametrize("name", ["claude-sonnet-5-5", "antropic:claude-sonnet-5-5"])
async def test_a_model_that_cannot_exist_is_invalid_and_changes_nothing(tmp_path: Path, name: str) -> None:
    async with Service(tmp_path).session() as session:
        before = session.state.config_options
        with pytest.raises(RequestError, match="did you mean anthropic:claude-sonnet-5-5") as raised:
            await session.set_config_option("model", name)
        assert raised.value.code == -32602
        assert session.state.config_options == before
        with pytest.raises(AuthRequired, match="ANTHROPIC_API_KEY"):
            await session.set_config_option("model", "anthropic:claude-sonnet-5-5")
        assert session.state.config_options == before
        updates = await ask(session, f"/model {name}")
        assert "did you mean anthropic:claude-sonnet-5-5" in repr(updates)


async def test_a_new_session_with_a_wrong_model_is_refused_with_near_names(tmp_path: Path) -> None:
    async with Service(tmp_path, model="antropic:claude-sonnet-5-5").client() as agent:
        with pytest.raises(RequestError, match="did you mean anthropic:claude-sonnet-5-5"):
            await agent.new_session(tmp_path)


async def test_the_levels_of_effort_follow_the_model_and_a_client_that_takes_over_sees_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "x")
    service = Service(tmp_path)
    async with service.client() as agent, service.client() as second:
        session = await agent.new_session(service.project)
        assert values(session, "effort") == ["low", "medium", "high"]
        await session.set_config_option("model", "anthropic:claude-opus-5-5")
        assert values(session, "effort") == ["low", "medium", "high", "xhigh", "max"]
        await session.set_config_option("effort", "max")
        await session.set_config_option("model", "openai:gpt-4o")
        assert option(session, "effort") is None
        await session.set_config_option("model", "anthropic:claude-haiku-4-5")
        assert getattr(option(session, "effort"), "current_value", None) == "high", "the nearest that it accepts"
        await session.set_config_option("model", "anthropic:claude-opus-5-5")
        assert getattr(option(session, "effort"), "current_value", None) == "max", "the wish is kept"
        with pytest.raises(RequestError):
            await session.set_config_option("effort", "minimal")
        other = await second.resume_session(session.id, service.project)
        assert values(other, "effort") == values(session, "effort")


async def test_a_model_that_the_provider_does_not_have_is_named_with_near_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire = WIRES["anthropic"]
    answer = refused(404, "model: claude-sonet-5-5")
    with ProviderServer(answer, text_answer("hello")) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with Service(tmp_path, model="anthropic:claude-sonet-5-5").session() as session:
            with pytest.raises(RequestError, match="did you mean anthropic:claude-sonnet-5-5") as raised:
                await ask(session, "hello")
            assert "(404)" in str(raised.value)
            assert len(server.asked) == 1, "it is not repeated, and no other model is asked"
            await session.set_config_option("model", "anthropic:claude-sonnet-5-5")
            await ask(session, "hello")
            assert server.asked[1].body["model"] == "claude-sonnet-5-5"
