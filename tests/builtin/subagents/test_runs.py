"""Runs of subagents as an editor sees them: answers, permission, cancellation, usage, resuming, the background."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.limits import TurnLimits
from dragoman.client import Session
from dragoman.schema import v1
from dragoman.state import ToolCallState
from dragoman.store.sessions import Store
from tests.builtin.http_service import Answers, Service, ask, recording_model


def task(agent: str, *script: str, **arguments: Any) -> str:
    """The line of a script that starts a subagent with a script of its own."""
    given = {"description": "the task", "agent": agent, "prompt": "\n".join(script), **arguments}
    return f"call task {json.dumps(given)}"


def calls(session: Session) -> list[ToolCallState]:
    return list(session.state.tool_calls.values())


def text_of(call: ToolCallState) -> str:
    blocks = [item.content for item in call.content if isinstance(item, v1.Content)]
    return "\n".join(block.text for block in blocks if isinstance(block, v1.TextContent))


def output_of(call: ToolCallState) -> str:
    assert isinstance(call.raw_output, dict), call
    return str(call.raw_output["text"])


def settings(service: Service, members: dict[str, Any]) -> None:
    service.home.mkdir(exist_ok=True)
    (service.home / "settings.json").write_text(json.dumps(members))


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110 - what another program writes cannot be waited for otherwise
            await asyncio.sleep(0.01)


async def test_a_run_is_one_tool_call_with_the_answer_as_its_output(tmp_path: Path) -> None:
    service = Service(tmp_path)
    (service.project / "a.txt").write_text("the content\n")
    async with service.session() as session:
        await ask(session, task("explore", "read a.txt", "say it says {result}"), "say {result}")
        (call,) = calls(session)
        assert (call.title, call.kind, call.status) == ("explore: the task", "other", "completed")
        assert "it says" in output_of(call)
        assert "the content" in output_of(call)
        assert "[task_1, explore: 1 tool call" in output_of(call)
        assert "✓ Read" in text_of(call)  # what it called is shown to the user, and not to the model
        assert "✓ Read" not in output_of(call)
        assert "the content" in session.state.text


async def test_runs_of_one_step_work_at_the_same_time(tmp_path: Path) -> None:
    service = Service(tmp_path)
    user = Answers("allow_once")
    async with service.session(permission=user) as session:
        # Each waits for the file that the other one writes.
        first = task("build", "write one.txt 1", "run until [ -e two.txt ]; do sleep 0.02; done", "say first done")
        second = task("build", "write two.txt 2", "run until [ -e one.txt ]; do sleep 0.02; done", "say second done")
        async with asyncio.timeout(30):
            await ask(session, first, f"& {second}", "say end")
        runs = [call for call in calls(session) if call.kind == "other"]
        assert ["done" in output_of(call) for call in runs] == [True, True]
        assert {output_of(call).partition(",")[0].rpartition("[")[2] for call in runs} == {"task_1", "task_2"}


async def test_a_question_of_a_subagent_names_it_and_is_answered_through_the_session(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once", "reject_once")
    async with service.session(permission=user) as session:
        await ask(session, task("build", "write a.txt A", "write b.txt B", "say {result}"), "say {result}")
        first, second = user.asked
        assert first.session_id == session.id
        assert str(first.tool_call.title).startswith("build: ")
        assert first.tool_call.kind == "edit"
        assert first.tool_call.content
        shown = {call.id: call for call in calls(session)}
        assert shown[first.tool_call.tool_call_id].status == "completed"
        assert shown[second.tool_call.tool_call_id].status == "failed"
        assert "The user refused this call" in session.state.text
    assert (service.project / "a.txt").read_text() == "A"
    assert not (service.project / "b.txt").exists()


@pytest.mark.parametrize("agent", ["explore", "plan"])
async def test_an_agent_that_reads_changes_nothing_even_in_mode_full(tmp_path: Path, agent: str) -> None:
    service, user = Service(tmp_path, mode="full"), Answers("allow_once")
    async with service.session(permission=user) as session:
        script = task(agent, "write a.txt A", "run touch b.txt", "say {result}")
        await ask(session, script, "say {result}")
        assert "only reads" in session.state.text
    assert user.asked == []
    assert list(service.project.iterdir()) == []


async def test_a_deny_of_the_user_holds_for_subagents(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    settings(service, {"rules": {"deny": ["edit:secret.txt"]}})
    async with service.session("allow_once") as session:
        await ask(session, task("build", "write secret.txt x", "say {result}"), "say {result}")
        assert "Not permitted" in session.state.text
    assert not (service.project / "secret.txt").exists()


async def test_a_mode_that_the_user_chooses_meanwhile_applies_to_the_running_subagent(tmp_path: Path) -> None:
    service, user = Service(tmp_path, mode="full"), Answers("allow_once")
    async with service.session(permission=user) as session:
        script = task("build", "run until [ -e go ]; do sleep 0.02; done", "write a.txt A", "say {result}")
        turn = asyncio.ensure_future(ask(session, script))
        await until(lambda: any("until [" in text_of(call) for call in calls(session)))
        await session.set_mode("plan")
        (service.project / "go").touch()
        await turn
        (call,) = calls(session)
        assert "mode plan only reads" in output_of(call)
    assert not (service.project / "a.txt").exists()


async def test_cancelling_the_turn_cancels_the_subagent_and_stores_what_it_did(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        script = task("build", "write a.txt A", "run sleep 60", "write b.txt B")
        turn = session.prompt(script)
        while not any("sleep 60" in text_of(call) for call in calls(session)):
            await anext(turn)
        await turn.cancel()
        assert (await turn).stop_reason == "cancelled"
        (call,) = calls(session)
        assert call.status == "failed"
    store = await Store.open(service.settings.store)
    (child,) = await store.children(session.id)
    _, reply = await store.messages(child.id)
    assert reply.metadata["cancelled"] is True
    assert [part.tool_state for part in reply.parts if part.tool_call_id] == ["output-available", "output-error"]
    assert await store.live_log(child.id) is None
    await store.close()


async def test_what_a_subagent_uses_counts_in_the_answer_and_against_the_limits(tmp_path: Path) -> None:
    service = Service(tmp_path, limits=TurnLimits(tokens=60, retry_seconds=(0.0,)))
    async with service.session() as session:
        response = await session.prompt("\n".join([task("explore", f"say {'many words ' * 30}"), "say not reached"]))
        assert response.stop_reason == "max_tokens"
        assert response.meta
        assert response.meta["dragoman"]["usage"]["outputTokens"] > 20
        assert "not reached" not in session.state.text


async def test_a_subagent_has_a_limit_of_steps_and_says_so(tmp_path: Path) -> None:
    service = Service(tmp_path)
    agents = tmp_path / "home" / "agents"
    agents.mkdir(parents=True)
    (agents / "short.md").write_text("---\ndescription: x\nsteps: 2\n---\nBe quick.\n")
    async with service.session() as session:
        await ask(session, task("short", "glob a", "glob b", "glob c", "say never"), "say {result}")
        assert "ended by the limit of steps" in session.state.text
        assert "never" not in session.state.text


async def test_a_task_is_resumed_with_its_conversation_also_by_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_model(monkeypatch)
    async with Service(tmp_path).session() as session:
        await ask(session, task("explore", "say the first answer"), "say {result}")
    async with Service(tmp_path).client() as agent:
        again = await agent.load_session(session.id, tmp_path / "project")
        await ask(again, task("", "say the second", id="task_1"), "say {result}")
        assert "the second" in again.state.text
        resumed = next(each for each in model.requests if each.session_id != again.id and len(each.messages) == 4)
        assert "the first answer" in str(resumed.messages[1].parts)
        # That of the subagent is not listed.
        assert [info.session_id async for info in agent.sessions()] == [session.id]
        await agent.delete_session(session.id)
    store = await Store.open(tmp_path / "home" / "sessions.db")
    assert await store.children(session.id) == ()
    await store.close()


async def test_subagents_start_others_two_levels_deep_and_not_deeper(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        inner = task("build", "say too deep")
        middle = task("build", inner, "say middle {result}")
        await ask(session, task("build", middle, "say outer {result}"), "say {result}")
        assert "outer middle" in session.state.text
        assert "there is no tool 'task'" in session.state.text


async def test_a_run_in_the_background_answers_later_and_is_announced(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.session("allow_once") as session:
        script = task("build", "run until [ -e go ]; do sleep 0.02; done", "say the late answer", background=True)
        await ask(session, script, "say {result}")
        assert "task_1 (build) works in the background" in session.state.text
        (service.project / "go").touch()
        await ask(session, 'call bash_output {"id": "task_1", "wait": 20}', "say {result}")
        assert "the late answer" in session.state.text
        assert "task_1 has answered" in session.state.text


async def test_the_end_of_a_run_in_the_background_is_announced_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = recording_model(monkeypatch)
    line = "[job task_1 has answered; "

    def parts() -> str:
        return str([message.parts for message in model.requests[-1].messages])

    async with Service(tmp_path).session() as session:
        await ask(session, task("explore", "say quick", background=True), "say {result}")
        async with asyncio.timeout(60):
            while line not in parts():  # in the message or in the result, whichever comes first
                await ask(session, "glob x", "say y")
        await ask(session, "glob x", "say y")
        assert parts().count(line) == 1


async def test_a_run_in_the_background_ends_with_bash_stop_and_with_the_session(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    async with service.session() as session:
        for name in ("one", "two"):
            await ask(session, task("build", f"run touch {name}; sleep 60", background=True), "say {result}")
            await until((service.project / name).exists)
            if name == "one":
                await ask(session, 'call bash_stop {"id": "task_1"}', "say {result}")
                assert "task_1 was stopped" in session.state.text
    store = await Store.open(service.settings.store)
    rows = await store.children(session.id)
    assert len(rows) == 2
    for row in rows:
        assert await store.live_log(row.id) is None
        assert (await store.messages(row.id))[-1].metadata["cancelled"] is True
    await store.close()


async def test_a_run_in_the_background_is_refused_what_it_would_have_to_ask_between_turns(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once")
    (service.project / "wait.sh").write_text("until [ -e go ]; do sleep 0.02; done")
    settings(service, {"rules": {"allow": ["execute:sh wait.sh"]}})
    async with service.session(permission=user) as session:
        script = ("run sh wait.sh", "write a.txt A", "say {result}")
        await ask(session, task("build", *script, background=True), "say {result}")
        (service.project / "go").touch()
        (output,) = (tmp_path / "home" / "output" / session.id).glob("task_1.*.txt")
        await until(lambda: "[task_1, build" in output.read_text())
        assert "✓ `sh wait.sh`" in output.read_text()
        assert "no user can be asked while the subagent works between two turns" in output.read_text()
    assert user.asked == []
    assert not (service.project / "a.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"agent": "nobody"}, "there is no agent 'nobody'; there are: explore, plan, build"),
        ({"id": "task_7"}, "there is no task 'task_7'; there are: none"),
        ({"prompt": " "}, "prompt is empty"),
    ],
)
async def test_a_wrong_call_says_what_is_wrong(tmp_path: Path, arguments: dict[str, str], why: str) -> None:
    async with Service(tmp_path).session() as session:
        given = {"description": "d", "prompt": "say x", **arguments}
        await ask(session, f"call task {json.dumps(given)}", "say {result}")
        assert why in session.state.text


async def test_names_of_other_agents_are_understood(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        given = {"description": "d", "prompt": "say understood", "subagent_type": "general-purpose", "model": "x"}
        await ask(session, f"call Task {json.dumps(given)}", "say {result}")
        assert "understood" in session.state.text
        assert "[task_1, build:" in session.state.text


async def test_a_model_that_fails_in_a_subagent_is_reported_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        await ask(session, task("explore", "say before", "glob x", "error no such deployment"), "say {result}")
        assert "the subagent explore failed: no such deployment" in session.state.text
        assert session.state.stop_reason == "end_turn"


async def test_a_very_long_answer_is_cut_and_kept_in_a_file(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.session() as session:
        await ask(session, task("explore", f"say {'word ' * 60_000}the end"), "say done")
        (call,) = calls(session)
    assert len(output_of(call)) < 120_000
    assert "the end\n[task_1" in output_of(call)
    assert isinstance(call.raw_output, dict)
    with open(call.raw_output["outputPath"]) as whole:  # noqa: ASYNC230 - the agent has ended
        assert len(whole.read()) >= 300_000
