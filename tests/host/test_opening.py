"""`session/new`, `load`, `resume`, `list`, `delete`, `close` and `fork` at a host."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.errors import ConfigError
from dragoman.host.host import HostSettings, Visitor
from dragoman.schema import v1
from dragoman.store.event_log import OwnedSession, SessionRecord
from dragoman.store.memory_log import MemoryLog
from dragoman.store.sqlite_log import SqliteLog
from dragoman.testing.agent import scripted_agent
from tests.host.kit import OURS, InProcess, OnTheWire, WireAgent, hosted

END = {"stopReason": "end_turn"}
STDIO = {"name": "tool", "command": "/bin/tool", "args": [], "env": [{"name": "KEY", "value": "secret-1"}]}
HTTP = {
    "type": "http",
    "name": "web",
    "url": "https://example.com/mcp",
    "headers": [{"name": "K", "value": "secret-2"}],
}
REMOTE = Visitor("remote", is_local=False, may_start_programs=False)
MCP: dict[str, Any] = {"loadSession": True, "mcpCapabilities": {"http": True, "sse": True}}


async def test_ids_are_the_hosts_own_and_the_agents_id_is_shown_to_those_who_know_it() -> None:
    one, two = OnTheWire("one"), OnTheWire("two")
    async with hosted(one, more=[two]) as host:
        plain, ours = await host.client(), await host.client(OURS)
        ids = []
        for name in ("one", "two"):
            opened = await ours.result("session/new", cwd="/tmp", mcpServers=[], _meta={"dragoman": {"agent": name}})
            ids.append(opened["sessionId"])
            assert opened["_meta"]["dragoman"]["agentSessionId"] == "their-1", "two agents use the same id"
        assert len(set(ids)) == 2
        resumed = await plain.resume(ids[0])
        assert "their-1" not in str(resumed)
        assert "their-1" not in str(await plain.result("session/list"))


@pytest.mark.parametrize(
    ("server", "is_allowed"),
    [
        (STDIO, False),
        (HTTP, True),
        ({**HTTP, "url": "http://127.0.0.1:80/"}, False),
        ({**HTTP, "url": "http://localhost/"}, False),
        ({**HTTP, "url": "http://a.localhost./"}, False),
        ({**HTTP, "url": "http://[::1]/"}, False),
        ({**HTTP, "url": "http://[::ffff:127.0.0.1]/"}, False),
        ({**HTTP, "url": "http://169.254.169.254/latest"}, False),
        ({**HTTP, "url": "http://[fe80::1%25eth0]/"}, False),
        ({**HTTP, "url": "http://0.0.0.0/"}, False),
        ({**HTTP, "url": "http://2130706433/"}, False),
        ({**HTTP, "type": "sse", "url": "http://127.1/"}, False),
        ({**HTTP, "type": "sse", "url": "http://10.0.0.7/"}, True),
    ],
)
async def test_mcp_servers_of_remote_clients_are_limited_and_those_of_local_ones_are_not(
    server: dict[str, Any], is_allowed: bool
) -> None:
    source = OnTheWire(capabilities=MCP)
    async with hosted(source) as host:
        line = await host.client(visitor=REMOTE)
        _, answer = await line.answer_to(line.ask("session/new", cwd="/tmp", mcpServers=[server]))
        assert ("result" in answer) is is_allowed
        if not is_allowed:
            assert answer["error"]["code"] == -32602
            assert server["name"] in answer["error"]["message"]
            assert source.starts == 0
        local = await host.client()
        await local.result("session/new", cwd="/tmp", mcpServers=[server])
        (sent,) = source.agent.opened[0]["params"]["mcpServers"]
        assert sent == server


async def test_secrets_of_mcp_servers_are_in_memory_only_and_a_later_host_asks_for_them(tmp_path: Path) -> None:
    path = tmp_path / "host" / "events.db"
    log = SqliteLog(path)
    source = OnTheWire(capabilities=MCP)
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        opened = await line.result("session/new", cwd="/tmp", mcpServers=[STDIO, HTTP])
        session = opened["sessionId"]
        id = line.prompt(session)
        source.agent.reply(await source.agent.prompted(), END)
        await line.answer_to(id)
    await log.close()
    for file in path.parent.rglob("*"):
        assert file.is_dir() or b"secret" not in file.read_bytes()
    log = SqliteLog(path)
    source = OnTheWire(capabilities=MCP)
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        await line.load(session)
        _, answer = await line.answer_to(line.prompt(session))
        assert answer["error"]["data"] == {"reason": "servers_missing", "servers": ["tool", "web"]}
        assert source.starts == 0
        asked = line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[STDIO, HTTP])
        await line.answer_to(asked)
        id = line.prompt(session)
        agent = await source.started(1)
        agent.reply(await agent.prompted(), END)
        assert (await line.answer_to(id))[1]["result"] == END
        assert agent.opened[0]["params"]["mcpServers"] == [STDIO, HTTP]
    await log.close()


async def test_a_live_session_is_not_changed_by_a_second_client() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        _, session = await host.opened()
        other = await host.client({"session": {"notices": {}}})
        error = await other.error("session/load", sessionId=session, cwd="/", mcpServers=[])
        assert (error["code"], error["data"]["path"]) == (-32602, "$.cwd")
        asked = other.ask("session/resume", sessionId=session, cwd="/tmp/", mcpServers=[STDIO])
        await other.answer_to(asked)
        third = await host.client({"session": {"notices": {}}})
        await third.resume(session)
        host.session(session).notice("marker")
        assert (await third.until_update("notice"))["title"] == "marker"
        assert (await host.events(session, "notice"))[0]["text"].startswith("MCP servers and directories are not added")


async def test_additional_directories_are_checked_like_the_folder(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out").mkdir()
    async with hosted(scripted_agent) as host:
        line = await host.client(visitor=Visitor(folders=(str(tmp_path / "in"),)))
        params = {"cwd": str(tmp_path / "in"), "mcpServers": [], "additionalDirectories": [str(tmp_path / "out")]}
        error = await line.error("session/new", **params)
        assert (error["code"], error["data"]["path"]) == (-32602, "$.additionalDirectories")


async def test_sessions_are_listed_in_pages_without_starting_an_agent() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        for number in range(120):
            cwd = "/tmp" if number % 2 else "/"
            at = float(number // 4)  # several of one time
            await host.host.log.create(SessionRecord(f"s{number:03}", "local", "test", None, cwd, b"{}", at, at, 0, 1))
        line = await host.client()
        for filter, count in (({}, 120), ({"cwd": "/tmp"}, 60), ({"cwd": "/tmp/x"}, 0)):
            found: list[str] = []
            page = await line.result("session/list", **filter)
            while True:
                found += [each["sessionId"] for each in page["sessions"]]
                if "nextCursor" not in page:
                    break
                assert len(page["sessions"]) == 50
                page = await line.result("session/list", **filter, cursor=page["nextCursor"])
            assert len(found) == len(set(found)) == count
            assert found == sorted(found, reverse=True)
        for cursor in ("nonsense", "", "cDE="):
            assert (await line.error("session/list", cursor=cursor))["code"] == -32602
        assert (await line.error("session/list", cwd="relative"))["code"] == -32602
        assert source.starts == 0


async def test_the_state_of_sessions_is_listed() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)

        async def listed() -> dict[str, Any]:
            _, answer = await line.answer_to(line.ask("session/list"))
            found: dict[str, Any] = answer["result"]["sessions"][0]["_meta"]["dragoman"]
            return found

        assert ((await listed())["state"], (await listed())["attached"]) == ("idle", 1)
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        assert (await listed())["state"] == "running"
        options = [{"optionId": "y", "name": "Y", "kind": "allow_once"}]
        source.agent.call("session/request_permission", toolCall={"toolCallId": "t"}, options=options)
        asked = await line.until("session/request_permission")
        assert (await listed())["state"] == "waiting"
        line.answer_with(asked, "y")
        await source.agent.next()
        source.agent.reply(prompt, END)
        await line.answer_to(id)
        assert (await listed())["agent"] == "test"


class _Lists(OnTheWire().kind):  # type: ignore[misc]
    """Has a session of its own, with a history."""

    def feed(self, data: bytes) -> None:
        super().feed(data)
        held = []
        while not self.lines.empty():
            message = self.lines.get_nowait()
            if message.get("method") == "session/list":
                known = [
                    {"sessionId": "old", "cwd": "/tmp", "title": "Old"},
                    {"sessionId": self.session, "cwd": "/tmp"},
                ]
                self.reply(message, {"sessions": known})
            else:
                held.append(message)
        for message in held:
            self.lines.put_nowait(message)

    def before_open(self) -> None:
        if self.opened[-1]["method"] == "session/load":
            self.update("user_message_chunk", content={"type": "text", "text": "question"})
            self.say("answer")


async def test_sessions_that_only_a_running_agent_knows_are_listed_and_hosted_when_they_are_loaded() -> None:
    capabilities = {"loadSession": True, "sessionCapabilities": {"list": {}, "resume": {}}}
    source = OnTheWire(capabilities=capabilities, kind=_Lists)
    async with hosted(source) as host:
        bound = await host.client({**OURS}, visitor=Visitor(agent="test"))
        assert (await bound.result("session/list"))["sessions"] == [], "no agent is started for it"
        await bound.open("/tmp")
        for _ in range(2):
            listed = (await bound.result("session/list"))["sessions"]
            assert [each.get("title") for each in listed] == [None, "Old"]
        id = listed[1]["sessionId"]
        assert id != "old"
        assert len((await (await host.client()).result("session/list"))["sessions"]) == 1, "not unbound"
        updates, _ = await bound.load(id)
        assert [each["content"]["text"] for each in updates] == ["question", "answer"]
        updates, _ = await bound.load(id)
        assert len(updates) == 2, "the host has the history now"
        listed = (await bound.result("session/list"))["sessions"]
        assert len(listed) == 2
        guest = await host.client(visitor=Visitor("guest", frozenset(("view", "prompt")), agent="test"))
        assert (await guest.result("session/list"))["sessions"] == []


async def test_delete_removes_the_agents_copy_and_waits_for_turns() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"delete": {}}})
    async with hosted(source) as host:
        line, session = await host.opened()
        id = line.prompt(session)
        prompt = await source.agent.prompted()
        deleting = line.ask("session/delete", sessionId=session)
        assert (await line.answer_to(deleting))[1]["error"]["code"] == -32600
        source.agent.reply(prompt, END)
        await line.answer_to(id)
        deleting = line.ask("session/delete", sessionId=session)
        asked = await source.agent.next()
        assert (asked["method"], asked["params"]) == ("session/delete", {"sessionId": "their-1"})
        source.agent.reply(asked, {})
        assert (await line.answer_to(deleting))[1]["result"] == {}
        assert await host.host.log.find(session, "local") is None
        assert (await line.error("session/load", sessionId=session, cwd="/tmp", mcpServers=[]))["code"] == -32002
        assert await line.result("session/delete", sessionId=session) == {}


async def test_delete_starts_an_agent_that_does_not_run_to_remove_its_copy() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"delete": {}}})
    async with hosted(source) as host:
        line, session = await host.opened()
        await host.session(session).agent.end()
        deleting = line.ask("session/delete", sessionId=session)
        agent = await source.started(2)
        asked = await agent.next()
        assert (asked["method"], asked["params"]) == ("session/delete", {"sessionId": "their-1"})
        agent.reply(asked, {})
        assert (await line.answer_to(deleting))[1]["result"] == {}


async def test_close_cancels_the_turn_answers_what_waits_and_notifies_the_others() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        other = await host.client({"session": {"notices": {}}})
        await other.resume(session)
        running, waiting = line.prompt(session, "a"), line.prompt(session, "b")
        prompt = await source.agent.prompted()
        closing = line.ask("session/close", sessionId=session)
        assert (await source.agent.next())["method"] == "session/cancel"
        source.agent.reply(prompt, {"stopReason": "cancelled"})
        answers: dict[Any, Any] = {}
        while len(answers) < 3:
            message = await line.next()
            if "id" in message:
                answers[message["id"]] = message["result"]
        assert answers == {running: {"stopReason": "cancelled"}, waiting: {"stopReason": "cancelled"}, closing: {}}
        assert (await other.until_update("notice"))["title"] == "The session was closed."
        async with asyncio.timeout(30):
            await source.agent.ended
        blocks = [{"type": "text", "text": "x"}]
        assert host.host.live(session) is None
        assert blocks


async def test_a_detached_client_gets_nothing_more_and_the_turn_goes_on() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        other = await host.client(OURS)
        await other.resume(session)
        await other.result("_dragoman/detach", sessionId=session)
        source.agent.say("unheard")
        assert (await line.update())["content"]["text"] == "unheard"
        assert await other.everything() == []


async def test_a_client_that_loads_again_or_detaches_still_gets_the_answer_to_its_prompt() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        for method, params in (("session/load", {"cwd": "/tmp", "mcpServers": []}), ("_dragoman/detach", {})):
            id = line.prompt(session)
            prompt = await source.agent.prompted()
            _, answer = await line.answer_to(line.ask(method, sessionId=session, **params))
            assert "result" in answer
            source.agent.reply(prompt, END)
            assert (await line.answer_to(id))[1]["result"] == END


async def test_a_session_that_the_agent_has_forgotten_is_history_only() -> None:
    class Forgets(OnTheWire().kind):  # type: ignore[misc]
        def reply(self, message: dict[str, Any], result: object) -> None:
            if message.get("method") == "session/load":
                self.fail(message, code=-32002, message="unknown")
            else:
                super().reply(message, result)

    source = OnTheWire(kind=Forgets)
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session)
        await source.agent.prompted()
        source.die()
        await line.answer_to(id)
        for _ in range(2):
            error = (await line.answer_to(line.prompt(session)))[1]["error"]
            assert error["data"] == {"reason": "agent_lost"}
        assert source.starts == 2
        _, answer = await line.load(session)
        assert answer["_meta"]["dragoman"]["readOnly"] is True


@pytest.mark.parametrize("settings", [HostSettings(unstable=True), HostSettings(forks=True)])
async def test_a_fork_is_a_new_session_whose_history_starts_with_that_of_its_parent(settings: HostSettings) -> None:
    # Agents that share what they remember, as programs do by their files.
    memory: dict[str, Any] = {}
    source = InProcess(lambda: _forking(memory))
    async with hosted(source, settings=settings) as host:
        able = {"_meta": {"dragoman": {"unstable": True}}}
        line = await host.client(able, visitor=Visitor(agent="test"))
        parent = await line.open("/tmp")
        await line.answer_to(line.prompt(parent, "first"))
        _, answer = await line.answer_to(line.ask("session/fork", sessionId=parent, cwd="/tmp", mcpServers=[]))
        child = answer["result"]["sessionId"]
        assert child != parent
        await line.answer_to(line.prompt(parent, "only in the parent"))
        await line.answer_to(line.prompt(child, "second"))
        updates, _ = await (await host.client()).load(child)
        texts = [each["content"]["text"] for each in updates]
        assert texts == ["first", "heard first", "second", "heard second"]
        assert (await host.events(child, "fork"))[0]["id"] == parent
        assert "first" not in str(await host.events(child, "update")), "a reference, not a copy"
        silent = await host.client({"_meta": {"dragoman": {}}}, visitor=Visitor(agent="test"))
        asked = silent.ask("session/fork", sessionId=parent, cwd="/tmp", mcpServers=[])
        assert (await silent.answer_to(asked))[1]["error"]["code"] == -32601


def _forking(memory: dict[str, Any]) -> Any:
    from dragoman.agent import Agent, AgentSession, Turn

    agent = Agent("forks", unstable=True)

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say(f"heard {turn.text}")

    @agent.resume_session
    async def resume(params: v1.ResumeSessionRequest, session: AgentSession) -> None:
        assert params.session_id in memory

    @agent.fork_session
    async def fork(params: v1.ForkSessionRequest, session: AgentSession) -> None:
        memory[session.id] = True

    return agent


async def test_after_a_restart_of_the_host_a_session_that_cannot_come_back_is_history_only(tmp_path: Path) -> None:
    path = tmp_path / "host" / "events.db"
    log = SqliteLog(path)
    source = OnTheWire(capabilities={})
    async with hosted(source, log=log) as host:
        line, session = await host.opened(OURS)
        id = line.prompt(session, "question")
        prompt = await source.agent.prompted()
        source.agent.say("answer")
        source.agent.reply(prompt, END)
        await line.answer_to(id)
    await log.close()
    log = SqliteLog(path)
    source = OnTheWire(capabilities={})
    async with hosted(source, log=log) as host:
        line = await host.client(OURS)
        listed = (await line.result("session/list"))["sessions"][0]
        assert listed["_meta"]["dragoman"]["state"] == "readOnly"
        updates, answer = await line.load(session)
        assert len(updates) == 2
        assert answer["_meta"]["dragoman"]["readOnly"] is True
        error = (await line.answer_to(line.prompt(session)))[1]["error"]
        assert (error["code"], error["data"]["reason"]) == (-32603, "agent_lost")
        assert "new session" in error["message"]
        assert source.starts == 0, "never an empty session behind an old id"
    await log.close()


async def test_a_request_that_is_repeated_with_its_key_gets_the_session_of_the_first(tmp_path: Path) -> None:
    source = OnTheWire()
    log = SqliteLog(tmp_path / "log.db")
    key: dict[str, Any] = {"_meta": {"dragoman": {"key": "k-1"}}}
    async with hosted(source, log=log) as host:
        one, two = await host.client(), await host.client()
        asked = [line.ask("session/new", cwd="/tmp", mcpServers=[], **key) for line in (one, two)]
        ids = {(await line.answer_to(id))[1]["result"]["sessionId"] for line, id in zip((one, two), asked, strict=True)}
        assert len(ids) == source.starts == 1
        source.agent.say("to both")
        for line in (one, two):
            assert await line.texts(1) == ["to both"]
        stranger = await host.client(visitor=Visitor("stranger"))
        assert (await stranger.result("session/new", cwd="/tmp", mcpServers=[], **key))["sessionId"] not in ids
        wrong = await one.error("session/new", cwd="/tmp", mcpServers=[], _meta={"dragoman": {"key": 7}})
        assert wrong["code"] == -32602
    await log.close()
    again = SqliteLog(tmp_path / "log.db")
    async with hosted(OnTheWire(), log=again) as host:
        line = await host.client()
        assert (await line.result("session/new", cwd="/tmp", mcpServers=[], **key))["sessionId"] in ids
    await again.close()


async def test_a_repeated_request_attaches_once_and_elsewhere_with_the_end_of_a_long_session() -> None:
    source = OnTheWire()
    key: dict[str, Any] = {"cwd": "/tmp", "mcpServers": [], "_meta": {"dragoman": {"key": "k-1"}}}
    async with hosted(source) as host:
        line = await host.client(OURS)
        asked = [line.ask("session/new", **key) for _ in range(3)]
        ids = {(await line.answer_to(id))[1]["result"]["sessionId"] for id in asked}
        again = await line.result("session/new", **key)
        assert ids == {again["sessionId"]}
        source.agent.say("one")
        assert await line.texts(1) == ["one"]
        assert await line.everything() == [], "each update comes once"
        listed = (await line.result("session/list"))["sessions"][0]
        assert listed["_meta"]["dragoman"]["attached"] == 1
        for number in range(1000):
            source.agent.say(f"{number} ")
        await line.texts(1000)
        for capabilities in (OURS, None):
            other = await host.client(capabilities)
            opened = await other.result("session/new", **key)
            assert opened["sessionId"] in ids
            texts = [message["params"]["update"]["content"]["text"] for message in await other.everything()]
            assert texts == [f"{number} " for number in range(800, 1000)]
            if capabilities is not None:
                start = opened["_meta"]["dragoman"]["start"]
                assert start == opened["_meta"]["dragoman"]["head"] - 199
                older = await other.result("_dragoman/history", sessionId=opened["sessionId"])
                assert "799 " in str(older["updates"][-1]), "what is before comes as history"


async def test_a_repeated_request_opens_a_session_if_the_first_failed() -> None:
    source = OnTheWire()
    source.fails.append(ConfigError("it does not start"))
    key: dict[str, Any] = {"_meta": {"dragoman": {"key": "k-1"}}}
    async with hosted(source) as host:
        line = await host.client()
        assert (await line.error("session/new", cwd="/tmp", mcpServers=[], **key))["code"] == -32603
        assert (await line.result("session/new", cwd="/tmp", mcpServers=[], **key))["sessionId"]


@pytest.mark.parametrize("why", ["the host does not", "the client does not", "the agent does not"])
async def test_nothing_is_forked_unless_host_client_and_agent_do_it(why: str) -> None:
    can = {"loadSession": True, "sessionCapabilities": {} if why == "the agent does not" else {"fork": {}}}
    source = OnTheWire(capabilities=can)
    async with hosted(source, settings=HostSettings(forks=why != "the host does not")) as host:
        own = {} if why == "the client does not" else {"unstable": True}
        line = await host.client({"_meta": {"dragoman": own}}, visitor=Visitor(agent="test"))
        session = await line.open("/tmp")
        assert (await line.error("session/fork", sessionId=session, cwd="/tmp", mcpServers=[]))["code"] == -32601
        assert "plan" not in str(source.agent.hello), "and nothing unstable is announced to the agent"


async def test_an_editor_forks_what_the_capabilities_offer() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"fork": {}}})
    async with hosted(source, settings=HostSettings(forks=True)) as host:
        for visitor in (Visitor(agent="test"), Visitor()):
            editor = await host.client(hello=False, visitor=visitor)
            hello = await editor.hello()
            session = await editor.open("/tmp")
            assert hello["agentCapabilities"]["sessionCapabilities"]["fork"] == {}, "every agent of this host can"
            asked = editor.ask("session/fork", sessionId=session, cwd="/tmp", mcpServers=[])
            source.agent.reply(await source.agent.next(), {"sessionId": "copy"})
            _, answer = await editor.answer_to(asked)
            assert answer["result"]["sessionId"] != session


async def test_a_fork_has_the_servers_and_terms_of_its_parent_if_the_client_asks_for_it() -> None:
    source = OnTheWire(capabilities={"loadSession": True, "sessionCapabilities": {"fork": {}, "close": {}}})
    async with hosted(source, settings=HostSettings(forks=True)) as host:
        line = await host.client({"_meta": {"dragoman": {"unstable": True}}})
        server = {"name": "one", "command": "/bin/one", "args": [], "env": []}
        session = (await line.result("session/new", cwd="/tmp", mcpServers=[server]))["sessionId"]
        host.session(session).facts["terms"] = {"sandbox": "require"}
        meta = {"dragoman": {"keepsServers": True}}
        asked = line.ask("session/fork", sessionId=session, cwd="/tmp", mcpServers=[], _meta=meta)
        forked = await source.agent.next()
        assert (forked["method"], forked["params"]["mcpServers"][0]["name"]) == ("session/fork", "one")
        source.agent.update("available_commands_update", session="copy", availableCommands=[])
        source.agent.reply(forked, {"sessionId": "copy"})
        closed = await source.agent.next()
        assert (closed["method"], closed["params"]) == ("session/close", {"sessionId": "copy"})
        source.agent.reply(closed, {})
        copy = (await line.answer_to(asked))[1]["result"]["sessionId"]
        assert (source.starts, source.agent.opened[0]["params"]["sessionId"]) == (2, "copy"), "a process of its own"
        assert source.agent.opened[0]["params"]["mcpServers"][0]["name"] == "one"
        assert host.session(copy).facts["terms"] == {"sandbox": "require"}
        assert (await host.events(session, "update")) == [], "what the agent sent for the copy is not in the original"


class SlowLog(MemoryLog):
    """A log whose disk is slow: sessions are entered when the test lets it."""

    def __init__(self) -> None:
        super().__init__(lambda: 1.0)
        self.is_asked, self.goes_on = asyncio.Event(), asyncio.Event()

    async def create(self, record: SessionRecord, key: str | None = None) -> OwnedSession:
        self.is_asked.set()
        await self.goes_on.wait()
        return await super().create(record, key)


async def ended(agent: WireAgent) -> None:
    async with asyncio.timeout(30):
        await asyncio.shield(agent.ended)


async def test_a_client_that_goes_away_while_its_session_is_entered_leaves_no_agent_and_no_session() -> None:
    source, log = OnTheWire(), SlowLog()
    async with hosted(source, log=log) as host:
        line = await host.client()
        line.ask("session/new", cwd="/tmp", mcpServers=[])
        await log.is_asked.wait()
        await host.leave(line)
        await ended(source.agent)
        log.goes_on.set()
        other = await host.client()
        assert (await other.result("session/list"))["sessions"] == []


async def test_a_host_that_ends_while_a_session_is_opened_leaves_no_agent() -> None:
    source, log = OnTheWire(), SlowLog()
    async with hosted(source, log=log) as host:
        line = await host.client()
        line.ask("session/new", cwd="/tmp", mcpServers=[])
        await log.is_asked.wait()
        await host.host.close()
        await ended(source.agent)
        assert not host.host.live_sessions()


async def test_an_agent_that_is_started_again_while_its_session_is_closed_is_ended() -> None:
    class Slow(WireAgent):
        """Takes its time to come back."""

        goes_on = asyncio.Event()

        def feed(self, data: bytes) -> None:
            if b'"session/load"' in data:
                _ = asyncio.get_running_loop().create_task(self._later(data))
            else:
                super().feed(data)

        async def _later(self, data: bytes) -> None:
            await self.goes_on.wait()
            super().feed(data)

    source = OnTheWire(kind=Slow)
    async with hosted(source) as host:
        line, id = await host.opened(OURS)
        line.ask("_dragoman/restart_agent", sessionId=id)
        await source.started(2)
        other = await host.client(OURS)
        await other.result("session/close", sessionId=id)
        Slow.goes_on.set()
        await ended(source.agent)
