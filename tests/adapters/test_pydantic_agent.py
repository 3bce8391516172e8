"""A real agent of pydantic-ai, with a model that plays a script."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import wrap
from dragoman.errors import ConfigError, RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import Answers, Forms, ask, client_of, on_wire, session_of, statuses, text_of
from tests.adapters.scripted_pydantic import make_agent


async def test_text_thoughts_and_history_of_its_own_across_programs(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    async with client_of(wrap(make_agent([]), store=file)) as remote:
        assert remote.info
        assert remote.info.name == "cleaner"
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "hello")) == "1: hello"
        assert text_of(await ask(session, "again")) == "2: again"
        updates = await ask(session, "THINK")
        assert (text_of(updates, "agent_thought_chunk"), text_of(updates)) == ("hm, well", "thought")
        session_id = session.id
    async with client_of(wrap(make_agent([]), store=file)) as remote:
        loading = remote.load_session(session_id, tmp_path)
        updates = on_wire([update async for update in loading])
        assert text_of(updates, "user_message_chunk") == "helloagainTHINK"
        assert text_of(await ask(loading.session, "third")) == "4: third"


async def test_a_call_that_needs_permission_is_asked_inside_the_run(tmp_path: Path) -> None:
    deleted: list[str] = []
    answers = Answers("allow", "reject")
    async with session_of(make_agent(deleted), tmp_path, permission=answers) as session:
        updates = await ask(session, "DELETE a.txt")
        assert text_of(updates) == "Tool finished: deleted a.txt"
        assert statuses(updates) == ["pending", "in_progress", "completed"]
        updates = await ask(session, "DELETE b.txt")
        assert statuses(updates) == ["pending", "failed"]
        assert "did not permit" in text_of(updates)
    assert deleted == ["a.txt"]
    call = answers.asked[0].tool_call
    assert (call.title, call.kind, call.raw_input) == ("delete_file a.txt", "delete", {"path": "a.txt"})
    assert call.locations
    assert call.locations[0].path == str(tmp_path / "a.txt")


async def test_several_calls_are_asked_about_one_by_one_in_one_turn(tmp_path: Path) -> None:
    deleted: list[str] = []
    answers = Answers("reject", "allow")
    async with session_of(make_agent(deleted), tmp_path, permission=answers) as session:
        updates = await ask(session, "DELETE a.txt b.txt")
    assert deleted == ["b.txt"]
    assert len(answers.asked) == 2
    assert sorted(update["status"] for update in updates if update.get("status") in ("completed", "failed")) == [
        "completed",
        "failed",
    ]


async def test_the_user_can_change_the_arguments(tmp_path: Path) -> None:
    deleted: list[str] = []
    forms = Forms({"path": "other.txt"})
    async with session_of(make_agent(deleted), tmp_path, permission=Answers("edit"), elicitation=forms) as session:
        await ask(session, "DELETE a.txt")
    assert deleted == ["other.txt"]


async def test_errors_of_tools_and_models_fail_the_turn_and_the_next_one_works(tmp_path: Path) -> None:
    async with session_of(make_agent([]), tmp_path) as session:
        with pytest.raises(RequestError, match="ValueError: tool broke"):
            await ask(session, "BOOM")
        with pytest.raises(RequestError, match="RuntimeError: model down"):
            await ask(session, "FAIL")
        assert text_of(await ask(session, "hello")).endswith(": hello")


async def test_cancel_keeps_what_was_shown_and_the_next_turn_works(tmp_path: Path) -> None:
    async with session_of(make_agent([]), tmp_path) as session:
        turn = session.prompt("WAIT")
        async with turn:
            async for update in turn:
                if isinstance(update, v1.AgentMessageChunk):
                    break
            await session.cancel()
            async for _ in turn:
                pass
        assert turn.result.stop_reason == "cancelled"
        assert text_of(await ask(session, "hello")) == "2: hello"


async def test_cancel_during_a_question_leaves_a_history_that_can_be_continued(tmp_path: Path) -> None:
    deleted: list[str] = []
    answers = Answers("wait")
    async with session_of(make_agent(deleted), tmp_path, permission=answers) as session:
        turn = session.prompt("DELETE a.txt")
        running = asyncio.ensure_future(_finish(turn))
        await answers.arrived.wait()
        await session.cancel()
        assert (await running).stop_reason == "cancelled"
        assert text_of(await ask(session, "hello")) == "2: hello"
    assert deleted == []


async def _finish(turn: Any) -> v1.PromptResponse:
    response: v1.PromptResponse = await turn
    return response


async def test_images_reach_the_model(tmp_path: Path) -> None:
    async with session_of(make_agent([]), tmp_path) as session:
        blocks: list[v1.ContentBlock] = [v1.TextContent("look"), v1.ImageContent("AAAA", "image/png")]
        updates = on_wire([update async for update in session.prompt(blocks)])
    assert text_of(updates) == "1: look with BinaryContent"


def test_another_object_is_refused() -> None:
    from dragoman.adapters.frameworks.pydantic_agent import PydanticAIAdapter

    with pytest.raises(ConfigError, match=r"str is not an agent of pydantic-ai; pass a pydantic_ai.Agent"):
        PydanticAIAdapter("agent")
