"""Conversations of real agents, played through the guard from both sides: what is not judged passes as it was."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.proxy.audit.verify import verify
from dragoman.proxy.guard.services import SERVED
from dragoman.trace.reader import open_trace
from tests.proxy.kit import Guarded, guarded
from tests.versions.recordings import SHARED

RECORDINGS = [
    path for path in sorted((SHARED / "transcripts").glob("*.jsonl")) if b'"session/prompt"' in path.read_bytes()
]


class RecordedConversation:
    """One recording between the two sides of a guard."""

    def __init__(self, guard: Guarded) -> None:
        self._guard = guard
        self.passed = 0
        self.judged = 0
        self._asked: set[str] = set()  # ids of requests of the client that passed

    async def take_agent(self, line: bytes) -> None:
        guard, frame = self._guard, json.loads(line)
        guard.editor.clear()
        guard.exchange.from_agent(line)
        if "id" in frame and frame.get("method") in SERVED:
            self.judged += 1
            await self._refuse(frame["id"])
        elif "method" in frame or json.dumps(frame.get("id")) in self._asked:
            # The guard may add a sentence about a violation.
            assert guard.editor[0] == line
            self.passed += 1

    async def _refuse(self, request_id: object) -> None:
        """The editor answers with an error to whatever it is asked; the agent gets exactly one answer."""
        guard = self._guard
        while not guard.agent:
            await guard.something_sent()
            asked = [json.loads(line) for line in guard.editor]
            guard.editor.clear()
            for sent in asked:
                assert sent.get("id") != request_id
                if "id" in sent:
                    guard.from_editor({"id": sent["id"], "error": {"code": -32603, "message": "no"}})
        assert json.loads(guard.agent.pop(0))["id"] == request_id

    def take_client(self, line: bytes) -> None:
        guard, frame = self._guard, json.loads(line)
        if "method" not in frame:
            return  # answers what was asked in the recording; here the guard asks
        guard.agent.clear()
        guard.exchange.from_editor(line)
        if frame["method"] == "initialize":
            assert json.loads(guard.agent[0])["params"]["clientCapabilities"]["terminal"] is True
        elif guard.agent:
            assert guard.agent == [line]
            self.passed += 1
        if guard.agent and "id" in frame:
            self._asked.add(json.dumps(frame["id"]))
        guard.agent.clear()


@pytest.mark.skipif(not RECORDINGS, reason="the recordings of real agents are not here (../shared/transcripts)")
@pytest.mark.parametrize("path", RECORDINGS, ids=lambda path: path.stem)
async def test_the_messages_of_a_real_agent_pass(path: Path, tmp_path: Path) -> None:
    async with guarded(tmp_path, deny=["execute:rm *"]) as guard:
        played = RecordedConversation(guard)
        for frame in open_trace(path).frames:
            if not frame.data.startswith(b"{"):
                continue
            if frame.dir == "a2c":
                await played.take_agent(frame.data)
            else:
                played.take_client(frame.data)
        assert played.passed > 0
    assert verify(tmp_path / "audit").is_intact
