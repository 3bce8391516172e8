"""Codex as an agent, with a small program in its place: a real process that speaks as the real one was recorded."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import AdapterAgent
from dragoman.adapters.codex import turn as codex_turn
from dragoman.adapters.codex.adapter import CodexAdapter
from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.transports.memory import memory_pair
from dragoman.transports.process import ProcessTransport
from tests.adapters.codex_program import (
    SECONDS,
    calls_of,
    codex_client,
    codex_session,
    collected,
    install,
    is_alive,
    notices_of,
    until,
    work_folder,
)
from tests.adapters.fixtures import Answers, Forms, ask, on_wire, statuses, text_of


async def cancelled(session: Session, text: str, when: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
    """The updates of a prompt that is cancelled as soon as one of them is of a kind."""
    updates: list[dict[str, Any]] = []
    turn = session.prompt(text)
    async for update in turn:
        updates += on_wire([update])
        if when(updates[-1]):
            await session.cancel()
    assert (await turn).stop_reason == "cancelled"
    return updates


# What a turn shows


async def test_text_thoughts_plan_search_and_usage(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        said = await ask(session, "hello there")
        assert text_of(said) == "You said: hellothere"
        assert [each for each in said if each["sessionUpdate"] == "usage_update"][-1]["size"] == 1000
        assert {"sessionUpdate": "session_info_update", "title": "hello there"} in said
        assert text_of(await ask(session, "THINK"), "agent_thought_chunk") == "Let me think. "
        planned = [each for each in await ask(session, "PLAN") if each["sessionUpdate"] == "plan"]
        assert [each["status"] for each in planned[0]["entries"]] == ["completed", "in_progress", "pending"]
        found = calls_of(await ask(session, "SEARCH rust"))["Search the web: rust"]
        assert (found["kind"], found["status"]) == ("fetch", "completed")
        assert found["content"][0]["content"]["uri"] == "https://example.com/"


async def test_images_and_embedded_texts_reach_codex(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        resource = v1.EmbeddedResource(v1.TextResourceContents("inside", "file:///a.txt"))
        blocks: list[v1.ContentBlock] = [v1.TextContent("look "), resource, v1.ImageContent("aGVsbG8=", "image/png")]
        text = text_of(on_wire([update async for update in session.prompt(blocks)]))
        assert "inside" in text
        assert text.endswith(" 1 images")


async def test_rare_items_are_shown_and_a_sub_agent_belongs_to_its_call(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        updates = await ask(session, "MORE")
        calls = calls_of(updates)
        assert text_of(updates) == "That was it."
        assert calls["View picture.png"]["kind"] == "read"
        assert calls["Make an image"]["content"][1]["content"]["type"] == "image"
        starter = calls["Start a sub-agent: look"]["toolCallId"]
        inner = calls[f"List {work_folder(tmp_path)}"]
        assert inner["_meta"] == {"dragoman": {"parentToolCallId": starter}}
        assert session.state.title == "A name from Codex"


async def test_retries_and_warnings_are_shown_once(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        first = await ask(session, "RETRY")
        assert notices_of(first) == ["Codex tries again", "Codex warns"]
        assert text_of(first) == "After all."
        assert notices_of(await ask(session, "RETRY")) == ["Codex tries again"]


async def test_what_is_unknown_is_shown_or_left_out_and_never_waited_for(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        updates = await ask(session, "UNKNOWN")
        assert calls_of(updates)["holograph"]["status"] == "completed"
        assert "item/holograph/requestApproval is not supported" in text_of(updates)
        assert text_of(await ask(session, "still here")) == "You said: stillhere"


async def test_a_failed_turn_reports_the_words_of_the_model_and_the_next_one_works(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        with pytest.raises(RequestError, match="Codex failed: the model is not there"):
            await ask(session, "FAIL")
        assert text_of(await ask(session, "again")) == "You said: again"


async def test_compaction_is_a_command(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        await ask(session, "hello")
        assert [each.name for each in session.state.commands] == ["compact", "review"]
        updates = await ask(session, "/compact")
        assert [each["status"] for each in updates if each["sessionUpdate"] == "compaction_update"] == [
            "in_progress",
            "completed",
        ]


# Permission


async def test_a_command_is_asked_about_with_the_options_that_codex_offers(tmp_path: Path) -> None:
    answers = Answers("accept", "decline", "accept_always", "accept")
    async with codex_session(tmp_path, permission=answers) as session:
        ran = await ask(session, "RUN echo one; echo two; exit 3")
        [call] = calls_of(ran).values()
        assert statuses(ran) == ["pending", "in_progress", "failed"]
        assert (call["kind"], call["rawInput"]["command"]) == ("execute", "echo one; echo two; exit 3")
        assert call["content"][0]["content"]["text"] == "one\ntwo\n"
        assert call["rawOutput"]["exitCode"] == 3
        asked = answers.asked[0]
        assert asked.tool_call.title == "echo one; echo two; exit 3 (it writes)"
        assert [(each.option_id, each.kind) for each in asked.options] == [
            ("accept", "allow_once"),
            ("accept_always", "allow_always"),
            ("decline", "reject_once"),
            ("cancel", "reject_once"),
        ]
        refused = await ask(session, "RUN touch no.txt")
        assert statuses(refused) == ["pending", "failed"]
        assert text_of(refused) == "It was not permitted."
        assert not (work_folder(tmp_path) / "no.txt").exists()
        await ask(session, "RUN touch always.txt")
        await ask(session, "RUN touch always.txt")
        assert len(answers.asked) == 3, "the rule was remembered by codex"


async def test_a_refusal_can_stop_the_turn(tmp_path: Path) -> None:
    async with codex_session(tmp_path, permission=Answers("cancel")) as session:
        updates = await ask(session, "RUN touch no.txt")
        assert statuses(updates) == ["pending", "failed"]
        assert text_of(updates) == ""


async def test_a_change_is_shown_as_a_diff_of_the_whole_file_before_it_is_made(tmp_path: Path) -> None:
    answers = Answers("accept", "decline", "accept_for_session")
    file = work_folder(tmp_path) / "a.txt"
    file.write_text("one\ntwo\nthree\n")
    async with codex_session(tmp_path, permission=answers) as session:
        edited = await ask(session, f"EDIT {file}")
        [content] = calls_of(edited)["Edit a.txt"]["content"]
        assert (content["oldText"], content["newText"]) == ("one\ntwo\nthree\n", "changed\ntwo\nthree\n")
        [shown] = answers.asked[0].tool_call.content or ()
        assert isinstance(shown, v1.Diff)
        assert shown.new_text == content["newText"]
        assert statuses(edited) == ["pending", "in_progress", "completed"]
        file.write_text("one\ntwo\n")
        assert statuses(await ask(session, f"EDIT {file}")) == ["pending", "failed"]
        assert file.read_text() == "one\ntwo\n"
        added = calls_of(await ask(session, f"ADD {file.parent / 'b.txt'}"))["Add b.txt"]
        assert added["content"][0]["newText"] == "new\n"
        kinds = [each.kind for each in answers.asked[2].options]
        assert kinds == ["allow_once", "allow_always", "reject_once", "reject_once"]


@pytest.mark.parametrize(
    ("option", "answer"),
    [
        ("accept", '{"action": "accept", "content": {}, "_meta": null}'),
        ("accept_for_session", '{"action": "accept", "content": {}, "_meta": {"persist": "session"}}'),
        ("accept_always", '{"action": "accept", "content": {}, "_meta": {"persist": "always"}}'),
        ("decline", '{"action": "decline", "content": null, "_meta": null}'),
        (None, '{"action": "decline", "content": null, "_meta": null}'),
    ],
)
async def test_a_tool_of_an_mcp_server_is_asked_about(option: str | None, answer: str, tmp_path: Path) -> None:
    answers = Answers(option)
    async with codex_session(tmp_path, permission=answers) as session:
        updates = await ask(session, "MCP hello")
        call = calls_of(updates)["shout (demo)"]
        assert answers.asked[0].tool_call.tool_call_id == call["toolCallId"]
        assert call["status"] == ("completed" if option and option.startswith("accept") else "failed")
        assert text_of(updates) == answer


async def test_questions_are_a_form_or_options(tmp_path: Path) -> None:
    forms = Forms({"q1": "Blue"})
    async with codex_session(tmp_path, elicitation=forms) as session:
        assert text_of(await ask(session, "ASK")) == '{"answers": {"q1": {"answers": ["Blue"]}}}'
        assert forms.asked[0].message == "Which colour?"
    async with codex_session(tmp_path, permission=Answers("Red")) as session:
        assert text_of(await ask(session, "ASK")) == '{"answers": {"q1": {"answers": ["Red"]}}}'


# Cancel and steer


@pytest.mark.parametrize("prefix", ["trap 'echo ended > ended; exit' TERM; ", "trap '' TERM; "])
async def test_cancel_ends_the_running_command_with_everything_it_started(prefix: str, tmp_path: Path) -> None:
    work = work_folder(tmp_path)
    command = f"{prefix}sleep 1000 & echo $! > inner; echo $$ > outer; wait"
    async with codex_session(tmp_path, permission=Answers("accept")) as session:
        turn = session.prompt(f"RUN {command}")
        watching = asyncio.ensure_future(collected(turn))
        await until(lambda: (work / "outer").exists() and (work / "outer").read_text().strip())
        pids = [int((work / name).read_text()) for name in ("inner", "outer")]
        assert all(is_alive(pid) for pid in pids)
        await session.cancel()
        updates = await watching
        assert (await turn).stop_reason == "cancelled"
        assert not any(is_alive(pid) for pid in pids), "the turn has ended, so the command has"
        assert (work / "ended").exists() is ("echo ended" in prefix), "a command that can end by itself may do so"
        # One that ends by itself may report that before it is interrupted.
        assert statuses(updates)[-1] in (("failed", "completed") if "echo ended" in prefix else ("failed",))
        assert text_of(await ask(session, "next")) == "You said: next"


async def test_a_command_that_an_earlier_turn_left_running_stays(tmp_path: Path) -> None:
    work = work_folder(tmp_path)
    async with codex_session(tmp_path, permission=Answers("accept")) as session:
        await ask(session, "LEAVE echo $$ > server; exec sleep 1000")
        await until(lambda: (work / "server").exists() and (work / "server").read_text().strip())
        server = int((work / "server").read_text())
        await cancelled(session, "WAIT", lambda update: update["sessionUpdate"] == "agent_message_chunk")
        assert is_alive(server)
        await session.close()
        await until(lambda: not is_alive(server))


async def test_cancel_while_a_question_is_open(tmp_path: Path) -> None:
    answers = Answers("wait")
    async with codex_session(tmp_path, permission=answers) as session:
        turn = session.prompt("RUN touch no.txt")
        watching = asyncio.ensure_future(collected(turn))
        await asyncio.wait_for(answers.arrived.wait(), SECONDS)
        await session.cancel()
        await watching
        assert (await turn).stop_reason == "cancelled"
        assert not (work_folder(tmp_path) / "no.txt").exists()
        assert text_of(await ask(session, "next")) == "You said: next"


async def test_cancel_right_after_the_prompt(tmp_path: Path) -> None:
    async with codex_session(tmp_path) as session:
        turn = session.prompt("WAIT")
        watching = asyncio.ensure_future(collected(turn))
        await asyncio.sleep(0)
        await session.cancel()
        await watching
        assert (await turn).stop_reason == "cancelled"
        assert text_of(await ask(session, "next")) == "You said: next"


async def test_a_program_that_ignores_an_interrupt_is_ended_and_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex_turn, "INTERRUPT_SECONDS", 0.3)
    work = work_folder(tmp_path)
    async with codex_session(tmp_path) as session:
        await ask(session, "hello")
        turn = session.prompt("DEAF echo $$ > pid; exec sleep 1000")
        watching = asyncio.ensure_future(collected(turn))
        await until(lambda: (work / "pid").exists() and (work / "pid").read_text().strip())
        pid = int((work / "pid").read_text())
        await session.cancel()
        await watching
        assert (await turn).stop_reason == "cancelled"
        assert not is_alive(pid)
        assert text_of(await ask(session, "next")) == "You said: next"


async def test_text_of_the_user_reaches_the_running_turn(tmp_path: Path) -> None:
    async with codex_client(tmp_path) as (remote, _):
        session = await remote.new_session(work_folder(tmp_path))
        request = {"sessionId": session.id, "text": "go on"}
        assert await remote.request("_dragoman/steer", request) == {"accepted": False}
        updates: list[dict[str, Any]] = []
        async for update in session.prompt("WAIT"):
            updates += on_wire([update])
            if updates[-1].get("content", {}).get("text") == "waiting":
                assert await remote.request("_dragoman/steer", request) == {"accepted": True}
        assert text_of(updates, "user_message_chunk") == "go on"
        assert text_of(updates) == "waitingSteered: go on"


class RawClient:
    """A client that sends what it likes, as one does that does not wait for its prompt."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self.came: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        transport.start(self)

    def send(self, own_id: int, method: str, **params: Any) -> None:
        message = {"jsonrpc": "2.0", "id": own_id, "method": method, "params": params}
        self._transport.write(json.dumps(message).encode() + b"\n")

    def feed(self, data: bytes) -> None:
        for line in data.splitlines():
            self.came.put_nowait(json.loads(line))

    def end(self, reason: object) -> None:
        pass

    def drained(self) -> None:
        pass

    async def answer(self, own_id: int) -> list[dict[str, Any]]:
        """What comes up to the answer to a request."""
        found: list[dict[str, Any]] = []
        while not found or found[-1].get("id") != own_id:
            found.append(await asyncio.wait_for(self.came.get(), SECONDS))
        return found


async def test_prompts_are_queued_and_not_joined(tmp_path: Path) -> None:
    ours, theirs = memory_pair()
    agent = AdapterAgent(CodexAdapter(str(install(tmp_path))))
    serving = asyncio.create_task(agent.serve(theirs))
    client = RawClient(ours)
    client.send(0, "initialize", protocolVersion=1, clientCapabilities={})
    client.send(1, "session/new", cwd=str(work_folder(tmp_path)), mcpServers=[])
    opened = (await client.answer(1))[-1]["result"]["sessionId"]
    for own_id, text in ((2, "one"), (3, "two")):
        client.send(own_id, "session/prompt", sessionId=opened, prompt=[{"type": "text", "text": text}])
    texts = []
    for own_id in (2, 3):
        came = await client.answer(own_id)
        assert came[-1]["result"] == {"stopReason": "end_turn"}
        texts.append(text_of([each["params"]["update"] for each in came if "params" in each]))
    assert texts == ["You said: one", "You said: two"]
    ours.close()
    await serving


# Sessions and settings


async def test_sessions_are_listed_loaded_resumed_forked_and_deleted_across_programs(tmp_path: Path) -> None:
    work = work_folder(tmp_path)
    answers = Answers("accept")
    async with codex_session(tmp_path, permission=answers) as session:
        await ask(session, "hello")
        await ask(session, "RUN echo hi")
        with pytest.raises(RequestError):
            await ask(session, "FAIL")
        await ask(session, f"ADD {work / 'c.txt'}")
    async with codex_client(tmp_path, unstable=["session/fork"]) as (remote, _):
        [listed] = (await remote.list_sessions(cwd=work)).sessions
        assert (listed.session_id, listed.title, listed.cwd) == (session.id, "hello", str(work))
        loaded = await remote.load_session(session.id, work)
        texts = [item.text for item in loaded.state.messages]
        assert texts[:2] == ["hello", "You said: hello"]
        assert any("the model is not there" in text for text in texts)
        calls = {call.title: call for call in loaded.state.tool_calls.values()}
        assert [calls[title].status for title in ("echo hi", "Add c.txt")] == ["completed", "completed"]
        assert loaded.state.title == "hello"
        fork = await remote.fork_session(session.id, work)
        assert fork.id != session.id
        assert text_of(await ask(fork, "forked")) == "You said: forked"
        await remote.close_session(session.id)
        await remote.delete_session(session.id)
        assert [each.session_id for each in (await remote.list_sessions()).sessions] == [fork.id]
        await remote.delete_session("01a1e2b7-0000-7000-8000-000000000000")
    async with codex_client(tmp_path) as (remote, _):
        resumed = await remote.resume_session(fork.id, work)
        assert list(resumed.state.messages) == []
        assert text_of(await ask(resumed, "again")) == "You said: again"
        for unknown in ("01a1e2b7-0000-7000-8000-000000000000", "nonsense"):
            with pytest.raises(RequestError, match="Session not found"):
                await remote.load_session(unknown, work)
        with pytest.raises(RequestError, match="cursor"):
            await remote.list_sessions(cursor="nonsense")


def options_of(session: Session) -> dict[str, Any]:
    return {each.id: each.current_value for each in session.state.config_options}  # type: ignore[union-attr]  # checked


async def test_modes_models_effort_policy_and_sandbox_can_be_chosen(tmp_path: Path) -> None:
    async with codex_session(tmp_path, permission=Answers("decline")) as session:
        assert options_of(session) == {
            "mode": "read-only",
            "model": "fake-1",
            "effort": "low",
            "approval_policy": "on-request",
            "sandbox_mode": "read-only",
        }
        await session.set_mode("full-access")
        assert options_of(session)["sandbox_mode"] == "danger-full-access"
        assert statuses(await ask(session, "RUN true"))[-1] == "completed", "it is not asked about"
        await session.set_config_option("approval_policy", "on-request")
        assert session.state.modes is not None
        assert session.state.modes.current_mode_id == "custom"
        assert statuses(await ask(session, "RUN true"))[-1] == "failed"
        await session.set_config_option("model", "fake-2")
        await session.set_config_option("effort", "high")
        await session.set_mode("plan")
        await ask(session, "hello")
        chosen = options_of(session)
        assert (chosen["mode"], chosen["model"], chosen["effort"]) == ("plan", "fake-2", "high")
        await session.set_mode("custom")
        assert options_of(session)["mode"] == "custom"
        assert options_of(session)["sandbox_mode"] == "read-only", "that is what this codex is configured to"
        with pytest.raises(RequestError):
            await session.set_config_option("model", "fake-0")


async def test_the_mcp_servers_of_the_client_are_used_and_a_broken_one_is_reported(tmp_path: Path) -> None:
    async with codex_client(tmp_path) as (remote, _):
        server = v1.McpServerStdio("my server", "/bin/false", ["-x"], [v1.EnvVariable("A", "b")])
        session = await remote.new_session(work_folder(tmp_path), mcp_servers=[server])
        await until(lambda: session.state.notices)
        assert "my_server could not be started" in session.state.notices[0].title


async def test_a_flood_waits_for_a_slow_client_and_nothing_of_it_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codex_turn, "_MOST_WAITING", 50)
    monkeypatch.setattr(codex_turn, "_FEW_WAITING", 10)
    pauses: list[object] = []
    pause = ProcessTransport.pause_reading

    def counted(transport: ProcessTransport) -> None:
        pauses.append(transport)
        pause(transport)

    monkeypatch.setattr(ProcessTransport, "pause_reading", counted)
    async with codex_session(tmp_path) as session:
        texts = text_of(await ask(session, "FLOOD 4000"))
        assert texts == "".join(f"{number} " for number in range(4000))
        assert pauses
