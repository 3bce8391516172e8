"""ACP agents as tools of other agents: real agents as processes, and a real agent of pydantic-ai that calls them."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import dragoman
from dragoman.errors import AgentExited, ConfigError, DragomanError
from dragoman.process import proctable
from dragoman.schema import v1
from dragoman.scripting import TaskProgress, as_tool
from dragoman.scripting.tools.task_agent import bounded
from dragoman.testing import linked, scripted_agent

pytest.importorskip("pydantic_ai")
from pydantic_ai import Agent
from pydantic_ai.exceptions import UnexpectedModelBehavior
from pydantic_ai.messages import ModelMessage, ModelRequest, RetryPromptPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel

SECONDS = 60.0
SCRIPTED = [sys.executable, "-m", "dragoman.testing.scripted_agent"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A user without settings."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))


async def plays(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
    """A model that gives each prompt to the first tool, and repeats what the tool returned."""
    last = messages[-1]
    assert isinstance(last, ModelRequest)
    for part in last.parts:
        if isinstance(part, ToolReturnPart | RetryPromptPart):
            yield f"{type(part).__name__}: {part.content}"
            return
    prompts = [part.content for part in last.parts if isinstance(part, UserPromptPart)]
    task = json.dumps({"task": prompts[-1]})
    yield {0: DeltaToolCall(info.function_tools[0].name, task, tool_call_id=f"c{len(messages)}")}


def caller(tool: Any) -> Agent[None, str]:
    return Agent(FunctionModel(stream_function=plays), tools=[tool.for_pydantic_ai()])


async def answer(agent: Agent[None, str], prompt: str, **options: Any) -> tuple[Any, list[Any]]:
    """What the calling agent answers, and the progress it reports."""
    events: list[Any] = []
    async with asyncio.timeout(SECONDS), agent.run_stream_events(prompt, **options) as stream:
        async for event in stream:
            events.append(event)
    progress = [event for event in events if getattr(event, "name", "") == "agent_tool_progress"]
    return events[-1].result, progress


async def test_an_agent_is_a_tool_of_pydantic_ai_with_progress_and_a_report(tmp_path: Path) -> None:
    tool = as_tool(SCRIPTED, name="coder", cwd=tmp_path)
    made = tool.for_pydantic_ai()
    assert (made.name, "answers with a report" in made.description) == ("coder", True)
    result, progress = await answer(caller(tool), "diff")
    assert result.output == "ToolReturnPart: [The agent gave no answer.]\n\n[Files changed: main.py, new.py]"
    assert [(each.message, each.tool_name) for each in progress] == [("Editing", "coder")]
    assert not children()


def children() -> list[int]:
    """Agents that this process has started and that still run."""
    found = []
    for pid in proctable.pids():
        with suppress(OSError):
            line = proctable.command_line(pid)
            if "scripted_agent" in line and proctable.status(pid).parent == os.getpid():
                found.append(pid)
    return found


async def test_calls_of_a_conversation_share_a_session_while_the_tool_is_kept(tmp_path: Path) -> None:
    async with as_tool(SCRIPTED, cwd=tmp_path, session="conversation") as tool:
        first = await tool.run("one", conversation="a")
        second = await tool.run("two", conversation="a")
        other = await tool.run("three", conversation="b")
        assert first.session_id == second.session_id != other.session_id
        assert (first.text, second.text, other.text) == ("one", "two", "three")
        assert len(children()) <= 1
    assert not children()


async def test_runs_of_pydantic_ai_with_one_history_are_one_conversation(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        agent = caller(as_tool(remote, cwd=tmp_path, session="conversation"))
        result, _ = await answer(agent, "say one")
        again, _ = await answer(agent, "say two", message_history=result.all_messages())
        assert again.output == "ToolReturnPart: two"
        assert len(remote._connection.links) == 1
        await answer(agent, "say three")
        assert len(remote._connection.links) == 2


async def test_each_call_is_a_session_of_its_own_by_default(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        tool = as_tool(remote, cwd=tmp_path)
        ids = {(await tool.run("hi", conversation="a")).session_id for _ in range(2)}
        assert len(ids) == 2


async def test_without_a_permission_service_everything_is_refused_and_the_result_says_so(tmp_path: Path) -> None:
    result = await as_tool(SCRIPTED, cwd=tmp_path).run("permission notes.txt")
    assert result.refused == ("Deleting notes.txt",)
    assert str(result) == "not allowed (reject)\n\n[Not permitted: Deleting notes.txt]"


@pytest.mark.parametrize("kind", ["rules", "callback", "by name"])
async def test_rules_or_a_callback_decide_what_the_agent_may_do(kind: str, tmp_path: Path) -> None:
    asked: list[Any] = []

    def allow(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.append(request.tool_call.title)
        return "always"

    async def by_name(options: Any, tool_call: Any) -> str:
        asked.append(tool_call.title)
        return str(options[1].option_id)

    chosen = {"rules": dragoman.rules("delete:notes.txt"), "callback": allow, "by name": by_name}[kind]
    tool = as_tool(SCRIPTED, cwd=tmp_path, permission=chosen)
    result = await tool.run("permission notes.txt")
    assert result.text == ("allowed (allow)" if kind == "rules" else "allowed (always)")
    assert asked == ([] if kind == "rules" else ["Deleting notes.txt"])
    assert result.refused == ()


async def test_a_cancelled_call_ends_the_turn_and_the_process(tmp_path: Path) -> None:
    working = asyncio.Event()

    async def report(progress: TaskProgress) -> None:
        working.set()

    task = asyncio.ensure_future(as_tool(SCRIPTED, cwd=tmp_path).run("slow", on_progress=report))
    async with asyncio.timeout(SECONDS):
        await working.wait()
        assert children()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not children()


async def test_a_cancelled_run_of_pydantic_ai_cancels_the_turn_and_keeps_the_agent(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        tool = as_tool(remote, cwd=tmp_path)
        running = asyncio.Event()

        async def run() -> None:
            async with caller(tool).run_stream_events("slow") as stream:
                async for event in stream:
                    if getattr(event, "name", "") == "agent_tool_progress":
                        running.set()

        task = asyncio.ensure_future(run())
        async with asyncio.timeout(SECONDS):
            await running.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        (link,) = remote._connection.links.values()
        assert link.state.stop_reason == "cancelled"
        assert (await tool.run("say on")).text == "on"


async def test_a_call_that_takes_too_long_is_cancelled_and_the_model_is_shown_why(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        tool = as_tool(remote, name="coder", cwd=tmp_path, timeout=0.1)
        result, _ = await answer(caller(tool), "slow")
        assert result.output.endswith(": coder failed: it took too long")


async def test_an_agent_that_crashes_is_an_answer_for_the_model_and_is_started_again(tmp_path: Path) -> None:
    async with as_tool(SCRIPTED, name="coder", cwd=tmp_path) as tool:
        result, _ = await answer(caller(tool), "crash 3")
        assert ": coder failed: the agent exited with code 3" in result.output
        with pytest.raises(AgentExited):
            await tool.run("crash")
        assert (await tool.run("say back")).text == "back"
    assert not children()


async def test_an_agent_that_refuses_the_prompt_fails_with_its_words(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        with pytest.raises(DragomanError, match="As you asked"):
            await as_tool(remote, cwd=tmp_path).run("error")
        result = await as_tool(remote, cwd=tmp_path).run("stop max_tokens")
        assert str(result).endswith("[The agent did not finish: max_tokens]")


async def test_long_results_keep_their_beginning_and_end(tmp_path: Path) -> None:
    async with linked(scripted_agent()) as remote:
        result = await as_tool(remote, cwd=tmp_path, max_characters=500).run("say " + "begin " + "x " * 3000 + "end")
        assert len(result.text) <= 500
        assert result.text.startswith("begin x")
        assert result.text.endswith("end")
        assert "characters or more left out" in result.text
    assert bounded("short", 200) == "short"


async def test_an_agent_that_cannot_open_its_sessions_again_says_what_to_do(tmp_path: Path) -> None:
    program = tmp_path / "forgetful.py"
    program.write_text(
        "from dragoman import Agent\nagent = Agent('forgetful')\n"
        "@agent.prompt\nasync def reply(turn):\n    await turn.say('hi')\nagent.run()\n"
    )
    tool = as_tool([sys.executable, program], cwd=tmp_path, session="conversation")
    assert tool.name == "forgetful"
    assert (await tool.run("one", conversation="a")).text == "hi"
    with pytest.raises(DragomanError, match="forgetful cannot open a session again in another process"):
        await tool.run("two", conversation="a")
    assert (await tool.run("three", conversation="a")).text == "hi"


async def test_wrong_arguments_are_refused_with_what_to_write(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'call' or 'conversation'"):
        as_tool("x", session="always")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="200 or more"):
        as_tool("x", max_characters=1)
    with pytest.raises(ConfigError, match="no-such-agent"):
        await as_tool("no-such-agent", cwd=tmp_path).run("hi")
    async with linked(scripted_agent()) as remote:
        with pytest.raises(ConfigError, match="permission: give services to the connection"):
            as_tool(remote, permission=dragoman.allow_once)


async def test_a_wrong_agent_is_an_error_of_the_program_not_of_the_model(tmp_path: Path) -> None:
    agent = caller(as_tool("no-such-agent", cwd=tmp_path))
    with pytest.raises((ConfigError, UnexpectedModelBehavior)) as failed:
        await answer(agent, "hi")
    assert isinstance(failed.value, ConfigError)


async def test_an_agent_by_url_is_a_tool(tmp_path: Path) -> None:
    from tests.host.serving.kit import served

    async with served(scripted_agent, tmp_path) as host:
        tool = as_tool(f"ws://127.0.0.1:{host.port}/acp", token=host.secret, cwd=tmp_path, session="conversation")
        first = await tool.run("say one", conversation="a")
        second = await tool.run("say two", conversation="a")
        assert (first.session_id, second.text) == (second.session_id, "two")
