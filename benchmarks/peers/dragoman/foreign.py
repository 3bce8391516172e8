"""What updates cost when their agent writes JSON in another way: with spaces, with the params first, or with a flaw.

The agent is the floor's, which writes each way as fast as it can. All ways take turns; CPU time of the client
counts, and its ratio to the usual way.
"""

from __future__ import annotations

import os
import statistics
from typing import Any

from benchmarks.peers import find_peer, probe
from dragoman import Session, spawn
from dragoman.schema import Unknown, v1

WAYS = ("compact", "spaced", "params_first", "flawed", "unknown")


async def foreign(params: dict[str, Any]) -> dict[str, float]:
    """CPU us of one update for each way of writing it, and the ratios to the compact one."""
    taken: dict[str, list[float]] = {way: [] for way in WAYS}
    for _ in range(params["rounds"]):
        for way in WAYS:
            async with spawn(*find_peer("raw").agent_command, "--write", way) as agent:
                session = await agent.new_session(cwd="/tmp")
                await _turn(session, params["warm_up"])
                start = probe.cpu_seconds(os.getpid())
                probe.expect(await _turn(session, params["prompt"]), params["count"], "updates")
                taken[way].append((probe.cpu_seconds(os.getpid()) - start) / params["count"] * 1e6)
    result = {f"{way}_us": statistics.median(times) for way, times in taken.items()}
    for way in WAYS[1:]:
        pairs = zip(taken[way], taken["compact"], strict=True)
        result[f"{way}_ratio"] = statistics.median(one / other for one, other in pairs)
    return result


async def _turn(session: Session, text: str) -> int:
    updates = 0
    async for update in session.prompt(text):
        updates += isinstance(update, v1.AgentMessageChunk | Unknown)
    return updates
