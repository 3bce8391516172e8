"""What each client gets of an agent's updates, by what it announced; mode and options; notices; extensions."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from dragoman.host.clients.client_kind import ClientKind
from dragoman.host.host import HostSettings, Visitor
from dragoman.schema import v1
from dragoman.testing.agent import scripted_agent
from tests.host.kit import OURS, OnTheWire, hosted

END = {"stopReason": "end_turn"}
UNSTABLE: dict[str, Any] = {"_meta": {"dragoman": {"unstable": True}}}
CHUNK: dict[str, Any] = {"content": {"type": "text", "text": "x"}, "messageId": "m", "_meta": {"vendor": 1}}
ENTRIES = [{"content": "do", "priority": "high", "status": "pending"}]
NOTICES: dict[str, Any] = {"session": {"notices": {}}}

# Kind, members, what a plain client gets (None: nothing; True: the same), what the able client announced.
TABLE: list[tuple[str, dict[str, Any], Any, dict[str, Any]]] = [
    ("agent_message_chunk", CHUNK, True, {}),
    ("agent_thought_chunk", CHUNK, True, {}),
    ("plan", {"entries": ENTRIES}, True, {}),
    ("available_commands_update", {"availableCommands": []}, True, {}),
    ("usage_update", {"used": 1, "size": 2}, True, {}),
    ("session_info_update", {"title": "t"}, True, {}),
    ("current_mode_update", {"currentModeId": "a"}, True, {}),
    ("of_the_future", {"anything": [1]}, True, {}),
    (
        "tool_call",
        {
            "toolCallId": "t",
            "title": "edit",
            "content": [{"type": "diff", "path": "/srv/a", "oldText": "x", "newText": "y"}],
            "locations": [{"path": "/srv/a", "line": 3}],
            "rawInput": {"a": 1},
        },
        True,
        {},
    ),
    ("tool_call_update", {"toolCallId": "t", "status": "completed", "_meta": {"vendor": {"b": 2}}}, True, {}),
    ("notice", {"severity": "info", "title": "n"}, None, NOTICES),
    ("compaction_update", {"compactionId": "c", "status": "completed"}, None, {"session": {"compaction": {}}}),
    ("plan_update", {"plan": {"type": "markdown", "planId": "p", "content": "c"}}, None, UNSTABLE),
    (
        "plan_update",
        {"plan": {"type": "items", "planId": "p", "entries": ENTRIES}},
        {"sessionUpdate": "plan", "entries": ENTRIES},
        UNSTABLE,
    ),
    ("plan_removed", {"planId": "p"}, None, UNSTABLE),
    ("session_message", {"messageId": "m", "content": []}, None, UNSTABLE),
]


@pytest.mark.parametrize(("kind", "members", "plain", "able"), TABLE)
async def test_an_update_goes_to_clients_that_can_take_it(
    kind: str, members: dict[str, Any], plain: Any, able: dict[str, Any]
) -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(unstable=True)) as host:
        line, session = await host.opened()
        other = await host.client(able)
        await other.resume(session)
        source.agent.update(kind, **members)
        source.agent.say("end")
        sent = {"sessionUpdate": kind, **members}
        assert await other.update() == sent
        expected = [] if plain is None else [sent if plain is True else plain]
        found = []
        while (update := await line.update()).get("content") != {"type": "text", "text": "end"}:
            found.append(update)
        assert found == expected


async def test_clients_of_one_kind_are_written_the_same_bytes_and_all_get_one_order() -> None:
    """What each further client costs is the copy into its socket: nothing is built for it again."""
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        lines = [line, *[await host.client(kind) for kind in ({}, {}, OURS, OURS)]]
        for other in lines[1:]:
            await other.resume(session)
        by_client: dict[Any, list[bytes]] = {}
        for attachment in host.session(session).attachments:
            _note_posts(attachment.client.peer, by_client.setdefault(attachment.client, []))
        note = source.agent.note
        sent: list[dict[str, Any]] = [
            {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": f"{number}"}}
            for number in range(20)
        ]
        sent.insert(7, {"sessionUpdate": "tool_call", "toolCallId": "t", "title": "x"})
        notes = [note("session/update", sessionId=source.agent.session, update=each) for each in sent]
        source.agent.transport.write(b"".join(msgspec.json.encode(each) + b"\n" for each in notes))
        for each in lines:
            assert [await each.update() for _ in sent] == sent
        for knows_us in (False, True):
            posts = [found for client, found in by_client.items() if client.kind.knows_us is knows_us]
            pieces = [[piece for piece in found if b"tool_call" not in piece] for found in posts]
            assert len(pieces) == (2 if knows_us else 3)
            assert max(map(len, pieces[0])) > 500, "updates of one commit are one piece"
            for further in pieces[1:]:
                assert list(map(id, further)) == list(map(id, pieces[0]))


def _note_posts(peer: Any, found: list[bytes]) -> None:
    post = peer.post

    def note(data: bytes) -> Any:
        found.append(data)
        return post(data)

    peer.post = note


async def test_boolean_options_are_selects_for_clients_without_them_and_come_back_as_booleans() -> None:
    async with hosted(scripted_agent) as host:
        plain = await host.client()
        opened = await plain.result("session/new", cwd="/tmp", mcpServers=[])
        able = await host.client({"session": {"configOptions": {"boolean": {}}}})
        session = opened["sessionId"]
        resumed = await able.resume(session)
        verbose = next(each for each in opened["configOptions"] if each["id"] == "verbose")
        assert (verbose["type"], verbose["currentValue"]) == ("select", "false")
        assert [each["value"] for each in verbose["options"]] == ["true", "false"]
        original = next(each for each in resumed["configOptions"] if each["id"] == "verbose")
        assert (original["type"], original["currentValue"]) == ("boolean", False)
        await plain.everything()
        set_it = {"sessionId": session, "configId": "verbose", "value": "true"}
        _, answer = await plain.answer_to(plain.ask("session/set_config_option", **set_it))
        changed = next(each for each in answer["result"]["configOptions"] if each["id"] == "verbose")
        assert changed["currentValue"] == "true"
        update = await able.until_update("config_option_update")
        assert next(each for each in update["configOptions"] if each["id"] == "verbose")["currentValue"] is True
        back = {"sessionId": session, "configId": "verbose", "value": False, "type": "boolean"}
        await able.result("session/set_config_option", **back)
        update = await plain.until_update("config_option_update")
        assert next(each for each in update["configOptions"] if each["id"] == "verbose")["currentValue"] == "false"
        error = await able.error("session/set_config_option", sessionId=session, configId="verbose", value=3)
        assert error["code"] == -32602


async def test_a_mode_that_one_client_sets_reaches_the_others_in_both_forms() -> None:
    async with hosted(scripted_agent) as host:
        line, session = await host.opened(OURS)
        other = await host.client()
        await other.resume(session)
        await line.everything()
        _, answer = await line.answer_to(line.ask("session/set_mode", sessionId=session, modeId="code"))
        assert answer["result"] == {}
        assert (await other.until_update("current_mode_update"))["currentModeId"] == "code"
        update = await other.until_update("config_option_update")
        assert next(each for each in update["configOptions"] if each["id"] == "mode")["currentValue"] == "code"
        assert not [m for m in await line.everything() if "current_mode_update" in str(m)], "it has its answer"
        option = {"sessionId": session, "configId": "mode", "value": "ask"}
        await line.answer_to(line.ask("session/set_config_option", **option))
        assert (await other.until_update("current_mode_update"))["currentModeId"] == "ask"
        again = await host.client()
        assert (await again.resume(session))["modes"]["currentModeId"] == "ask"
        assert (await line.error("session/set_mode", sessionId=session, modeId="nonsense"))["code"] == -32602


async def test_settings_go_through_while_a_turn_runs() -> None:
    source = OnTheWire()

    class Modes(source.kind):  # type: ignore[name-defined,misc]
        def reply(self, message: dict[str, Any], result: Any) -> None:
            if message.get("method") == "session/new":
                modes = [{"id": id, "name": id} for id in ("a", "b")]
                result["modes"] = {"currentModeId": "a", "availableModes": modes}
            super().reply(message, result)

    source.kind = Modes
    async with hosted(source) as host:
        line, session = await host.opened()
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        setting = line.ask("session/set_mode", sessionId=session, modeId="b")
        asked = await source.agent.next()
        assert asked["params"] == {"sessionId": "their-1", "modeId": "b"}
        source.agent.reply(asked, {})
        assert (await line.answer_to(setting))[1]["result"] == {}
        source.agent.reply(prompt, END)
        assert (await line.answer_to(id))[1]["result"] == END


async def test_notices_of_the_host_never_look_like_the_agent() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        able, ours = await host.client(NOTICES), await host.client(OURS)
        for each in (able, ours):
            await each.resume(session)
        host.session(session).notice("Something happened.")
        assert (await able.update()) == {"sessionUpdate": "notice", "severity": "info", "title": "Something happened."}
        told = await ours.expect("_dragoman/notice")
        assert told["params"] == {"sessionId": session, "text": "Something happened."}
        assert await line.everything() == []


async def test_a_subagents_session_has_an_id_of_the_host_from_its_first_update_on() -> None:
    source = OnTheWire()
    async with hosted(source, settings=HostSettings(unstable=True)) as host:
        line, session = await host.opened()
        able = await host.client(UNSTABLE)
        await able.resume(session)
        source.agent.update("subagent_update", sessionId="child-of-theirs", title="helper")
        announced = await able.until_update("subagent_update")
        child = announced["sessionId"]
        assert child not in (session, "child-of-theirs")
        source.agent.update("agent_message_chunk", session="child-of-theirs", **CHUNK)
        message = await able.until("session/update")
        assert message["params"]["sessionId"] == child
        source.agent.say("own")
        assert (await line.update())["content"]["text"] == "own", "a plain client gets nothing of it"
        again = await host.client(UNSTABLE)
        asked = again.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
        before, _ = await again.answer_to(asked)
        assert [m["params"]["sessionId"] for m in before] == [session, child, session]


async def test_extension_methods_go_to_the_agent_of_the_session_or_of_the_connection() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        other = await host.client(visitor=Visitor("other"))
        id = line.ask("_vendor/do", sessionId=session, value=1)
        asked = await source.agent.next()
        assert (asked["method"], asked["params"]) == ("_vendor/do", {"sessionId": "their-1", "value": 1})
        source.agent.reply(asked, {"done": True})
        assert (await line.answer_to(id))[1]["result"] == {"done": True}
        line.notify("_vendor/note", sessionId=session, value=2)
        assert (await source.agent.next())["params"] == {"sessionId": "their-1", "value": 2}
        for client, params in ((line, {}), (other, {"sessionId": session}), (line, {"sessionId": "none"})):
            assert (await client.error("_vendor/do", **params))["code"] == -32601
        assert (await line.error("_dragoman/nonsense", sessionId=session))["code"] == -32601
        bound = await host.client(visitor=Visitor(agent="test"))
        id = bound.ask("_vendor/do", value=3)
        asked = await source.agent.next()
        assert asked["params"] == {"value": 3}
        source.agent.fail(asked, code=-32050, message="no")
        assert (await bound.answer_to(id))[1]["error"]["code"] == -32050
        bound.notify("_vendor/note", value=4)
        assert (await source.agent.next())["params"] == {"value": 4}


async def test_extension_notifications_of_the_agent_reach_attached_clients_and_are_not_replayed() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        source.agent.send(source.agent.note("_vendor/told", sessionId="their-1", value=1))
        assert (await line.expect("_vendor/told"))["params"] == {"sessionId": session, "value": 1}
        updates, _ = await (await host.client()).load(session)
        assert updates == []


async def _prompting(host: Any, source: OnTheWire, line: Any, session: str) -> dict[str, Any]:
    line.prompt(session, "go")
    prompt: dict[str, Any] = await source.agent.prompted()
    return prompt


async def test_an_extension_request_of_the_agent_goes_to_the_client_that_announced_it_or_whose_prompt_runs() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        zed = await host.client({"_meta": {"zed.dev": {"buffers": True}}})
        named = await host.client({"_meta": {"dragoman": {"extensions": ["_other/method"]}}})
        for each in (zed, named):
            await each.resume(session)
        assert (await source.agent.ask("_vendor/do", value=0))["code"] == -32601, "no prompt runs"
        prompt = await _prompting(host, source, line, session)
        for method, client in (("_zed.dev/buffers", zed), ("_other/method", named), ("_vendor/do", line)):
            id = source.agent.call(method, value=1)
            asked = await client.until(method)
            assert asked["params"] == {"sessionId": session, "value": 1}
            client.send(client.result_of(asked, {"by": method}))
            assert await source.agent.answer(id) == {"by": method}
        id = source.agent.call("_vendor/do")
        asked = await line.until("_vendor/do")
        line.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32050, "message": "no"}})
        assert (await source.agent.answer(id))["code"] == -32050
        assert (await source.agent.ask("_dragoman/host"))["code"] == -32601, "methods of the host are not for agents"
        source.agent.send(source.agent.request(7, "_vendor/do", sessionId="nonsense"))
        assert (await source.agent.next())["error"]["code"] == -32002
        source.agent.reply(prompt, END)


async def test_an_agent_whose_client_goes_away_while_it_is_asked_gets_an_error() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened()
        watcher = await host.client()
        await watcher.resume(session)
        prompt = await _prompting(host, source, line, session)
        id = source.agent.call("_vendor/do")
        await line.until("_vendor/do")
        await host.leave(line)
        assert (await source.agent.answer(id))["code"] == -32603
        assert (await source.agent.ask("_vendor/do"))["code"] == -32601, "the other client did not start the turn"
        source.agent.reply(prompt, END)


async def test_an_observer_is_not_asked_extension_requests() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session = await host.opened()
        watcher = await host.client({"_meta": {"vendor": {}, "dragoman": {"role": "observer"}}})
        await watcher.resume(session)
        assert (await source.agent.ask("_vendor/do"))["code"] == -32601


async def test_a_subagents_permission_is_asked_of_the_clients_of_its_parent() -> None:
    source = OnTheWire()
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "t1", "title": "npm test", "kind": "execute"}
    async with hosted(source, settings=HostSettings(unstable=True)) as host:
        line, session = await host.opened()
        able = await host.client(UNSTABLE)
        await able.resume(session)
        agent = source.agent
        ask = agent.request(7, "session/request_permission", sessionId="child", toolCall=call, options=options)
        agent.send(ask)
        assert (await agent.next())["error"]["code"] == -32002, "it was not announced"
        agent.update("subagent_update", sessionId="child", title="helper")
        child = (await able.until_update("subagent_update"))["sessionId"]
        agent.send({**ask, "id": 8})
        plain, unstable = await line.until(ask["method"]), await able.until(ask["method"])
        assert (plain["params"]["sessionId"], unstable["params"]["sessionId"]) == (session, child)
        assert plain["params"]["toolCall"] == unstable["params"]["toolCall"]
        assert plain["params"]["toolCall"]["toolCallId"] == call["toolCallId"]
        line.answer_with(plain, "yes")
        answer = await agent.next()
        assert (answer["id"], answer["result"]["outcome"]["optionId"]) == (8, "yes")
        agent.send(agent.note("_vendor/told", sessionId="child", value=1))
        assert (await able.until("_vendor/told"))["params"] == {"sessionId": child, "value": 1}
        assert not [each for each in await line.everything() if each.get("method") == "_vendor/told"]


def test_every_update_of_the_protocol_has_a_place_in_the_table() -> None:
    known = {kind for kind, *_ in TABLE}
    others = {
        "user_message_chunk",  # only what does not repeat the prompt
        "config_option_update",
        "compaction_summary_chunk",
        "subagent_update",
        "session_message_chunk",
    }
    tags = {
        each.__struct_config__.tag
        for each in vars(v1).values()
        if isinstance(each, type)
        and issubclass(each, msgspec.Struct)
        and each.__struct_config__.tag_field == "sessionUpdate"
    }
    assert tags <= known | others
    assert ClientKind().takes("compaction_summary_chunk") is False
    assert ClientKind().takes("session_message_chunk") is False
