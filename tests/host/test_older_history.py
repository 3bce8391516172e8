"""A long history in parts: the end first, the rest by `_dragoman/history`."""

from __future__ import annotations

import random
from typing import Any

import pytest

from dragoman.host.clients import older_history
from dragoman.host.host import HostSettings
from tests.host.kit import OURS, OnTheWire, hosted

END = {"stopReason": "end_turn"}


async def long_session(host: Any, source: OnTheWire, turns: int, seed: int) -> str:
    """A session with messages, and calls that end later than they begin."""
    numbers = random.Random(seed)
    line, session = await host.opened()
    assert isinstance(session, str)
    for turn in range(turns):
        id = line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": f"prompt {turn}"}])
        prompt = await source.agent.prompted()
        agent, open_calls = source.agent, list[str]()
        agent.update("session_info_update", title=f"title {turn}")
        for number in range(numbers.randrange(5, 30)):
            if numbers.random() < 0.5:
                agent.say(f"{turn}.{number} ")
            elif open_calls and numbers.random() < 0.6:
                agent.update("tool_call_update", toolCallId=open_calls.pop(0), status="completed")
            else:
                open_calls.append(f"call-{turn}-{number}")
                agent.update("tool_call", toolCallId=open_calls[-1], title="work", status="in_progress")
        for call in open_calls:
            agent.update("tool_call_update", toolCallId=call, status="completed")
        agent.reply(prompt, END)
        await line.answer_to(id)
    return session


def summary(updates: list[dict[str, Any]]) -> tuple[str, list[tuple[str, str]]]:
    """All text in order, and the calls with their last status."""
    text = "".join(update["content"]["text"] for update in updates if "chunk" in update["sessionUpdate"])
    return text, [(each["toolCallId"], each["status"]) for each in updates if each["sessionUpdate"] == "tool_call"]


async def loaded(line: Any, session: str, **own: object) -> list[dict[str, Any]]:
    asked = line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[], _meta={"dragoman": own})
    before, _ = await line.answer_to(asked)
    return [message["params"]["update"] for message in before if message["method"] == "session/update"]


@pytest.mark.parametrize("seed", range(6))
async def test_the_parts_together_are_the_whole_history(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    monkeypatch.setattr(older_history, "PAGE_EVENTS", 90)
    monkeypatch.setattr(older_history, "_STEP", 30)
    source = OnTheWire()
    async with hosted(source) as host:
        session = await long_session(host, source, 25, seed)
        whole = await loaded(await host.client(OURS), session)
        line = await host.client(OURS)
        tail = await loaded(line, session, tail=100)
        assert 0 < len(tail) < len(whole) / 2
        assert next(each for each in tail if each["sessionUpdate"] == "session_info_update")["title"] == "title 24"
        parts, has_more = list[list[dict[str, Any]]](), True
        while has_more:
            _, answer = await line.answer_to(line.ask("_dragoman/history", sessionId=session))
            parts.insert(0, answer["result"]["updates"])
            has_more = answer["result"]["hasMore"]
            assert len(parts) < 50
        assert len(parts) > 2
        found = [update for part in (*parts, tail) for update in part]
        assert summary(found) == summary(whole)
        _, answer = await line.answer_to(line.ask("_dragoman/history", sessionId=session))
        assert answer["result"] == {"updates": [], "hasMore": False}


async def test_a_short_session_is_sent_whole_and_has_nothing_older() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        session = await long_session(host, source, 2, 7)
        whole = await loaded(await host.client(OURS), session)
        line = await host.client(OURS)
        assert await loaded(line, session, tail=4_000) == whole
        _, answer = await line.answer_to(line.ask("_dragoman/history", sessionId=session))
        assert answer["result"] == {"updates": [], "hasMore": False}


async def test_nothing_is_sent_of_a_session_that_the_client_does_not_have() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line = await host.client(OURS)
        _, answer = await line.answer_to(line.ask("_dragoman/history", sessionId="other"))
        assert "there is no such session" in answer["error"]["message"]


async def pages(line: Any, session: str, before: int, limit: int | None = None) -> list[dict[str, Any]]:
    """All parts before a number, asked for one by one, in the order of the conversation."""
    found, has_more = list[dict[str, Any]](), True
    own = {} if limit is None else {"limit": limit}
    while has_more:
        page = await line.result("_dragoman/history", sessionId=session, before=before, **own)
        numbers = [entry["seq"] for entry in page["updates"]]
        assert page["start"] < before
        assert all(page["start"] <= number < before for number in numbers)
        found[:0] = page["updates"]
        before, has_more = page["start"], page["hasMore"]
    return found


@pytest.mark.parametrize(("limit", "tail"), [(1, 60), (17, 60), (60, None), (100_000, 100), (None, 100)])
async def test_parts_by_their_place_are_the_whole_history_with_numbers_and_times(
    monkeypatch: pytest.MonkeyPatch, limit: int | None, tail: int | None
) -> None:
    monkeypatch.setattr(older_history, "PAGE_EVENTS", 90)
    monkeypatch.setattr(older_history, "_LEAST_STEP", 10)
    source = OnTheWire()
    async with hosted(source) as host:
        session = await long_session(host, source, 15, limit or 3)
        events = {event.number: event for event in await host.host.log.read(session, 0, 1_000_000)}
        line = await host.client(OURS)
        whole = await loaded(line, session)
        before, end = host.session(session).head + 1, list[dict[str, Any]]()
        if tail is not None:
            own = {"_meta": {"dragoman": {"tail": tail}}}
            asked = line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[], **own)
            sent, answer = await line.answer_to(asked)
            end = [message["params"]["update"] for message in sent]
            before = answer["result"]["_meta"]["dragoman"]["start"]
        found = await pages(line, session, before, limit)
        assert summary([entry["update"] for entry in found] + end) == summary(whole)
        for entry in found:
            assert entry["at"] == int(events[entry["seq"]].at * 1000)
            assert entry.get("from", entry["seq"]) in events
        again = await line.result("_dragoman/history", sessionId=session, before=1)
        assert (again["updates"], again["hasMore"]) == ([], False)


async def test_what_a_copy_has_of_its_parent_is_before_its_first_event() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"fork": {}}})
    ours = {"_meta": {"dragoman": {"unstable": True}}}
    async with hosted(source, settings=HostSettings(forks=True)) as host:
        parent = await long_session(host, source, 5, 1)
        line = await host.client(ours)
        asked = line.ask("session/fork", sessionId=parent, cwd="/tmp", mcpServers=[])
        forked = await source.agent.next()
        source.agent.reply(forked, {"sessionId": "copy"})
        _, answer = await line.answer_to(asked)
        copy = answer["result"]["sessionId"]
        whole = await loaded(line, copy)
        found = await pages(line, copy, 10_000, 30)
        assert summary([entry["update"] for entry in found]) == summary(whole)
        assert found[0]["seq"] < 0
        numbers = [entry["seq"] for entry in found if "chunk" in entry["update"]["sessionUpdate"]]
        assert numbers == sorted(numbers)


@pytest.mark.parametrize("wrong", [{"before": "3"}, {"before": True}, {"before": None}, {"before": 3, "limit": 0}])
async def test_a_place_that_is_not_a_number_is_refused(wrong: dict[str, Any]) -> None:
    async with hosted(OnTheWire()) as host:
        line, session = await host.opened(OURS)
        _, answer = await line.answer_to(line.ask("_dragoman/history", sessionId=session, **wrong))
        assert answer["error"]["code"] == -32602
