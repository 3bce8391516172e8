"""Any frames of both sides, in any order: the guard neither fails nor lets a request past the rules."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.proxy.audit.verify import verify
from dragoman.proxy.guard.services import SERVED
from tests.proxy.kit import ALL, guarded

METHODS = (
    *sorted(SERVED),
    *("initialize", "session/new", "session/load", "session/prompt", "session/cancel", "session/update"),
    *("$/cancel_request", "session/close", "_x/y", "fs/delete", "terminal/resize", "", "authenticate"),
)
IDS: st.SearchStrategy[Any] = st.sampled_from([0, 1, 2, 3, 5, -1, "1", "a", "", None, 1.5, True, [], {}])
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.text(max_size=5),
    st.sampled_from(
        ["s", "selected", "completed", "tool_call", "tool_call_update", "usage_update", "yes", "/", "a\0b"]
    ),
)
NAMES = st.sampled_from(
    [
        *("sessionId", "update", "sessionUpdate", "toolCallId", "toolCall", "options", "path", "content", "status"),
        *("rawInput", "command", "kind", "cwd", "terminalId", "requestId", "outcome", "optionId", "prompt", "cost"),
        *("protocolVersion", "clientCapabilities", "usage", "totalTokens", "mcpServers", "title", "locations", "x"),
    ]
)
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=5), max_leaves=12
)
PARAMS = st.dictionaries(NAMES, VALUES, max_size=6).map(lambda params: {"sessionId": "s", **params}) | VALUES
FRAMES = st.fixed_dictionaries(
    {},
    optional={
        "id": IDS,
        "method": st.sampled_from(METHODS),
        "params": PARAMS,
        "result": VALUES,
        "error": VALUES,
    },
)


@settings(max_examples=60)
@given(frames=st.lists(st.tuples(st.sampled_from(["agent", "editor"]), FRAMES), max_size=25))
def test_any_frames_of_both_sides(frames: list[tuple[str, dict[str, Any]]]) -> None:
    asyncio.run(_play(frames))


async def _play(frames: list[tuple[str, dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        # Everything is denied, so whatever the agent wants to be done, the editor must not be asked to do it.
        async with guarded(Path(folder), deny=["*"]) as guard:
            await guard.open(ALL)
            for side, frame in frames:
                (guard.from_agent if side == "agent" else guard.from_editor)(frame)
                await asyncio.sleep(0)
            for _ in range(20):
                await asyncio.sleep(0)
            asked = [json.loads(line).get("method") for line in guard.editor]
            assert not [method for method in asked if method in SERVED and not method.startswith("session/")]
        assert list((Path(folder) / "project").iterdir()) == []
        assert verify(Path(folder) / "audit").is_intact
