"""Mode `auto`: commands run in the sandbox without a question; one that fails there is asked about, never just run."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from dragoman.builtin import command_guard
from dragoman.client import Session
from dragoman.process.sandbox import Available, Backend
from dragoman.schema import v1
from dragoman.testing.scripted_client import RealTerminals
from tests.builtin.http_service import Answers, Service, ask
from tests.process.sandbox.kit import PYTHON, both, git, only_bubblewrap, only_thread, shared_folder

CONNECT = f"{PYTHON} -c \"import socket; socket.create_connection(('192.0.2.7', 443), 2)\""


class Place(NamedTuple):
    service: Path
    outside: Path


@pytest.fixture
def there() -> Iterator[Place]:
    # Neither in /tmp, which is private in bubblewrap, nor in a hidden folder of the home, which is protected.
    with tempfile.TemporaryDirectory(prefix="dragoman-test-", dir=shared_folder()) as base:
        (Path(base) / "outside").mkdir()
        yield Place(Path(base) / "service", Path(base) / "outside")


def serve(there: Place, name: Backend, monkeypatch: pytest.MonkeyPatch, **settings: Any) -> Service:
    """An agent in mode auto, in a sandbox of this backend."""
    monkeypatch.setattr(command_guard, "find_sandboxes", lambda roots: Available(backends=(name,), reasons={}))
    service = Service(there.service, mode="auto", **settings)
    git(service.project, "init", "-q")
    return service


def output(session: Session) -> dict[str, Any]:
    found: dict[str, Any] = list(session.state.tool_calls.values())[-1].raw_output
    return found


@both
async def test_a_command_runs_in_the_sandbox_without_a_question(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    async with service.session(permission=user, terminals=RealTerminals()) as session:
        await ask(session, "run touch made && echo done", "say {result}")
        assert user.asked == []
        assert output(session)["sandbox"] == name
        assert session.state.text == "done\n[ran in the sandbox]"
    assert (service.project / "made").exists()


@both
async def test_a_command_that_fails_in_the_sandbox_is_run_outside_with_permission_only(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once", "allow_once")
    target = there.outside / "file"
    async with service.session(permission=user) as session:
        await ask(session, f"run echo x >{target}", "say {result}")
        assert not target.exists()
        (question,) = user.asked
        labels = [option.name for option in question.options]
        assert labels[0] == "Allow once, outside the sandbox"
        # The question shows what the command lacked.
        assert f"which kept from it to change {target}" in str(question.tool_call.content)
        assert f"to change {target}" in output(session)["denials"]
        assert "The user refused" in session.state.text
        assert output(session)["sandbox"] == name

        await ask(session, f"run echo x >{target}", "say {result}")
        assert target.read_text() == "x\n"
        assert output(session)["sandbox"] == "off"
        assert "[ran outside the sandbox, by permission; inside it lacked to change" in session.state.text


@both
async def test_a_job_in_the_background_runs_in_the_sandbox(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    target = there.outside / "file"
    start = f'call bash {{"command": "echo in >in; echo x >{target}", "background": true}}'
    async with service.session(permission=user) as session:
        await ask(session, start, 'call bash_output {"id": "bg_1", "wait": 10}', "say {result}")
        assert user.asked == []
        assert (service.project / "in").exists()
        assert not target.exists()
        assert f"[ran in the sandbox, which kept from it to change {target}]" in session.state.text
        assert output(session)["sandbox"] == name


@both
async def test_a_cd_in_the_sandbox_lasts_within_the_folders_of_the_session(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(there, name, monkeypatch)
    (service.project / "sub").mkdir()
    async with service.session("reject_once") as session:
        await ask(session, "run cd sub && echo moved", "run pwd", "say {result}")
        assert session.state.text == f"{service.project}/sub\n[ran in the sandbox]"
        await ask(session, f"run cd {there.outside}", "run pwd", "say {result}")
        assert session.state.text.startswith(f"{service.project}/sub\n")


@both
async def test_the_network_is_asked_about(name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, f"run {CONNECT} 2>&1 | tail -n 1", "say {result}")
        assert len(user.asked) == 1
        assert "which kept from it the network" in session.state.text


@only_thread
async def test_a_failure_that_has_nothing_to_do_with_the_sandbox_is_not_asked_about(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    async with service.session(permission=user) as session:
        # `ls -l` looks for the socket of a name service, which this backend refuses.
        await ask(session, "run ls -l . missing", "say {result}")
        assert user.asked == []
        assert output(session)["exitCode"] == 2


@both
async def test_a_rule_of_the_user_lets_a_command_run_outside_and_a_deny_and_an_ask_still_hold(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    target = there.outside / "file"
    service.home.mkdir(exist_ok=True)
    rules = f'{{"rules": {{"allow": ["execute:cp a {target}"], "deny": ["execute:make *"], "ask": ["execute:rm *"]}}}}'
    (service.home / "settings.json").write_text(rules)
    (service.project / "a").write_text("a")
    async with service.session(permission=user) as session:
        await ask(session, f"run cp a {target}", "say {result}")
        assert target.exists()
        assert user.asked == []
        assert session.state.text.endswith("[ran outside the sandbox]")
        await ask(session, "run make all", "run rm a")
        assert len(user.asked) == 1
    assert (service.project / "a").exists()


@only_thread
async def test_a_hook_that_a_command_made_is_removed_on_the_thread(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    (service.project / "AGENTS.md").write_text("old")
    code = "open('.git/hooks/' + 'pre-commit', 'w').write('evil'); open('AGENTS' + '.md', 'w').write('evil')"
    async with service.session(permission=user) as session:
        seen = await ask(session, f'run {PYTHON} -c "{code}"', "say {result}")
        notices = [update for update in seen if isinstance(update, v1.Notice)]
        assert user.asked == []
        assert list(session.state.tool_calls.values())[-1].status == "failed"
        assert {each["happened"] for each in output(session)["violations"]} == {"created", "changed"}
        assert all(each["restored"] for each in output(session)["violations"])
        assert "[violation: the protected file" in session.state.text
        assert [notice.title for notice in notices] == ["A command changed a protected file"] * 2
    assert not (service.project / ".git" / "hooks" / "pre-commit").exists()
    assert (service.project / "AGENTS.md").read_text() == "old"


@only_bubblewrap
async def test_a_hook_cannot_be_changed_in_bubblewrap(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    code = "open('.git/hooks/' + 'pre-commit', 'w').write('evil')"
    async with service.session(permission=user) as session:
        await ask(session, f'run {PYTHON} -c "{code}"', "say {result}")
        assert len(user.asked) == 1
        assert "Read-only file system" in session.state.text
        assert "violations" not in output(session)
    assert not (service.project / ".git" / "hooks" / "pre-commit").exists()


@both
async def test_the_agents_own_files_are_hidden(name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, f"run wc -c {service.settings.store}")
        assert output(session)["exitCode"] != 0
        assert f"to read {service.settings.store}" in output(session)["denials"]


@both
async def test_the_folder_that_a_model_names_is_not_a_root(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(there, name, monkeypatch)
    async with service.session("reject_once") as session:
        await ask(session, f'call bash {{"command": "touch here", "cwd": "{there.outside}"}}')
        assert output(session)["sandbox"] == name
    assert not (there.outside / "here").exists()


@both
async def test_pytest_runs_in_an_environment_of_the_project(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    (service.project / "test_it.py").write_text(
        "def test_it(tmp_path):\n    (tmp_path / 'x').write_text('y')\n    assert (tmp_path / 'x').read_text() == 'y'\n"
    )
    async with service.session(permission=user) as session:
        await ask(session, f"run {PYTHON} -m venv --without-pip .venv")
        (packages,) = service.project.glob(".venv/lib/python*/site-packages")
        installed = Path(pytest.__file__).parent.parent
        for package in ("pytest", "_pytest", "pluggy", "iniconfig", "packaging", "pygments"):
            shutil.copytree(installed / package, packages / package)
        shutil.copy(installed / "py.py", packages)
        await ask(session, "run .venv/bin/python -m pytest -q 2>&1 | tail -n 1", "say {result}")
        assert user.asked == []
        assert session.state.text.startswith("1 passed")
        assert session.state.text.endswith("[ran in the sandbox]")


@both
async def test_edits_are_as_in_mode_edit(name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service, user = serve(there, name, monkeypatch), Answers("reject_once")
    async with service.session(permission=user) as session:
        await ask(session, "write a.txt x", "write AGENTS.md x", f"write {there.outside}/b x")
        assert len(user.asked) == 2
    assert [path.name for path in service.project.iterdir() if path.name != ".git"] == ["a.txt"]


@both
async def test_auto_is_offered_where_a_sandbox_works_and_only_there(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(there, name, monkeypatch)
    async with service.session() as session:
        assert session.state.modes is not None
        assert "auto" in [mode.id for mode in session.state.modes.available_modes]
    nothing = Available(backends=(), reasons={"thread": "none here", "bubblewrap": "none here"})
    monkeypatch.setattr(command_guard, "find_sandboxes", lambda roots: nothing)
    user = Answers("reject_once")
    async with service.session(permission=user) as session:
        assert session.state.modes is not None
        assert "auto" not in [mode.id for mode in session.state.modes.available_modes]
        assert session.state.mode == "edit"
        await ask(session, "run touch made")
        assert len(user.asked) == 1


@both
async def test_a_home_is_too_wide_for_a_sandbox(name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    service = serve(there, name, monkeypatch)
    monkeypatch.setenv("HOME", str(service.project))
    os.makedirs(service.project / ".ssh")
    async with service.session() as session:
        assert session.state.modes is not None
        assert "auto" not in [mode.id for mode in session.state.modes.available_modes]


async def test_a_prompt_cannot_switch_to_auto(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        await ask(session, "/mode auto")
        assert session.state.mode == "ask"


@only_bubblewrap
async def test_files_that_rules_deny_are_closed_to_commands_inside_and_outside(
    name: Backend, there: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = serve(there, name, monkeypatch)
    made = there.outside / "made"
    (service.project / ".env").write_text("canary")
    (service.project / "read.sh").write_text(f"cat $(echo .en)v; echo x >{made}")
    service.home.mkdir(exist_ok=True)
    (service.home / "settings.json").write_text('{"rules": {"deny": ["read:.env"], "allow": ["execute:sh ./read.sh"]}}')
    async with service.session("reject_once") as session:
        await ask(session, "run sh read.sh; true", "say {result}")
        assert output(session)["sandbox"] == name
        assert "canary" not in session.state.text
        assert not made.exists()
        await ask(session, "run sh ./read.sh", "say {result}")
        assert "canary" not in session.state.text
        assert made.exists()
        (service.project / ".env").rename(service.project / ".old")
        await ask(session, "run sh read.sh; true", "say {result}")
        (service.project / ".env").write_text("made later: canary")
        for line in ("run sh read.sh; true", "run sh ./read.sh"):
            await ask(session, line, "say {result}")
            assert "canary" not in session.state.text
