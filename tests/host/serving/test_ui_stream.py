"""Turns of chats at a served host: streams, questions, the end of a client.

The AI SDK's own readers are in `tests/interop/test_ai_sdk.py`.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dragoman.agent import Agent, Turn
from dragoman.host.services import HostServices
from dragoman.host.serving.ui_stream import endpoint
from dragoman.policy import parse_rule
from dragoman.schema import v1
from dragoman.uistream.chunks import decode_chunk
from tests.host.kit import make_log, records
from tests.host.serving.chat_kit import Answered, Chat, chatting, idle
from tests.host.serving.test_security import client
from tests.host.test_sessions import Steps
from tests.uistream.chunk_reader import StrictReader


async def test_a_posted_message_is_answered_by_a_stream_with_the_headers_of_the_ai_sdk(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("say hello")
        answered = await chat.post()
        assert answered.headers["content-type"] == "text/event-stream"
        assert answered.headers["x-vercel-ai-ui-message-stream"] == "v1"
        assert (answered.headers["cache-control"], answered.headers["x-accel-buffering"]) == ("no-cache", "no")
        reader = await chat.read(answered)
        assert reader.texts["text"] == ["hello "]
        assert reader.finished == "stop"


async def test_a_chat_is_one_session_that_survives_the_host(tmp_path: Path) -> None:
    log, steps = make_log(), Steps()
    async with chatting(tmp_path, steps, log=log) as host:
        chat = Chat(host)
        await chat.send("one")
        await chat.send("two")
        await Chat(host, "chat-2").send("three")
        (record, other) = sorted(await records(host.log), key=lambda each: each.created_at)
        assert json.loads(record.facts)["chat"] == "chat-1"
        assert record.agent_session != other.agent_session
    (tmp_path / "tokens.json").unlink()
    async with chatting(tmp_path, steps, log=log) as host:
        chat.host = host
        assert (await chat.send("four")).texts["text"] == ["one two"]
        assert len(await records(host.log)) == 2
    assert steps.prompts == ["one", "two", "three", "four"]


@pytest.mark.parametrize("allows", [True, False])
async def test_a_permission_ends_the_stream_and_the_next_post_answers_it(allows: bool, tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        reader = await chat.send("permission write a file")
        assert reader.finished == "tool-calls"
        assert reader.answers_by_itself()
        (session,) = host.host.live_sessions()
        assert session.state == "waiting"
        before = reader.message_id
        reader = await chat.answer(allows)
        assert (reader.finished, reader.message_id) == ("stop", before)
        (tool,) = reader.tools.values()
        assert tool["state"] == ("output" if allows else "denied")
        assert not session.is_busy


def asking(count: int) -> Agent:
    """An agent that asks several questions at the same time, and says what was chosen."""
    agent = Agent("test")
    options = [
        v1.PermissionOption("always", "Always", "allow_always"),
        v1.PermissionOption("once", "Once", "allow_once"),
        v1.PermissionOption("no", "No", "reject_once"),
    ]

    @agent.prompt
    async def reply(turn: Turn) -> None:
        await turn.say("Asking.")

        async def ask(number: int) -> str:
            answer = await turn.ask(v1.ToolCallPatch(f"c{number}", title=f"Call {number}"), options)
            return str(answer.option_id)

        await turn.say(" ".join(await asyncio.gather(*(ask(number) for number in range(count)))))

    return agent


@pytest.mark.parametrize(("reason", "chosen"), [("", "once"), ("always", "always"), ("no", "once"), ("please", "once")])
async def test_questions_of_one_moment_are_asked_and_answered_together(
    reason: str, chosen: str, tmp_path: Path
) -> None:
    async with chatting(tmp_path, lambda: asking(3)) as host:
        chat = Chat(host)
        reader = await chat.send("go")
        assert len(reader.asked) == 3
        reader = await chat.answer(True, reason)
        assert reader.texts["text"] == ["Asking.", f"{chosen} {chosen} {chosen}"]


async def test_questions_that_come_one_after_the_other_are_answered_post_by_post(tmp_path: Path) -> None:
    agent = Agent("test")

    @agent.prompt
    async def reply(turn: Turn) -> None:
        for name in ("first", "second"):
            async with turn.tool(name, kind="edit", start=False) as call:
                await turn.say(str(bool(await call.ask())))

    async with chatting(tmp_path, lambda: agent) as host:
        chat = Chat(host)
        assert (await chat.send("go")).finished == "tool-calls"
        reader = await chat.answer(True)
        assert (reader.finished, len(reader.asked)) == ("tool-calls", 2)
        reader = await chat.answer(False)
        assert (reader.finished, reader.texts["text"]) == ("stop", ["True", "False"])


async def test_rules_of_the_host_decide_before_the_user_is_asked(tmp_path: Path) -> None:
    services = HostServices(rules=[parse_rule("delete:notes.txt", "allow", "flag", "test")])
    async with chatting(tmp_path, services=services) as host:
        reader = await Chat(host).send("permission notes.txt")
        assert (reader.finished, reader.texts["text"]) == ("stop", ["allowed (allow)"])


async def test_a_client_of_version_5_is_not_asked_and_the_call_is_refused(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        reader = await Chat(host, sdkVersion=5).send("permission notes.txt")
        assert reader.texts["text"] == ["not allowed (reject)"]
        assert any("cannot be asked" in str(data) for name, data in reader.data if name == "data-notice")


async def test_a_client_that_goes_away_ends_the_turn(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("slow")
        answered = await chat.post()
        await answered.until("text-delta")
        answered.close()
        assert (await chat.send("say again")).texts["text"] == ["again "]
        (session,) = host.host.live_sessions()
        assert next(iter(session.prompts.outcomes.values()))["result"]["stopReason"] == "cancelled"


async def test_a_chat_that_resumes_goes_on_alone_and_is_read_again_from_its_start(tmp_path: Path) -> None:
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host, resume=True)
        chat.user("wait")
        answered = await chat.post()
        await answered.until("text-delta")
        answered.close()
        again = await Answered(host).ask("GET", "/ui-stream/chat-1/stream")
        assert again.headers["x-vercel-ai-ui-message-stream"] == "v1"
        await again.until("text-delta")
        other = await Answered(host).ask("GET", "/ui-stream/chat-1/stream")
        steps.go.set()
        for stream in (other,):
            reader = await chat.read(stream)
            assert reader.texts["text"] == ["one two"]
        assert (await again.chunks())[-1]["type"] == "finish"
        await idle(host)
        nothing = await Answered(host).ask("GET", "/ui-stream/chat-1/stream")
        assert (nothing.status, await nothing.text()) == (204, "")


async def test_a_waiting_turn_is_read_again_with_its_question_and_answered_then(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        await chat.send("permission notes.txt")
        chat.reader = StrictReader()
        reader = await chat.read(await Answered(host).ask("GET", "/ui-stream/chat-1/stream"))
        assert (reader.finished, len(reader.asked)) == ("tool-calls", 1)
        assert (await chat.answer(True)).texts["text"] == ["allowed (allow)"]


async def test_delete_stops_the_turn_with_an_abort(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("slow")
        answered = await chat.post()
        first = await answered.until("text-delta")
        assert (await Answered(host).ask("DELETE", "/ui-stream/chat-1/stream")).status == 204
        rest = await answered.chunks()
        reader = StrictReader()
        reader.stream([decode_chunk(json.dumps(chunk)) for chunk in [*first, *rest]])
        assert reader.finished == "abort"


async def test_a_user_who_writes_instead_of_answering_refuses(tmp_path: Path) -> None:
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host)
        assert (await chat.send("ask")).finished == "tool-calls"
        assert (await chat.send("never mind")).texts["text"] == ["one two"]
        assert steps.prompts == ["ask", "never mind"]
        assert steps.answers in ([], [False])


async def test_a_question_that_is_not_answered_in_time_is_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoint, "WAITING_SECONDS", 0.05)
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        await chat.send("permission notes.txt")
        (session,) = host.host.live_sessions()
        await idle(host)
        assert list(session.prompts.outcomes.values())[-1]["result"]["stopReason"] == "cancelled"
        chat.messages.append({"id": "m", "role": "assistant", "parts": []})
        assert (await chat.post()).status == 409


async def test_an_answer_of_another_client_lets_the_turn_go_on(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host, client(host, host.secret) as line:
        chat = Chat(host, resume=True)
        await chat.send("permission notes.txt")
        (session,) = host.host.live_sessions()
        await line.result("session/resume", sessionId=session.id, cwd=str(tmp_path), mcpServers=[])
        question = await line.next()
        while question.get("method") != "session/request_permission":
            question = await line.next()
        outcome = {"outcome": {"outcome": "selected", "optionId": "allow"}}
        line.send({"jsonrpc": "2.0", "id": question["id"], "result": outcome})
        await idle(host, attached=1)
        assert list(session.prompts.outcomes.values())[-1]["result"]["stopReason"] == "end_turn"


async def test_an_error_of_the_agent_is_an_error_of_the_stream(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        reader = await chat.send("error")
        assert reader.error == "As you asked"
        assert (await chat.send("say more")).texts["text"] == ["more "]


async def test_an_agent_that_dies_ends_the_stream_with_what_happened(tmp_path: Path) -> None:
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host)
        chat.user("wait")
        answered = await chat.post()
        first = await answered.until("text-delta")
        host.source.die()
        chunks = [*first, *await answered.chunks()]
        reader = StrictReader()
        reader.stream([decode_chunk(json.dumps(chunk)) for chunk in chunks])
        assert reader.error
        assert reader.texts["text"] == ["one "]


async def test_files_in_a_message_reach_the_agent(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("look")
        image = {"type": "file", "mediaType": "image/png", "url": "data:image/png;base64,aGk="}
        chat.messages[-1]["parts"].append(image)
        assert (await chat.read(await chat.post())).texts["text"] == ["look [with ImageContent]"]
