"""Hooks of the user around tool calls, prompts and the end of a turn: real commands, with the built-in agent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.hooks.answer import read_answer
from dragoman.client import Session
from dragoman.process.finished import Finished
from dragoman.settings.effective import load_settings
from tests.builtin.fixtures import model_view
from tests.builtin.http_service import Answers, Service


def service_with(tmp_path: Path, hooks: Any = None, *, after_edit: Any = None, mode: str = "edit") -> Service:
    service = Service(tmp_path, mode=mode)
    settings = {"hooks": hooks or {}}
    if after_edit is not None:
        settings["after_edit"] = after_edit
    service.home.mkdir(exist_ok=True)
    (service.home / "settings.json").write_text(json.dumps(settings))
    return service


def answering(answer: dict[str, Any]) -> str:
    return f"cat >/dev/null; printf %s '{json.dumps(answer)}'"


def outcome(session: Session) -> tuple[str, str]:
    """Status and text of the last tool call."""
    call = list(session.state.tool_calls.values())[-1]
    return str(call.status), str(call.content) + str(call.raw_output)


async def test_a_hook_refuses_a_call_with_exit_code_2_and_the_model_reads_why(tmp_path: Path) -> None:
    hook = {"matcher": "write", "command": "echo 'no files today' >&2; exit 2"}
    service = service_with(tmp_path, {"before_tool": [hook]}, mode="full")
    async with service.session("allow_once") as session:
        await session.prompt("write a.txt x\nsay {result}")
        assert "no files today" in session.state.turns[-1].text
        assert not (service.project / "a.txt").exists()
        await session.prompt("run echo hello > b.txt\nsay done")
        assert (service.project / "b.txt").exists()  # another tool is not its concern


@pytest.mark.parametrize("decision", [{"is": "odd"}, ["allow"], 1, "perhaps"])
def test_a_decision_that_is_not_known_is_a_failure_of_the_hook(decision: object) -> None:
    finished = Finished(0, json.dumps({"decision": decision}), "")
    assert "is unknown; use allow, ask or deny" in read_answer(finished, 1.0).failure


async def test_a_hook_is_sent_what_it_decides_about(tmp_path: Path) -> None:
    hook = {"command": f"cat > {tmp_path}/seen.json"}
    service = service_with(tmp_path, {"before_tool": [hook]})
    async with service.session() as session:
        await session.prompt("write a.txt hello\nsay done")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert seen["hook_event_name"] == "before_tool"
    assert seen["tool_name"] == "write"
    assert seen["tool_input"]["path"] == "a.txt"
    assert (seen["cwd"], seen["permission_mode"], seen["session_id"]) == (str(service.project), "edit", session.id)


async def test_a_hook_written_for_claude_code_gets_its_names(tmp_path: Path) -> None:
    inner = [{"type": "command", "command": f"cat > {tmp_path}/seen.json", "timeout": 5}]
    service = service_with(tmp_path, {"PreToolUse": [{"matcher": "Edit|Write", "hooks": inner}]})
    async with service.session() as session:
        await session.prompt("write a.txt hello\nsay done")
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert (seen["hook_event_name"], seen["tool_name"]) == ("PreToolUse", "Write")
    assert seen["tool_input"]["file_path"] == seen["tool_input"]["path"] == "a.txt"
    assert seen["tool_input"]["content"] == "hello"


async def test_a_hook_permits_what_no_rule_concerns_but_never_what_a_rule_denies(tmp_path: Path) -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow"}}
    service = service_with(tmp_path, {"before_tool": [{"command": answering(allow)}]}, mode="ask")
    (service.home / "settings.json").write_text(
        json.dumps({"hooks": {"before_tool": [{"command": answering(allow)}]}, "rules": {"deny": ["edit:secret.txt"]}})
    )
    answers = Answers(None)
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nwrite secret.txt x\nsay {result}")
    assert (service.project / "a.txt").exists()
    assert not (service.project / "secret.txt").exists()
    assert answers.asked == []


async def test_a_hook_does_not_permit_protected_files(tmp_path: Path) -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow"}}
    service, answers = service_with(tmp_path, {"before_tool": [{"command": answering(allow)}]}), Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write .git/hooks/pre-commit x\nsay done")
    assert len(answers.asked) == 1
    assert not (service.project / ".git/hooks/pre-commit").exists()


@pytest.mark.parametrize(
    "command", ["exit 3", "no-such-program-at-all", "sleep 60", 'printf \'{"decision": "perhaps"}\'']
)
async def test_a_check_that_cannot_run_has_not_passed(tmp_path: Path, command: str) -> None:
    """A permitted call is asked about if the hook before it fails."""
    hook = {"matcher": "write", "command": command, "timeout": 0.2}
    service, answers = service_with(tmp_path, {"before_tool": [hook]}), Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert len(answers.asked) == 1
    assert not (service.project / "a.txt").exists()


async def test_a_hook_changes_the_arguments_and_permission_is_judged_for_the_changed_ones(tmp_path: Path) -> None:
    change = {"hookSpecificOutput": {"updatedInput": {"path": "/etc/other.txt", "text": "x"}}}
    service = service_with(tmp_path, {"before_tool": [{"matcher": "write", "command": answering(change)}]})
    answers = Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert len(answers.asked) == 1
    assert not (service.project / "a.txt").exists()


async def test_what_a_hook_permits_is_not_what_another_one_makes_of_it(tmp_path: Path) -> None:
    change = {"hookSpecificOutput": {"updatedInput": {"path": "b.txt", "text": "x"}}}
    hooks = [{"command": answering(answer)} for answer in ({"decision": "allow"}, change)]
    service = service_with(tmp_path, {"before_tool": hooks}, mode="ask")
    answers = Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert len(answers.asked) == 1
    assert not any((service.project / name).exists() for name in ("a.txt", "b.txt"))


async def test_a_hook_replaces_a_result_and_shows_the_user_a_message(tmp_path: Path) -> None:
    answer = {"systemMessage": "one name was hidden", "hookSpecificOutput": {"updatedToolOutput": "content of X"}}
    service = service_with(tmp_path, {"after_tool": [{"matcher": "read", "command": answering(answer)}]})
    (service.project / "a.txt").write_text("content of Ada\n")
    async with service.session() as session:
        await session.prompt("read a.txt\nsay {result}")
        assert session.state.turns[-1].text == "content of X"
        assert "one name was hidden" in str(session.state.timeline)


async def test_a_hook_that_wants_no_more_work_refuses_the_call(tmp_path: Path) -> None:
    answer = {"continue": False, "stopReason": "the budget is used up", "decision": "allow"}
    service = service_with(tmp_path, {"before_tool": [{"command": answering(answer)}]}, mode="full")
    async with service.session() as session:
        await session.prompt("write a.txt x\nsay {result}")
        assert "the budget is used up" in session.state.turns[-1].text
    assert not (service.project / "a.txt").exists()


async def test_a_hook_after_a_call_adds_to_its_result(tmp_path: Path) -> None:
    answer = {"decision": "block", "reason": "run the tests", "hookSpecificOutput": {"additionalContext": "see CI"}}
    service = service_with(tmp_path, {"after_tool": [{"matcher": "read", "command": answering(answer)}]})
    (service.project / "a.txt").write_text("content\n")
    async with service.session() as session:
        await session.prompt("read a.txt\nsay {result}")
        said = session.state.turns[-1].text
    assert "content" in said
    assert "run the tests" in said
    assert "see CI" in said


async def test_a_refused_prompt_reaches_no_model_not_even_later(tmp_path: Path) -> None:
    hook = {"command": "grep -q secret && { echo 'it names a secret' >&2; exit 2; } || exit 0"}
    service = service_with(tmp_path, {"prompt": [hook]})
    async with service.session() as session:
        await session.prompt("say the secret")
        assert "it names a secret" in session.state.turns[-1].text
        await session.prompt("say hello")
        assert session.state.turns[-1].text == "hello"
    from dragoman.store.messages import message_from_row
    from dragoman.store.sessions import Store

    store = await Store.open(service.settings.store)
    try:
        rows = [row async for row in _rows(store, session.id)]
    finally:
        await store.close()
    assert "secret" not in str(model_view([message_from_row(row) for row in rows]))


async def _rows(store: Any, session_id: str) -> Any:
    for row in await store.messages(session_id):
        yield row


async def test_a_hook_at_the_end_makes_the_turn_go_on_a_bounded_number_of_times(tmp_path: Path) -> None:
    count = f"echo x >> {tmp_path}/count"
    service = service_with(tmp_path, {"stop": [{"command": f"cat >/dev/null; {count}; echo 'tests fail' >&2; exit 2"}]})
    async with service.session() as session:
        await session.prompt("say done")
    assert len((tmp_path / "count").read_text().split()) == 4
    assert "tests fail" in str(session.state.timeline)


async def test_a_hook_runs_when_the_user_is_asked(tmp_path: Path) -> None:
    service = service_with(tmp_path, {"notification": [{"command": f"cat > {tmp_path}/seen.json"}]}, mode="ask")
    async with service.session("allow_once") as session:
        await session.prompt("write a.txt x\nrun while [ ! -s ../seen.json ]; do sleep 0.05; done\nsay done")
    assert "permission" in json.loads((tmp_path / "seen.json").read_text())["message"]


async def test_files_are_formatted_and_checked_after_an_edit(tmp_path: Path) -> None:
    commands = [
        {
            "files": "*.txt",
            "format": "tr a-z A-Z < {file} > {file}.new && mv {file}.new {file}",
            "check": "grep -n BAD {file} && exit 1 || exit 0",
        }
    ]
    service = service_with(tmp_path, after_edit=commands)
    async with service.session() as session:
        await session.prompt("write a.txt a bad line\nsay {result}")
        said = session.state.turns[-1].text
        assert (service.project / "a.txt").read_text().startswith("A BAD LINE")
        assert "was formatted" in said
        assert "1:A BAD LINE" in said
        await session.prompt("write ..c.txt good\nsay done")
        assert (service.project / "..c.txt").read_text().startswith("GOOD")
        await session.prompt("write b.md a bad line\nsay {result}")
        assert "formatted" not in session.state.turns[-1].text


async def test_hooks_of_a_project_run_only_if_the_user_accepted_them_and_cannot_permit(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="ask")
    (service.project / ".dragoman").mkdir()
    (service.project / ".git").mkdir()
    change = {"path": "b.txt", "text": "x"}
    allow = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": change}}
    hooks = {"before_tool": [{"command": f"touch {tmp_path}/ran; {answering(allow)}"}]}
    (service.project / ".dragoman/settings.json").write_text(json.dumps({"hooks": hooks}))
    answers = Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
        assert "which are not run" in str(session.state.timeline)
    assert not (tmp_path / "ran").exists()
    settings = load_settings(service.home, service.project)
    (name, hook), *_ = settings.proposed_hooks().items()
    settings.accept("hook", name, hook.sha256)
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert (tmp_path / "ran").exists()
    assert len(answers.asked) == 2  # the hook's permission does not count
    assert "a.txt" in str(answers.asked[1])  # nor do its arguments
    assert "b.txt" not in str(answers.asked[1])
    assert not (service.project / "a.txt").exists()


async def test_a_long_input_that_a_hook_does_not_read_blocks_nothing(tmp_path: Path) -> None:
    service = service_with(tmp_path, {"before_tool": [{"command": "exit 0"}]})
    async with service.session() as session:
        await session.prompt("write a.txt " + "x" * 300_000)
    assert (service.project / "a.txt").stat().st_size >= 300_000


def test_wrong_hooks_are_named_with_their_place(tmp_path: Path) -> None:
    from dragoman.errors import ConfigError

    for value, words in (
        ({"before_tol": []}, "before_tool"),
        ({"stop": [{"command": ""}]}, "needs a command"),
        ({"stop": [{"command": "x", "timeout": 0}]}, "timeout must be"),
        ({"before_tool": [{"matcher": "(", "command": "x"}]}, "regular expression"),
        ({"stop": [{"hooks": [{"type": "prompt", "prompt": "x"}]}]}, "type"),
    ):
        (tmp_path / "settings.json").write_text(json.dumps({"hooks": value}))
        with pytest.raises(ConfigError, match=words):
            load_settings(tmp_path)
    (tmp_path / "settings.json").write_text(json.dumps({"after_edit": [{"files": "*.py", "check": "ruff check"}]}))
    with pytest.raises(ConfigError, match="must contain"):
        load_settings(tmp_path)


def test_a_hook_of_a_project_is_accepted_by_its_name_on_the_command_line(tmp_path: Path) -> None:
    import os
    import subprocess
    import sys

    project, home = tmp_path / "project", tmp_path / "home"
    (project / ".dragoman").mkdir(parents=True)
    (project / ".git").mkdir()
    (project / ".dragoman/settings.json").write_text('{"hooks": {"stop": [{"command": "make \\u202echeck"}]}}')
    (name,) = load_settings(home, project).proposed_hooks()
    run = [sys.executable, "-m", "dragoman", "agents", "accept", "--hook"]
    env = {**os.environ, "DRAGOMAN_HOME": str(home)}
    wrong = subprocess.run([*run, "stop-0"], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert wrong.returncode != 0
    assert name in wrong.stderr
    done = subprocess.run([*run, name, "--yes"], cwd=project, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "<U+202E>" in done.stderr
    config = next(home.rglob("accepted.json")).parent
    assert load_settings(config, project).proposed_hooks() == {}
