"""Lines that break between an editor and its host: the editor sees one unbroken session."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path

import pytest

from dragoman.host.serving.server import ServeOptions
from tests.host.bridge.kit import editor
from tests.host.serving.kit import FREELY, CuttingProxy, counting_agent, served

UPDATES = 200
IS_SOAK = os.environ.get("DRAGOMAN_SOAK") == "1"
CUTS, AT_ONCE, LEAST = (100, 1, 100) if IS_SOAK else (15, 5, 10)


@pytest.mark.parametrize("scheme", ["ws", "http"])
@pytest.mark.parametrize("seed", range(5 if IS_SOAK else 2))
async def test_every_update_arrives_once_over_many_cuts(scheme: str, seed: int, tmp_path: Path) -> None:
    dice = random.Random(seed)
    step = asyncio.Event()
    async with CuttingProxy() as proxy:
        options = ServeOptions(hosts=(f"127.0.0.1:{proxy.port}",), limits=FREELY, drain_seconds=0.0)
        async with served(lambda: counting_agent(step, UPDATES, AT_ONCE), tmp_path, options=options) as host:
            proxy.target = host.port
            async with editor(f"{scheme}://127.0.0.1:{proxy.port}/acp", host.secret) as line:
                await line.hello()
                session = await line.open(str(tmp_path))
                turn = asyncio.ensure_future(line.turn(session))
                while not turn.done():
                    if dice.random() < 0.7 and proxy.cuts < CUTS:
                        await proxy.connected()
                        await asyncio.sleep(dice.uniform(0, 0.01))
                        proxy.cut()
                    step.set()
                    await asyncio.sleep(dice.uniform(0, 0.002))
                updates, answer = await turn
                assert answer["result"] == {"stopReason": "end_turn"}
                assert [each["content"]["text"].strip() for each in updates] == [str(n) for n in range(UPDATES)]
                assert proxy.cuts >= LEAST
                assert host.metrics.value("dragoman_turns_total") == 1
                assert await line.leave() == 0
