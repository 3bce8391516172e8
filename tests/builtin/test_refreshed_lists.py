"""The lists of providers: asked for in the background, kept between runs, and used for the offer and for refusals."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.models import refreshed
from dragoman.builtin.models.refreshed import OFF, ModelLists
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.builtin.http_service import Service
from tests.builtin.providers.server import VARIABLES
from tests.builtin.providers.test_model_lists import serving

PATH = "/v1/models?limit=1000"
MODEL = "anthropic:claude-sonnet-5-5"


def answer(*ids: str) -> dict[str, Any]:
    return {PATH: {"data": [{"id": id} for id in ids], "has_more": False}}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHLVL", "1")
    monkeypatch.setattr(refreshed, "GRACE_SECONDS", 0.0)
    for name in (*VARIABLES, OFF):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "a-key")


async def refresh(lists: ModelLists) -> bool:
    """Refresh to the end. Returns whether there was something new to offer."""
    is_new = False

    async def changed() -> None:
        nonlocal is_new
        is_new = True

    lists.begin(MODEL, changed)
    assert lists._refreshing is not None
    await asyncio.wait_for(lists._refreshing, 60)
    return is_new


def env(url: str) -> dict[str, str]:
    return {"ANTHROPIC_API_KEY": "a-key", "ANTHROPIC_BASE_URL": url}


async def test_a_list_removes_what_the_provider_does_not_have_and_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(answer("claude-sonnet-5-5-20260901", "claude-own")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        lists = ModelLists(tmp_path / "models")
        assert len(lists.offered(env(server.url))) > 1
        assert lists.listed(MODEL) is None
        assert await refresh(lists)
        assert lists.offered(env(server.url)) == [MODEL]
        assert lists.listed(MODEL) == ["claude-sonnet-5-5-20260901", "claude-own"]
        again = ModelLists(tmp_path / "models")
        assert again.offered(env(server.url)) == [MODEL], "the kept list counts"
        assert again.listed(MODEL) is None, "but it may be of another key, so nothing is refused by it"
        assert not await refresh(again)
        assert len(server.asked) == 1, "a list of today is not asked for again"
        assert len(ModelLists(tmp_path / "models").offered(env("http://127.0.0.1:9"))) > 1, "it is of another server"
    assert b"a-key" not in (tmp_path / "models" / "anthropic.json").read_bytes()


async def test_an_old_list_is_asked_for_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer("claude-sonnet-5-5")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        await refresh(ModelLists(tmp_path))
        kept = json.loads((tmp_path / "anthropic.json").read_text())
        kept["received_at"] -= refreshed.KEPT_SECONDS
        (tmp_path / "anthropic.json").write_text(json.dumps(kept))
        await refresh(ModelLists(tmp_path))
        assert len(server.asked) == 2


async def test_a_provider_with_models_of_its_own_offers_those(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(answer(*(f"own-{number}" for number in range(50)))) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        lists = ModelLists(tmp_path)
        await refresh(lists)
        assert lists.offered(env(server.url)) == [f"anthropic:own-{number}" for number in range(20)]


@pytest.mark.parametrize("answers", [{}, {PATH: b"<html>"}, {PATH: {"data": []}}, {PATH: (401, {"error": "no"})}])
async def test_without_a_list_the_catalogue_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answers: dict[str, Any]
) -> None:
    with serving(answers) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        lists = ModelLists(tmp_path)
        before = lists.offered(env(server.url))
        assert not await refresh(lists)
        assert lists.offered(env(server.url)) == before
        assert lists.listed(MODEL) is None
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"{", b'{"url": 1}', b"\xff"])
async def test_a_broken_file_counts_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "anthropic.json").write_bytes(content)
    assert len(ModelLists(tmp_path).offered(env(""))) > 1


async def test_nothing_is_asked_without_a_folder_or_when_it_is_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def changed() -> None: ...

    without = ModelLists()
    without.begin(MODEL, changed)
    monkeypatch.setenv(OFF, "off")
    switched_off = ModelLists(tmp_path)
    switched_off.begin(MODEL, changed)
    assert without._refreshing is switched_off._refreshing is None
    await switched_off.close()


async def test_a_session_is_shown_the_refreshed_list_and_refuses_what_is_not_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(answer("claude-sonnet-5-5", "claude-own")) as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        service = Service(tmp_path, model_lists=tmp_path / "models")
        async with service.session() as session:

            def models() -> Sequence[str]:
                for option in session.state.config_options:
                    if isinstance(option, v1.SessionConfigSelect) and option.id == "model":
                        return [each.value for each in option.options if isinstance(each, v1.SessionConfigSelectOption)]
                return []

            async with asyncio.timeout(60):
                async for _ in session.updates():
                    if models() == ["scripted", MODEL]:
                        break
            await session.set_config_option("model", "anthropic:claude-own")
            assert "anthropic:claude-own" in models()
            with pytest.raises(RequestError, match=r"Anthropic lists no model 'claude-owm'; did you mean anthropic:cl"):
                await session.set_config_option("model", "anthropic:claude-owm")


async def test_the_agent_ends_while_a_list_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refreshed, "GRACE_SECONDS", 600.0)
    service = Service(tmp_path, model_lists=tmp_path / "models")
    async with asyncio.timeout(60), service.session() as session:
        assert session.id
