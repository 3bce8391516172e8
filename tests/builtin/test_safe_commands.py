"""Commands that only read run without a question in every mode, with a plain environment, and nothing else does."""

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from dragoman.builtin.command_guard import CommandGuard, safe_environment
from dragoman.builtin.placement import OUTSIDE
from dragoman.client import Session
from dragoman.errors import RequestError
from dragoman.policy.modes import MODES
from dragoman.process.sandbox import ProtectedChange, Tripwire
from dragoman.schema import v1
from dragoman.testing.scripted_client import RealTerminals
from tests import machine
from tests.builtin.http_service import Answers, Service, ask
from tests.process.sandbox.kit import git

NOT_FULL = [mode for mode in MODES if mode != "full"]
needs_git = machine.needs("git")


def output(session: Session) -> dict[str, Any]:
    """The raw output of the last call."""
    found: dict[str, Any] = list(session.state.tool_calls.values())[-1].raw_output
    return found


def make_project(service: Service) -> None:
    git(service.project, "init", "-q")
    (service.project / "a.txt").write_text("content of a\n")


@needs_git
@pytest.mark.parametrize("mode", NOT_FULL)
@pytest.mark.parametrize("line", ["ls -la", "cat a.txt | head -n 1", "git status --short", "grep -n content a.txt"])
async def test_a_safe_command_runs_without_a_question_in_every_mode(tmp_path: Path, mode: str, line: str) -> None:
    service, user = Service(tmp_path, mode=mode), Answers("reject_once")
    make_project(service)
    async with service.session(permission=user) as session:
        await ask(session, f"run {line}")
        assert user.asked == []
        assert output(session)["exitCode"] == 0
        assert "a" in output(session)["text"]


@pytest.mark.parametrize("mode", ["ask", "edit", "plan"])
@pytest.mark.parametrize("line", ["touch b", "ls; touch b", "ls > b", "cat ../home/rules.json", "ls $(touch b)"])
async def test_anything_else_is_asked_about_or_refused(tmp_path: Path, mode: str, line: str) -> None:
    service, user = Service(tmp_path, mode=mode), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, f"run {line}")
        assert len(user.asked) == (0 if mode == "plan" else 1)
        assert list(session.state.tool_calls.values())[-1].status == "failed"
    assert not (service.project / "b").exists()


@pytest.mark.parametrize(("action", "asked"), [("deny", 0), ("ask", 1)])
@pytest.mark.parametrize("rule", ["execute:cat *", "read:a.txt", "execute"])
async def test_a_deny_or_ask_of_the_user_still_holds(tmp_path: Path, action: str, asked: int, rule: str) -> None:
    service, user = Service(tmp_path), Answers("reject_once")
    make_project(service)
    service.home.mkdir(exist_ok=True)
    (service.home / "settings.json").write_text(json.dumps({"rules": {action: [rule]}}))
    async with service.session(permission=user) as session:
        await ask(session, "run cat a.txt", "say {result}")
        assert "content of a" not in session.state.text
        # A command that reads a denied file may do so under another name: that is asked about.
        assert len(user.asked) == (1 if rule == "read:a.txt" else asked)


async def test_safe_commands_can_be_switched_off(tmp_path: Path) -> None:
    service, user = Service(tmp_path, safe_commands=False), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, "run ls")
        assert len(user.asked) == 1


@needs_git
async def test_git_is_asked_about_where_the_repository_names_a_program(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("reject_once")
    make_project(service)
    git(service.project, "config", "diff.external", "./run-me")
    async with service.session(permission=user) as session:
        await ask(session, "run git rev-parse --show-toplevel", "run git diff")
        assert len(user.asked) == 1


async def test_the_environment_of_a_safe_command_is_plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    service, terminals = Service(tmp_path, mode="plan"), RealTerminals()
    make_project(service)
    bad = tmp_path / "bad.sh"
    bad.write_text(f"touch {tmp_path}/ran\n")
    for name in ("BASH_ENV", "ENV", "GIT_EXTERNAL_DIFF", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN"):
        monkeypatch.setenv(name, str(bad))
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    # No safe command shows its environment, so the variables are looked at where they are made.
    env = safe_environment()
    for name in ("BASH_ENV", "ENV", "GIT_EXTERNAL_DIFF", "RIPGREP_CONFIG_PATH", "GREP_OPTIONS", "LESSOPEN", "GIT_DIR"):
        assert name not in env
    assert (env["GIT_OPTIONAL_LOCKS"], env["GIT_TERMINAL_PROMPT"], env["GIT_PAGER"]) == ("0", "0", "cat")
    assert (env["GIT_CONFIG_KEY_0"], env["GIT_CONFIG_VALUE_0"]) == ("core.fsmonitor", "false")
    async with service.session(terminals=terminals) as session:
        await ask(session, "run git status --short", "run ls")
        # Not in the terminal of the client, whose environment can only be added to.
        content = [item for call in session.state.tool_calls.values() for item in call.content]
        assert not any(isinstance(item, v1.Terminal) for item in content)
        assert {call.status for call in session.state.tool_calls.values()} == {"completed"}
    assert not (tmp_path / "ran").exists()


async def test_a_client_is_asked_about_what_its_rules_concern(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("reject_once")
    make_project(service)
    async with service.client(permission=user) as agent:
        meta = {"dragoman": {"asksAbout": ["execute:cat *"]}}
        session = await agent.new_session(service.project, meta=meta)
        await ask(session, "run ls", "run cat a.txt")
        assert [request.tool_call.title for request in user.asked] == ["`cat a.txt`"]
        for wrong in ("execute:cat *", [1], ["nonsense::"]):
            with pytest.raises(RequestError) as refused:
                await agent.new_session(service.project, meta={"dragoman": {"asksAbout": wrong}})
            assert refused.value.code == -32602


async def test_a_change_of_a_protected_file_is_reported_without_a_sandbox_too(tmp_path: Path) -> None:
    service, user = Service(tmp_path), Answers("allow_once")
    make_project(service)
    (service.project / "AGENTS.md").write_text("old")
    (service.project / "change.sh").write_text("echo evil >AGENTS.md\n")
    async with service.session(permission=user) as session:
        await ask(session, "run sh change.sh", "say {result}")
        (violation,) = output(session)["violations"]
        assert (violation["path"], violation["happened"]) == (str(service.project / "AGENTS.md"), "changed")
        assert output(session)["sandbox"] == "off"
        assert "[violation: the protected file" in session.state.text
    assert (service.project / "AGENTS.md").read_text() == "evil\n"
    assert (service.home / "kept" / os.path.basename(violation["kept"])).read_text() == "old"


async def test_a_protected_file_is_put_back_if_the_settings_say_so(tmp_path: Path) -> None:
    service = Service(tmp_path, restores_protected=True)
    make_project(service)
    (service.project / "change.sh").write_text("echo evil >.git/hooks/pre-commit\n")
    async with service.session("allow_once") as session:
        await ask(session, "run sh change.sh")
        assert [each["restored"] for each in output(session)["violations"]] == [True]
        assert list(session.state.tool_calls.values())[-1].status == "failed"
    assert not (service.project / ".git" / "hooks" / "pre-commit").exists()


async def test_a_protected_file_that_the_permitted_command_names_may_change(tmp_path: Path) -> None:
    service = Service(tmp_path, restores_protected=True)
    make_project(service)
    async with service.session("allow_once") as session:
        await ask(session, "run echo new >AGENTS.md")
        assert "violations" not in output(session)
    assert (service.project / "AGENTS.md").read_text() == "new\n"


async def test_a_permitted_edit_while_the_files_are_looked_at_is_not_counted_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = Service(tmp_path, restores_protected=True)
    make_project(service)
    guard = CommandGuard((str(service.project),), service.settings)
    arm, has_looked, may_go_on = Tripwire.arm, asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def slowly(tripwire: Tripwire) -> None:
        arm(tripwire)
        loop.call_soon_threadsafe(has_looked.set)
        assert may_go_on.wait(60)

    monkeypatch.setattr(Tripwire, "arm", slowly)

    async def command() -> list[ProtectedChange]:
        async with guard.watch(OUTSIDE) as changes:
            await noted
        return changes

    file = service.project / "AGENTS.md"
    noted: asyncio.Future[None] = loop.create_future()
    running = asyncio.ensure_future(command())
    await asyncio.wait_for(has_looked.wait(), 10)
    file.write_text("new")
    noting = asyncio.ensure_future(guard.note_written(str(file)))
    await asyncio.sleep(0)
    may_go_on.set()
    await noting
    noted.set_result(None)
    assert await running == []
    assert file.read_text() == "new"


async def test_a_permitted_edit_during_a_command_is_not_counted_as_a_change_of_the_command(tmp_path: Path) -> None:
    service = Service(tmp_path, mode="full", restores_protected=True)
    make_project(service)
    (service.project / "wait.sh").write_text("while ! test -e go; do sleep 0.02; done\n")
    async with service.session("allow_once") as session:
        turn = session.prompt("run sh wait.sh\n& write AGENTS.md new\nsay done")
        async for update in turn:
            if not isinstance(update, v1.ToolCallUpdate) or update.status != "completed":
                continue
            if session.state.tool_calls[update.tool_call_id].kind == "edit":
                (service.project / "go").write_text("")
        assert all("violations" not in (call.raw_output or {}) for call in session.state.tool_calls.values())
    assert (service.project / "AGENTS.md").read_text() == "new"
