"""Hosted sessions as clients see them: prompts, several clients, load, resume, questions, faults."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.agent import Agent, AgentSession, Turn
from dragoman.host.host import Visitor
from dragoman.schema import v1
from dragoman.store.event_log import NewEvent
from tests.host.kit import OURS, Hosted, OnTheWire, hosted, make_log

CANCELLED = {"stopReason": "cancelled"}
END = {"stopReason": "end_turn"}


class Steps:
    """An agent whose turns go on when the test lets them."""

    def __init__(self, *, loads: bool = True) -> None:
        self.go = asyncio.Event()
        self.started = asyncio.Event()
        self.prompts: list[str] = []
        self.loads = loads
        self.answers: list[Any] = []

    def __call__(self) -> Agent:
        agent = Agent("test")

        @agent.prompt
        async def reply(turn: Turn) -> None:
            self.prompts.append(turn.text)
            self.started.set()
            await turn.say("one ")
            if "ask" in turn.text:
                async with turn.tool("work", kind="execute") as tool:
                    self.answers.append(bool(await tool.ask()))
            if "wait" in turn.text:
                await self.go.wait()
            await turn.say("two")

        if self.loads:

            @agent.load_session
            async def load(params: v1.LoadSessionRequest, session: AgentSession) -> None:
                await session.say("an old message")

        return agent


async def running(event: asyncio.Event) -> None:
    async with asyncio.timeout(60):
        await event.wait()


async def test_a_turn_is_what_the_agent_sends_under_an_id_of_the_host() -> None:
    async with hosted(Steps()) as host:
        line = await host.client()
        session = await line.open("/tmp")
        assert len(session) == 26
        updates, answer = await line.turn(session)
        assert [update["content"]["text"] for update in updates] == ["one ", "two"]
        assert answer["result"] == END


async def test_another_client_loads_the_history_and_follows_without_a_gap() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first = await host.client()
        session = await first.open("/tmp")
        await first.turn(session, "hello")
        request = first.prompt(session, "wait")
        assert await first.texts(1) == ["one "]
        second = await host.client(OURS)
        before, answer = await second.answer_to(
            second.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[])
        )
        kinds = [message["params"]["update"]["sessionUpdate"] for message in before]
        assert kinds == ["user_message_chunk", "agent_message_chunk", "user_message_chunk", "agent_message_chunk"]
        assert before[1]["params"]["update"]["content"]["text"] == "one two"
        place = answer["result"]["_meta"]["dragoman"]
        assert place["turn"]["turn"] == 2
        assert before[-1]["params"]["_meta"]["dragoman"]["seq"] <= place["head"]
        steps.go.set()
        assert await second.texts(1) == ["two"]
        ended = await second.expect("_dragoman/turn_ended")
        assert ended["params"]["result"] == END
        assert await first.texts(1) == ["two"]
        assert (await first.next()) == {"jsonrpc": "2.0", "id": request, "result": END}


async def test_a_loaded_history_holds_only_what_the_client_takes() -> None:
    async with hosted(Steps()) as host:
        first = await host.client()
        id = await first.open("/tmp")
        await first.turn(id)
        session = host.host.live(id)
        assert session is not None
        session.append("update", {"sessionUpdate": "compaction_update", "compactionId": "c", "status": "completed"})
        load = {"sessionId": id, "cwd": "/tmp", "mcpServers": []}
        plain, able = await host.client(), await host.client({"session": {"compaction": {}}})
        for line, count in ((plain, 0), (able, 1)):
            before, _ = await line.answer_to(line.ask("session/load", **load))
            kinds = [message["params"]["update"]["sessionUpdate"] for message in before]
            assert kinds.count("compaction_update") == count


async def test_a_turn_goes_on_without_its_client_and_is_there_afterwards() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first = await host.client(OURS)
        session = await first.open("/tmp")
        blocks = [{"type": "text", "text": "wait"}]
        first.ask("session/prompt", sessionId=session, prompt=blocks, _meta={"dragoman": {"promptId": "p1"}})
        await running(steps.started)
        await host.leave(first)
        steps.go.set()
        second = await host.client(OURS)
        resumed = await second.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        if "p1" not in resumed["_meta"]["dragoman"]["outcomes"]:
            while (await second.next()).get("method") != "_dragoman/turn_ended":
                pass
        repeated = second.ask(
            "session/prompt", sessionId=session, prompt=blocks, _meta={"dragoman": {"promptId": "p1"}}
        )
        assert (await second.answer_to(repeated))[1]["result"] == END
        assert steps.prompts == ["wait"], "a prompt never runs twice"


async def test_a_client_resumes_behind_the_last_event_it_got() -> None:
    async with hosted(Steps()) as host:
        first = await host.client(OURS)
        session = await first.open("/tmp")
        before, _ = await first.answer_to(first.prompt(session))
        assert before[0]["method"] == "_dragoman/turn_started"
        seen = before[1]["params"]["_meta"]["dragoman"]["seq"]
        second = await host.client(OURS)
        await second.result(
            "session/resume", sessionId=session, cwd="/tmp", mcpServers=[], _meta={"dragoman": {"after": seen}}
        )
        assert await second.texts(1) == ["two"]
        third = await host.client(OURS)
        error = await third.error(
            "session/resume", sessionId=session, cwd="/tmp", mcpServers=[], _meta={"dragoman": {"after": 999}}
        )
        assert error["data"]["reason"] == "cursor_expired"


async def test_prompts_wait_for_each_other_and_others_see_them_when_they_start() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first, second = await host.client(), await host.client()
        session = await first.open("/tmp")
        await second.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        one = first.prompt(session, "wait")
        await running(steps.started)
        two = second.prompt(session, "next")
        steps.go.set()
        before, answer = await first.answer_to(one)
        assert answer["result"] == END
        assert await first.texts(1) == ["next"], "the prompt of the other client"
        before, answer = await second.answer_to(two)
        kinds = [message["params"]["update"]["sessionUpdate"] for message in before]
        assert kinds == ["user_message_chunk", *["agent_message_chunk"] * 4]
        assert answer["result"] == END
        assert steps.prompts == ["wait", "next"]


async def test_cancel_ends_the_own_turn_or_takes_the_own_prompt_out_of_the_queue() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first, second = await host.client(), await host.client()
        session = await first.open("/tmp")
        await second.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        one = first.prompt(session, "wait")
        await running(steps.started)
        two = second.prompt(session, "never")
        second.notify("session/cancel", sessionId=session)
        _, answer = await second.answer_to(two)
        assert answer["result"] == CANCELLED
        first.notify("session/cancel", sessionId=session)
        _, answer = await first.answer_to(one)
        assert answer["result"] == CANCELLED
        assert steps.prompts == ["wait"]


async def test_the_first_choice_answers_a_question_and_the_others_are_withdrawn() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first, second = await host.client(OURS), await host.client(OURS)
        session = await first.open("/tmp")
        await second.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        request = first.prompt(session, "ask")

        async def question(line: Any) -> dict[str, Any]:
            while (message := await line.next()).get("method") != "session/request_permission":
                pass
            found: dict[str, Any] = message
            return found

        mine, theirs = await question(first), await question(second)
        assert mine["params"]["sessionId"] == session
        assert mine["params"]["_meta"] == theirs["params"]["_meta"]
        # A window that is closed answers `cancelled`: that is no choice.
        first.send(first.result_of(mine, {"outcome": {"outcome": "cancelled"}}))
        option = next(each for each in theirs["params"]["options"] if each["kind"] == "allow_once")
        chosen = {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        second.send(second.result_of(theirs, chosen))
        _, answer = await first.answer_to(request)
        assert answer["result"] == END
        assert steps.answers == [True]


async def test_a_question_waits_for_a_client_and_never_means_yes_by_itself() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        first = await host.client(OURS)
        session = await first.open("/tmp")
        first.prompt(session, "ask")
        while (await first.next()).get("method") != "session/request_permission":
            pass
        await host.leave(first)
        second = await host.client(OURS)
        listed = await second.result("session/list")
        assert listed["sessions"][0]["_meta"]["dragoman"]["state"] == "waiting"
        assert steps.answers == []
        await second.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        asked = await second.until("session/request_permission")
        option = next(each for each in asked["params"]["options"] if each["kind"].startswith("reject"))
        chosen = {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
        second.send(second.result_of(asked, chosen))
        while (await second.next()).get("method") != "_dragoman/turn_ended":
            pass
        assert steps.answers == [False]


async def test_an_agent_that_dies_in_a_turn_is_an_error_and_comes_back_with_the_next_prompt() -> None:
    steps = Steps()
    async with hosted(steps) as host:
        line = await host.client()
        session = await line.open("/tmp")
        request = line.prompt(session, "wait")
        await running(steps.started)
        host.source.die()
        _, answer = await line.answer_to(request)
        assert answer["error"]["data"] == {"reason": "agent_exited", "exitCode": None, "maybeExecuted": True}
        updates, answer = await line.turn(session, "again")
        assert answer["result"] == END
        assert [update["content"]["text"] for update in updates] == ["one ", "two"], "its own replay is dropped"
        assert host.source.starts == 2


async def test_an_agent_that_cannot_load_leaves_a_session_that_can_be_read() -> None:
    steps = Steps(loads=False)
    async with hosted(steps) as host:
        line = await host.client(OURS)
        session = await line.open("/tmp")
        await line.answer_to(line.prompt(session))
        host.source.die()
        async with asyncio.timeout(60):
            while (await line.result("session/list"))["sessions"][0]["_meta"]["dragoman"]["state"] != "readOnly":
                pass
        before, answer = await line.answer_to(line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[]))
        assert len(before) == 2
        assert answer["result"]["_meta"]["dragoman"]["readOnly"] is True
        error = await line.error("session/prompt", sessionId=session, prompt=[{"type": "text", "text": "x"}])
        assert error["data"]["reason"] == "agent_lost"
        assert host.source.starts == 1


async def test_after_the_death_of_the_host_open_turns_are_interrupted_and_nothing_runs_again() -> None:
    log = make_log()
    steps = Steps()
    async with hosted(steps, log=log) as first:
        line = await first.client(OURS)
        session = await line.open("/tmp")
        line.ask(
            "session/prompt",
            sessionId=session,
            prompt=[{"type": "text", "text": "wait"}],
            _meta={"dragoman": {"promptId": "p1"}},
        )
        await running(steps.started)
        line.ask(
            "session/prompt",
            sessionId=session,
            prompt=[{"type": "text", "text": "queued"}],
            _meta={"dragoman": {"promptId": "p2"}},
        )
        await line.silence_of_prompts()
        await first.host.settle()
        record = await log.find(session, "local")
        assert record is not None
        copy = make_log()  # what a killed host leaves
        owned = await copy.create(record._replace(head=0))
        for event in await log.read(session, 0, 1000):
            owned.append([NewEvent(event.kind, event.body, event.turn)], lambda _: None)
        await owned.release()
    async with hosted(steps, log=copy) as second:
        line = await second.client(OURS)
        resumed = await line.result("session/resume", sessionId=session, cwd="/tmp", mcpServers=[])
        outcomes = resumed["_meta"]["dragoman"]["outcomes"]
        assert outcomes["p1"]["error"]["data"] == {"reason": "interrupted", "maybeExecuted": True}
        assert outcomes["p2"]["error"]["data"] == {"reason": "not_run"}
        assert second.source.starts == 0
        await line.answer_to(line.prompt(session, "go on"))
        assert steps.prompts == ["wait", "go on"]


async def test_sessions_of_another_principal_do_not_exist() -> None:
    async with hosted(Steps()) as host:
        line = await host.client(OURS)
        session = await line.open("/tmp")
        other = await host.client(OURS, visitor=Visitor("other", is_local=False, may_start_programs=False))
        assert (await other.result("session/list"))["sessions"] == []
        for method in ("session/load", "session/resume"):
            assert (await other.error(method, sessionId=session, cwd="/tmp", mcpServers=[]))["code"] == -32002
        prompt = [{"type": "text", "text": "x"}]
        assert (await other.error("session/prompt", sessionId=session, prompt=prompt))["code"] == -32002
        assert await other.result("session/delete", sessionId=session) == {}
        assert len((await line.result("session/list"))["sessions"]) == 1
        server = {"name": "x", "command": "/bin/true", "args": [], "env": []}
        error = await other.error("session/new", cwd="/tmp", mcpServers=[server])
        assert error["code"] == -32602


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"cwd": "relative"}, "must be absolute"),
        ({"cwd": "/no/such/folder"}, "/no/such/folder does not exist on the agent's machine"),
        ({"cwd": __file__}, "is not a folder; name an existing folder"),
    ],
)
async def test_a_folder_that_cannot_be_is_refused(params: dict[str, Any], why: str) -> None:
    async with hosted(Steps()) as host:
        line = await host.client()
        assert why in (await line.error("session/new", mcpServers=[], **params))["message"]


async def test_folders_and_rights_of_a_token_hold(tmp_path: Any) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "link").symlink_to("/")
    visitor = Visitor("limited", folders=(str(tmp_path / "in"),))
    async with hosted(Steps()) as host:
        line = await host.client(visitor=visitor)
        await line.open(str(tmp_path / "in"))
        for path in (str(tmp_path), str(tmp_path / "in" / "link")):
            assert "may not work" in (await line.error("session/new", cwd=path, mcpServers=[]))["message"]
        viewer = await host.client(visitor=Visitor("limited", rights=frozenset(("view",))))
        assert len((await viewer.result("session/list"))["sessions"]) == 1
        error = await viewer.error("session/new", cwd=str(tmp_path / "in"), mcpServers=[])
        assert error["data"]["reason"] == "forbidden"


@pytest.mark.rule(116)
@pytest.mark.rule(120)
async def test_an_editor_that_closes_a_session_ends_its_own_work_and_nothing_of_others() -> None:
    source = OnTheWire()
    async with hosted(source) as host:
        editor = await host.client(hello=False)
        assert (await editor.hello())["agentCapabilities"]["sessionCapabilities"]["close"] == {}
        session = await editor.open("/tmp")
        ours = await host.client(OURS)
        await ours.resume(session)
        running = editor.prompt(session, "of the editor")
        prompt = await source.agent.prompted()
        waiting = ours.prompt(session, "of ours")
        await ours.until("session/update")
        closing = editor.ask("session/close", sessionId=session)
        assert (await source.agent.next())["method"] == "session/cancel"
        source.agent.reply(prompt, {"stopReason": "cancelled"})
        answers: dict[Any, Any] = {}
        while len(answers) < 2:
            message = await editor.next()
            if "id" in message:
                answers[message["id"]] = message["result"]
        assert answers == {closing: {}, running: {"stopReason": "cancelled"}}
        prompt = await source.agent.prompted()
        source.agent.say("goes on")
        source.agent.reply(prompt, END)
        while (message := await ours.next()).get("id") != waiting:
            pass
        assert message["result"] == END
        assert await editor.everything() == [], "it has left"
        _, refused = await editor.answer_to(editor.prompt(session, "again"))
        assert (refused["error"]["code"], refused["error"]["data"]) == (-32002, {"sessionId": session})
        assert (await editor.error("session/close", sessionId=session))["code"] == -32002
        await editor.resume(session)
        again = editor.prompt(session, "again")
        prompt = await source.agent.prompted()
        source.agent.reply(prompt, END)
        await editor.answer_to(again)


@pytest.mark.rule(116)
async def test_an_editor_that_is_alone_closes_the_session_and_ends_its_agent() -> None:
    async with hosted(Steps()) as host:
        editor = await host.client()
        session = await editor.open("/tmp")
        assert await editor.result("session/close", sessionId=session) == {}
        await _gone(host)
        (row,) = (await editor.result("session/list"))["sessions"]
        assert row["_meta"]["dragoman"]["state"] == "closed"


async def test_the_tokens_that_a_prompt_used_are_kept_for_lists_and_later_clients() -> None:
    usage = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}
    source = OnTheWire()
    async with hosted(source) as host:
        line, session = await host.opened(OURS)
        asked = line.prompt(session, "count")
        source.agent.reply(await source.agent.prompted(), {**END, "usage": usage})
        _, answer = await line.answer_to(asked)
        assert answer["result"]["usage"] == usage
        asked = line.prompt(session, "once more")
        source.agent.reply(await source.agent.prompted(), END)
        await line.answer_to(asked)
        (row,) = (await line.result("session/list"))["sessions"]
        assert row["_meta"]["dragoman"]["usage"] == usage
        other = await host.client(OURS)
        _, place = await other.load(session)
        assert place["_meta"]["dragoman"]["usage"] == usage
        turns = await other.result("_dragoman/turns", sessionId=session)
        assert turns["ended"][0]["result"]["usage"] == usage


async def test_a_closed_session_is_listed_as_closed_until_its_agent_runs_again() -> None:
    async def state() -> str:
        _, answer = await line.answer_to(line.ask("session/list"))
        (row,) = answer["result"]["sessions"]
        return str(row["_meta"]["dragoman"]["state"])

    steps = Steps()
    steps.go.set()
    async with hosted(steps) as host:
        line, session = await host.opened(OURS)
        assert await state() == "idle"
        await line.answer_to(line.ask("session/close", sessionId=session))
        assert await state() == "closed"
        await line.answer_to(line.ask("session/load", sessionId=session, cwd="/tmp", mcpServers=[]))
        await line.answer_to(line.prompt(session))
        assert await state() == "idle"


async def _gone(host: Hosted) -> None:
    assert not host.host._sessions
