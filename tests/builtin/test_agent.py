"""The built-in agent as an editor sees it: sessions, settings, turns, and everything through the schema."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.agent import STEER
from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.policy.modes import MODES
from dragoman.schema import encode, v1
from dragoman.testing.scripted_client import FilesInMemory, RealTerminals
from tests.builtin.http_service import Answers, Service, ask
from tests.interop.wire_check import WireCheck


def kinds(updates: list[v1.SessionUpdate]) -> list[str]:
    return [json.loads(encode(update))["sessionUpdate"] for update in updates]


def values(session: Session) -> dict[str, str | bool]:
    return {
        option.id: option.current_value
        for option in session.state.config_options
        if isinstance(option, (v1.SessionConfigSelect, v1.SessionConfigBoolean))
    }


def text_of(session: Session) -> str:
    return "".join(message.text for message in session.state.messages if message.role == "agent")


async def test_initialize_advertises_the_capabilities_and_the_modes(tmp_path: Path) -> None:
    async with Service(tmp_path).client() as agent:
        capabilities = agent.capabilities
        assert capabilities.load_session is True
        sessions = capabilities.session_capabilities
        assert sessions
        assert all((sessions.resume, sessions.list, sessions.close, sessions.delete, sessions.additional_directories))
        assert capabilities.mcp_capabilities
        assert (capabilities.mcp_capabilities.http, capabilities.mcp_capabilities.sse) == (True, True)
        assert capabilities.prompt_capabilities
        assert capabilities.prompt_capabilities.image is True
        assert capabilities.prompt_capabilities.embedded_context is True
        assert capabilities.meta
        assert capabilities.meta["dragoman"]["modes"] == list(MODES)
        assert agent.info is not None
        assert agent.info.name == "dragoman"


async def test_a_turn_shows_thought_text_plan_and_usage(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        seen = kinds(await ask(session, "think hm", "todo [x] look; [>] change; test", "say all done"))
        for kind in ("agent_thought_chunk", "plan", "agent_message_chunk"):
            assert kind in seen
        assert "tool_call" not in seen  # the plan is what is shown of the call
        assert session.state.text == "all done"
        assert session.state.stop_reason == "end_turn"
        assert [entry.status for entry in session.state.plan] == ["completed", "in_progress", "pending"]
        assert session.state.usage is not None
        assert session.state.usage.size == 200_000


async def test_a_result_of_the_scripted_model_says_so(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        turn = session.prompt("say hello")
        result = await turn
        assert result.meta
        assert result.meta["dragoman"]["scripted"] is True


async def test_without_a_model_a_session_is_refused_the_acp_way(tmp_path: Path) -> None:
    async with Service(tmp_path, model=None).client() as agent:
        with pytest.raises(RequestError, match="no model") as refused:
            await agent.new_session(tmp_path)
        assert refused.value.code == -32000


async def test_an_unknown_model_is_refused_with_a_list_of_the_known_ones(tmp_path: Path) -> None:
    async with Service(tmp_path, model="oracle:delphi").client() as agent:
        with pytest.raises(RequestError, match="scripted") as refused:
            await agent.new_session(tmp_path)
        assert refused.value.code == -32602


async def test_a_write_is_asked_for_with_its_diff_and_the_four_kinds_of_answer(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once")
    async with service.session(permission=user) as session:
        await ask(session, "write hello.txt hello")
        (request,) = user.asked
        assert {option.kind for option in request.options} == {
            "allow_once",
            "allow_always",
            "reject_once",
            "reject_always",
        }
        assert request.tool_call.kind == "edit"
        assert request.tool_call.content
        (diff,) = request.tool_call.content
        assert isinstance(diff, v1.Diff)
        assert (diff.path, diff.new_text) == (str(service.project / "hello.txt"), "hello")
    assert (service.project / "hello.txt").read_text() == "hello"


async def test_a_refused_write_changes_nothing_and_the_turn_goes_on(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.session("reject_once") as session:
        await ask(session, "write hello.txt hello", "say as you wish")
        (call,) = session.state.tool_calls.values()
        assert call.status == "failed"
        assert session.state.text == "as you wish"
    assert not (service.project / "hello.txt").exists()


async def test_an_always_is_kept_for_the_project_and_asked_no_more(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow-project")
    async with service.session(permission=user) as session:
        await ask(session, "run touch one", "run touch one")
        assert len(user.asked) == 1
        assert any("`touch one`" in option.name for option in user.asked[0].options)
    again = Answers("reject_once")
    async with service.session(permission=again) as session:
        await ask(session, "run touch one")
        assert again.asked == []


async def test_the_clients_files_and_terminals_are_used_where_it_has_them(tmp_path: Path) -> None:
    service, terminals = Service(tmp_path), RealTerminals()
    path = str(service.project / "unsaved.py")
    files = FilesInMemory({path: "never on disk\n"})
    async with service.session("allow_once", files=files, terminals=terminals) as session:
        await ask(
            session, "read unsaved.py", "say {result}", "edit unsaved.py never => not", "run touch in the-terminal"
        )
        assert "never on disk" in session.state.text
        assert files.files[path] == "not on disk\n"
        shown = [
            item for call in session.state.tool_calls.values() for item in call.content if isinstance(item, v1.Terminal)
        ]
        assert len(shown) == 1
    assert not (service.project / "unsaved.py").exists()


@pytest.mark.parametrize(("files", "terminals"), [(False, True), (True, False)])
async def test_each_can_be_switched_off(tmp_path: Path, files: bool, terminals: bool) -> None:
    service = Service(tmp_path, uses_client_files=files, uses_client_terminals=terminals)
    (service.project / "a.txt").write_text("on disk")
    memory = FilesInMemory({str(service.project / "a.txt"): "in memory"})
    async with service.session("allow_once", files=memory, terminals=RealTerminals()) as session:
        await ask(session, "read a.txt", "say {result}", "run touch hi")
        assert ("in memory" in session.state.text) == files
        content = [item for call in session.state.tool_calls.values() for item in call.content]
        assert any(isinstance(item, v1.Terminal) for item in content) == terminals


async def test_modes_are_modes_and_config_options_and_either_changes_both(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        assert session.state.mode == "ask"
        assert values(session) == {"mode": "ask", "model": "scripted", "effort": "medium"}
        await session.set_mode("plan")
        await session.set_config_option("effort", "high")
        assert values(session) == {"mode": "plan", "model": "scripted", "effort": "high"}
        await session.set_config_option("mode", "full")
        assert session.state.mode == "full"


async def test_plan_mode_changes_nothing_but_its_plan(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="plan")
    async with service.session("allow_once") as session:
        await ask(session, "write a.txt x", "run touch b.txt", "write PLAN.md 1. think")
    assert [path.name for path in service.project.iterdir()] == ["PLAN.md"]


async def test_full_mode_asks_for_nothing_but_protected_places(tmp_path: Path) -> None:
    service, user = Service(tmp_path, mode="full"), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, "write a.txt x", "run touch b.txt && echo done", "write .git/hooks/pre-commit evil")
    assert sorted(path.name for path in service.project.iterdir()) == ["a.txt", "b.txt"]
    assert len(user.asked) == 1


async def test_a_loaded_session_looks_as_it_did(tmp_path: Path) -> None:
    service = Service(tmp_path)
    (service.project / "a.txt").write_text("content")
    async with service.session("allow_once") as session:
        await ask(session, "think hm", "say first", "read a.txt", "say last")
        await ask(session, "write b.txt two", "say done")
        before, id = session.state, session.id
    async with service.client() as agent:
        loaded = await agent.load_session(id, service.project)
        after = loaded.state
        assert [(m.role, m.text, m.message_id) for m in before.messages if m.role != "user"] == [
            (m.role, m.text, m.message_id) for m in after.messages if m.role != "user"
        ]
        assert {id: (c.status, c.title, c.kind) for id, c in before.tool_calls.items()} == {
            id: (c.status, c.title, c.kind) for id, c in after.tool_calls.items()
        }
        assert [m.text for m in after.messages if m.role == "user"] == [
            "think hm\nsay first\nread a.txt\nsay last",
            "write b.txt two\nsay done",
        ]
        await ask(loaded, "say more")
        assert loaded.state.text == "more"


async def test_a_resumed_session_repeats_nothing_and_goes_on(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.session() as session:
        await ask(session, "say once")
        id = session.id
    async with service.client() as agent:
        resumed = await agent.resume_session(id, service.project)
        assert not resumed.state.messages
        await ask(resumed, "say twice")
        assert resumed.state.text == "twice"


async def test_a_session_that_does_not_exist_is_not_found(tmp_path: Path) -> None:
    async with Service(tmp_path).client() as agent:
        for opening in (agent.load_session("ses_none", tmp_path), agent.resume_session("ses_none", tmp_path)):
            with pytest.raises(RequestError) as missing:
                await opening
            assert missing.value.code == -32002


async def test_sessions_are_listed_by_folder_page_by_page_with_titles(tmp_path: Path) -> None:
    service = Service(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    async with service.client() as agent:
        for number in range(3):
            session = await agent.new_session(service.project)
            await ask(session, f"say number {number}")
        await agent.new_session(other)
        here = [info async for info in agent.sessions(cwd=service.project)]
        assert [info.title for info in here] == ["say number 2", "say number 1", "say number 0"]
        assert all(info.updated_at for info in here)
        assert len([info async for info in agent.sessions()]) == 4
        assert session.state.title == "say number 2"
        with pytest.raises(RequestError) as refused:
            await agent.list_sessions(cursor="nonsense")
        assert refused.value.code == -32602


async def test_a_closed_session_stays_and_a_deleted_one_is_gone(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.client() as agent:
        kept, gone = await agent.new_session(service.project), await agent.new_session(service.project)
        await agent.close_session(kept.id)
        await agent.delete_session(gone.id)
        await agent.delete_session(gone.id)
        assert [info.session_id async for info in agent.sessions()] == [kept.id]
    async with service.client() as agent:
        with pytest.raises(RequestError):
            await agent.load_session(gone.id, service.project)
        await agent.load_session(kept.id, service.project)


async def test_without_forms_a_question_is_asked_in_words_and_ends_the_turn(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once")
    async with service.session(permission=user) as session:
        await ask(session, "question Which one? | this | that", "say not reached")
        assert user.asked == []
        assert session.state.text == "Which one?\n\n- this\n- that"
        (call,) = session.state.tool_calls.values()
        assert call.status == "completed"
        await ask(session, "say {result} is what I do now")


@pytest.mark.rule(251)
async def test_a_terminal_is_shown_before_it_is_released(tmp_path: Path) -> None:
    service, check, terminals = Service(tmp_path, mode="full"), WireCheck(), RealTerminals()
    async with service.session(terminals=terminals, observers=[check]) as session:
        await ask(session, *["run true"] * 5)
        released = [
            (number, frame["params"]["terminalId"])
            for number, frame in enumerate(check.incoming)
            if frame.get("method") == "terminal/release"
        ]
        assert len(released) == 5
        for number, terminal_id in released:
            assert any(
                f'"{terminal_id}"' in json.dumps(frame.get("params", {}).get("update", {}))
                for frame in check.incoming[:number]
            )


async def test_a_session_deleted_by_another_client_ends_its_turn_and_is_not_found(tmp_path: Path) -> None:
    service = Service(tmp_path)
    async with service.client() as one, service.client() as other:
        session = await one.new_session(service.project)
        turn = session.prompt("slow 300")
        async for update in turn:
            if isinstance(update, v1.AgentMessageChunk):
                break
        await other.delete_session(session.id)
        assert (await turn).stop_reason == "cancelled"
        with pytest.raises(RequestError) as missing:
            await session.prompt("say hello")
        assert missing.value.code == -32002
        assert [info async for info in one.sessions()] == []


async def test_additional_folders_are_worked_in_without_asking_to_read(tmp_path: Path) -> None:
    service = Service(tmp_path)
    more = tmp_path / "more"
    more.mkdir()
    (more / "a.txt").write_text("over here")
    user = Answers("reject_once")
    async with service.client(permission=user) as agent:
        session = await agent.new_session(service.project, additional_directories=[more])
        await ask(session, f"read {more}/a.txt", "say {result}")
        assert "over here" in session.state.text
        assert user.asked == []
        await ask(session, "read /etc/hostname")
        assert len(user.asked) == 1


async def test_a_cancel_ends_the_turn_wherever_it_is(tmp_path: Path) -> None:
    service = Service(tmp_path)
    user = Answers("allow_once")
    asked = asyncio.Event()

    async def never(request: Any, session: Any) -> None:
        asked.set()
        await asyncio.Event().wait()

    async with service.session(permission=never) as session:
        for lines, first in ((("slow 300",), v1.AgentMessageChunk), (("run touch x",), v1.ToolCall)):
            turn = session.prompt("\n".join(lines))
            async for update in turn:
                if isinstance(update, first):
                    if first is v1.ToolCall:
                        await asked.wait()
                    await session.cancel()
                    break
            assert (await turn).stop_reason == "cancelled"
    async with service.session(permission=user) as session:
        turn = session.prompt("run sleep 60")
        async for update in turn:
            if isinstance(update, v1.ToolCallUpdate) and update.status == "in_progress":
                await session.cancel()
        assert session.state.stop_reason == "cancelled"
        await ask(session, "say alive")
        assert session.state.text == "alive"


async def test_a_model_error_is_the_answer_to_the_prompt_and_the_session_lives(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        with pytest.raises(RequestError, match="no such model") as failed:
            await ask(session, "say so far", "error no such model")
        assert failed.value.code == -32603
        await ask(session, "say alive")
        assert session.state.text == "alive"


async def test_a_second_client_takes_over_a_running_turn_from_its_beginning(tmp_path: Path) -> None:
    service, new_user = Service(tmp_path), Answers("allow_once")
    asked = asyncio.Event()

    async def user(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await asyncio.Event().wait()  # until the question is withdrawn
        raise AssertionError("unreachable")

    async with service.client(permission=user) as first:
        session = await first.new_session(service.project)
        turn = asyncio.ensure_future(ask(session, "say before", "run touch hi", "run touch you", "say after"))
        await asked.wait()
        async with service.client(permission=new_user) as second:
            joined = await second.resume_session(session.id, service.project)
            watching = joined.updates()
            await turn  # the prompt is answered to the client that sent it
            async for _ in watching:
                if text_of(joined).endswith("after"):
                    break
            assert text_of(joined) == "beforeafter"
            assert [call.status for call in joined.state.tool_calls.values()] == ["completed", "completed"]
            assert len(new_user.asked) == 2  # also the question that was open when it took the session over
            assert text_of(session) == "before"
            assert session.state.stop_reason == "end_turn"
            with pytest.raises(RequestError, match="another client has taken it over") as refused:
                await session.prompt("say lost")
            assert refused.value.code == -32002
            with pytest.raises(RequestError, match="taken it over"):
                await session.set_mode("plan")
            await first.close_session(session.id)  # it is not the one that is open
            await ask(joined, "say still open")
            back = await first.load_session(session.id, service.project)
            await ask(back, "say mine again")
            assert back.state.text == "mine again"


async def test_a_client_that_disconnects_after_it_was_taken_over_does_not_end_the_turn(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full")
    gate = service.project / "gate"
    os.mkfifo(gate)
    async with service.client() as stays:
        async with service.session(is_leaving=True) as leaves:
            turn = leaves.prompt("say before\nrun cat gate\nsay after")
            async for update in turn:
                if isinstance(update, v1.ToolCallUpdate) and update.status == "in_progress":
                    break
            joined = await stays.resume_session(leaves.id, service.project)
            watching = joined.updates()
        await asyncio.to_thread(gate.write_text, "go on")
        async for _ in watching:
            if text_of(joined).endswith("after"):
                break


async def test_words_steer_a_running_turn(tmp_path: Path) -> None:
    service = Service(tmp_path)
    answered = asyncio.Event()

    async def user(request: v1.RequestPermissionRequest, session: Any) -> str:
        answer = await agent.request(STEER, {"sessionId": session.id, "text": "use tabs"})
        assert answer == {"accepted": True}
        answered.set()
        return request.options[0].option_id

    async with service.client(permission=user) as agent:
        session = await agent.new_session(service.project)
        seen = await ask(session, "run touch hi", "say done")
        steered = [update for update in seen if isinstance(update, v1.UserMessageChunk)]
        assert [update.content.text for update in steered] == ["use tabs"]  # type: ignore[union-attr]
        assert await agent.request(STEER, {"sessionId": session.id, "text": "too late"}) == {"accepted": False}
        with pytest.raises(RequestError):
            await agent.request(STEER, {"sessionId": "ses_none", "text": "x"})


async def test_a_folder_that_no_rule_can_name_is_worked_in_with_questions(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once", "allow_once")
    folder = service.project / "two\nlines \u202e"
    folder.mkdir()
    (folder / "a.txt").write_text("content\n")
    async with service.client(permission=user) as agent:
        session = await agent.new_session(folder)
        await ask(session, "read a.txt", "run cat a.txt", "say {result}")
        assert [call.status for call in session.state.tool_calls.values()] == ["completed", "completed"]
        assert "content" in text_of(session)
        assert user.asked


async def test_prompts_that_arrive_during_a_turn_wait_and_run_in_order(tmp_path: Path) -> None:
    service = Service(tmp_path)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def user(request: v1.RequestPermissionRequest, session: Any) -> str:
        asked.set()
        await answer.wait()
        return request.options[0].option_id

    async with service.client(permission=user) as agent:
        session = await agent.new_session(service.project)
        first = asyncio.ensure_future(ask(session, "run touch hi", "say first"))
        await asked.wait()
        text = v1.TextContent("say second")
        second = asyncio.ensure_future(agent.call("session/prompt", v1.PromptRequest(session.id, [text])))
        answer.set()
        await first
        assert (await second).stop_reason == "end_turn"


async def test_rules_of_the_settings_hold_and_broken_ones_make_everything_a_question(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("reject_once")
    service.home.mkdir()
    settings = service.home / "settings.json"
    settings.write_text('{"rules": {"deny": ["edit:secret/**"], "allow": ["edit:notes/**"]}}')
    shipped = service.project / ".dragoman" / "settings.json"
    shipped.parent.mkdir()
    shipped.write_text('{"rules": {"allow": ["execute:touch owned"], "deny": ["edit:notes/closed.txt"]}}')
    async with service.session(permission=user) as session:
        await ask(session, "write notes/a.txt x", "write notes/closed.txt x", "write secret/b.txt x")
        assert user.asked == []
        await ask(session, "run touch owned")
        assert len(user.asked) == 1
    assert [path.name for path in service.project.rglob("*.txt")] == ["a.txt"]
    assert not (service.project / "owned").exists()
    settings.write_text('{"rules": {"deny": ["edit:sec')
    broken = Answers("reject_once")
    (service.project / "a.txt").write_text("x")
    async with service.session(permission=broken) as session:
        await ask(session, "read a.txt", "write notes/c.txt x")
        assert len(broken.asked) == 2
