"""An agent as an MCP server, used by the official client; `tests/cli/test_mcp_serve.py` starts it as a program."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp")
import mcp_types as types
from mcp import Client, MCPError

from dragoman.policy import parse_rule
from dragoman.scripting.tools.mcp_server import AgentMcpServer

SECONDS = 60.0
SCRIPTED = (sys.executable, "-m", "dragoman.testing.scripted_agent")
ERAS = ["legacy", "2026-07-28"]


class User:
    """Answers questions, and keeps them."""

    def __init__(self, *decisions: str | None) -> None:
        self.decisions = list(decisions)
        self.asked: list[Any] = []

    async def __call__(self, context: Any, params: Any) -> types.ElicitResult:
        self.asked.append(params)
        decision = self.decisions.pop(0)
        if decision is None:
            return types.ElicitResult(action="decline")
        return types.ElicitResult(action="accept", content={"decision": decision})


@asynccontextmanager
async def connected(
    folder: Path,
    *,
    mode: str = "2026-07-28",
    user: Any = None,
    allow: str | None = None,
    deny: str | None = None,
    agent: tuple[str, ...] = SCRIPTED,
) -> AsyncIterator[Client]:
    rules = [parse_rule(text, action, "flag", "test") for text, action in ((deny, "deny"), (allow, "allow")) if text]
    async with (
        asyncio.timeout(SECONDS),
        AgentMcpServer(agent, name="coder", cwd=str(folder), rules=rules) as server,
        Client(server.server, mode=mode, elicitation_callback=user) as client,
    ):
        yield client


def text_of(result: types.CallToolResult) -> str:
    (content,) = result.content
    assert isinstance(content, types.TextContent)
    return content.text


async def prompt(client: Client, task: str, **more: Any) -> types.CallToolResult:
    return await client.call_tool("prompt", {"task": task, **more})


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_lists_the_tools_asks_and_continues_a_session(mode: str, tmp_path: Path) -> None:
    async with connected(tmp_path, mode=mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert set(tools) == {"prompt", "result", "cancel"}
        assert "coder" in (tools["prompt"].description or "")
        first = await prompt(client, "say hello")
        facts = first.structured_content
        assert (facts["status"], facts["text"], facts["stop_reason"]) == ("done", "hello", "end_turn")
        assert text_of(first) == f"hello\n\n[session_id: {facts['session_id']}]"
        again = await prompt(client, "diff", session_id=facts["session_id"])
        assert again.structured_content["session_id"] == facts["session_id"]
        assert again.structured_content["files"] == ["main.py", "new.py"]
        other = await prompt(client, "hi")
        assert other.structured_content["session_id"] != facts["session_id"]
        unknown = await prompt(client, "hi", session_id="odd")
        assert unknown.is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_progress_is_reported_while_the_agent_works(mode: str, tmp_path: Path) -> None:
    seen: list[tuple[float, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, message))

    async with connected(tmp_path, mode=mode) as client:
        task = asyncio.ensure_future(client.call_tool("prompt", {"task": "slow"}, progress_callback=report))
        while not seen:  # noqa: ASYNC110 - a callback is all there is
            await asyncio.sleep(0.01)
        assert seen == [(1, "Waiting")]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await prompt(client, "say on")).structured_content["text"] == "on"


@pytest.mark.parametrize("mode", ERAS)
async def test_permission_is_asked_through_the_client_and_its_choice_counts(mode: str, tmp_path: Path) -> None:
    always = "Always allow (yes, always; the agent remembers it)"
    user = User("Allow", always, None, "Reject")
    async with connected(tmp_path, mode=mode, user=user) as client:
        texts = [(await prompt(client, "permission notes.txt")).structured_content for _ in range(4)]
    assert [each["text"] for each in texts] == [
        "allowed (allow)",
        "allowed (always)",
        "not allowed (reject)",
        "not allowed (reject)",
    ]
    assert [bool(each["refused"]) for each in texts] == [False, False, True, True]
    question = user.asked[0]
    assert question.message.splitlines()[0] == "coder asks for permission: Delete notes.txt"
    assert "notes.txt" in question.message.splitlines()[1]
    assert "agent  calls it: Deleting notes.txt" in question.message.splitlines()
    field = question.requested_schema["properties"]["decision"]
    assert field["enum"] == ["Allow", always, "Reject", "Never allow (no, never; the agent remembers it)"]


@pytest.mark.parametrize("mode", ERAS)
async def test_a_client_that_cannot_ask_leaves_it_to_the_rules(mode: str, tmp_path: Path) -> None:
    async with connected(tmp_path, allow="delete:a.txt", mode=mode) as client:
        allowed = await prompt(client, "permission a.txt")
        assert allowed.structured_content["text"] == "allowed (allow)"
        refused = await prompt(client, "permission b.txt")
        assert refused.structured_content["text"] == "not allowed (reject)"
        assert refused.structured_content["refused"] == ["Deleting b.txt"]
        assert "[Not permitted: Deleting b.txt]" in text_of(refused)


async def test_rules_decide_before_the_user_is_asked(tmp_path: Path) -> None:
    user = User()
    async with connected(tmp_path, deny="delete:**", user=user) as client:
        refused = await prompt(client, "permission a.txt")
        assert refused.structured_content["text"] == "not allowed (reject)"
    assert user.asked == []


async def test_an_answer_that_is_not_a_choice_is_a_refusal(tmp_path: Path) -> None:
    async with connected(tmp_path, user=User("whatever")) as client:
        assert (await prompt(client, "permission a")).structured_content["text"] == "not allowed (reject)"


async def test_a_client_that_drives_the_rounds_itself_finds_its_turn_again(tmp_path: Path) -> None:
    async with connected(tmp_path, user=User()) as client:
        session = client.session
        required = await session.call_tool("prompt", {"task": "permission a"}, allow_input_required=True)
        assert isinstance(required, types.InputRequiredResult)
        assert required.input_requests
        (id,) = required.input_requests
        again = await session.call_tool(
            "prompt", {"task": "permission a"}, request_state=required.request_state, allow_input_required=True
        )
        assert isinstance(again, types.InputRequiredResult), "a question without an answer is asked again"
        answer = types.ElicitResult(action="accept", content={"decision": "Allow"})
        done = await session.call_tool(
            "prompt", {"task": "permission a"}, request_state=required.request_state, input_responses={id: answer}
        )
        assert done.structured_content["text"] == "allowed (allow)"
        forged = await session.call_tool("prompt", {"task": "permission a"}, request_state="forged")
        assert forged.is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_a_task_can_be_started_waited_for_and_cancelled(mode: str, tmp_path: Path) -> None:
    async with connected(tmp_path, mode=mode, user=User("Allow")) as client:
        started = await prompt(client, "permission a", wait=False)
        assert started.structured_content["status"] == "running"
        named = {"session_id": started.structured_content["session_id"]}
        done = await client.call_tool("result", named)
        assert done.structured_content["text"] == "allowed (allow)"
        assert (await client.call_tool("result", named)).structured_content == done.structured_content
        slow = await prompt(client, "slow", wait=False, **named)
        assert slow.structured_content["session_id"] == named["session_id"]
        busy = await prompt(client, "say hi", **named)
        assert (busy.is_error, "runs in this session" in text_of(busy)) == (True, True)
        waiting = asyncio.ensure_future(client.call_tool("result", named))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert (await prompt(client, "say hi", **named)).is_error, "giving up a wait does not end the task"
        ended = await client.call_tool("cancel", named)
        assert ended.structured_content == {"status": "failed", "text": "The task was cancelled.", **named}
        assert (await prompt(client, "say on", **named)).structured_content["text"] == "on"
        assert (await client.call_tool("result", {"session_id": "odd"})).is_error


async def test_an_agent_that_crashes_is_reported_and_started_again(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        crashed = await prompt(client, "crash 3")
        assert crashed.is_error
        assert text_of(crashed).startswith("coder failed: the agent exited with code 3")
        assert (await prompt(client, "say back")).structured_content["text"] == "back"
        failed = await prompt(client, "error")
        assert (failed.is_error, "As you asked" in text_of(failed)) == (True, True)


async def test_bad_calls_are_answered_with_what_is_wrong(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        for arguments in ({}, {"task": " "}, {"task": 3}, {"task": "x", "session_id": 3}):
            result = await client.session.call_tool("prompt", arguments)
            assert result.is_error
        with pytest.raises(MCPError, match="no tool"):
            await client.session.call_tool("odd", {})
        assert (await prompt(client, "say on")).structured_content["text"] == "on"


async def test_an_agent_that_does_not_start_is_an_error_of_the_call(tmp_path: Path) -> None:
    async with connected(tmp_path, agent=(sys.executable, "-c", "raise SystemExit(7)")) as client:
        result = await prompt(client, "hi")
        assert (result.is_error, "7" in text_of(result)) == (True, True)
