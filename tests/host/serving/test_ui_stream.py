"""Chats of AI SDK clients at a served host, as their requests and streams go over the wire.

The AI SDK's own readers are in `tests/interop/test_ai_sdk.py`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import h11
import msgspec
import pytest

from dragoman.agent import Agent, Turn
from dragoman.host.services import HostServices
from dragoman.host.serving.server import ServeOptions
from dragoman.host.serving.ui_stream import endpoint
from dragoman.policy import parse_rule
from dragoman.schema import v1
from dragoman.testing.agent import scripted_agent
from dragoman.uistream.chunks import decode_chunk
from tests.host.kit import make_log
from tests.host.serving.kit import FREELY, SECONDS, Served, served
from tests.host.serving.test_security import client
from tests.host.test_sessions import Steps
from tests.uistream.chunk_reader import StrictReader

OPEN: list[Answered] = []


class Answered:
    """An answer that is read as it comes."""

    def __init__(self, host: Served) -> None:
        OPEN.append(self)
        self._host = host
        self._http = h11.Connection(h11.CLIENT)
        self._rest = b""
        self.status = 0
        self.headers: dict[str, str] = {}

    async def ask(self, method: str, path: str, body: object = None, **headers: str) -> Answered:
        self._reader, self._writer = await asyncio.open_connection("127.0.0.1", self._host.port)
        data = b"" if body is None else json.dumps(body).encode()
        sent = {
            "host": f"127.0.0.1:{self._host.port}",
            "authorization": f"Bearer {self._host.secret}",
            "content-type": "application/json",
            "content-length": str(len(data)),
            **headers,
        }
        request = h11.Request(method=method, target=path, headers=[(k, v) for k, v in sent.items() if v])
        for event in (request, h11.Data(data=data), h11.EndOfMessage()):
            self._writer.write(self._http.send(event) or b"")
        head = await self._next()
        assert isinstance(head, h11.Response)
        self.status = head.status_code
        self.headers = {name.decode(): value.decode() for name, value in head.headers}
        return self

    async def _next(self) -> Any:
        async with asyncio.timeout(SECONDS):
            while (event := self._http.next_event()) is h11.NEED_DATA:
                self._http.receive_data(await self._reader.read(65536))
            return event

    async def event(self) -> Any:
        """The next event: a chunk, "[DONE]", or None at the end."""
        while b"\n\n" not in self._rest:
            found = await self._next()
            if isinstance(found, h11.EndOfMessage):
                return None
            self._rest += bytes(found.data)
        event, self._rest = self._rest.split(b"\n\n", 1)
        if not event.startswith(b"data: "):
            return await self.event()
        data = event.removeprefix(b"data: ").decode()
        return data if data == "[DONE]" else json.loads(data)

    async def until(self, kind: str) -> list[Any]:
        found = []
        while True:
            found.append(await self.event())
            if found[-1] is None or found[-1]["type"] == kind:
                return found

    async def text(self) -> str:
        found = b""
        while isinstance(event := await self._next(), h11.Data):
            found += event.data
        return found.decode()

    async def chunks(self) -> list[Any]:
        """All chunks; the stream must end as streams of the AI SDK do."""
        assert self.status == 200, await self.text()
        found = []
        while (event := await self.event()) is not None:
            found.append(event)
        assert found.pop() == "[DONE]"
        self.close()
        return found

    def close(self) -> None:
        self._writer.close()

    async def closed(self) -> None:
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()


class Chat:
    """A client that keeps its messages, as `useChat` does."""

    def __init__(self, host: Served, id: str = "chat-1", **body: Any) -> None:
        self.host = host
        self.id = id
        self.body = body
        self.messages: list[dict[str, Any]] = []
        self.reader = StrictReader(body.get("sdkVersion", 6))
        self._count = 0

    def user(self, text: str) -> None:
        self._count += 1
        message = {"id": f"u{self._count}", "role": "user", "parts": [{"type": "text", "text": text}]}
        self.messages.append(message)
        self.reader = StrictReader(self.body.get("sdkVersion", 6))

    async def post(self, path: str = "/ui-stream", **more: Any) -> Answered:
        body = {"id": self.id, "messages": self.messages, "trigger": "submit-message", **self.body, **more}
        return await Answered(self.host).ask("POST", path, body)

    async def read(self, answered: Answered) -> StrictReader:
        chunks = await answered.chunks()
        self.reader.stream([decode_chunk(json.dumps(chunk)) for chunk in chunks])
        return self.reader

    async def send(self, text: str, **more: Any) -> StrictReader:
        self.user(text)
        return await self.read(await self.post(**more))

    async def answer(self, allows: bool, reason: str = "") -> StrictReader:
        """Answer every question that the last stream ended with."""
        parts = [
            {"type": "dynamic-tool", "toolCallId": call, "approval": {"id": id, "approved": allows, "reason": reason}}
            for id, call in self.reader.asked.items()
        ]
        for id in list(self.reader.asked.values()):
            self.reader.tools[id]["state"] = "answered"
        self.messages = [each for each in self.messages if each["id"] != self.reader.message_id]
        self.messages.append({"id": self.reader.message_id, "role": "assistant", "parts": parts})
        return await self.read(await self.post(messageId=self.reader.message_id))


@asynccontextmanager
async def chatting(folder: Path, make: Any = scripted_agent, **settings: Any) -> AsyncIterator[Served]:
    usual = ServeOptions(limits=FREELY, drain_seconds=1.0, ui_stream=True, folders=(str(folder),))
    async with served(make, folder, **{"options": usual, **settings}) as host:
        yield host
    while OPEN:
        await OPEN.pop().closed()


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
        (record, other) = sorted(host.log.sessions(), key=lambda each: each.created_at)
        assert json.loads(record.facts)["chat"] == "chat-1"
        assert record.agent_session != other.agent_session
    (tmp_path / "tokens.json").unlink()
    async with chatting(tmp_path, steps, log=log) as host:
        chat.host = host
        assert (await chat.send("four")).texts["text"] == ["one two"]
        assert len(host.log.sessions()) == 2
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


async def idle(host: Served, attached: int = 0) -> None:
    """Wait until no turn runs and no chat is connected; a host has no event for it."""
    async with asyncio.timeout(SECONDS):
        while any(each.is_busy or len(each.attachments) > attached for each in host.host.live_sessions()):  # noqa: ASYNC110
            await asyncio.sleep(0.01)


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


HI = {"role": "user", "id": "u", "parts": [{"type": "text", "text": "hi"}]}
ODD: dict[str, tuple[int, str, Any]] = {
    "a list": (400, "not a chat", []),
    "no id": (400, "missing required field `id`", {"messages": [HI]}),
    "an empty id": (400, "characters", {"id": "", "messages": [HI]}),
    "no messages": (400, "no messages", {"id": "c", "messages": []}),
    "no text": (400, "neither text", {"id": "c", "messages": [{"role": "user", "parts": [{"type": "odd"}, 3]}]}),
    "a message of the system": (400, "of the user", {"id": "c", "messages": [{"role": "system"}]}),
    "an unknown version": (400, "5, 6 or 7", {"id": "c", "sdkVersion": 4, "messages": [HI]}),
    "answers without a question": (
        409,
        "No question",
        {"id": "c", "messages": [{"role": "assistant", "parts": [{"approval": 3}]}]},
    ),
    "a history that is not known": (
        409,
        "begin a new chat",
        {"id": "c", "messages": [{"role": "assistant", "parts": [{"type": "text", "text": "hi"}]}, HI]},
    ),
    "a folder of others": (400, "may not work in /etc", {"id": "c", "cwd": "/etc", "messages": [HI]}),
    "an agent that is not there": (404, "does not run", {"id": "c", "agent": "odd", "messages": [HI]}),
}


@pytest.mark.parametrize("name", ODD)
async def test_what_is_not_a_chat_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    status, words, body = ODD[name]
    async with chatting(tmp_path) as host:
        answered = await Answered(host).ask("POST", "/ui-stream", body)
        assert (answered.status, words in await answered.text()) == (status, True)
        assert host.log.sessions() == []
        assert (await Chat(host).send("say hello")).texts["text"] == ["hello "]


async def test_a_history_that_was_changed_is_refused_and_one_that_is_cut_at_its_start_is_not(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        for word in ("one", "two", "three"):
            await chat.send(f"say {word}")
        whole = list(chat.messages)
        again = await chat.post(trigger="regenerate-message")
        assert (again.status, "again" in await again.text()) == (409, True)
        chat.messages = [whole[0], {**whole[1], "id": "other"}]
        assert (await chat.post()).status == 409
        chat.messages = []
        assert (await chat.send("say last one only")).texts["text"] == ["last one only "]
        new = {"id": "u9", "role": "user", "parts": [{"type": "text", "text": "say single"}]}
        single = await Answered(host).ask("POST", "/ui-stream", {"id": "chat-1", "message": new})
        assert any(chunk.get("delta") == "single " for chunk in await single.chunks())


async def test_a_message_that_never_reached_the_agent_is_sent_with_the_next(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("first")
        assert (await chat.post(cwd="/nowhere")).status == 400
        chat.user("second")
        assert (await chat.read(await chat.post())).texts["text"] == ["firstsecond"]


async def test_a_second_message_during_a_turn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoint, "STOP_SECONDS", 0.05)
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host)
        chat.user("wait")
        answered = await chat.post()
        await answered.until("text-delta")
        chat.user("more")
        assert (await chat.post()).status == 409
        steps.go.set()
        assert (await answered.chunks())[-1]["type"] == "finish"


async def test_chats_need_a_token_an_allowed_origin_and_the_option(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        body = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "say hi"}]}]}
        assert (await Answered(host).ask("POST", "/ui-stream", body, authorization="")).status == 401
        assert (await Answered(host).ask("GET", "/ui-stream/c/stream", authorization="Bearer odd")).status == 401
        assert (await Answered(host).ask("POST", "/ui-stream", body, origin="https://evil.example")).status == 403
        viewer = f"Bearer {host.add('viewer', user='tests', rights=('view',))}"
        refused = await Answered(host).ask("POST", "/ui-stream", body, authorization=viewer)
        assert (refused.status, await refused.text()) == (403, "This token may not prompt.")
        assert (await Answered(host).ask("PUT", "/ui-stream", body)).status == 405
        assert (await Answered(host).ask("GET", "/ui-stream")).status == 404
    (tmp_path / "tokens.json").unlink()
    async with chatting(tmp_path, options=ServeOptions(limits=FREELY)) as host:
        assert (await Answered(host).ask("POST", "/ui-stream", body)).status == 404


async def test_a_page_of_an_allowed_origin_may_read_the_stream(tmp_path: Path) -> None:
    page = "https://chat.example"
    options = ServeOptions(limits=FREELY, ui_stream=True, folders=(str(tmp_path),), origins=(page,))
    async with chatting(tmp_path, options=options) as host:
        body = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "say hi"}]}]}
        answered = await Answered(host).ask("POST", "/ui-stream", body, origin=page)
        assert answered.headers["access-control-allow-origin"] == page
        assert (await answered.chunks())[-1]["type"] == "finish"


async def test_a_chat_of_another_user_is_another_chat(tmp_path: Path) -> None:
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host)
        chat.user("wait")
        answered = await chat.post()
        await answered.until("text-delta")
        other = f"Bearer {host.add('other')}"
        assert (await Answered(host).ask("GET", "/ui-stream/chat-1/stream", authorization=other)).status == 204
        assert (await Answered(host).ask("DELETE", "/ui-stream/chat-1/stream", authorization=other)).status == 204
        steps.go.set()
        assert (await answered.chunks())[-1]["type"] == "finish"


async def test_a_revoked_token_ends_its_streams(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        secret = host.add("phone", user="tests")
        body = {"id": "c", "messages": [{"role": "user", "parts": [{"type": "text", "text": "slow"}]}]}
        answered = await Answered(host).ask("POST", "/ui-stream", body, authorization=f"Bearer {secret}")
        await answered.until("text-delta")
        host.tokens.revoke("phone")
        assert [chunk for chunk in await answered.chunks() if chunk["type"] == "error"]


async def test_a_host_that_ends_ends_the_streams_in_order(tmp_path: Path) -> None:
    async with chatting(tmp_path) as host:
        chat = Chat(host)
        chat.user("slow")
        answered = await chat.post()
        await answered.until("text-delta")
        closing = asyncio.ensure_future(host.server.close())
        assert (await answered.chunks())[-1]["type"] in ("abort", "finish")
        await closing


async def test_a_token_has_a_limited_number_of_turns(tmp_path: Path) -> None:
    limits = msgspec.structs.replace(FREELY, connections=1)
    options = ServeOptions(limits=limits, ui_stream=True, folders=(str(tmp_path),))
    async with chatting(tmp_path, options=options) as host:
        chat = Chat(host)
        chat.user("slow")
        answered = await chat.post()
        await answered.until("text-delta")
        other = Chat(host, "chat-2")
        other.user("say hi")
        assert (await other.post()).status == 429
        answered.close()
