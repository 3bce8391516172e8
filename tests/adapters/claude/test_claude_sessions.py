"""Sessions and settings of a wrapped `claude`: its own files are listed, loaded, copied and deleted."""

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.adapters import claude_code, wrap
from dragoman.adapters.claude.transcripts import ClaudeTranscripts, read_history
from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.schema import v1
from dragoman.uistream.messages import OtherPart, TextPart, ToolPart
from tests.adapters.claude.claude_fixtures import claude_session, install, remote_of
from tests.adapters.fixtures import Answers, ask, client_of, text_of


async def test_a_session_is_listed_loaded_resumed_and_deleted_across_programs(tmp_path: Path) -> None:
    work = tmp_path / "work"
    async with claude_session(tmp_path, permission=Answers("reject")) as session:
        await ask(session, "Hello there")
        await ask(session, "RUN make all")
        await ask(session, "THINK")
    async with remote_of(tmp_path) as remote:
        [listed] = (await remote.list_sessions(cwd=work)).sessions
        assert (listed.session_id, listed.cwd, listed.title) == (session.id, str(work), "Hello there")
        assert (await remote.list_sessions(cwd=tmp_path)).sessions == []
        assert [each.session_id for each in (await remote.list_sessions()).sessions] == [session.id]
        loaded = await remote.load_session(session.id, work)
        texts = [str(getattr(item, "text", getattr(item, "title", ""))) for item in loaded.state.timeline]
        assert texts[:4] == ["Hello there", "Hello from Claude.", "RUN make all", "make all"]
        assert texts[5:] == ["THINK", "Let me think.", "Thought about it."]
        assert [call.status for call in loaded.state.timeline if hasattr(call, "status")] == ["failed"]
        assert loaded.state.title == "Hello there"
        assert text_of(await ask(loaded, "Hello again")) == "Hello from Claude."
        await loaded.close()
        resumed = await remote.resume_session(session.id, work)
        assert text_of(await ask(resumed, "Hello once more")) == "Hello from Claude."
        await remote.delete_session(session.id)
        assert (await remote.list_sessions()).sessions == []


async def test_a_session_is_copied(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    async with remote_of(tmp_path, unstable=True) as remote:
        session = await remote.new_session(work)
        await ask(session, "Hello there")
        copy = await remote.fork_session(session.id, work)
        assert copy.id != session.id
        await ask(copy, "Only here")
    async with remote_of(tmp_path) as remote:
        loaded = await remote.load_session(copy.id, work)
        assert [message.text for message in loaded.state.messages][::2] == ["Hello there", "Only here"]
        original = await remote.load_session(session.id, work)
        assert len(original.state.messages) == 2


async def test_a_session_that_is_not_there_is_named(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        await ask(session, "Hello")
    async with remote_of(tmp_path) as remote:
        for unknown in ("00000000-0000-0000-0000-000000000000", "../../etc/passwd"):
            with pytest.raises(RequestError, match="Session not found"):
                await remote.load_session(unknown, tmp_path)
        with pytest.raises(RequestError, match=f"it belongs to the folder {tmp_path / 'work'}"):
            await remote.load_session(session.id, tmp_path)


def current(session: Session) -> dict[str, Any]:
    """The current values of the settings."""
    return {
        option.id: option.current_value
        for option in session.state.config_options
        if isinstance(option, v1.SessionConfigSelect)
    }


async def test_modes_models_and_effort_are_offered_and_chosen(tmp_path: Path) -> None:
    async with claude_session(tmp_path) as session:
        assert current(session) == {
            "mode": "default",
            "model": "default",
            "effort": "low",
        }
        await session.set_config_option("effort", "high")
        await session.set_config_option("model", "small")
        await session.set_mode("plan")
        updates = await ask(session, "PLAN")
        assert "Set model" not in text_of(updates)
        assert current(session) == {
            "mode": "plan",
            "model": "small",
        }
        with pytest.raises(RequestError, match="Claude Code: this mode is switched off here"):
            await session.set_mode("dontAsk")


async def test_a_program_that_is_not_installed_or_never_asks_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    async with client_of(wrap(claude_code())) as remote:
        with pytest.raises(RequestError, match=r"not installed: there is no program 'claude'\. Install it with"):
            await remote.new_session(tmp_path)
    async with remote_of(tmp_path, env={"FAKE_CLAUDE_VERSION": "2.1.74"}) as remote:
        with pytest.raises(RequestError, match=r"Claude Code 2\.1\.74 runs tools without asking .* `claude update`"):
            await remote.new_session(tmp_path)
    broken = tmp_path / "broken"
    broken.write_text("#!/bin/sh\necho 'error: unknown option' >&2\nexit 1\n")
    broken.chmod(0o755)
    async with client_of(wrap(claude_code(broken))) as remote:
        with pytest.raises(RequestError, match="claude ended with exit code 1: error: unknown option"):
            await remote.new_session(tmp_path)


async def test_the_program_is_found_where_its_installer_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = install(tmp_path)
    (tmp_path / ".local" / "bin").mkdir(parents=True)
    (tmp_path / ".local" / "bin" / "claude").symlink_to(program)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    async with client_of(wrap(claude_code(env={"CLAUDE_CONFIG_DIR": str(tmp_path / "c")}))) as remote:
        session = await remote.new_session(tmp_path)
        assert text_of(await ask(session, "Hello")) == "Hello from Claude."


# Files of the program


def line(kind: str, id: str, parent: str | None, content: object, **more: object) -> str:
    message = {"id": f"m-{id}", "role": kind, "content": content}
    return json.dumps({"type": kind, "uuid": id, "parentUuid": parent, "message": message, "cwd": "/w", **more})


def test_only_the_last_branch_of_a_conversation_is_shown_with_all_its_parallel_calls(tmp_path: Path) -> None:
    calls = [{"type": "tool_use", "id": f"call-{name}", "name": "Read", "input": {}} for name in "xy"]
    results = [[{"type": "tool_result", "tool_use_id": f"call-{name}", "content": name}] for name in "xy"]
    shared = {"message": {"id": "m-same", "role": "assistant"}}
    lines = [
        line("user", "u1", None, "first"),
        line("assistant", "a1", "u1", [{"type": "text", "text": "abandoned"}]),
        line("user", "u2", None, [{"type": "text", "text": "second"}]),
        json.dumps({"type": "assistant", "uuid": "c1", "parentUuid": "u2", **shared}).replace(
            '"assistant"}', f'"assistant", "content": [{json.dumps(calls[0])}]}}'
        ),
        json.dumps({"type": "assistant", "uuid": "c2", "parentUuid": "c1", **shared}).replace(
            '"assistant"}', f'"assistant", "content": [{json.dumps(calls[1])}]}}'
        ),
        line("user", "r1", "c1", results[0], sourceToolAssistantUUID="c1"),
        line("user", "r2", "c2", results[1], sourceToolAssistantUUID="c2"),
        '{"type": "attachment", "uuid": "q1", "parentUuid": "r2", "attachment": '
        '{"type": "queued_command", "prompt": "be quick"}}',
        line("user", "s1", "r2", "a sub-agent's", isSidechain=True),
        line("user", "i1", "r2", "<local-command-caveat>not said</local-command-caveat>", isMeta=True),
        "not JSON",
        '{"type": "system", "subtype": "compact_boundary", "uuid": "b1", "logicalParentUuid": "q1"}',
        line("user", "k1", "b1", "a summary", isCompactSummary=True),
        line("user", "n1", "k1", "<command-name>/context</command-name><command-args>all</command-args>"),
        line("assistant", "a2", "n1", [{"type": "text", "text": "answer"}]),
    ]
    file = tmp_path / "x.jsonl"
    file.write_text("\n".join(lines))
    told = []
    for message in read_history(file):
        texts = [part.text for part in message.parts if isinstance(part, TextPart)]
        outcomes = [(part.tool_call_id, part.state) for part in message.parts if isinstance(part, ToolPart)]
        added = [part.raw["parts"][0]["text"] for part in message.parts if isinstance(part, OtherPart)]
        told.append((message.role, texts + added, outcomes))
    assert told == [
        ("user", ["second"], []),
        ("assistant", ["be quick"], [("call-x", "output-available"), ("call-y", "output-available")]),
        ("user", ["/context all"], []),
        ("assistant", ["answer"], []),
    ]


def test_titles_come_from_the_program_and_files_that_cannot_be_read_are_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "projects" / "-w"
    folder.mkdir(parents=True)
    transcripts = ClaudeTranscripts({"CLAUDE_CONFIG_DIR": str(tmp_path)})
    names = [f"{number:08d}-0000-0000-0000-000000000000" for number in range(4)]
    (folder / f"{names[0]}.jsonl").write_text(line("user", "u", None, "first\nprompt"))
    (folder / f"{names[1]}.jsonl").write_text(
        line("user", "u", None, "prompt") + '\n{"type": "ai-title", "aiTitle": "A title"}\n'
    )
    (folder / f"{names[2]}.jsonl").write_bytes(b"\xff\xfe" * 1000)
    (folder / f"{names[3]}.jsonl").mkdir()
    (folder / "agent-1.jsonl").write_text(line("user", "u", None, "a sub-agent"))
    assert {each.id: each.title for each in transcripts.list("/w")} == {
        names[0]: "first prompt",
        names[1]: "A title",
    }
    assert ClaudeTranscripts({"CLAUDE_CONFIG_DIR": str(tmp_path / "nothing")}).list(None) == []
    odd = tmp_path / "projects" / "-w------x-y"  # the name that the real program gave to this folder
    odd.mkdir()
    (odd / f"{names[0]}.jsonl").write_text(line("user", "u", None, "prompt"))
    assert transcripts.find(names[0], "/w/ü 😀.x_y") == odd / f"{names[0]}.jsonl"
