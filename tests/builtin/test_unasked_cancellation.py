"""A CancelledError that no client asked for is an error, and never wedges a session."""

import asyncio
import logging
import os
import sys
import threading
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import Any

import pytest

from dragoman.agent.cancellation import complete
from dragoman.builtin import session as session_module
from dragoman.builtin.context.instructions import read_instructions
from dragoman.builtin.models.model import Model, ModelError, ModelRequest, StepEnd
from dragoman.builtin.models.package import provider
from dragoman.builtin.models.package.provider import ProviderModel
from dragoman.builtin.models.scripted import ScriptedModel
from dragoman.client import spawn
from dragoman.errors import RequestError, StoreError
from dragoman.store.sessions import Store
from dragoman.uistream import chunks as c
from tests.builtin.fixtures import FakeTool, open_fixture
from tests.builtin.http_service import Service
from tests.builtin.providers.server import (
    AZURE,
    VARIABLES,
    WIRES,
    Answer,
    Asked,
    ProviderServer,
    Wire,
    text_answer,
)
from tests.builtin.test_session import RUN


async def cancelled_elsewhere(*_: object) -> None:
    """Wait for something that another part of the program cancelled."""
    broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    broken.cancel()
    await broken


async def begun(path: Path, session_id: str) -> None:
    """Wait until the turn of another process has begun a step, as its log in the store shows."""
    store = await Store.open(path)
    async with asyncio.timeout(30):
        while (log := await store.live_log(session_id)) is None or len(log.chunks) < 2:
            pass  # every look at the store lets the others run
    await store.close()


class Breaking(Model):
    """A model whose first call raises CancelledError by itself."""

    name, context_tokens, is_scripted = "breaking", 200_000, True

    def __init__(self) -> None:
        self._has_broken = False

    async def stream(self, request: ModelRequest) -> AsyncGenerator[c.Chunk | StepEnd, None]:
        if not self._has_broken:
            self._has_broken = True
            yield c.TextStart("1")
            yield c.TextDelta("1", "half an answ")
            await cancelled_elsewhere()
        async for item in ScriptedModel().stream(request):
            yield item


@pytest.mark.parametrize("wire", [WIRES["openai-chat"], AZURE], ids=["direct", "package"])
async def test_after_a_cancel_while_the_provider_loads_the_next_prompt_works(tmp_path: Path, wire: Wire) -> None:
    """A real process with a provider's model; the package takes most of a second to load."""
    project = tmp_path / "project"
    project.mkdir()
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}

    def play(asked: Asked) -> Answer:
        held = Answer(is_held=True, cut_after=0)
        return text_answer("I am ", "here.") if b"and now?" in asked.data else held

    with ProviderServer(play=play) as server:
        env = {**kept, **wire.variables(server.url), "HOME": str(tmp_path)}
        command = [sys.executable, "-m", "dragoman", "agent", "--model", wire.model, "--store", str(tmp_path / "s.db")]
        async with spawn(*command, env=env) as agent:
            session = await agent.new_session(project)
            async with session.prompt("are you there?") as turn:
                await begun(tmp_path / "s.db", session.id)
                await turn.cancel()
                assert (await asyncio.wait_for(turn, 30)).stop_reason == "cancelled"
            assert (await asyncio.wait_for(session.prompt("and now?"), 30)).stop_reason == "end_turn"
            assert session.state.text == "I am here."


async def test_a_cancelled_call_does_not_cancel_the_loading_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    loads, may_end = threading.Event(), threading.Event()
    load = provider._load

    def slow(name: str, env: Mapping[str, str]) -> Any:
        loads.set()
        may_end.wait(30)
        return load(name, env)

    monkeypatch.setattr(provider, "_load", slow)
    wire = WIRES["openai-chat"]
    with ProviderServer(text_answer("hello")) as server:
        for name, value in wire.variables(server.url).items():
            monkeypatch.setenv(name, value)
        model = ProviderModel(wire.model)
        calls = [asyncio.ensure_future(anext(model.stream(ModelRequest(())))) for _ in range(2)]
        await asyncio.to_thread(loads.wait, 30)
        calls[0].cancel()
        await asyncio.wait({calls[0]})
        assert model.context_tokens is None
        may_end.set()
        # The other call goes on; an empty conversation is what the provider complains about, if anything.
        await asyncio.wait({calls[1]})
        assert not calls[1].cancelled()
        await model.close()


async def test_a_model_that_raises_cancelled_ends_the_turn_as_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.model = Breaking()
        end = await fixture.prompt("say something")
        assert not end.was_cancelled
        assert isinstance(end.error, ModelError)
        assert "was not asked to stop" in str(end.error)
        assert fixture.session.state == "error"
        assert not any(isinstance(chunk, c.Abort) for chunk in fixture.seen)
        assert not fixture.session.history[-1].metadata.get("cancelled")
        assert (await fixture.prompt("say alive")).error is None
        assert fixture.texts() == ["alive"]
    assert any(record.levelno == logging.ERROR and record.exc_info for record in caplog.records)


async def test_a_tool_that_raises_cancelled_is_a_failed_call_that_the_model_reads(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.add(FakeTool("broken", cancelled_elsewhere), FakeTool("well"))
        end = await fixture.prompt("call broken", "& call well", "say {result}")
        assert (end.was_cancelled, end.error) == (False, None)
        assert fixture.outcomes() == {"broken": "output-error", "well": "output-available"}
    assert "broken failed" in caplog.text


async def test_a_tool_call_that_is_cancelled_elsewhere_while_it_asks_does_not_end_the_turn(tmp_path: Path) -> None:
    async with open_fixture(tmp_path) as fixture:
        fixture.answers = cancelled_elsewhere
        fixture.add(FakeTool("make", request=RUN))
        end = await fixture.prompt("call make", "say on")
        assert (end.was_cancelled, end.error) == (False, None)
        assert fixture.outcomes() == {"make": "output-error"}


async def test_a_cancel_while_instructions_are_read_does_not_cancel_the_reading(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads, may_end = threading.Event(), threading.Event()
    read = read_instructions

    def slow(*arguments: Any) -> Any:
        reads.set()
        may_end.wait(30)
        return read(*arguments)

    monkeypatch.setattr(session_module, "read_instructions", slow)
    async with open_fixture(tmp_path) as fixture:
        turn = fixture.start("say first")
        await asyncio.to_thread(reads.wait, 30)  # what reads for the turn that waits
        turn.cancel()
        await asyncio.sleep(0)  # the turn has its cancellation, and the reading goes on
        may_end.set()
        assert (await turn).was_cancelled
        end = await fixture.prompt("say second")
        assert (end.was_cancelled, end.error) == (False, None)
        assert fixture.texts() == ["second"]


async def test_a_client_sees_an_error_response_and_not_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Breaking()
    monkeypatch.setattr("dragoman.builtin.session.find_model", lambda name: model)
    async with Service(tmp_path).session() as session:
        with pytest.raises(RequestError, match="not asked to stop") as failed:
            await session.prompt("say something")
        assert failed.value.code == -32603
        assert (await session.prompt("say alive")).stop_reason == "end_turn"


async def test_work_that_fails_in_the_moment_of_a_cancel_is_not_taken_for_done() -> None:
    work: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(complete(work))
    await asyncio.sleep(0)
    waiting.cancel()
    work.set_exception(StoreError("the disk is full"))
    with pytest.raises(StoreError, match="disk"):
        await waiting
