"""The agent is killed while a model summarises: the session is as it was before, and goes on."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from dragoman.client import spawn
from dragoman.errors import ConnectionClosed
from dragoman.schema import v1
from tests.builtin.providers.server import WIRES, Answer, Asked, ProviderServer
from tests.builtin.test_kill import pid_of
from tests.builtin.window.counting_model import words
from tests.builtin.window.test_wire_forms import CountingProvider


@pytest.mark.timeout(120)
async def test_a_kill_during_a_compaction_leaves_the_session_as_it_was(tmp_path: Path) -> None:
    provider, summarising = CountingProvider(), threading.Event()
    is_held = True

    def play(asked: Asked) -> Answer:
        before = provider.summaries
        answer = provider.play(asked)
        if provider.summaries > before and is_held:
            summarising.set()
            return answer._replace(cut_after=1, is_held=True)
        return answer

    with ProviderServer(play=play) as server:
        wire = WIRES["openai-chat"]
        command = [sys.executable, "-m", "dragoman", "agent", "--model", wire.model, "--store", str(tmp_path / "s.db")]
        env = {"DRAGOMAN_HOME": str(tmp_path / "home"), **wire.variables(server.url)}
        prompts = 0
        async with spawn(*command, cwd=tmp_path, env=env) as agent:
            session = await agent.new_session(tmp_path)
            with suppress(ConnectionClosed):
                while True:
                    prompts += 1
                    async for update in session.prompt(f"part {prompts} {words(1_200)}"):
                        if isinstance(update, v1.CompactionUpdate):
                            assert await asyncio.to_thread(summarising.wait, 20)
                            os.kill(pid_of(agent), signal.SIGKILL)
        assert summarising.is_set()
        is_held = False
        async with spawn(*command, cwd=tmp_path, env=env) as agent:
            loaded = await agent.load_session(session.id, tmp_path)
            asked = [message.text for message in loaded.state.messages if message.role == "user"]
            assert [text.split(" ")[1] for text in asked] == [str(number) for number in range(1, prompts + 1)]
            assert not loaded.state.compactions
            await asyncio.wait_for(loaded.prompt("and after the kill"), 30)
            assert [each.status for each in loaded.state.compactions.values()] == ["completed"]
    assert server.failures == []
