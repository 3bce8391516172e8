"""Every client is shown that a model is busy or silent, and nothing of that becomes a part of the answer."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from dragoman.builtin.limits import TurnLimits
from dragoman.builtin.models.model import Model, ModelRequest, StepEnd
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.schema import v1
from dragoman.uistream import chunks as c
from dragoman.uistream.messages import ReasoningPart
from tests.agent.fixtures import connected, texts
from tests.builtin.fixtures import open_fixture
from tests.builtin.http_service import Service, ask, recording_model
from tests.builtin.providers.server import VARIABLES, WIRES, ProviderServer, Wire, refused, text_answer

EACH_WIRE = pytest.mark.parametrize("wire", WIRES.values(), ids=WIRES)
LIMITS = TurnLimits(retry_seconds=(0.0,), silence_seconds=0.05, cleanup_seconds=2.0)


class Silent(Model):
    """A model that is silent before its first piece, or after it, until it may go on."""

    name, context_tokens, is_scripted = "silent", 200_000, True

    def __init__(self, *, begins: bool = False) -> None:
        self._begins = begins
        self.may_go_on = asyncio.Event()

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        if self._begins:
            yield c.TextStart("1")
        await self.may_go_on.wait()
        if not self._begins:
            yield c.TextStart("1")
        yield c.TextDelta("1", "at last")
        yield c.TextEnd("1")
        yield StepEnd("stop")


def notices(updates: list[v1.SessionUpdate]) -> list[tuple[str, str]]:
    return [(update.severity, update.title) for update in updates if isinstance(update, v1.Notice)]


async def test_a_client_that_shows_notices_gets_each_wait_as_one(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        updates = await ask(session, "busy 2", "say at last")
        assert notices(updates) == [
            ("warning", "scripted is busy: next try in 0 s (1 of 5)"),
            ("warning", "scripted is busy: next try in 0 s (2 of 5)"),
        ]
        assert all(update.description for update in updates if isinstance(update, v1.Notice))
        assert not any(isinstance(update, v1.AgentThoughtChunk) for update in updates)
        assert session.state.text == "at last"


async def test_any_other_client_gets_them_as_lines_of_thought_that_no_model_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_model(monkeypatch)
    service = Service(tmp_path)
    async with connected(service.agent) as line:
        session_id = await line.open(str(service.project))
        updates, answer = await line.turn(session_id, "busy 1\nsay at last")
        assert answer["result"]["stopReason"] == "end_turn"
        (thought,) = texts(updates, "agent_thought_chunk")
        assert thought.startswith("scripted is busy: next try in 0 s (1 of 5). ")
        assert thought.endswith("\n")
        assert "".join(texts(updates)) == "at last"
        await line.turn(session_id, "say more")
        assert not any(isinstance(part, ReasoningPart) for each in model.requests[-1].messages for part in each.parts)
        assert "busy: next" not in repr(model.requests[-1].messages)


@EACH_WIRE
async def test_every_try_of_a_request_to_a_provider_is_visible(
    wire: Wire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No package below the loop tries again by itself."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    with ProviderServer(refused(529, "Overloaded"), refused(503, "Unavailable"), text_answer("hello")) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        async with Service(tmp_path, model=wire.model).session() as session:
            updates = await ask(session, "go")
        assert len(server.asked) == 3
    assert [title for _, title in notices(updates) if "next try" in title] == [
        f"{wire.model} is busy: next try in 0 s (1 of 5)",
        f"{wire.model} is busy: next try in 0 s (2 of 5)",
    ]


@pytest.mark.parametrize(("begins", "words"), [(False, "the answer of silent"), (True, "the rest of the answer")])
async def test_a_silent_model_is_named_as_what_the_turn_waits_for(
    begins: bool, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Silent(begins=begins)
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    service = Service(tmp_path, limits=LIMITS)
    async with connected(service.agent) as line:
        session_id = await line.open(str(service.project))
        request_id = line.prompt(session_id)
        shown = ""
        while words not in shown:  # a slow machine may wait for the beginning as well
            update = (await line.next()).get("params", {}).get("update", {})
            if update.get("sessionUpdate") == "agent_thought_chunk":
                shown = update["content"]["text"]
        model.may_go_on.set()
        _, answer = await line.answer_to(request_id)
        assert answer["result"]["stopReason"] == "end_turn"
        assert "nothing has arrived for" in shown


async def test_a_model_that_answers_in_time_is_not_reported_as_silent(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.limits = TurnLimits(silence_seconds=30.0)
        fixture.model = ScriptedModel()
        await fixture.prompt("slow 3")
        assert not any(isinstance(chunk, c.Data) and chunk.name == "notice" for chunk in fixture.seen)
