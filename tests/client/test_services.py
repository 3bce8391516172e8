"""Requests of an agent to its client, and the responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.client.fixtures import AgentLine, by_one_stream, client_and_agent, open_session

OPTIONS = [
    {"optionId": "yes", "name": "Yes", "kind": "allow_once"},
    {"optionId": "no", "name": "No", "kind": "reject_once"},
]


def _permission(line: AgentLine, request_id: object = 1) -> dict[str, Any]:
    return line.request(
        request_id,
        "session/request_permission",
        sessionId="s1",
        toolCall={"toolCallId": "t1", "title": "Delete it"},
        options=OPTIONS,
    )


async def _raise(request: object, session: object) -> str:
    raise RuntimeError("the dialog broke")


async def _choose_nothing(request: object, session: object) -> None:
    return None


async def _choose_unoffered(request: object, session: object) -> str:
    return "maybe"


@pytest.mark.rule(194, 255, 256, 259)
@pytest.mark.parametrize("service", [None, _raise, _choose_nothing, _choose_unoffered])
async def test_permission_fails_closed(service: Any) -> None:
    async with client_and_agent(permission=service) as (agent, line):
        await open_session(agent, line)
        line.send(_permission(line))
        assert (await line.next())["result"] == {"outcome": {"outcome": "cancelled"}}


@pytest.mark.rule(255, 260)
async def test_the_chosen_option_is_the_answer_and_the_state_knows_the_tool_call() -> None:
    async def choose(request: v1.RequestPermissionRequest, session: Any) -> str:
        assert request.tool_call.title == "Delete it"
        return "no"

    async with client_and_agent(permission=choose) as (agent, line):
        session = await open_session(agent, line)
        line.send(_permission(line))
        assert (await line.next())["result"] == {"outcome": {"outcome": "selected", "optionId": "no"}}
        assert session.state.tool_calls["t1"].title == "Delete it"


@pytest.mark.rule(194, 258)
async def test_a_cancel_answers_every_open_question_and_every_later_one_of_the_turn() -> None:
    open_questions = asyncio.Semaphore(0)

    class Forms:
        async def form(self, request: object, session: object) -> Any:
            open_questions.release()
            await asyncio.Event().wait()

    async def wait(request: object, session: object) -> str:
        open_questions.release()
        await asyncio.Event().wait()
        return "yes"

    async with client_and_agent(permission=wait, elicitation=Forms()) as (agent, line):
        session = await open_session(agent, line)
        prompting = asyncio.ensure_future(session.prompt("go"))
        prompt = await line.expect("session/prompt")
        schema = {"type": "object", "properties": {}}
        line.send(
            _permission(line, 1),
            _permission(line, 2),
            line.request(3, "elicitation/create", mode="form", message="?", sessionId="s1", requestedSchema=schema),
        )
        for _ in range(3):
            await open_questions.acquire()
        await session.cancel()
        answers = [await line.next() for _ in range(4)]
        line.send(_permission(line, 4))
        answers.append(await line.next())
        assert {answer["id"]: answer["result"] for answer in answers if "id" in answer} == {
            1: {"outcome": {"outcome": "cancelled"}},
            2: {"outcome": {"outcome": "cancelled"}},
            3: {"action": "cancel"},
            4: {"outcome": {"outcome": "cancelled"}},
        }
        line.send(line.result(prompt["id"], {"stopReason": "cancelled"}))
        await prompting


async def test_the_agent_may_withdraw_its_question() -> None:
    async def wait(request: object, session: object) -> str:
        await asyncio.Event().wait()
        return "yes"

    async with client_and_agent(permission=wait) as (agent, line):
        await open_session(agent, line)
        line.send(_permission(line, "p"), line.note("$/cancel_request", requestId="p"))
        assert (await line.next())["result"] == {"outcome": {"outcome": "cancelled"}}


GATED: list[tuple[str, dict[str, Any]]] = [
    ("fs/read_text_file", {"path": "/a"}),
    ("fs/write_text_file", {"path": "/a", "content": ""}),
    ("terminal/create", {"command": "ls"}),
    ("terminal/output", {"terminalId": "t"}),
    ("terminal/wait_for_exit", {"terminalId": "t"}),
    ("terminal/kill", {"terminalId": "t"}),
    ("terminal/release", {"terminalId": "t"}),
    ("elicitation/create", {"mode": "form", "message": "?", "requestedSchema": {}}),
    ("mcp/message", {"serverId": "m", "requestId": "r", "method": "x"}),
    ("_unknown", {}),
    ("session/teleport", {}),
]


@pytest.mark.rule(28, 61, 272, 282, 333, 341)
@pytest.mark.parametrize(("method", "params"), GATED)
async def test_what_was_not_offered_is_answered_method_not_found(method: str, params: dict[str, Any]) -> None:
    async with client_and_agent() as (agent, line):
        await open_session(agent, line)
        line.send(line.request(1, method, sessionId="s1", **params))
        assert (await line.next())["error"]["code"] == -32601


class Disk:
    """Files in memory."""

    def __init__(self) -> None:
        self.files = {"/a": "one\ntwo\n"}

    async def read_text_file(self, request: v1.ReadTextFileRequest, session: Any) -> str:
        if request.path not in self.files:
            raise RequestError.not_found("No such file", {"path": request.path})
        return self.files[request.path]

    async def write_text_file(self, request: v1.WriteTextFileRequest, session: Any) -> None:
        self.files[request.path] = request.content


@pytest.mark.rule(273, 277, 278, 279, 280)
@by_one_stream
async def test_files_are_read_and_written_by_the_service() -> None:
    disk = Disk()
    async with client_and_agent(files=disk) as (agent, line):
        await open_session(agent, line)
        line.send(line.request(1, "fs/read_text_file", sessionId="s1", path="/a"))
        assert (await line.next())["result"] == {"content": "one\ntwo\n"}
        line.send(line.request(2, "fs/write_text_file", sessionId="s1", path="/b", content="x"))
        assert (await line.next())["result"] == {}
        assert disk.files["/b"] == "x"
        line.send(line.request(3, "fs/read_text_file", sessionId="s1", path="/none"))
        assert (await line.next())["error"]["code"] == -32002
        line.send(line.request(4, "fs/read_text_file", sessionId="s1", path="relative"))
        assert (await line.next())["error"]["code"] == -32602
        line.send(line.request(5, "fs/read_text_file", sessionId="ghost", path="/a"))
        assert (await line.next())["error"]["data"] == {"sessionId": "ghost"}


class Shell:
    """Terminals that only remember what was asked."""

    def __init__(self) -> None:
        self.log: list[str] = []

    async def create(self, request: v1.CreateTerminalRequest, session: Any) -> str:
        self.log.append(f"create {request.command}")
        return "t1"

    async def output(self, request: v1.TerminalOutputRequest, session: Any) -> v1.TerminalOutputResponse:
        return v1.TerminalOutputResponse("hi", False, exit_status=v1.TerminalExitStatus(exit_code=0))

    async def wait_for_exit(
        self, request: v1.WaitForTerminalExitRequest, session: Any
    ) -> v1.WaitForTerminalExitResponse:
        return v1.WaitForTerminalExitResponse(exit_code=None, signal="SIGKILL")

    async def kill(self, request: v1.KillTerminalRequest, session: Any) -> None:
        self.log.append("kill")

    async def release(self, request: v1.ReleaseTerminalRequest, session: Any) -> None:
        self.log.append("release")


@pytest.mark.rule(283, 285, 288, 289, 290, 291, 293)
async def test_terminals_are_run_by_the_service() -> None:
    shell = Shell()
    async with client_and_agent(terminals=shell) as (agent, line):
        await open_session(agent, line)
        line.send(line.request(1, "terminal/create", sessionId="s1", command="ls"))
        assert (await line.next())["result"] == {"terminalId": "t1"}
        expected = {
            "output": {"output": "hi", "truncated": False, "exitStatus": {"exitCode": 0}},
            "wait_for_exit": {"exitCode": None, "signal": "SIGKILL"},
            "kill": {},
            "release": {},
        }
        for verb, result in expected.items():
            line.send(line.request(verb, f"terminal/{verb}", sessionId="s1", terminalId="t1"))
            assert (await line.next())["result"] == result
        assert shell.log == ["create ls", "kill", "release"]
        line.send(line.request(9, "terminal/create", sessionId="s1", command="ls", cwd="here"))
        assert (await line.next())["error"]["data"] == {"path": "$.cwd"}


class Answers:
    """Answers forms with accept, opens URLs, hears when they are done."""

    def __init__(self) -> None:
        self.completed: asyncio.Queue[str] = asyncio.Queue()

    async def form(self, request: v1.ElicitationFormMode, session: Any) -> v1.AcceptElicitation:
        return v1.AcceptElicitation(content={"name": "Ada"})

    async def url(self, request: v1.ElicitationUrlMode, session: Any) -> v1.DeclineElicitation:
        return v1.DeclineElicitation()

    async def complete(self, elicitation_id: str) -> None:
        self.completed.put_nowait(elicitation_id)


class FormsOnly:
    async def form(self, request: v1.ElicitationFormMode, session: Any) -> v1.CancelElicitation:
        return v1.CancelElicitation()


@pytest.mark.rule(299, 301, 312, 319, 325)
async def test_elicitation_goes_to_the_mode_that_was_advertised() -> None:
    answers = Answers()
    form = {"mode": "form", "message": "Name?", "sessionId": "s1", "requestedSchema": {"type": "object"}}
    url = {"mode": "url", "message": "Look", "sessionId": "s1", "elicitationId": "e1", "url": "https://example.org"}
    async with client_and_agent(elicitation=answers) as (agent, line):
        await open_session(agent, line)
        line.send(line.request(1, "elicitation/create", **form))
        assert (await line.next())["result"] == {"action": "accept", "content": {"name": "Ada"}}
        line.send(line.request(2, "elicitation/create", **url))
        assert (await line.next())["result"] == {"action": "decline"}
        line.send(
            line.note("elicitation/complete", elicitationId="unknown"),
            line.note("elicitation/complete", elicitationId="e1"),
            line.note("elicitation/complete", elicitationId="e1"),
        )
        assert await answers.completed.get() == "e1"
        assert answers.completed.empty()
    async with client_and_agent(elicitation=FormsOnly()) as (agent, line):
        await open_session(agent, line)
        line.send(line.request(1, "elicitation/create", **url))
        assert (await line.next())["error"]["code"] == -32602
        line.send(line.request(2, "elicitation/create", **{**form, "mode": "_telepathy"}))
        assert (await line.next())["error"]["code"] == -32602


@pytest.mark.rule(24, 29, 334)
async def test_unknown_notifications_are_ignored_and_known_ones_reach_their_handler() -> None:
    received: asyncio.Queue[Any] = asyncio.Queue()

    async with client_and_agent(extensions={"_auth/status": received.put}) as (agent, line):
        line.send(
            line.note("_who/knows", a=1),
            line.note("qwen/notify/session/mode-update", a=1),
            line.note("_auth/status", kind="key"),
        )
        assert await received.get() == {"kind": "key"}
        opening = asyncio.ensure_future(agent.new_session("/tmp"))
        assert (await line.next())["method"] == "session/new"
        opening.cancel()
