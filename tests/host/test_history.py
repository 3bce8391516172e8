"""`session/load`: what is replayed, in which form, and how the replay meets what happens meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from dragoman.host.history.replay import HistoryReplay
from dragoman.store.event_log import EventKind, LogEvent, NewEvent, SessionRecord
from dragoman.store.memory_log import MemoryLog
from tests.host.kit import OURS, OnTheWire, hosted, make_log

END = {"stopReason": "end_turn"}
OPTIONS = [{"optionId": "y", "name": "Y", "kind": "allow_once"}]


class CountedLog(MemoryLog):
    """A log that counts how often it is asked."""

    def __init__(self) -> None:
        super().__init__(lambda: 1.0)
        self.asked: list[str] = []

    async def find(self, session: str, principal: str | None) -> SessionRecord | None:
        self.asked.append("find")
        return await super().find(session, principal)

    async def read(self, session: str, after: int, limit: int, *, head: int = 0) -> list[LogEvent]:
        self.asked.append("read")
        return await super().read(session, after, limit, head=head)


async def test_a_small_session_is_loaded_with_few_questions_to_the_log() -> None:
    source, log = OnTheWire(), CountedLog()
    async with hosted(source, log=log) as host:
        line, session = await host.opened()
        id = line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "go"}])
        prompt = await source.agent.prompted()
        for number in range(20):
            source.agent.say(str(number), messageId=f"m{number}")
        source.agent.reply(prompt, END)
        await line.answer_to(id)
        reader = await host.client()
        log.asked.clear()
        updates, _ = await reader.load(session)
        assert len(updates) == 21
        assert log.asked.count("read") <= 2, "the events in one page, and its end"
        assert log.asked.count("find") <= 1


async def test_a_history_reads_as_if_it_had_just_happened_in_fewer_messages() -> None:
    source = OnTheWire()
    everything = {"session": {"notices": {}, "configOptions": {"boolean": {}}, "compaction": {}}, **OURS}
    async with hosted(source) as host:
        line, session = await host.opened()
        blocks = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
        id = line.ask("session/prompt", sessionId=session, prompt=blocks)
        prompt = await source.agent.prompted()
        agent = source.agent
        agent.update("plan", entries=[])
        agent.update("agent_thought_chunk", content={"type": "text", "text": "hm"})
        agent.say("a", messageId="m")
        agent.say("b", messageId="m")
        agent.say("other", messageId="n")
        agent.update("tool_call", toolCallId="t", title="work", status="pending", kind="read")
        agent.say("between")
        agent.update("tool_call_update", toolCallId="t", status="completed", rawOutput={"x": 1})
        agent.update("notice", severity="info", title="n")
        agent.update("current_mode_update", currentModeId="x")
        agent.update("config_option_update", configOptions=[])
        agent.update("usage_update", used=1, size=9)
        agent.update("session_info_update", title="first")
        agent.update("plan", entries=[{"content": "last", "priority": "high", "status": "completed"}])
        agent.update("usage_update", used=2, size=9)
        agent.update("session_info_update", title="last")
        agent.send(agent.note("_vendor/told", sessionId="their-1"))
        asked = agent.call("session/request_permission", toolCall={"toolCallId": "t"}, options=OPTIONS)
        line.answer_with(await line.until("session/request_permission"), "y")
        await agent.answer(asked)
        agent.reply(prompt, END)
        await line.answer_to(id)
        reader = await host.client(everything)
        asked = reader.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
        before, _ = await reader.answer_to(asked)
        assert {message["method"] for message in before} == {"session/update"}
        updates = [message["params"]["update"] for message in before]
        shown = [(update["sessionUpdate"], update.get("content", {}).get("text")) for update in updates]
        assert shown == [
            ("user_message_chunk", "one"),
            ("user_message_chunk", "two"),
            ("agent_thought_chunk", "hm"),
            ("agent_message_chunk", "ab"),
            ("agent_message_chunk", "other"),
            ("tool_call", None),
            ("agent_message_chunk", "between"),
            ("plan", None),
            ("session_info_update", None),
            ("usage_update", None),
        ]
        assert updates[0]["messageId"] == updates[1]["messageId"]
        assert updates[5] == {
            "sessionUpdate": "tool_call",
            "toolCallId": "t",
            "title": "work",
            "status": "completed",
            "kind": "read",
            "rawOutput": {"x": 1},
        }
        assert (updates[7]["entries"][0]["content"], updates[8]["title"], updates[9]["used"]) == ("last", "last", 2)
        numbers = [message["params"]["_meta"]["dragoman"]["seq"] for message in before]
        assert numbers[3] == numbers[2] + 2, "a joined message has the number of its last event"


def test_joined_text_has_a_bound() -> None:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x" * 10_000}}
    body = msgspec.json.encode(chunk)
    replay = HistoryReplay()
    events = [LogEvent(number, "update", body, 1, 1.0) for number in range(1, 101)]
    items = [*replay.feed(events), *replay.finish()]
    sizes = [len(item.update) for item in items]
    assert sum(sizes) > 1_000_000
    assert max(sizes) < 64 * 1024 + 10_200
    assert items[-1].number == 100


async def test_a_load_in_the_middle_of_a_turn_is_answered_at_once_and_goes_on_live() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session, "question")
        prompt = await source.agent.prompted()
        source.agent.say("before ")
        await line.until_update("agent_message_chunk")
        asked = source.agent.call("session/request_permission", toolCall={"toolCallId": "t"}, options=OPTIONS)
        await line.until("session/request_permission")
        reader = await host.client(OURS)
        updates, answer = await reader.load(session)
        assert [update["content"]["text"] for update in updates] == ["question", "before "]
        question = await reader.expect("session/request_permission")  # behind the answer, before what follows
        assert answer["_meta"]["dragoman"]["turn"]["turn"] == 1
        reader.answer_with(question, "y")
        await source.agent.answer(asked)
        source.agent.say("after")
        assert (await reader.until_update("agent_message_chunk"))["content"]["text"] == "after"
        source.agent.reply(prompt, END)
        ended = (await reader.until("_dragoman/turn_ended"))["params"]
        assert (ended["result"], ended["sessionId"]) == (END, session)
        assert ended["promptId"] == answer["_meta"]["dragoman"]["turn"]["promptId"]
        assert id


async def test_clients_that_load_while_an_agent_writes_get_every_update_once() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        count = 1500

        async def write() -> None:
            for number in range(count):
                source.agent.say(f"{number} ", messageId="m")
                if number % 50 == 0:
                    await asyncio.sleep(0)
            source.agent.reply(prompt, END)

        async def read(skip: int) -> str:
            for _ in range(skip):
                await asyncio.sleep(0)
            client = await host.client(OURS)
            asked = client.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
            text = ""
            while True:
                message = await client.next()
                if message.get("method") == "_dragoman/turn_ended":
                    return text
                if message.get("id") == asked and message["result"]["_meta"]["dragoman"]["turn"] is None:
                    return text
                update = message.get("params", {}).get("update", {})
                if update.get("sessionUpdate") == "agent_message_chunk":
                    text += update["content"]["text"]

        writing = asyncio.create_task(write())
        texts = await asyncio.gather(*(read(skip) for skip in (0, 3, 10, 20, 40)))
        await writing
        whole = [str(number) for number in range(count)]
        for text in texts:
            assert text.split() == whole
        await line.answer_to(id)


@pytest.mark.parametrize("events", [10, 5000])
async def test_a_host_that_was_killed_in_a_turn_of_any_length_closes_what_it_left_open(events: int) -> None:
    log = make_log()
    facts = b'{"busyFrom":2,"turns":1}'
    owned = await log.create(SessionRecord("s" * 26, "local", "test", "their-1", "/tmp", facts, 1.0, 1.0, 0, 1))

    def add(kind: EventKind, **body: object) -> None:
        owned.append([NewEvent(kind, msgspec.json.encode(body), 1)], lambda _: None)

    add("agent", started=True)
    for id in ("p1", "p2"):
        add("prompt", promptId=id, by="x", prompt=[{"type": "text", "text": id}])
    add("start", promptId="p1", messageId="m", prompt=2)
    add("question", questionId="q", method="session/request_permission", params={})
    for _ in range(events):
        add("update", sessionUpdate="agent_message_chunk", content={"type": "text", "text": "x"})
    await owned.release()
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        place = (await line.resume("s" * 26))["_meta"]["dragoman"]
        reasons = {id: outcome["error"]["data"]["reason"] for id, outcome in place["outcomes"].items()}
        assert reasons == {"p1": "interrupted", "p2": "not_run"}
        assert (place["turn"], place["questions"]) == (None, [])
        assert source.starts == 0
        (answer,) = await host.events("s" * 26, "answer")
        assert answer["answer"] == {"outcome": {"outcome": "cancelled"}}


async def test_questions_of_an_agent_that_died_are_withdrawn() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session)
        await source.agent.prompted()
        source.agent.call("session/request_permission", toolCall={"toolCallId": "t"}, options=OPTIONS)
        asked = await line.until("session/request_permission")
        source.die()
        seen: list[dict[str, Any]] = []
        while (message := await line.next()).get("id") != id:
            seen.append(message)
        withdrawn = [each["params"] for each in seen if each.get("method") == "$/cancel_request"]
        assert withdrawn == [{"requestId": asked["id"]}]
        assert message["error"]["data"]["reason"] == "agent_exited"
        assert not host.session(session).questions
