"""A host that was killed in the middle of a turn: the client that sends the prompt again does not run it again."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.store.event_log import NewEvent, SessionRecord
from dragoman.store.sqlite_log import SqliteLog
from tests.host.kit import OURS, hosted
from tests.host.test_sessions import Steps

SESSION = "a" * 26


def event(kind: Any, turn: int = 0, **body: object) -> NewEvent:
    return NewEvent(kind, msgspec.json.encode(body), turn)


@pytest.mark.parametrize(("has_started", "reason"), [(True, "interrupted"), (False, "not_run")])
async def test_a_prompt_that_was_open_when_the_host_died_is_not_run_by_sending_it_again(
    has_started: bool, reason: str, tmp_path: Path
) -> None:
    ticks = itertools.count(1_700_000_000)
    log = SqliteLog(tmp_path / "log.sqlite", clock=lambda: float(next(ticks)))
    owned = await log.create(SessionRecord(SESSION, "local", "test", "s", "/tmp", b"{}", 1.0, 1.0, 0, 1))
    prompt = [{"type": "text", "text": "delete everything"}]
    events = [event("prompt", promptId="p1", by="x", prompt=prompt)]
    if has_started:
        events.append(event("start", 1, promptId="p1", messageId="msg-p1", by="x", prompt=1))
    owned.append(events, lambda committed: None)
    await owned.release()
    steps = Steps()
    async with hosted(steps, log=log) as host:
        line = await host.client(OURS)
        resumed = line.ask("session/resume", sessionId=SESSION, cwd="/tmp", mcpServers=[])
        # In one go with the resume: the host has not logged the end of the turn yet.
        meta = {"dragoman": {"promptId": "p1"}}
        again = line.ask("session/prompt", sessionId=SESSION, prompt=prompt, _meta=meta)
        _, answer = await line.answer_to(resumed)
        assert "result" in answer
        _, answer = await line.answer_to(again)
        assert answer["error"]["data"]["reason"] == reason
        assert steps.prompts == []
    await log.close()
