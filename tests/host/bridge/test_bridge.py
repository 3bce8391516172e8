"""What an editor sees of a bridge when the line is cut at the worst moments, and when there is none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.host.serving.server import ServeOptions
from tests.host.bridge.kit import Editor, editor
from tests.host.kit import records
from tests.host.serving.kit import FREELY, SECONDS, CuttingProxy, Served, served
from tests.host.test_sessions import Steps
from tests.transports.remote_kit import TOKEN, Serving, remote_server

END = {"stopReason": "end_turn"}


async def until(is_true: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not is_true():  # noqa: ASYNC110 - counters and notes have no event
            await asyncio.sleep(0.005)


class Line:
    """An editor, a proxy that cuts its line, and a host."""

    def __init__(self, steps: Steps, host: Served, proxy: CuttingProxy, line: Editor, folder: Path) -> None:
        self.steps = steps
        self.host = host
        self.proxy = proxy
        self.editor = line
        self.folder = str(folder)

    async def event(self, kind: str) -> None:
        """Wait until the log has an event of this kind."""
        counter = {"end": "dragoman_turns_ended_total", "answer": "dragoman_answers_total"}[kind]
        await until(lambda: self.host.metrics.value(counter))

    async def go_down(self) -> None:
        """Cut the line; it stays cut."""
        self.proxy.is_down = True
        self.proxy.cut()
        await until(lambda: any("connecting again" in note for note in self.editor.notes))

    def come_back(self) -> None:
        self.proxy.is_down = False


@asynccontextmanager
async def bridged(folder: Path, scheme: str = "ws", **options: Any) -> AsyncIterator[Line]:
    steps = Steps()
    async with CuttingProxy() as proxy:
        chosen = ServeOptions(hosts=(f"127.0.0.1:{proxy.port}",), limits=FREELY, drain_seconds=0.0)
        async with served(steps, folder, options=chosen) as host:
            proxy.target = host.port
            async with editor(f"{scheme}://127.0.0.1:{proxy.port}/acp", host.secret, **options) as line:
                await line.hello({"session": {"notices": {}}})
                yield Line(steps, host, proxy, line, folder)


def texts(messages: list[dict[str, Any]]) -> list[str]:
    return [
        message["params"]["update"]["content"]["text"]
        for message in messages
        if message.get("method") == "session/update"
        and message["params"]["update"]["sessionUpdate"] == "agent_message_chunk"
    ]


async def running(event: asyncio.Event) -> None:
    async with asyncio.timeout(SECONDS):
        await event.wait()


async def test_the_editor_is_offered_no_close_and_sees_nothing_of_the_bridge(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        again = await line.editor.hello()
        assert "close" not in again["agentCapabilities"]["sessionCapabilities"]
        assert again["agentCapabilities"]["loadSession"] is True
        session = await line.editor.open(line.folder)
        before, answer = await line.editor.answer_to(line.editor.prompt(session))
        assert answer["result"] == END
        assert all("dragoman" not in str(message) for message in [*before, answer])


async def test_a_turn_that_ended_while_the_line_was_cut_is_answered_once(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "wait")
        assert await line.editor.texts(1) == ["one "]
        await line.go_down()
        line.steps.go.set()
        await line.event("end")
        line.come_back()
        before, answer = await line.editor.answer_to(request)
        assert texts(before) == ["two"]
        assert answer["result"] == END
        updates, answer = await line.editor.turn(session, "again")
        assert [each["content"]["text"] for each in updates] == ["one ", "two"]
        assert line.steps.prompts == ["wait", "again"]


async def test_a_prompt_that_was_sent_while_the_line_was_cut_runs_when_it_is_back(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        await line.go_down()
        request = line.editor.prompt(session, "late")
        line.come_back()
        before, answer = await line.editor.answer_to(request)
        assert texts(before) == ["one ", "two"]
        assert answer["result"] == END
        assert line.steps.prompts == ["late"]


async def test_a_dialog_that_is_open_stays_open_and_its_answer_is_kept(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "ask")
        while "id" not in (asked := await line.editor.next()):
            pass
        assert asked["method"] == "session/request_permission"
        await line.go_down()
        option = asked["params"]["options"][0]["optionId"]
        line.editor.send(line.editor.result_of(asked, {"outcome": {"outcome": "selected", "optionId": option}}))
        line.come_back()
        before, answer = await line.editor.answer_to(request)
        assert answer["result"] == END
        assert [message for message in before if "id" in message] == []
        assert line.steps.answers == [True]


async def test_a_dialog_is_not_opened_again_by_a_cut(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "ask")
        while "id" not in (asked := await line.editor.next()):
            pass
        for _ in range(3):
            line.proxy.cut()
            await line.proxy.connected()
        option = asked["params"]["options"][0]["optionId"]
        line.editor.send(line.editor.result_of(asked, {"outcome": {"outcome": "selected", "optionId": option}}))
        before, answer = await line.editor.answer_to(request)
        assert answer["result"] == END
        assert [message for message in before if "id" in message] == []


async def test_a_dialog_that_was_answered_elsewhere_is_closed(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "ask")
        while "id" not in (asked := await line.editor.next()):
            pass
        await line.go_down()
        async with editor(line.host.endpoint.url, line.host.secret) as phone:
            await phone.hello()
            phone.ask("session/load", sessionId=session, cwd=line.folder, mcpServers=[])
            while "id" not in (there := await phone.next()) or "method" not in there:
                pass
            option = there["params"]["options"][0]["optionId"]
            phone.send(phone.result_of(there, {"outcome": {"outcome": "selected", "optionId": option}}))
            await line.event("answer")
        line.come_back()
        before, answer = await line.editor.answer_to(request)
        assert answer["result"] == END
        withdrawn = [message["params"] for message in before if message.get("method") == "$/cancel_request"]
        assert withdrawn == [{"requestId": asked["id"]}]


async def test_a_cancel_while_the_line_was_cut_reaches_the_prompt(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "wait")
        await running(line.steps.started)
        await line.go_down()
        line.editor.notify("session/cancel", sessionId=session)
        line.come_back()
        _, answer = await line.editor.answer_to(request)
        assert answer["result"] == {"stopReason": "cancelled"}


async def test_a_cancel_of_a_prompt_that_was_never_sent_is_answered_at_once(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        await line.go_down()
        request = line.editor.prompt(session, "never")
        line.editor.notify("session/cancel", sessionId=session)
        _, answer = await line.editor.answer_to(request)
        assert answer["result"] == {"stopReason": "cancelled"}
        line.come_back()
        await line.editor.turn(session, "later")
        assert line.steps.prompts == ["later"]


async def test_a_load_that_is_cut_shows_the_history_once(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        for number in range(5):
            await line.editor.turn(session, f"prompt {number}")
        async with editor(f"ws://127.0.0.1:{line.proxy.port}/acp", line.host.secret) as other:
            await other.hello()
            request = other.ask("session/load", sessionId=session, cwd=line.folder, mcpServers=[])
            first = await other.next()
            line.proxy.cut()
            before, answer = await other.answer_to(request)
            assert "result" in answer
            shown = [message["params"]["update"]["content"]["text"] for message in [first, *before]]
            assert shown == [text for number in range(5) for text in (f"prompt {number}", "one two")]


async def test_without_a_line_for_long_open_prompts_fail_with_what_is_known(tmp_path: Path) -> None:
    async with bridged(tmp_path, give_up_seconds=0.3) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "wait")
        await running(line.steps.started)
        await line.go_down()
        _, answer = await line.editor.answer_to(request)
        assert answer["error"]["code"] == -32603
        assert answer["error"]["data"]["maybeExecuted"] is True
        assert "may still run there" in answer["error"]["message"]


async def test_a_token_that_was_revoked_fails_what_is_open_with_what_to_do(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        request = line.editor.prompt(session, "wait")
        await running(line.steps.started)
        line.host.tokens.revoke("tests")
        _, answer = await line.editor.answer_to(request)
        assert "did not accept the token (401)" in answer["error"]["message"]
        assert "401" in (await line.editor.error("session/list"))["message"]


async def test_a_session_that_is_gone_is_reported_to_what_waits_for_it(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        session = await line.editor.open(line.folder)
        await line.go_down()
        async with editor(line.host.endpoint.url, line.host.secret) as other:
            await other.hello()
            assert await other.result("session/delete", sessionId=session) == {}
        request = line.editor.prompt(session, "lost")
        line.come_back()
        _, answer = await line.editor.answer_to(request)
        assert answer["error"]["code"] == -32002


@pytest.mark.parametrize("scheme", ["ws", "http"])
async def test_the_first_connection_that_fails_is_the_answer_to_initialize(scheme: str, tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host:
        url = f"{scheme}://127.0.0.1:{host.port}/acp"
        async with editor(url, "wrong") as line:
            error = await line.error("initialize", protocolVersion=1)
            assert "did not accept the token (401)" in error["message"]
        async with editor(f"{url}/nothing", host.secret) as line:
            error = await line.error("initialize", protocolVersion=1)
            assert "there is no agent at" in error["message"]
    async with editor(url, host.secret) as line:
        error = await line.error("initialize", protocolVersion=1)
        assert "no host listens at" in error["message"]
        assert "dragoman serve" in error["message"]


async def test_an_agent_that_is_not_a_host_ends_with_its_line_and_says_so() -> None:
    steps = Steps()
    serving = Serving(steps())
    async with remote_server(serving) as (_, port), CuttingProxy() as proxy:
        proxy.target = port
        url = f"ws://127.0.0.1:{port}/acp"
        async with editor(url, TOKEN) as line:
            await line.hello()
            session = await line.open("/tmp")
            _, answer = await line.turn(session)
            assert answer["result"] == END
            request = line.prompt(session, "wait")
            assert await line.texts(1) == ["one "]
            serving.opened[0].transport.shut_down("gone")
            _, answer = await line.answer_to(request)
            assert "does not keep sessions" in answer["error"]["message"]
            async with asyncio.timeout(SECONDS):
                assert await line.running == 4
    await serving.over()


async def test_before_initialize_and_garbage_are_refused(tmp_path: Path) -> None:
    async with served(Steps(), tmp_path) as host, editor(host.endpoint.url, host.secret) as line:
        error = await line.error("session/list")
        assert error["code"] == -32600
        line.send(b"{broken\n", b"[1]\n")
        assert (await line.next())["error"]["code"] == -32700
        assert (await line.next())["error"]["code"] == -32600


async def test_a_session_whose_answer_was_lost_is_not_opened_twice(tmp_path: Path) -> None:
    async with bridged(tmp_path) as line:
        line.proxy.is_mute = True
        changes = line.host.log.changes("tests")
        asked = line.editor.ask("session/new", cwd=line.folder, mcpServers=[])
        async with asyncio.timeout(30):
            _ = await anext(changes)
        line.proxy.is_mute = False
        line.proxy.cut()
        _, answer = await line.editor.answer_to(asked)
        (record,) = await records(line.host.log)
        assert answer["result"]["sessionId"] == record.id
        assert line.host.source.starts == 1


async def test_methods_of_a_host_are_not_sent_to_an_agent_that_is_none() -> None:
    async with remote_server(Serving(Steps()())) as (_, port), editor(f"ws://127.0.0.1:{port}/acp", TOKEN) as line:
        await line.hello()
        assert (await line.error("_dragoman/ledger", sessionId="x"))["code"] == -32601
