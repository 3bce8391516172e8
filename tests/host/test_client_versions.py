"""Clients of version 2 at a host, alone and next to clients of version 1."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from dragoman.host.host import Visitor
from dragoman.host.services import HostServices
from dragoman.policy import parse_rule
from dragoman.transports.memory import memory_pair
from tests.host.kit import OURS, Client, Hosted, OnTheWire, hosted
from tests.versions.v2_line import V2Line

END = {"stopReason": "end_turn"}
START = {"type": "start"}


class Both:
    """A host with one session, a client of version 1 that opened it, and clients of version 2."""

    def __init__(self, host: Hosted, source: OnTheWire, old: Client, session: str) -> None:
        self.host = host
        self.source = source
        self.old = old
        self.id = session
        self._lines: list[tuple[V2Line, asyncio.Task[None]]] = []

    async def attach(self, *, replay: bool = False, **capabilities: object) -> V2Line:
        line = await self.connect(**capabilities)
        how = {"replayFrom": START} if replay else {}
        await line.call("session/resume", sessionId=self.id, cwd="/tmp", **how)
        return line

    async def connect(self, **capabilities: object) -> V2Line:
        ours, theirs = memory_pair()
        task = asyncio.create_task(self.host.host.serve(theirs, Visitor()))
        line = V2Line(ours)
        self._lines.append((line, task))
        await line.greet(**capabilities)
        return line

    async def close(self) -> None:
        for line, task in self._lines:
            line.transport.close()
            async with asyncio.timeout(30):
                await task


@asynccontextmanager
async def both(**options: Any) -> AsyncIterator[Both]:
    source = OnTheWire()
    async with hosted(source, **options) as host:
        old, session = await host.opened(OURS)
        made = Both(host, source, old, session)
        try:
            yield made
        finally:
            await made.close()


async def test_a_turn_of_another_client_is_shown_with_its_state() -> None:
    async with both() as at:
        new = await at.attach()
        assert new.states() == ["idle"]
        at.old.prompt(at.id, "from the other one")
        prompt = await at.source.agent.prompted()
        at.source.agent.say("answer")
        at.source.agent.reply(prompt, END)
        assert (await new.until_idle())["stopReason"] == "end_turn"
        assert new.states() == ["idle", "running", "idle"]
        kinds = [update["sessionUpdate"] for update in new.updates]
        assert kinds == [
            "state_update",
            "state_update",
            "user_message_chunk",
            "agent_message_chunk",
            "state_update",
        ]


async def test_a_turn_of_this_client_is_shown_to_the_other_one() -> None:
    async with both() as at:
        new = await at.attach()
        asked = new.prompt(at.id, "from version 2")
        prompt = await at.source.agent.prompted()
        assert prompt["params"]["prompt"] == [{"type": "text", "text": "from version 2"}]
        accepted = (await new.answer(asked))["result"]["messageId"]
        shown = await at.old.until_update("user_message_chunk")
        assert (shown["messageId"], shown["content"]["text"]) == (accepted, "from version 2")
        at.source.agent.say("answer")
        at.source.agent.reply(prompt, END)
        await new.until_idle()
        assert (await at.old.until("_dragoman/turn_ended"))["params"]["result"] == END
        assert [event.version for event in await at.host.host.log.read(at.id, 0, 100)].count(1) >= 4


async def test_a_prompt_waits_for_the_turn_of_another_client_and_is_accepted_when_it_starts() -> None:
    async with both() as at:
        new = await at.attach()
        at.old.prompt(at.id, "first")
        first = await at.source.agent.prompted()
        waiting = new.prompt(at.id, "second")
        given_up = new.prompt(at.id, "third")
        new.notify("$/cancel_request", requestId=given_up)
        assert (await new.answer(given_up))["error"]["code"] == -32800
        at.source.agent.reply(first, END)
        await new.until_idle()
        second = await at.source.agent.prompted()
        assert second["params"]["prompt"][0]["text"] == "second"
        assert "messageId" in (await new.answer(waiting))["result"]
        at.source.agent.reply(second, END)
        await new.until_idle()


async def test_a_cancel_takes_back_what_waits_and_leaves_the_turn_of_another_client() -> None:
    async with both() as at:
        new = await at.attach()
        at.old.prompt(at.id, "first")
        first = await at.source.agent.prompted()
        waiting = new.prompt(at.id, "second")
        new.notify("session/cancel", sessionId=at.id)
        assert (await new.answer(waiting))["error"]["code"] == -32800
        new.notify("session/cancel", sessionId=at.id)  # nothing of its own is left: the turn that runs
        assert (await at.source.agent.next())["method"] == "session/cancel"
        at.source.agent.reply(first, {"stopReason": "cancelled"})
        assert (await new.until_idle())["stopReason"] == "cancelled"


async def test_a_client_that_comes_during_a_turn_gets_the_history_and_the_state_before_the_answer() -> None:
    async with both() as at:
        at.old.prompt(at.id, "long work")
        prompt = await at.source.agent.prompted()
        at.source.agent.say("half of it", messageId="m")
        await at.old.until_update("agent_message_chunk")
        new = await at.attach(replay=True)
        assert [update["sessionUpdate"] for update in new.updates] == [
            "user_message_chunk",
            "agent_message_chunk",
            "state_update",
        ]
        assert new.states() == ["running"]
        at.source.agent.say("the rest", messageId="m")
        at.source.agent.reply(prompt, END)
        await new.until_idle()
        texts = [each["content"]["text"] for each in new.updates if each["sessionUpdate"] == "agent_message_chunk"]
        assert texts == ["half of it", "the rest"]


async def test_a_question_goes_to_clients_of_both_versions_and_the_first_choice_wins() -> None:
    async with both() as at:
        new = await at.attach()
        at.old.prompt(at.id, "ask")
        prompt = await at.source.agent.prompted()
        for chooser in ("new", "old"):
            call = {"toolCallId": "t", "title": "Tidy up", "kind": "edit", "locations": [{"path": "/tmp/a.txt"}]}
            options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
            asked = at.source.agent.call("session/request_permission", toolCall=call, options=options)
            mine = await new.expect_request("session/request_permission")
            assert mine["params"]["title"].startswith("Edit ")
            assert mine["params"]["title"].endswith("a.txt"), "what was read, and not the title of the agent"
            assert new.states()[-1] == "requires_action"
            theirs = await at.old.until("session/request_permission")
            if chooser == "new":
                new.choose(mine, "yes")
            else:
                at.old.answer_with(theirs, "yes")
                withdrawn = await new.expect_request("$/cancel_request")
                assert withdrawn["params"]["requestId"] == mine["id"]
                new.send({"jsonrpc": "2.0", "id": mine["id"], "result": {"outcome": {"outcome": "cancelled"}}})
            assert (await at.source.agent.answer(asked))["outcome"] == {"outcome": "selected", "optionId": "yes"}
            await new.until_update("state_update", state="running")
        at.source.agent.reply(prompt, END)
        await new.until_idle()


async def test_closing_detaches_this_client_and_the_turn_goes_on() -> None:
    async with both() as at:
        new = await at.attach()
        new.prompt(at.id, "work")
        prompt = await at.source.agent.prompted()
        assert await new.call("session/close", sessionId=at.id) == {}
        at.source.agent.say("still here")
        at.source.agent.reply(prompt, END)
        assert (await at.old.until("_dragoman/turn_ended"))["params"]["result"] == END
        assert await new.refused("session/prompt", sessionId=at.id, prompt=[{"type": "text", "text": "x"}]) == -32002
        await new.call("session/resume", sessionId=at.id, cwd="/tmp", replayFrom=START)
        texts = [each["content"]["text"] for each in new.updates if each["sessionUpdate"] == "agent_message_chunk"]
        assert texts == ["still here"]


async def test_a_prompt_that_the_host_refuses_was_never_accepted() -> None:
    async with both() as at:
        new = await at.attach()
        image = {"type": "image", "mimeType": "image/png", "data": "aaaa"}
        assert await new.refused("session/prompt", sessionId=at.id, prompt=[image]) == -32602
        assert new.states() == ["idle"]


async def test_an_agent_that_dies_ends_the_turn_with_an_error() -> None:
    async with both() as at:
        new = await at.attach()
        asked = new.prompt(at.id, "work")
        await at.source.agent.prompted()
        await new.answer(asked)
        at.source.die()
        idle = await new.until_idle()
        assert (idle["stopReason"], idle["error"]["code"]) == ("error", -32603)


async def test_what_is_for_clients_that_know_the_host_is_sent_to_those_only() -> None:
    def own(line: V2Line, messages: list[dict[str, Any]]) -> list[Any]:
        return [
            message
            for message in messages
            if "_dragoman" in message.get("method", "") or "'seq'" in str(message.get("params"))
        ]

    async with both() as at:
        for knows in (False, True):
            new = await at.attach(_meta={"dragoman": {}} if knows else {})
            new.prompt(at.id, "work")
            prompt = await at.source.agent.prompted()
            at.source.agent.say("x")
            at.source.agent.reply(prompt, END)
            seen: list[dict[str, Any]] = []
            while new.states()[-2:] != ["running", "idle"]:
                seen.append(await new.next())
            assert bool(own(new, seen)) is knows


async def test_a_terminal_of_the_host_is_shown_as_one() -> None:
    async with both(services=HostServices(rules=[parse_rule("execute:*", "allow", "flag", "test")])) as at:
        new = await at.attach()
        new.prompt(at.id, "run")
        prompt = await at.source.agent.prompted()
        made = await at.source.agent.ask("terminal/create", command="sh", args=["-c", "echo built; exit 3"])
        content = [{"type": "terminal", "terminalId": made["terminalId"]}]
        at.source.agent.update("tool_call", toolCallId="t", title="Build", kind="execute", content=content)
        await at.source.agent.ask("terminal/wait_for_exit", terminalId=made["terminalId"])
        while (await new.until_update("terminal_update")).get("exitStatus") != {"exitCode": 3}:
            pass
        at.source.agent.reply(prompt, END)
        await new.until_idle()
        kinds = [update["sessionUpdate"] for update in new.updates]
        assert "terminal_output_chunk" in kinds
        [shown] = [update for update in new.updates if update.get("content", [{}])[0].get("type") == "terminal"]
        assert shown["content"][0]["terminalId"] in {update.get("terminalId") for update in new.updates}
