"""Prompts of hosted sessions: what reaches the agent, queues, cancels, and agents that fail."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.host.host import HostSettings
from dragoman.host.working.session_agent import SessionAgent
from dragoman.runs.agent_run import GuardedRun
from dragoman.store.sqlite_log import SqliteLog
from dragoman.transports.memory import MemoryTransport
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted

END = {"stopReason": "end_turn"}
CANCELLED = {"stopReason": "cancelled"}


async def test_meta_of_a_prompt_reaches_the_agent_without_what_is_for_the_host() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        meta = {"traceparent": "00-1", "tracestate": "a", "baggage": "b", "dragoman": {"promptId": "p"}}
        line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}], _meta=meta)
        prompt = await source.agent.prompted()
        assert prompt["params"]["_meta"] == {"traceparent": "00-1", "tracestate": "a", "baggage": "b"}
        assert prompt["params"]["sessionId"] == "their-1"
        source.agent.reply(prompt, END)
        assert (await line.until("_dragoman/turn_started"))["params"]["promptId"] == "p"


IMAGE = {"type": "image", "mimeType": "image/png", "data": "aaaa"}
AUDIO = {"type": "audio", "mimeType": "audio/wav", "data": "aaaa"}
TEXT = {"type": "resource", "resource": {"uri": "file:///a.txt", "text": "content"}}
BLOB = {"type": "resource", "resource": {"uri": "file:///a.bin", "blob": "aaaa"}}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "a"}


@pytest.mark.parametrize(
    ("block", "gate", "name"),
    [(IMAGE, "image", "image"), (AUDIO, "audio", "audio"), (BLOB, "embeddedContext", "embedded binary")],
)
async def test_a_block_that_the_agent_cannot_take_is_refused_by_name(
    block: dict[str, Any], gate: str, name: str
) -> None:
    for can in (False, True):
        source = OnTheWire(capabilities={"promptCapabilities": {gate: can}})
        async with hosted(source) as host:
            line, session = await host.opened()
            blocks = [{"type": "text", "text": "x"}, block]
            if not can:
                error = await line.error("session/prompt", sessionId=session, prompt=blocks)
                assert error["code"] == -32602
                assert error["message"] == f"test does not take {name} blocks in prompts"
                assert error["data"]["path"] == "$.prompt[1]"
                continue
            line.ask("session/prompt", sessionId=session, prompt=blocks)
            prompt = await source.agent.prompted()
            assert prompt["params"]["prompt"] == blocks
            source.agent.reply(prompt, END)


async def test_an_embedded_text_becomes_text_with_its_uri_and_links_stay_as_they_are() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        other = await host.client()
        await other.resume(session)
        line.ask("session/prompt", sessionId=session, prompt=[TEXT, LINK])
        prompt = await source.agent.prompted()
        text = {"type": "text", "text": "file:///a.txt:\ncontent"}
        assert prompt["params"]["prompt"] == [text, LINK]
        assert (await other.update())["content"] == TEXT, "other clients see what was sent"
        source.agent.reply(prompt, END)


async def test_the_queue_has_a_limit_and_prompts_keep_their_order() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        asked = [line.prompt(session, str(number)) for number in range(17)]
        error_id = line.prompt(session, "too many")
        _, answer = await line.answer_to(error_id)
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["reason"] == "queue_full"
        for number, id in enumerate(asked):
            prompt = await source.agent.prompted()
            assert prompt["params"]["prompt"][0]["text"] == str(number)
            source.agent.reply(prompt, END)
            assert (await line.answer_to(id))[1]["result"] == END


async def test_a_client_may_refuse_to_wait() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        line.prompt(session)
        prompt = await source.agent.prompted()
        blocks = [{"type": "text", "text": "x"}]
        id = line.ask("session/prompt", sessionId=session, prompt=blocks, _meta={"dragoman": {"queue": False}})
        assert (await line.answer_to(id))[1]["error"]["data"] == {"reason": "busy"}
        source.agent.reply(prompt, END)


async def test_an_error_of_the_agent_is_passed_on_as_it_is() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session)
        source.agent.fail(await source.agent.prompted(), code=-32099, message="odd", data={"a": [1]})
        _, answer = await line.answer_to(id)
        assert answer["error"] == {"code": -32099, "message": "odd", "data": {"a": [1]}}
        assert (await host.events(session, "end"))[0]["error"]["code"] == -32099


async def test_an_agent_that_repeats_the_prompt_is_not_shown_twice_but_other_messages_are() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        id = line.prompt(session, "hello world")
        prompt = await source.agent.prompted()
        for text in ("hello ", "world", "something else"):
            source.agent.update("user_message_chunk", content={"type": "text", "text": text})
        source.agent.reply(prompt, END)
        before, _ = await line.answer_to(id)
        assert [message["params"]["update"]["content"]["text"] for message in before] == ["something else"]


async def test_a_cancel_is_logged_with_who_sent_it_and_late_updates_belong_to_its_turn() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        other = await host.client(hello=False)
        await other.hello(clientInfo={"name": "phone", "version": "1"})
        await other.resume(session)
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        other.notify("session/cancel", sessionId=session)
        assert (await source.agent.next())["method"] == "session/cancel"
        source.agent.reply(prompt, CANCELLED)
        assert (await line.answer_to(id))[1]["result"] == CANCELLED
        assert (await host.events(session, "cancel"))[0]["who"] == "local/phone"
        source.agent.say("late")
        assert (await line.until_update("agent_message_chunk"))["content"]["text"] == "late"
        assert (await host.host.log.read(session, 0, 100))[-1].turn == 1


async def test_cancel_request_on_a_prompt_cancels_that_prompt_only() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        first, second = line.prompt(session, "first"), line.prompt(session, "second")
        prompt = await source.agent.prompted()
        line.notify("$/cancel_request", requestId=second)
        assert (await line.answer_to(second))[1]["result"] == CANCELLED
        line.notify("$/cancel_request", requestId=first)
        assert (await source.agent.next())["method"] == "session/cancel"
        source.agent.reply(prompt, CANCELLED)
        assert (await line.answer_to(first))[1]["result"] == CANCELLED


async def test_a_prompt_that_is_taken_back_at_once_never_runs_and_holds_nothing_up() -> None:
    """Both messages come in one piece: the cancel is there before the host takes its first step with the prompt."""
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        first = line.prompt(session, "first")
        running = await source.agent.prompted()
        taken = 1000
        text = [{"type": "text", "text": "taken back"}]
        line.send(
            line.request(taken, "session/prompt", sessionId=session, prompt=text),
            line.note("$/cancel_request", requestId=taken),
        )
        last = line.prompt(session, "last")
        assert (await line.answer_to(taken))[1]["result"] == CANCELLED
        source.agent.reply(running, END)
        assert (await line.answer_to(first))[1]["result"] == END
        prompt = await source.agent.prompted()
        assert prompt["params"]["prompt"][0]["text"] == "last"
        source.agent.reply(prompt, END)
        assert (await line.answer_to(last))[1]["result"] == END


async def test_cancel_request_on_another_request_is_forwarded_with_the_agents_id() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        id = line.ask("_vendor/slow", sessionId=session)
        asked = await source.agent.next()
        assert asked["params"] == {"sessionId": "their-1"}
        line.notify("$/cancel_request", requestId=id)
        assert await source.agent.next() == {
            "jsonrpc": "2.0",
            "method": "$/cancel_request",
            "params": {"requestId": asked["id"]},
        }
        assert (await line.answer_to(id))[1]["error"]["code"] == -32800


async def test_an_agent_that_ignores_a_cancel_is_stuck_and_ended_before_the_next_prompt() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(cancel_seconds=0.01)) as host:
        line, session = await host.opened({**OURS, "session": {"notices": {}}})
        id = line.prompt(session)
        await source.agent.prompted()
        line.notify("session/cancel", sessionId=session)
        assert (await line.answer_to(id))[1]["result"] == CANCELLED
        await source.agent.next()  # the cancel
        stuck = source.agent
        assert await state(line) == "stuck"
        stuck.say("still here")
        assert (await line.until_update("agent_message_chunk"))["content"]["text"] == "still here"
        again = line.prompt(session, "again")
        async with asyncio.timeout(30):
            await stuck.ended
        before, _ = await asyncio.gather(line.answer_to(again), reply_to_next(source, 2))
        assert before[1]["result"] == END
        assert any("did not react" in str(message) for message in before[0])


async def state(line: Client) -> str:
    _, answer = await line.answer_to(line.ask("session/list"))
    found: str = answer["result"]["sessions"][0]["_meta"]["dragoman"]["state"]
    return found


async def lost(line: Client) -> None:
    """The host has noticed that the agent is gone."""
    async with asyncio.timeout(30):
        while await state(line) != "lost":
            pass


async def reply_to_next(source: OnTheWire, starts: int) -> None:
    """The agent of this start answers its prompt."""
    agent = await source.started(starts)
    agent.reply(await agent.prompted(), END)


async def test_an_agent_that_dies_in_a_turn_leaves_no_tool_call_open() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        id, queued = line.prompt(session), line.prompt(session, "queued")
        await source.agent.prompted()
        source.agent.update("tool_call", toolCallId="t", title="work", status="in_progress")
        assert (await line.until_update("tool_call"))["toolCallId"] == "t"
        source.die()
        before, answer = await line.answer_to(id)
        failed = next(m["params"]["update"] for m in before if m["method"] == "session/update")
        assert (failed["toolCallId"], failed["status"]) == ("t", "failed")
        assert failed["_meta"]["dragoman"]["synthetic"] is True
        data = {"reason": "agent_exited", "exitCode": None, "maybeExecuted": True, "unfinished": ["work"]}
        assert answer["error"]["data"] == data
        (_, second), _ = await asyncio.gather(line.answer_to(queued), reply_to_next(source, 2))
        assert second["result"] == END, "what was queued stays queued"
        assert source.agent.opened[0]["method"] == "session/load"


async def test_a_prompt_that_is_faster_than_the_end_of_the_process_leaves_nothing_of_it_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An agent that died in its turn is noted and cleared away, although the prompt behind it starts the next one."""
    source, has_ended, cleared = OnTheWire(), asyncio.Event(), []
    plain = MemoryTransport.wait_closed

    async def wait_closed(transport: MemoryTransport) -> None:
        await has_ended.wait()
        await plain(transport)

    async def clear(agent: SessionAgent, run: GuardedRun) -> None:
        cleared.append(run)
        await close(agent, run)

    close = SessionAgent._close
    monkeypatch.setattr(SessionAgent, "_close", clear)
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        first, queued = line.prompt(session, "work"), line.prompt(session, "next")
        await source.agent.prompted()
        dead = host.session(session).agent.run
        monkeypatch.setattr(MemoryTransport, "wait_closed", wait_closed)
        try:
            source.die()
            _, answer = await line.answer_to(first)
            assert answer["error"]["data"]["reason"] == "agent_exited"
            (_, answer), _ = await asyncio.gather(line.answer_to(queued), reply_to_next(source, 2))
            assert answer["result"] == END
            assert cleared == [dead]
            noted = await host.events(session, "agent")
            assert [*map(list, noted)] == [["started"], ["ended", "exitCode"], ["started"]]
        finally:
            has_ended.set()


async def test_an_idle_agent_that_died_is_started_by_the_next_prompt_not_at_once() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened({**OURS, "session": {"notices": {}}})
        source.die()
        await lost(line)
        assert source.starts == 1
        id = line.prompt(session)
        (before, answer), _ = await asyncio.gather(line.answer_to(id), reply_to_next(source, 2))
        assert answer["result"] == END
        assert any("started again" in str(message) for message in before)


async def test_five_failed_starts_end_the_waiting_prompts() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(restart_seconds=0.0)) as host:
        line, session = await host.opened(OURS)
        source.die()
        await lost(line)
        source.fails = [ConfigError("no")] * 9
        for left in (4, 4):  # the second prompt does not try again so soon
            _, answer = await line.answer_to(line.prompt(session))
            data = {"reason": "agent_exited", "exitCode": None, "maybeExecuted": False}
            assert answer["error"]["data"] == data
            assert len(source.fails) == left


async def test_a_replay_of_the_agent_is_dropped_before_and_after_its_answer() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened({**OURS, "session": {"notices": {}}})
        source.die()
        await lost(line)

        class Replays(source.kind):  # type: ignore[name-defined,misc]
            def before_open(self) -> None:
                self.say("old")
                self.update("available_commands_update", availableCommands=[{"name": "a", "description": "b"}])

        source.kind = Replays
        # Only a mode is set, so that no prompt ends the dropping.
        line.ask("_vendor/poke", sessionId=session)
        poke = await (await source.started(2)).next()
        source.agent.say("old again, after the answer")
        source.agent.reply(poke, {})
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        source.agent.say("new")
        source.agent.reply(prompt, END)
        messages: list[dict[str, Any]] = []
        while (message := await line.next()).get("id") != id:
            messages.append(message)
        updates = [m["params"]["update"] for m in messages if m.get("method") == "session/update"]
        kinds = [update["sessionUpdate"] for update in updates]
        assert kinds.count("agent_message_chunk") == 1
        assert kinds.count("available_commands_update") == 1


async def test_updates_before_the_answer_to_new_follow_ours() -> None:
    class Early(OnTheWire().kind):  # type: ignore[misc]
        def before_open(self) -> None:
            self.update("available_commands_update", availableCommands=[])

    async with hosted(OnTheWire(kind=Early)) as host:
        line = await host.client()
        session = await line.open("/tmp")
        assert (await line.update())["sessionUpdate"] == "available_commands_update"
        assert session


async def test_the_same_prompt_id_never_runs_twice_and_its_answer_overtakes_nothing() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)

        def ask(client: Client) -> int:
            blocks = [{"type": "text", "text": "x"}]
            return client.ask("session/prompt", sessionId=session, prompt=blocks, _meta={"dragoman": {"promptId": "p"}})

        first, second = ask(line), ask(line)
        prompt = await source.agent.prompted()
        source.agent.say("once")
        source.agent.reply(prompt, END)
        answers: dict[int, Any] = {}
        while len(answers) < 2:
            message = await line.next()
            if "id" in message:
                answers[message["id"]] = message["result"]
        assert answers == {first: END, second: END}
        other = await host.client(OURS)
        await other.resume(session, after=0)
        before, answer = await other.answer_to(ask(other))
        assert answer["result"] == END
        texts = [m["params"]["update"] for m in before if m["method"] == "session/update"]
        assert "once" in [update["content"]["text"] for update in texts]
        await _nothing_runs(host, session)


@pytest.mark.parametrize("is_queued", [False, True])
async def test_a_prompt_that_is_sent_again_while_its_end_is_being_written_runs_once(
    tmp_path: Path, is_queued: bool
) -> None:
    log = SqliteLog(tmp_path / "events.db")
    source = OnTheWire()
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        queue = host.session(session).prompts
        held: list[Any] = []
        owned = host.session(session).log._owned
        append = owned.append

        def ask(id: str) -> int:
            own = {"dragoman": {"promptId": id}}
            return line.ask("session/prompt", sessionId=session, prompt=[{"type": "text", "text": id}], _meta=own)

        first = ask("a")
        prompt = await source.agent.prompted()
        repeated = [first]
        if is_queued:
            repeated = [ask("b")]
            await line.everything()
        owned.append = lambda *given: held.append(given)
        if is_queued:
            line.notify("$/cancel_request", requestId=repeated[0])
        else:
            source.agent.reply(prompt, END)
        async with asyncio.timeout(30):
            while not held:
                await line.everything()
        repeated.append(ask("b" if is_queued else "a"))
        await line.everything()
        owned.append = append
        for given in held:
            append(*given)
        answers: dict[int, Any] = {}
        while len(answers) < 2:
            message = await line.next()
            if message.get("id") in repeated:
                answers[message["id"]] = message["result"]
        assert len({str(answer) for answer in answers.values()}) == 1
        if is_queued:
            source.agent.reply(prompt, END)
            await line.answer_to(first)
        prompts = [event["promptId"] for event in (await host.events(session, "prompt"))]
        assert prompts == (["a", "b"] if is_queued else ["a"])
        assert not queue.is_busy
    await log.close()


async def _nothing_runs(host: Hosted, session: str) -> None:
    assert not host.session(session).is_busy


async def test_prompts_that_wait_run_in_the_order_that_a_client_asks_for() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        blocks = [{"type": "text", "text": "x"}]
        for name in ("one", "two", "three", "four"):
            line.ask("session/prompt", sessionId=session, prompt=blocks, _meta={"dragoman": {"promptId": name}})
        running = await source.agent.prompted()
        await line.until("_dragoman/turn_started")
        # The running one and an unknown one are passed over; one that is not named keeps its place.
        wanted = ["four", "one", "two", "nothing"]
        found = await line.result("_dragoman/reorder", sessionId=session, promptIds=wanted)
        assert found == {"promptIds": ["four", "three", "two"]}
        for bad in ("four", ["four", "four"], [4]):
            error = await line.error("_dragoman/reorder", sessionId=session, promptIds=bad)
            assert error["code"] == -32602
        for name in ("four", "three", "two"):
            source.agent.reply(running, END)
            assert (await line.until("_dragoman/turn_started"))["params"]["promptId"] == name
            running = await source.agent.prompted()
        source.agent.reply(running, END)


@pytest.mark.parametrize("method", ["_dragoman/steer", "_vendor/add"])
async def test_text_reaches_the_running_turn_by_the_method_that_the_agent_announced(method: str) -> None:
    can = {"promptCapabilities": {"image": True}, "_meta": {"dragoman": {"steer": method}}}
    source = OnTheWire(capabilities=can)
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        takes = await line.result("_dragoman/input", sessionId=session)
        assert takes == {"image": True, "audio": False, "embeddedContext": False, "steer": True}
        too_soon = await line.result("_dragoman/steer", sessionId=session, text="x")
        assert too_soon == {"accepted": False}, "no turn runs"
        line.prompt(session)
        prompt = await source.agent.prompted()
        await line.until("_dragoman/turn_started")
        asked = line.ask("_dragoman/steer", sessionId=session, text="use tabs")
        got = await source.agent.next()
        assert (got["method"], got["params"]) == (method, {"sessionId": "their-1", "text": "use tabs"})
        source.agent.reply(got, {"accepted": True})
        assert (await line.answer_to(asked))[1]["result"] == {"accepted": True}
        assert (await line.error("_dragoman/steer", sessionId=session, text=""))["code"] == -32602
        source.agent.reply(prompt, END)


async def test_an_agent_that_announces_no_way_is_not_steered() -> None:
    source = OnTheWire(capabilities={"_meta": {"dragoman": {"steer": "session/cancel"}}})
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        assert not (await line.result("_dragoman/input", sessionId=session))["steer"]
        line.prompt(session)
        prompt = await source.agent.prompted()
        await line.until("_dragoman/turn_started")
        assert (await line.error("_dragoman/steer", sessionId=session, text="x"))["code"] == -32601
        source.agent.reply(prompt, END)
