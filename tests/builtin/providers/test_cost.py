"""What a session uses: kept per call, shown after each, and bounded."""

from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.schema import v1
from dragoman.store.sessions import Store, UsageRow
from dragoman.uistream import chunks as c
from dragoman.uistream.chunks import encode_chunk
from dragoman.uistream.messages import Usage
from tests.builtin.fixtures import FakeTool, SessionFixture, open_fixture, prompt_row
from tests.builtin.http_service import Service, ask
from tests.builtin.providers.server import WIRES, ProviderServer, Wire, text_answer, thought, use

EACH_WIRE = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
CALL = Usage(input=100, output=20, reasoning=5, cache_read=40, cache_write=10)


def shown(updates: list[v1.SessionUpdate]) -> list[v1.UsageUpdate]:
    return [update for update in updates if isinstance(update, v1.UsageUpdate)]


def costs(updates: list[v1.UsageUpdate]) -> list[float]:
    return [update.cost.amount for update in updates if isinstance(update.cost, v1.Cost)]


@EACH_WIRE
async def test_every_call_is_shown_with_its_context_and_what_the_session_has_cost(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = (
        thought("hm", use("todo", items=[{"content": "a", "status": "pending"}])),
        text_answer("one"),
        text_answer("two"),
    )
    with ProviderServer(*answers) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with Service(tmp_path, model=wire.model).session() as session:
            updates = shown([*await ask(session, "go"), *await ask(session, "more")])
    if wire.model.startswith("openai-compatible"):
        assert updates == []  # the size of the context window is not known
        return
    assert len(updates) == 3
    assert [update.used for update in updates] == [120, 120, 120], "what the last call had in it, not the sum"
    assert all(update.size >= 200_000 for update in updates)
    one, two, three = costs(updates)
    assert one > 0
    assert two == pytest.approx(2 * one)
    assert three == pytest.approx(3 * one), "it is the session's, so a second turn goes on counting"


def calling(times: int, cost_usd: float | None = 0.5) -> ScriptedModel:
    """A model that calls a tool so often in a turn, each call with the same price."""
    asked = [0]

    def play(request: ModelRequest) -> list[Any]:
        asked[0] += 1
        if asked[0] % (times + 1):
            call = [c.ToolInputStart(f"t{asked[0]}", "look"), c.ToolInputAvailable(f"t{asked[0]}", "look", {})]
            return [*call, StepEnd("tool-calls", CALL, cost_usd, "a:model")]
        return [c.TextStart("x"), c.TextDelta("x", "done"), c.TextEnd("x"), StepEnd("stop", CALL, cost_usd, "a:model")]

    return ScriptedModel(play)


def limit_of(fixture: SessionFixture) -> list[str]:
    return [chunk.data["limit"] for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "limit"]


async def test_tokens_are_kept_in_five_parts_for_each_call(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model = calling(1)
        await fixture.prompt("go")
        kept = await fixture.store.usage(fixture.session.row.id)
    assert kept == UsageRow("", 200, 40, 10, 80, 20, 1.0)


async def test_calls_without_a_price_leave_the_cost_unknown(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model = calling(1, None)
        fixture.limits = TurnLimits(cost_usd=0.1, session_cost_usd=0.1)
        await fixture.prompt("go")
        assert (await fixture.store.usage(fixture.session.row.id)).cost_usd is None
        assert limit_of(fixture) == []
        assert not any("cost_usd" in chunk.data for chunk in fixture.seen if isinstance(chunk, c.Data))


@pytest.mark.parametrize(
    ("limits", "limit"),
    [
        (TurnLimits(tokens=50), "tokens"),
        (TurnLimits(cost_usd=1.0), "cost"),
        (TurnLimits(session_tokens=50), "tokens"),
        (TurnLimits(session_cost_usd=0.9), "cost"),
        (TurnLimits(steps=2), "steps"),
    ],
)
async def test_a_limit_ends_the_turn_before_the_next_call(limits: TurnLimits, limit: str, tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model, fixture.limits = calling(10), limits
        end = await fixture.prompt("go")
        assert end.error is None
        assert len(fixture.tools["look"].called) == 2
        assert limit_of(fixture) == [limit]


async def test_a_turn_that_ends_by_itself_is_not_ended_by_a_limit(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model, fixture.limits = calling(1), TurnLimits(cost_usd=1.0)
        await fixture.prompt("go")
        assert limit_of(fixture) == []
        assert fixture.texts() == ["done"]


async def test_a_session_at_its_limit_asks_its_model_no_more_also_after_a_restart(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model, fixture.limits = calling(1), TurnLimits(session_cost_usd=0.9)
        await fixture.prompt("go")
        await fixture.reopen()
        fixture.seen.clear()
        await fixture.prompt("more")
        assert limit_of(fixture) == ["cost"]
        assert not any(isinstance(chunk, c.StartStep) for chunk in fixture.seen)
        notices = [
            chunk.data["title"] for chunk in fixture.seen if isinstance(chunk, c.Data) and chunk.name == "notice"
        ]
        assert notices == ["The turn ends here: the session's limit of 0.9 USD is reached"]


async def test_a_limit_reaches_the_client_as_a_stop_reason(tmp_path: Path) -> None:
    async with Service(tmp_path, limits=TurnLimits(tokens=1)).session() as session:
        turn = session.prompt("todo a; b\nsay never heard")
        assert (await turn).stop_reason == "max_tokens"
        assert "never" not in session.state.text


async def test_what_a_turn_cost_that_was_killed_is_not_forgotten(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("look"))
        fixture.model = calling(1)
        row = fixture.session.row
        await fixture.store.begin_turn(row.id, prompt_row(), "msg_killed")
        usage: dict[str, Any] = {"used": 175, "size": None, "input": 100, "output": 20, "reasoning": 5}
        usage |= {"cache_read": 40, "cache_write": 10, "model": "a:model", "call_cost_usd": 0.5, "cost_usd": 7.0}
        log: list[c.Chunk] = [c.Start("msg_killed"), c.StartStep(), c.Data("usage", usage, "usage", transient=True)]
        await fixture.store.append_log("msg_killed", 0, [encode_chunk(chunk) for chunk in log])
        fixture.store._presence.close()  # as the mark of a process that died
        later = await Store.open(tmp_path / "s.db")
        try:
            await fixture.open_again(later)
        finally:
            await later.close()
        assert await fixture.store.usage(row.id) == UsageRow("", 100, 20, 5, 40, 10, 0.5)
