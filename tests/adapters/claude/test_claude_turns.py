"""Prompts of a wrapped `claude`, with a fake program in a real process: what is shown, asked, cancelled, survived."""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest

from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.adapters.claude.claude_fixtures import answer_in, calls_of, claude_session, remote_of, until
from tests.adapters.fixtures import Answers, Forms, ask, on_wire, statuses, text_of


def notices_of(updates: list[dict[str, Any]]) -> dict[str, Any]:
    return {each["title"]: each.get("description") for each in updates if each["sessionUpdate"] == "notice"}


def shown(session: Session) -> list[str]:
    """The messages and titles of everything that the client was shown."""
    return [str(getattr(item, "text", "") or getattr(item, "title", "")) for item in session.state.timeline]


# What is shown


async def test_text_thoughts_usage_and_the_title_are_shown(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        updates = await ask(session, "Hello there")
        assert text_of(updates) == "Hello from Claude."
        usage = [each for each in updates if each["sessionUpdate"] == "usage_update"][-1]
        assert (usage["used"], usage["size"], usage["cost"]["amount"]) == (120, 1000, 0.01)
        assert [each["title"] for each in updates if each["sessionUpdate"] == "session_info_update"] == ["Hello there"]
        updates = await ask(session, "THINK")
        assert text_of(updates, "agent_thought_chunk") == "Let me think."
        assert text_of(updates) == "Thought about it."


async def test_an_edit_is_asked_about_with_its_diff_and_shown_with_what_it_changed(tmp_path: Path) -> None:
    answers = Answers("allow_once")
    async with claude_session(tmp_path, permission=answers) as session:
        file = tmp_path / "work" / "a.txt"
        file.write_text("one\nalpha\n")
        updates = await ask(session, f"EDIT {file}")
    [call] = calls_of(updates).values()
    assert call["kind"] == "edit"
    assert call["locations"] == [{"path": str(file)}]
    diff = {"type": "diff", "path": str(file), "oldText": "one\nalpha\n", "newText": "one\nomega\n"}
    assert call["content"] == [diff]
    assert statuses(updates) == ["pending", "in_progress", "completed"]
    [asked] = answers.asked
    assert on_wire_content(asked) == [diff]
    assert file.read_text() == "one\nomega\n"


def on_wire_content(asked: v1.RequestPermissionRequest) -> list[dict[str, Any]]:
    return [
        {"type": "diff", "path": item.path, "oldText": item.old_text, "newText": item.new_text}
        for item in asked.tool_call.content or ()
        if isinstance(item, v1.Diff)
    ]


async def test_a_sub_agent_is_shown_under_its_call(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        updates = await ask(session, "AGENT")
    calls = calls_of(updates)
    assert calls["Read /x"]["_meta"]["dragoman"]["parentToolCallId"] == calls["look around"]["toolCallId"]
    assert calls["look around"]["content"] == [{"type": "content", "content": {"type": "text", "text": "It is fine."}}]
    said = [each["content"][0]["content"]["text"] for each in updates if each.get("content") and "toolCallId" in each]
    assert said == ["I look.", "seen", "It is fine."]
    assert text_of(updates) == "The agent says it is fine."


@pytest.mark.parametrize("prompt", ["TODO", "TASKS"])
async def test_the_plan_is_shown_instead_of_the_calls_that_keep_it(prompt: str, tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        updates = await ask(session, prompt)
    plan = [each["entries"] for each in updates if each["sessionUpdate"] == "plan"][-1]
    second = "in_progress" if prompt == "TODO" else "pending"
    assert [(each["content"], each["status"]) for each in plan] == [("Look", "completed"), ("Write", second)]
    assert calls_of(updates) == {}


async def test_retries_and_compactions_are_shown(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        notices = notices_of(await ask(session, "RETRY"))
        assert list(notices.values()) == ["Attempt 1 of 10 in 0.5 s: overloaded (529)"]
        updates = await ask(session, "COMMAND")
        assert text_of(updates) == "Compacted"
        assert any(each.get("title") == "Shorten the conversation" for each in updates) or any(
            each["sessionUpdate"] == "compaction_update" for each in updates
        )


async def test_images_files_and_servers_of_the_client_reach_the_program(tmp_path: Path) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    work.mkdir()
    other.mkdir()
    servers: list[v1.McpServer] = [
        v1.McpServerStdio("files", "/bin/server", args=["-x"], env=[v1.EnvVariable("KEY", "secret")]),
        v1.McpServerHttp("web", "http://127.0.0.1:1/mcp", headers=[v1.HttpHeader("Authorization", "Bearer x")]),
    ]
    async with remote_of(tmp_path) as remote:
        session = await remote.new_session(work, mcp_servers=servers, additional_directories=[other])
        blocks: list[v1.ContentBlock] = [v1.TextContent("SAW "), v1.ImageContent("AAAA", "image/png")]
        seen = json.loads(text_of(on_wire([update async for update in session.prompt(blocks)])))
        assert seen["kinds"] == ["text", "image"]
        assert seen["dirs"] == [str(other)]
        assert seen["servers"] == {
            "files": {"type": "stdio", "command": "/bin/server", "args": ["-x"], "env": {"KEY": "secret"}},
            "web": {"type": "http", "url": "http://127.0.0.1:1/mcp", "headers": {"Authorization": "Bearer x"}},
        }
        assert not seen["mcp"], "the file with the keys is removed once it was read"
        link = v1.ResourceLink("a b.py", "file:///work/a%20b.py")
        links: list[v1.ContentBlock] = [v1.TextContent("SAW "), link, v1.TextContent("now")]
        seen = json.loads(text_of(on_wire([update async for update in session.prompt(links)])))
        assert (seen["kinds"], seen["text"]) == (["text"], 'SAW @"/work/a b.py" now')


# Questions


@pytest.mark.parametrize(
    ("chosen", "behavior", "remembered"),
    [("allow", "allow", None), ("always", "allow", ["addRules"]), ("reject", "deny", None), (None, "deny", None)],
)
async def test_permission_is_given_once_always_or_not(
    chosen: str | None, behavior: str, remembered: list[str] | None, tmp_path: Path
) -> None:
    answers = Answers(chosen)
    async with claude_session(tmp_path, permission=answers) as session:
        updates = await ask(session, "RUN make all")
    [asked] = answers.asked
    offered = {option.option_id: (option.kind, option.name) for option in asked.options}
    assert offered["always"] == ("allow_always", "Always allow Bash(make all)")
    assert asked.tool_call.title == "make all"
    answer = answer_in(text_of(updates))
    assert answer["behavior"] == behavior
    assert [each["type"] for each in answer.get("updatedPermissions", [])] == (remembered or [])
    ended = "completed" if behavior == "allow" else "failed"
    assert statuses(updates) == (["pending", "in_progress", ended] if behavior == "allow" else ["pending", ended])


async def test_the_user_can_change_a_command_before_it_runs(tmp_path: Path) -> None:
    forms = Forms({"command": "make none"})
    async with claude_session(tmp_path, permission=Answers("edit"), elicitation=forms) as session:
        updates = await ask(session, "RUN make all")
    assert answer_in(text_of(updates))["updatedInput"] == {"command": "make none", "description": "Run it"}


async def test_accepting_all_edits_changes_the_mode_which_is_shown(tmp_path: Path) -> None:
    answers = Answers("allow_always")
    async with claude_session(tmp_path, permission=answers) as session:
        file = tmp_path / "work" / "a.txt"
        for _ in range(2):
            file.write_text("alpha\n")
            await ask(session, f"EDIT {file}")
            assert file.read_text() == "omega\n"
        await until(lambda: session.state.mode == "acceptEdits")
        await ask(session, "Hello")
    assert [option.name for option in answers.asked[0].options][1] == "Accept all edits in this session"
    assert len(answers.asked) == 1


async def test_questions_are_a_form(tmp_path: Path) -> None:
    forms = Forms({"answer_1": "Blue", "answer_2": ["Small", "Large"], "other_2": "Huge"})
    async with claude_session(tmp_path, elicitation=forms) as session:
        answers = json.loads(text_of(await ask(session, "QUESTION")))
        assert answers == {"Which colour?": "Blue", "Which sizes?": "Small, Large, Huge"}
    fields = forms.asked[0].requested_schema.properties_or_default
    assert list(fields) == ["answer_1", "other_1", "answer_2", "other_2"]


async def test_questions_are_choices_for_clients_without_forms_and_may_stay_unanswered(tmp_path: Path) -> None:
    answers = Answers("answer_2", "answer_1", "skip")
    async with claude_session(tmp_path, permission=answers) as session:
        assert json.loads(text_of(await ask(session, "QUESTION"))) == {"Which colour?": "Blue", "Which sizes?": "Small"}
        assert json.loads(text_of(await ask(session, "QUESTION one"))) == "The user did not answer the questions."
    assert [option.name for option in answers.asked[0].options] == ["Red", "Blue", "Do not answer: Which colour?"]


@pytest.mark.parametrize(("chosen", "mode"), [("plan_edits", "acceptEdits"), ("plan_no", "default")])
async def test_a_plan_is_carried_out_if_the_user_says_so(chosen: str, mode: str, tmp_path: Path) -> None:
    async with claude_session(tmp_path, permission=Answers(chosen)) as session:
        assert text_of(await ask(session, "PLAN")) == f"The mode is {mode}."


# Turns that the program starts by itself


async def test_work_in_the_background_is_shown_asked_about_and_ends_no_prompt(tmp_path: Path) -> None:
    answers = Answers("allow_once")
    async with claude_session(tmp_path, permission=answers) as session:
        updates = await ask(session, "BACKGROUND")
        assert text_of(updates).startswith("It runs.")
        assert calls_of(updates)["look later"]["status"] == "completed"
        await until(lambda: "The work in the background is done." in shown(session))
        assert "Work in the background has ended" in shown(session)
        assert [asked.tool_call.title for asked in answers.asked] == ["touch x"]
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."
        assert text_of(await ask(session, "BEHIND me")) == "I looked after something.Hello from Claude."


# The end of a turn


async def test_cancel_ends_the_turn_in_the_program_too(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        for prompt in ("WAIT", "WAIT"):
            turn = session.prompt(prompt)
            seen = []
            async for update in turn:
                seen.append(update)
                if text_of(on_wire(seen)) == "I wait.":
                    await session.cancel()
            assert turn.result is not None
            assert turn.result.stop_reason == "cancelled"
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


async def test_cancel_withdraws_an_open_question(tmp_path: Path) -> None:
    answers = Answers("wait")
    async with claude_session(tmp_path, permission=answers) as session:
        turn = session.prompt("RUN make all")
        task = asyncio.create_task(_collect(turn))
        await asyncio.wait_for(answers.arrived.wait(), 60)
        await session.cancel()
        updates = await task
        assert statuses(updates)[-1] == "failed"
        assert turn.result is not None
        assert turn.result.stop_reason == "cancelled"
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


async def test_a_program_that_ignores_an_interrupt_is_ended_and_started_again(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        await ask(session, "Hello")
        seen: list[v1.SessionUpdate] = []
        async for update in session.prompt("DEAF"):
            seen.append(update)
            if text_of(on_wire(seen)):
                await session.cancel()
        deaf = int(text_of(on_wire(seen)).removeprefix("I am ").removesuffix("."))
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."
        assert not os.path.exists(f"/proc/{deaf}")  # noqa: ASYNC240 - not a real file


async def test_text_can_be_added_to_a_running_turn(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    async with remote_of(tmp_path) as remote:
        session = await remote.new_session(tmp_path / "work")
        seen: list[v1.SessionUpdate] = []
        async for update in session.prompt("HOLD"):
            seen.append(update)
            if len(seen) == 2:
                assert text_of(on_wire(seen)) == "I hold."
                request = {"sessionId": session.id, "text": "be quick"}
                assert await remote.request("_dragoman/steer", request) == {"accepted": True}
        assert text_of(on_wire(seen)) == "I hold.You added: be quick"
        assert text_of(on_wire(seen), "user_message_chunk") == "be quick"
        request = {"sessionId": session.id, "text": "too late"}
        assert await remote.request("_dragoman/steer", request) == {"accepted": False}


async def test_a_crash_is_an_error_and_the_session_goes_on_with_what_was_received(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        await ask(session, "Hello")
        with pytest.raises(RequestError, match="claude ended with exit code 3: a bug in the program\nWhat was shown"):
            await ask(session, "CRASH")
        assert "I begin" in shown(session)
        assert text_of(await ask(session, "CRASH later")) == ""
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


async def test_errors_of_the_model_and_a_missing_login_say_what_to_do(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        with pytest.raises(RequestError, match="Claude Code: API Error: 400 the model says no"):
            await ask(session, "FAIL")
        assert "I begin." in shown(session)
        with pytest.raises(RequestError, match="not logged in: run `claude` in a terminal and type /login"):
            await ask(session, "LOGIN")
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


async def test_messages_of_unknown_kinds_are_survived(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        updates = await ask(session, "ODD")
        assert text_of(updates) == "Still here."


async def test_no_process_is_left_when_the_client_is_gone(tmp_path: Path) -> None:
    marker = f"CLAUDE_CONFIG_DIR={tmp_path / 'config'}".encode()
    async with claude_session(tmp_path, is_leaving=True) as session:
        await ask(session, "Hello")
        assert _processes(marker)
    assert _processes(marker) == []


def _processes(marker: bytes) -> list[str]:
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if marker in (place / "environ").read_bytes().split(b"\0") and int(place.name) != os.getpid():
                found.append(place.name)
        except OSError:
            continue
    return found


async def _collect(turn: Any) -> list[dict[str, Any]]:
    return on_wire([update async for update in turn])
