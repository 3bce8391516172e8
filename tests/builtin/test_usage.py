"""What a turn used is in the answer of its prompt, calls next to the turn included."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.models.find import find_model
from dragoman.builtin.models.model import Model, ModelRequest, StepEnd
from dragoman.builtin.usage import total
from dragoman.client import Session
from dragoman.schema import UNSET, v1
from dragoman.store.sessions import Store, UsageRow
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import Usage
from tests.builtin.http_service import Service


class Priced(Model):
    """A model with a price: one tool call, then an answer. Each call uses all five parts."""

    name, context_tokens, is_scripted = "priced", 200_000, False

    def __init__(self, answer: str = "done", cost_usd: float | None = 0.25, *, calls: int = 1) -> None:
        self._answer, self._cost_usd, self._calls = answer, cost_usd, calls
        self.may_end = asyncio.Event()
        self.may_end.set()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        await self.may_end.wait()
        if self._calls:
            self._calls -= 1
            arguments = {"items": [{"content": "look", "status": "pending"}]}
            yield c.ToolInputAvailable(f"call{self._calls}", "todo", arguments)
        else:
            yield c.TextStart("1")
            yield c.TextDelta("1", self._answer)
            yield c.TextEnd("1")
        yield StepEnd("stop", Usage(100, 10, 5, 40, 20), self._cost_usd, "priced-1")


def use(monkeypatch: pytest.MonkeyPatch, main: Model, small: Model | None = None) -> None:
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: main)
    monkeypatch.setattr(
        "dragoman.builtin.context.titles.find_model",
        lambda name: small if small is not None and name == "small" else find_model(name),
    )


def usage_in(response: v1.PromptResponse) -> dict[str, Any]:
    assert response.meta
    found: dict[str, Any] = response.meta["dragoman"]["usage"]
    return found


async def until_title(session: Session, title: str) -> None:
    watching = session.updates()
    async with asyncio.timeout(60):
        while session.state.title != title:
            await anext(watching)


async def test_the_answer_has_the_sum_of_all_calls_in_five_parts_and_the_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Priced())
    async with Service(tmp_path).session() as session:
        first = await session.prompt("go")
        assert usage_in(first) == {
            "totalTokens": 350,
            "inputTokens": 200,
            "outputTokens": 20,
            "thoughtTokens": 10,
            "cachedReadTokens": 80,
            "cachedWriteTokens": 40,
            "cost": {"amount": 0.5, "currency": "USD"},
            "sessionCost": {"amount": 0.5, "currency": "USD"},
        }
        assert first.usage is UNSET  # not part of stable v1
        second = usage_in(await session.prompt("go on"))
        assert (second["totalTokens"], second["cost"]["amount"], second["sessionCost"]["amount"]) == (175, 0.25, 0.75)


async def test_an_agent_that_offers_unstable_parts_fills_the_member_of_the_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, Priced(cost_usd=None))
    async with Service(tmp_path, unstable=True).session(unstable=True) as session:
        response = await session.prompt("go")
        assert response.usage == v1.Usage(350, 200, 20, 10, 80, 40)
        assert "cost" not in usage_in(response)
        assert session.state.turns[-1].usage == response.usage


async def test_a_prompt_that_called_no_model_reports_no_usage(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        response = await session.prompt("/clear")
        assert "usage" not in (response.meta or {}).get("dragoman", {})


async def test_the_call_for_a_title_is_part_of_the_turn_in_which_it_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, small = Priced(calls=0), Priced("A fine title", 0.01, calls=0)
    main.may_end.clear()
    use(monkeypatch, main, small)
    service = Service(tmp_path, title_model="small")
    async with service.session() as session:
        answer = asyncio.ensure_future(_answer(session, "go"))
        await until_title(session, "A fine title")
        main.may_end.set()
        usage = usage_in(await answer)
        assert usage["totalTokens"] == 350
        assert usage["cost"]["amount"] == pytest.approx(0.26)
        stored = await _stored(service, session.id)
        assert (stored.input, stored.cache_read) == (200, 80)
        assert stored.cost_usd == pytest.approx(0.26)


async def test_the_call_for_a_title_that_ends_after_the_turn_is_part_of_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = Priced("A late title", 0.01, calls=0)
    small.may_end.clear()
    use(monkeypatch, Priced(calls=0), small)
    service = Service(tmp_path, title_model="small")
    async with service.session() as session:
        assert usage_in(await session.prompt("go"))["totalTokens"] == 175
        small.may_end.set()
        await until_title(session, "A late title")
        stored = await _stored(service, session.id)
        assert stored.input == 200
        assert stored.cost_usd == pytest.approx(0.26)
        # The next answer counts it as part of the session, and not a second time.
        assert usage_in(await session.prompt("more"))["sessionCost"]["amount"] == pytest.approx(0.51)
        assert (await _stored(service, session.id)).cost_usd == pytest.approx(0.51)


async def _answer(session: Session, text: str) -> v1.PromptResponse:
    return await session.prompt(text)


async def _stored(service: Service, session_id: str) -> UsageRow:
    store = await Store.open(service.settings.store)
    try:
        return await store.usage(session_id)
    finally:
        await store.close()


def test_the_cost_of_a_sum_is_unknown_only_if_no_price_is_known() -> None:
    assert total([]) is None
    assert total([UsageRow("a", 1), UsageRow("b", 2)]) == UsageRow("", 3)
    assert total([UsageRow("a", 1, cost_usd=0.5), UsageRow("b", 2)]) == UsageRow("", 3, cost_usd=0.5)
