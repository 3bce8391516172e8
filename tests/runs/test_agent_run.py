"""One agent with one session: what a prompt waits for, what a cancel stops, and what each turn has of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConnectionClosed
from dragoman.policy import parse_rule
from dragoman.registry.agents import resolve_command
from dragoman.runs.agent_run import GuardedRun
from dragoman.runs.events import EndOfTurn, RunEvent, TurnEnded, TurnStarted, Updated
from dragoman.runs.opening import SessionOpening
from dragoman.runs.terms import SessionTerms, Terms
from dragoman.schema import v1
from tests.host.kit import OnTheWire

PROMPT = [v1.TextContent("go")]
END = {"stopReason": "end_turn"}


class Played:
    """A run whose agent is played by a test, with the events it reported."""

    def __init__(self, folder: Path, **options: Any) -> None:
        self.source = OnTheWire()
        self.events: list[RunEvent] = []
        allowed = parse_rule("delete", "allow", "flag", "--allow")
        terms = Terms(
            agent="test",
            entry=resolve_command(["test"]),
            chosen=SessionTerms(follows_changes=False),
            project=str(folder),
            roots=(str(folder),),
            rules=lambda mode: [allowed],
        )
        self.run = GuardedRun(terms, asker=None, on_event=self.events.append, **options)

    def kinds(self) -> list[type]:
        return [type(event) for event in self.events]


@asynccontextmanager
async def played(folder: Path, **options: Any) -> AsyncIterator[Played]:
    found = Played(folder, **options)
    try:
        await found.run.start(await found.source.start(str(folder), None))
        await found.run.open(SessionOpening())
        yield found
    finally:
        await found.run.close()


@pytest.fixture
def slow_arming(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Let the noting of protected files wait until this is set."""
    done = threading.Event()
    monkeypatch.setattr("dragoman.runs.guard.RunGuard.arm", lambda guard: done.wait(60))
    return done


async def test_a_prompt_that_is_cancelled_before_it_is_sent_never_is(
    tmp_path: Path, slow_arming: threading.Event
) -> None:
    async with played(tmp_path, is_prompted_at_once=False) as found:
        prompting = asyncio.ensure_future(found.run.prompt(PROMPT))
        await asyncio.sleep(0)
        await found.run.cancel(give_up_seconds=60)
        slow_arming.set()
        assert await prompting == EndOfTurn(was_cancelled=True, was_sent=False)
        assert TurnStarted not in found.kinds()
        prompting = asyncio.ensure_future(found.run.prompt([v1.TextContent("the next")]))
        sent = await found.source.agent.prompted()
        assert sent["params"]["prompt"][0]["text"] == "the next"
        found.source.agent.reply(sent, END)
        assert not (await prompting).was_cancelled


async def test_an_agent_that_died_before_it_got_the_prompt_did_not_get_it(
    tmp_path: Path, slow_arming: threading.Event
) -> None:
    async with played(tmp_path, is_prompted_at_once=False) as found:
        prompting = asyncio.ensure_future(found.run.prompt(PROMPT))
        await asyncio.sleep(0)
        found.source.die()
        await found.run.agent.wait_closed()
        slow_arming.set()
        end = await prompting
        assert isinstance(end.error, ConnectionClosed)
        assert not end.was_sent


async def test_what_a_turn_left_running_is_ended_before_the_turn_is_over(tmp_path: Path) -> None:
    seen: list[tuple[EndOfTurn, bool]] = []

    async def settle(end: EndOfTurn) -> None:
        seen.append((end, TurnEnded in found.kinds()))

    async with played(tmp_path, settle=settle) as found:
        prompting = asyncio.ensure_future(found.run.prompt(PROMPT, prompt_id="p"))
        found.source.agent.reply(await found.source.agent.prompted(), END)
        end = await prompting
        assert seen == [(end, False)]
        assert found.kinds()[-1] is TurnEnded


async def test_a_turn_without_a_record_reports_no_updates(tmp_path: Path) -> None:
    async with played(tmp_path) as found:
        for is_recorded in (False, True):
            prompting = asyncio.ensure_future(found.run.prompt(PROMPT, is_recorded=is_recorded))
            prompt = await found.source.agent.prompted()
            found.source.agent.update("tool_call", toolCallId="t", title="t", kind="execute")
            found.source.agent.reply(prompt, END)
            await prompting
            assert (Updated in found.kinds()) is is_recorded
            assert found.run.record.may_have_changed is is_recorded


async def test_each_turn_that_wants_a_patch_copies_files_before_they_change(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    async with played(tmp_path) as found:
        for number, wants_patch in enumerate((False, True, False)):
            file.write_text("before\n")
            prompting = asyncio.ensure_future(found.run.prompt(PROMPT, copies_before=wants_patch))
            prompt = await found.source.agent.prompted()
            call: dict[str, Any] = {"toolCallId": f"t{number}", "title": "rm", "kind": "delete"}
            call["locations"] = [{"path": str(file)}]
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            asked = {"toolCall": call, "options": options}
            answer = await found.source.agent.ask("session/request_permission", **asked)
            assert answer["outcome"]["optionId"] == "yes"
            file.unlink()
            found.source.agent.update("tool_call", **call, status="completed")
            found.source.agent.reply(prompt, END)
            await prompting
            data, files, _ = found.run.make_patch()
            assert (b"-before\n" in data) is wants_patch
            assert files == ([str(file)] if wants_patch else [])
