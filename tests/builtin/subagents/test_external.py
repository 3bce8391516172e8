"""Another ACP agent as a subagent: only in the sandbox, only what the user's settings name, asked like any agent."""

import json
import os
import re
import sys
import tempfile
from pathlib import Path

import pytest

from dragoman.policy import parse_rule
from dragoman.process.sandbox import Available
from dragoman.registry.agents import load_agents
from dragoman.registry.sandboxed import open_agent_sandbox
from dragoman.schema import v1
from dragoman.settings.effective import load_settings
from dragoman.settings.places import cache_dir, data_dir
from tests import machine
from tests.builtin.http_service import Answers, Service, ask
from tests.builtin.subagents.test_runs import calls, output_of, settings, task, text_of

HERE = machine.sandbox()
needs_sandbox = pytest.mark.skipif(
    not HERE.backends or sys.prefix.startswith(("/tmp/", "/var/tmp/")),
    reason=HERE.describe() + "; an environment in /tmp cannot be seen in bubblewrap, which has one of its own",
)
REAL_PYTHON = os.path.realpath(sys.executable)

# An agent that does what each line of its prompt says: by itself, through the client, or after a permission.
PROGRAM = """
import os
from dragoman.agent import Agent, Turn
from dragoman.errors import RequestError

agent = Agent("other")

@agent.prompt
async def reply(turn: Turn) -> None:
    lines = []
    for line in turn.prompt[0].text.splitlines():
        verb, _, rest = line.partition(" ")
        try:
            if verb == "touch":
                open(rest, "w").close()
                said = f"touched {rest}"
            elif verb == "cat":
                with open(rest) as file:
                    said = f"{rest}: {file.read()!r}"
            elif verb == "write":
                await turn.write_file(turn.session.path(rest), "text")
                said = f"wrote {rest}"
            elif verb == "delete":
                place = turn.session.path(rest)
                async with turn.tool(f"Delete {rest}", kind="delete", locations=[place], start=False) as call:
                    said = f"{'may' if await call.ask() else 'may not'} delete {rest}"
            elif verb == "run":  # without asking
                async with turn.tool(rest, kind="execute", raw_input={"command": rest}):
                    said = f"ended with {os.system(rest)}"
            else:
                said = rest
        except (OSError, RequestError) as error:
            said = f"failed: {error}"
        lines.append(said)
    await turn.say("\\n".join(lines))
    await turn.usage(10, 100, (0.25, "USD"))

agent.run()
"""


@pytest.fixture
def service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Service:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "own"))
    return Service(tmp_path)


def allow_other(service: Service, **members: object) -> None:
    program = service.project / "other.py"  # in a folder of the session: bubblewrap has a /tmp of its own
    program.write_text(PROGRAM)
    server = {"command": sys.executable, "args": [str(program)]}
    settings(
        service, {"agent_servers": {"other-agent": server}, "subagents": {"other": {"agent": "other-agent"}}, **members}
    )


@needs_sandbox
async def test_another_agent_works_in_the_sandbox_after_one_permission(service: Service, tmp_path: Path) -> None:
    allow_other(service)
    user = Answers("allow_once")
    async with service.session(permission=user) as session:
        inside, outside = service.project / "in.txt", tmp_path / "out.txt"
        await ask(session, task("other", f"touch {inside}", f"touch {outside}", "say the answer"), "say {result}")
        (asked,) = user.asked
        assert "in the sandbox, where it may change files" in str(asked.tool_call.title)
        assert inside.exists()
        assert not outside.exists()
        assert "the answer" in session.state.text
        assert session.state.usage is not None


@needs_sandbox
async def test_what_it_asks_is_answered_by_rules_first_and_then_by_the_user(service: Service) -> None:
    allow_other(service, rules={"deny": ["edit:denied.txt"], "allow": ["execute:subagent *", "edit:allowed.txt"]})
    user = Answers("reject_once", "allow_once")
    async with service.session(permission=user) as session:
        lines = ("write denied.txt", "write allowed.txt", "delete one.txt", "delete two.txt")
        await ask(session, task("other", *lines), "say {result}")
        first, _ = user.asked
        assert str(first.tool_call.title) == "other: Delete one.txt"
        assert first.session_id == session.id
        run = next(call for call in calls(session) if call.kind == "other")
        assert "may not delete one.txt" in output_of(run)
        assert "may delete two.txt" in output_of(run)
        assert "wrote allowed.txt" in output_of(run)
        assert "Not permitted" in output_of(run)
    assert not (service.project / "denied.txt").exists()


@machine.needs_sandbox("bubblewrap")
@machine.needs_programs_in_sandbox()
async def test_rules_about_files_bind_its_program_as_well(service: Service) -> None:
    """What it does inside is not asked for: the sandbox hides what it may not read, and keeps what it may not edit."""
    deny = ["read:.env", "read:secrets/**", "edit:kept/**"]
    allow_other(service, rules={"deny": deny, "allow": ["execute:subagent *"]})
    for name in (".env", "secrets/key", "kept/a.txt", "free.txt"):
        (service.project / name).parent.mkdir(exist_ok=True)
        (service.project / name).write_text("content")
    async with service.session() as session:
        verbs = (
            "cat .env",
            "cat secrets/key",
            "cat kept/a.txt",
            "touch kept/a.txt",
            "touch secrets/new",
            "touch free.txt",
        )
        await ask(session, task("other", *verbs), "say {result}")
        lines = session.state.text.splitlines()
    assert "Permission denied" in lines[0]
    assert "No such file" in lines[1]
    assert lines[2] == "kept/a.txt: 'content'"
    assert ["Read-only file system" in line for line in lines[3:6]] == [True, True, False]
    assert (service.project / "kept/a.txt").read_text() == "content"


@machine.needs_sandbox("bubblewrap")
@machine.needs_programs_in_sandbox()
async def test_a_rule_that_cannot_be_enforced_completely_is_reported(service: Service) -> None:
    allow_other(service, rules={"deny": ["read:system/**"], "allow": ["execute:subagent *"]})
    (service.project / "system").symlink_to("/usr")
    async with service.session() as session:
        await ask(session, task("other", "say done"), "say {result}")
        assert "Not all rules about files bind the program of other" in str(session.state.timeline)
        assert "done" in session.state.text


def notice_in(updates: list[v1.SessionUpdate]) -> tuple[str, str, str]:
    """The severity, title and text of the only notice."""
    (notice,) = [update for update in updates if isinstance(update, v1.Notice)]
    return notice.severity, notice.title, str(notice.description)


@needs_sandbox
async def test_protected_files_that_it_changed_are_shown_to_the_user_and_kept(service: Service) -> None:
    allow_other(service, rules={"allow": ["execute:subagent *"]})
    async with service.session() as session:
        updates = await ask(session, task("other", "touch .envrc", "touch plain.txt", "say done"), "say {result}")
        notice = notice_in(updates)
        assert notice[:2] == ("warning", "The agent other changed protected files")
        assert f"the protected file {service.project / '.envrc'} was created by it" in notice[2]
        kept = re.search(r"the new content is kept in (\S+)\)", notice[2])
        assert kept is not None
        assert Path(kept[1]).exists()  # noqa: ASYNC240 - one look
        assert "plain.txt" not in notice[2]
        assert "done" in session.state.text


@needs_sandbox
async def test_a_protected_file_that_it_changed_is_put_back_if_the_settings_want_that(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "own"))
    service = Service(tmp_path, restores_protected=True)
    allow_other(service, rules={"allow": ["execute:subagent *"]})
    async with service.session() as session:
        updates = await ask(session, task("other", "touch .envrc"), "say {result}")
        notice = notice_in(updates)
        assert "it was removed again" in notice[2]
    assert not (service.project / ".envrc").exists()


@needs_sandbox
async def test_a_denied_command_that_it_runs_unasked_is_shown_to_the_user(service: Service) -> None:
    allow_other(service, rules={"deny": ["execute:rm *"], "allow": ["execute:subagent *"]})
    (service.project / "old.txt").touch()
    async with service.session() as session:
        updates = await ask(session, task("other", "run rm old.txt", "run true", "say done"), "say {result}")
        notice = notice_in(updates)
        assert notice[:2] == ("warning", "The agent other did what is denied")
        assert "rm old.txt" in notice[2]
        assert "execute:rm *" in notice[2]
        assert "done" in session.state.text


@machine.needs_sandbox("thread")
def test_the_sandbox_thread_reports_what_it_does_not_enforce(service: Service) -> None:
    allow_other(service)
    (service.project / ".env").write_text("content")
    entry = load_agents(load_settings(service.home), data_dir(), cache_dir()).find("other-agent")
    rules = [parse_rule("read:.env", "deny", "pinned")]
    folder = str(service.project)
    inside = open_agent_sandbox(entry, [folder], cwd=folder, backend="thread", rules=rules)
    inside.close()
    assert inside.unenforced == ("files and folders of the project, which only bubblewrap can close: 1",)


@needs_sandbox
async def test_mode_plan_does_not_start_another_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "own"))
    service = Service(tmp_path, mode="plan")
    allow_other(service)
    async with service.session("allow_once") as session:
        await ask(session, task("other", "touch x"), "say {result}")
        assert "mode plan only reads" in session.state.text


@needs_sandbox
async def test_what_it_costs_counts_in_the_answer(service: Service) -> None:
    allow_other(service, rules={"allow": ["execute:subagent *"]})
    async with service.session() as session:
        response = await session.prompt(task("other", "say x"))
        assert response.meta
        assert response.meta["dragoman"]["usage"]["cost"]["amount"] == 0.25


async def test_without_a_sandbox_it_is_refused_with_the_reason(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    allow_other(service)
    nothing = Available(backends=(), reasons={"bubblewrap": "not here"})
    monkeypatch.setattr("dragoman.builtin.subagents.external.find_sandboxes", lambda roots: nothing)
    async with service.session("allow_once") as session:
        await ask(session, task("other", "touch x"), "say {result}")
        assert "runs only in a sandbox, because its permission cannot be bounded otherwise" in session.state.text


async def test_a_project_cannot_name_another_agent(service: Service) -> None:
    own = service.project / ".dragoman"
    own.mkdir()
    (own / "settings.json").write_text(json.dumps({"subagents": {"other": {"agent": "scripted"}}}))
    async with service.session("allow_once") as session:
        await ask(session, task("other", "hello"), "say {result}")
        assert "there is no agent 'other'" in session.state.text


async def test_an_agent_that_does_not_exist_is_named(service: Service) -> None:
    settings(service, {"subagents": {"other": {"agent": "no-such-agent"}}})
    async with service.session("allow_once") as session:
        await ask(session, task("other", "hello"), "say {result}")
        assert "the subagent other cannot be started" in session.state.text or "sandbox" in session.state.text
        assert text_of(calls(session)[0])


@machine.needs_sandbox("bubblewrap")
async def test_an_agent_of_an_environment_in_the_private_folder_is_refused_with_the_reason(service: Service) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        python = Path(folder) / "bin" / "python"
        python.parent.mkdir()
        python.symlink_to(REAL_PYTHON)
        server = {"command": str(python), "args": ["-m", "other"]}
        settings(service, {"agent_servers": {"other-agent": server}, "subagents": {"other": {"agent": "other-agent"}}})
        async with service.session(permission=Answers("allow_once")) as session:
            await ask(session, task("other", "say x"), "say {result}")
            assert f"{python} is a part of the agent, and /tmp is private in bubblewrap" in text_of(calls(session)[0])
