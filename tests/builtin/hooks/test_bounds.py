"""What a hook cannot do: hide what runs, end a turn by odd output, or become another program after it was accepted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.builtin.hooks.answer import read_answer
from dragoman.builtin.hooks.session_hooks import SessionHooks
from dragoman.process.finished import Finished
from dragoman.settings.effective import load_settings
from dragoman.settings.hooks import EditCommand, Hook, accepted_sha256, project_files
from tests.builtin.hooks.test_hooks import answering, service_with
from tests.builtin.http_service import Answers, Service


async def test_the_user_is_asked_about_the_arguments_that_a_hook_put_in(tmp_path: Path) -> None:
    change = {"hookSpecificOutput": {"updatedInput": {"command": "rm -rf build"}}}
    hook = {"matcher": "bash", "command": answering(change)}
    service, answers = service_with(tmp_path, {"before_tool": [hook]}, mode="ask"), Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("run touch harmless\nsay done")
        (call,) = session.state.tool_calls.values()
    (asked,) = answers.asked
    assert "rm -rf build" in str(asked.tool_call.title)
    assert asked.tool_call.raw_input == {"command": "rm -rf build"}
    assert (call.title, call.raw_input) == (asked.tool_call.title, asked.tool_call.raw_input)
    async with Service(tmp_path).client() as agent:  # a session that is loaded shows the same
        again = await agent.load_session(session.id, service.project)
        (shown,) = again.state.tool_calls.values()
        assert (shown.title, shown.raw_input) == (call.title, call.raw_input)


@pytest.mark.parametrize(
    "printed",
    [
        '{"decision": ["allow"]}',
        '{"decision": {}}',
        '{"a":' * 100_000,
        '{"hookSpecificOutput": {"permissionDecision": 1}}',
    ],
)
def test_odd_output_is_a_failure_of_the_hook(printed: str) -> None:
    assert read_answer(Finished(0, printed, ""), 1.0).failure


async def test_a_permission_does_not_count_for_arguments_of_another_hook(tmp_path: Path) -> None:
    allow = {"hookSpecificOutput": {"permissionDecision": "allow"}}
    change = {"hookSpecificOutput": {"updatedInput": {"path": "other.txt", "text": "x"}}}
    hooks = [{"command": answering(allow)}, {"command": answering(change)}]
    service, answers = service_with(tmp_path, {"before_tool": hooks}, mode="ask"), Answers("reject_once")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert len(answers.asked) == 1
    both = {"hookSpecificOutput": {"permissionDecision": "allow", "updatedInput": {"path": "other.txt", "text": "x"}}}
    service = service_with(tmp_path, {"before_tool": [{"command": answering(both)}]}, mode="ask")
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
    assert len(answers.asked) == 1
    assert (service.project / "other.txt").exists()


async def test_hooks_run_as_soon_as_broken_settings_are_mended(tmp_path: Path) -> None:
    hook = {"matcher": "write", "command": "echo 'no files today' >&2; exit 2"}
    service, answers = service_with(tmp_path, {"before_tool": [hook]}, mode="full"), Answers("reject_once")
    whole = (service.home / "settings.json").read_text()
    (service.home / "settings.json").write_text(whole[:-5])
    async with service.session(permission=answers) as session:
        await session.prompt("write a.txt x\nsay done")
        assert len(answers.asked) == 1  # everything is asked about until the file can be read
        (service.home / "settings.json").write_text(whole)
        await session.prompt("write a.txt x\nsay {result}")
        assert "no files today" in session.state.turns[-1].text
    assert not (service.project / "a.txt").exists()


def _project(tmp_path: Path, settings: dict[str, object], *, mode: str) -> Service:
    service = Service(tmp_path, mode=mode)
    (service.project / ".dragoman").mkdir()
    (service.project / ".git").mkdir()
    (service.project / "tools").mkdir()
    (service.project / "tools/check.sh").write_text("exit 0\n")
    (service.project / ".dragoman/settings.json").write_text(json.dumps(settings))
    settings_now = load_settings(service.home, service.project)
    for hook in settings_now.proposed_hooks().values():
        settings_now.accept_hook(hook)
    return service


def _changes(tmp_path: Path) -> str:
    return f"read tools/check.sh\nedit tools/check.sh exit 0 => touch {tmp_path}/escaped"


async def test_a_script_that_the_agent_changes_is_not_run_by_an_accepted_hook(tmp_path: Path) -> None:
    hooks = {"after_tool": [{"command": 'sh "$CLAUDE_PROJECT_DIR"/tools/check.sh; true'}]}
    service = _project(tmp_path, {"hooks": hooks}, mode="edit")
    async with service.session("reject_once") as session:
        await session.prompt(f"{_changes(tmp_path)}\nwrite b.txt x\nsay done")
        assert "has changed since you accepted it" in str(session.state.timeline)
    assert (service.project / "b.txt").exists()
    assert not (tmp_path / "escaped").exists()
    assert list(load_settings(service.home, service.project).proposed_hooks())  # the user is asked to look again


async def test_a_changed_formatter_of_the_project_is_not_run_after_an_edit(tmp_path: Path) -> None:
    service = _project(tmp_path, {"after_edit": [{"files": "*.txt", "check": "sh tools/check.sh {file}"}]}, mode="edit")
    async with service.session("reject_once") as session:
        await session.prompt("write a.txt x\nsay {result}")
        assert "was not formatted" not in session.state.turns[-1].text
        await session.prompt(f"{_changes(tmp_path)}\nwrite b.txt x\nsay {{result}}")
        assert "was not formatted and checked" in session.state.turns[-1].text
    assert not (tmp_path / "escaped").exists()


def test_the_files_that_a_hook_names_are_found_in_its_shell_lines(tmp_path: Path) -> None:
    for name in ("a.sh", "b c.py", "d.py"):
        (tmp_path / name).write_text(name)
    for line, files in (
        ("./a.sh;true", ["a.sh"]),
        ("python3 'b c.py' | tee log", ["b c.py"]),
        ("sh ${DRAGOMAN_PROJECT_DIR}/a.sh && python d.py", ["a.sh", "d.py"]),
        ("make check", []),
        ("sh 'a.sh", []),
        ("cat ../outside /etc/passwd", []),
    ):
        assert project_files(Hook("stop", line), tmp_path) == files, line
    both = EditCommand("*.py", "python d.py {file}", "sh a.sh {file}")
    assert project_files(both, tmp_path) == ["d.py", "a.sh"]
    before = accepted_sha256(both, tmp_path)
    (tmp_path / "a.sh").chmod(0o755)
    assert accepted_sha256(both, tmp_path) == before
    (tmp_path / "a.sh").write_text("other")
    assert accepted_sha256(both, tmp_path) != before
    missing = Hook("stop", "sh later.sh")
    before = accepted_sha256(missing, tmp_path)
    (tmp_path / "later.sh").write_text("made by an agent")
    assert accepted_sha256(missing, tmp_path) != before


async def test_a_project_hook_that_was_changed_is_asked_about_like_one_that_fails(tmp_path: Path) -> None:
    async def notify(title: str, description: str) -> None:
        notices.append(description)

    notices: list[str] = []
    hook = Hook("before_tool", f"touch {tmp_path}/ran")
    hooks = SessionHooks([(hook, "project")], str(tmp_path), dict, notify, {}, lambda hook: False)
    result = await hooks.before_tool("write", {}, "call")
    assert result.wish == "ask"
    assert hook.name in notices[0]
    assert not (tmp_path / "ran").exists()
