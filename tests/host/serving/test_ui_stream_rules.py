"""What an endpoint for AI SDK clients refuses: broken posts, changed histories, foreign tokens and pages."""

from __future__ import annotations

import asyncio
import io
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import StoreError
from dragoman.host.serving.access_log import AccessLog
from dragoman.host.serving.server import ServeOptions
from dragoman.host.serving.ui_stream import endpoint
from tests.host.kit import records
from tests.host.serving.chat_kit import Answered, Chat, chatting
from tests.host.serving.kit import FREELY
from tests.host.test_sessions import Steps

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
        assert await records(host.log) == []
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


async def test_a_message_that_the_host_refused_is_sent_with_the_next(tmp_path: Path) -> None:
    steps = Steps()
    async with chatting(tmp_path, steps) as host:
        chat = Chat(host)
        await chat.send("one")
        host.host.store_error = StoreError("the disk is full")
        reader = await chat.send("two")
        assert "disk is full" in str(reader.error)
        host.host.store_error = None
        await chat.send("three")
        assert steps.prompts == ["one", "twothree"]


async def test_the_access_log_does_not_name_chats(tmp_path: Path) -> None:
    lines = io.StringIO()
    async with chatting(tmp_path, access_log=AccessLog(lines)) as host:
        await Chat(host, "secret-chat").send("say hi")
        assert (await Answered(host).ask("GET", "/ui-stream/secret-chat/stream")).status == 204
        written = lines.getvalue()
    assert '"/ui-stream/..."' in written
    assert "secret-chat" not in written


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
