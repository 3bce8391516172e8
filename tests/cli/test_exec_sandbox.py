"""Commands of an agent run in a sandbox if the user wants that; protected files are compared with and without it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE
from typing import Any

import pytest

from tests import machine
from tests.cli.exec_kit import Place, place
from tests.cli.step_kit import play
from tests.cli.terminal_kit import at_terminal
from tests.process.sandbox.kit import AVAILABLE, both, only_bubblewrap, only_thread
from tests.process.sandbox.kit import place as sandbox_place

__all__ = ["place"]

needs_sandbox = machine.needs_sandbox()
OUTSIDE = "touch ../outside.txt"


@pytest.fixture
def away() -> Iterator[Place]:
    """Not in /tmp, which is private in bubblewrap."""
    with sandbox_place() as made:
        found = Place(made.outside)
        found.python = os.path.realpath(sys.executable)
        yield found
        found.assert_clean()


def prepare(place: Place, name: str) -> None:
    if name == "thread":
        place.hide_bubblewrap()


def printed(result: dict[str, Any]) -> list[Any]:
    """What the agent was sent for each command: exit code, output, sandbox."""
    return [json.loads(line) for message in result["messages"] for line in message.splitlines()]


@both
def test_a_command_in_the_sandbox_needs_no_rule_and_cannot_write_outside(away: Place, name: str) -> None:
    prepare(away, name)
    done = away.run("--sandbox", "auto", "--output", "json", f"touch inside.txt\n{OUTSIDE}", odd="runs-the-prompt")
    assert done.code == 0, done.err
    assert (away.project / "inside.txt").exists()
    assert not (away.project.parent / "outside.txt").exists()
    assert [command["sandbox"] for command in done.result["commands"]] == [name, name]
    assert done.result["sandbox"]["backend"] == name
    assert [permission["decided_by"] for permission in done.result["permissions"]] == ["sandbox", "sandbox"]
    inside, outside = printed(done.result)
    assert inside == [0, "", name]
    assert outside[0] != 0
    assert "did not get: to change" in outside[1]


@both
def test_what_the_sandbox_kept_is_reported_with_the_rule_that_runs_it_outside(away: Place, name: str) -> None:
    prepare(away, name)
    done = away.run("--sandbox", "auto", "--output", "json", OUTSIDE, odd="runs-the-prompt")
    [command] = done.result["commands"]
    path = str(away.project.parent / "outside.txt")
    assert command["refused"] == [{"kind": "write", "subject": path}]
    assert command["hint"] == "to run it outside: --allow 'execute:touch ../outside.txt'"
    assert f"the sandbox ({name}) kept from `sh -c '{OUTSIDE}'`: write ({path})" in done.err
    # The hint holds.
    done = away.run(
        *("--sandbox", "auto", "--allow", "execute:touch ../outside.txt", "--output", "json"),
        *(OUTSIDE,),
        odd="runs-the-prompt",
    )
    assert (away.project.parent / "outside.txt").exists()
    assert [command["sandbox"] for command in done.result["commands"]] == [None]


@needs_sandbox
@pytest.mark.parametrize("is_local", [False, True])
def test_the_built_in_agent_is_known_by_its_command_too(place: Place, is_local: bool) -> None:
    """Its commands are allowed because they run here, in the sandbox; not if it would run them by itself."""
    agent = [sys.executable, "-m", "dragoman", "agent", "--model", "scripted"]
    options = ["--no-client-terminal"] if is_local else []
    done = place.run("--sandbox", "require", "--output", "json", "run touch made.txt", "--", *agent, *options)
    assert (place.project / "made.txt").exists() is not is_local
    assert [command["sandbox"] is not None for command in done.result["commands"]] == ([] if is_local else [True])


@needs_sandbox
def test_a_required_sandbox_keeps_permitted_commands_inside(away: Place) -> None:
    allow = ("--allow", "execute:touch ../outside.txt")
    done = away.run("--sandbox=require", *allow, "--output", "json", OUTSIDE, odd="runs-the-prompt")
    assert not (away.project.parent / "outside.txt").exists()
    [command] = done.result["commands"]
    assert command["sandbox"] is not None
    assert command["hint"] == "to run it outside: --sandbox auto and --allow 'execute:touch ../outside.txt'"


@needs_sandbox
@pytest.mark.parametrize("wide", [("--allow", "*"), ("--allow", "execute:*"), ("--dangerously-allow-all",)])
def test_a_permission_for_everything_does_not_lead_out_of_the_sandbox(away: Place, wide: tuple[str, ...]) -> None:
    done = away.run("--sandbox", "auto", *wide, "--output", "json", OUTSIDE, odd="runs-the-prompt")
    assert not (away.project.parent / "outside.txt").exists()
    assert done.result["commands"][0]["sandbox"] is not None


@needs_sandbox
def test_deny_ask_and_protected_files_hold_in_the_sandbox(place: Place) -> None:
    policy = place.home / "policy.json"
    policy.write_text('{"deny": ["execute:touch denied"], "ask": ["execute:touch asked"]}')
    lines = "touch denied\ntouch asked\ntouch AGENTS.md\ntouch allowed"
    words = ("--sandbox", "require", "--policy", str(policy), "--output", "json")
    done = place.run(*words, lines, odd="runs-the-prompt")
    assert [permission["action"] for permission in done.result["permissions"]] == [
        *("deny", "cancelled", "cancelled", "allow")
    ]
    assert sorted(os.listdir(place.project)) == ["allowed"]
    assert done.code == 5


def test_without_the_option_commands_need_a_rule_and_run_outside(place: Place) -> None:
    done = place.run("--output", "json", "touch x", odd="runs-the-prompt")
    assert done.code == 5
    assert done.result["sandbox"] == {
        "mode": "off",
        "backend": None,
        "promise": None,
        "reason": None,
        "agent": None,
        "agent_state": [],
    }
    done = place.run("--allow", "execute:touch *", "--output", "json", OUTSIDE, odd="runs-the-prompt")
    assert (place.project.parent / "outside.txt").exists()
    assert printed(done.result) == [[0, "", None]]


@needs_sandbox
def test_the_built_in_agent_runs_commands_in_the_sandbox_without_a_rule(place: Place) -> None:
    script = "run touch inside.txt\nrun touch ../outside.txt"
    done = place.run("--model", "scripted", "--sandbox", "require", "--output", "json", script)
    assert done.code == 0, done.err
    assert (place.project / "inside.txt").exists()
    assert not (place.project.parent / "outside.txt").exists()
    assert len(done.result["commands"]) == 2
    assert "are outside" not in done.err
    shown = [terminal for call in done.result["tool_calls"] for terminal in call["terminals"]]
    assert shown == [command["terminal_id"] for command in done.result["commands"]]


@needs_sandbox
def test_a_request_of_an_agent_that_runs_commands_itself_is_not_permitted_by_the_sandbox(place: Place) -> None:
    done = place.run("--sandbox", "require", "--output", "json", "go", odd="reports-refusals-as-completed")
    assert [permission["action"] for permission in done.result["permissions"]] == ["cancelled"]
    assert "Commands that the agent runs itself, and not through dragoman, are outside" in done.err


def test_a_folder_that_is_too_wide_for_a_sandbox_is_an_error_before_the_agent_starts(place: Place) -> None:
    if not AVAILABLE.backends:
        pytest.skip(AVAILABLE.describe())
    words = ("--cwd", str(place.home), "--sandbox", "require", "--output", "json", "go")
    done = place.run(*words, odd="dies-at-once")
    assert done.code == 2
    assert "cannot be writable in a sandbox" in done.result["error"]["message"]
    done = place.run("--cwd", str(place.home), "--sandbox", "auto", "--output", "json", "hi", odd="plain")
    assert done.code == 0
    assert "commands run without a sandbox" in done.result["sandbox"]["reason"]
    assert done.result["sandbox"]["reason"] in done.err


NO_BACKEND = """
import sys
from dragoman.process.sandbox import bubblewrap, thread
bubblewrap.why_not = lambda program: "not today"
thread.why_not = lambda: "no Landlock"
from dragoman.cli.main import main
sys.exit(main())
"""


def test_a_required_sandbox_that_does_not_exist_is_an_error_with_the_reasons(place: Place) -> None:
    words = place.words("exec", "--sandbox", "require", "--output", "json", "go", odd="dies-at-once")
    words = [words[0], "-c", NO_BACKEND, *words[3:]]
    done = subprocess.run(
        words, cwd=place.project, env=place.environment, capture_output=True, text=True, check=False, timeout=30
    )
    assert done.returncode == 2, done.stderr
    message = json.loads(done.stdout)["error"]["message"]
    assert message == "no sandbox is available (bubblewrap: not today; thread: no Landlock)"


# Protected files


def test_a_changed_protected_file_is_a_violation_without_a_sandbox(place: Place) -> None:
    (place.project / "AGENTS.md").write_text("old\n")
    script = place.project / "build.sh"
    script.write_text("echo new >> AGENTS.md\n")
    words = ("--allow", "execute:sh build.sh", "--output", "json")
    done = place.run(*words, "sh build.sh", odd="runs-the-prompt")
    assert done.code == 10
    [found] = done.result["violations"]
    path = str(place.project / "AGENTS.md")
    assert (found["kind"], found["paths"], found["rule"]) == ("edit", [path], None)
    assert found["command"] == "sh -c 'sh build.sh'"
    assert Path(found["kept"]).read_text() == "old\n"
    assert not found["is_restored"]
    assert f"violation: edit: {path} was changed by sh -c 'sh build.sh'" in done.err
    assert (place.project / "AGENTS.md").read_text() == "old\nnew\n"


def test_a_changed_protected_file_is_put_back_if_the_settings_state_it(place: Place) -> None:
    config = place.home / "dragoman" / "config"
    config.mkdir(parents=True)
    (config / "settings.json").write_text('{"restore_protected_files": true}')
    (place.project / "AGENTS.md").write_text("old\n")
    done = place.run("--output", "json", str(place.project / "AGENTS.md"), odd="touches-the-prompt")
    assert done.code == 10
    assert done.result["violations"][0]["is_restored"]
    assert (place.project / "AGENTS.md").read_text() == "old\n"


@only_thread
def test_the_restricted_thread_puts_a_protected_file_back_in_any_case(place: Place, name: str) -> None:
    prepare(place, name)
    (place.project / "AGENTS.md").write_text("old\n")
    (place.project / "build.sh").write_text("echo new >> AGENTS.md\n")
    done = place.run("--sandbox", "require", "--output", "json", "sh build.sh", odd="runs-the-prompt")
    assert done.code == 10
    assert done.result["violations"][0]["is_restored"]
    assert (place.project / "AGENTS.md").read_text() == "old\n"


@only_bubblewrap
def test_bubblewrap_keeps_a_protected_file_from_being_changed(place: Place, name: str) -> None:
    (place.project / "AGENTS.md").write_text("old\n")
    (place.project / "build.sh").write_text("echo new >> AGENTS.md\n")
    done = place.run("--sandbox", "require", "--output", "json", "sh build.sh", odd="runs-the-prompt")
    assert done.code == 0, done.err
    assert (place.project / "AGENTS.md").read_text() == "old\n"
    assert done.result["commands"][0]["refused"] == [{"kind": "write", "subject": str(place.project / "AGENTS.md")}]


def test_a_protected_file_that_the_agent_changed_itself_is_a_violation_at_the_end_of_the_turn(place: Place) -> None:
    done = place.run("--output", "json", str(place.project / ".envrc"), odd="touches-the-prompt")
    assert done.code == 10
    [found] = done.result["violations"]
    assert found["title"] == f"{place.project / '.envrc'} was created"
    assert found["command"] is None


def test_the_turn_is_cancelled_after_a_command_that_changed_a_protected_file(place: Place) -> None:
    (place.project / "build.sh").write_text("echo x > .envrc\n")
    words = ("--allow", "execute:sh build.sh", "--stop-on-violation", "--output", "json")
    done = place.run(*words, "sh build.sh", odd="runs-the-prompt")
    assert done.code == 10
    assert "cancelling the turn because of the violation" in done.err


@pytest.mark.parametrize("file", ["plain.txt", "src/code.py"])
def test_other_files_are_not_violations(place: Place, file: str) -> None:
    (place.project / "src").mkdir()
    done = place.run("--output", "json", str(place.project / file), odd="touches-the-prompt")
    assert done.code == 0, done.err
    assert done.result["violations"] == []


def test_a_protected_file_may_change_if_the_user_allowed_everything(place: Place) -> None:
    words = ("--dangerously-allow-all", "--output", "json", str(place.project / "AGENTS.md"))
    done = place.run(*words, odd="asks-then-touches")
    assert done.code == 0, done.err
    assert (place.project / "AGENTS.md").exists()


def test_a_protected_file_may_change_if_the_user_permitted_the_edit(place: Place) -> None:
    path = str(place.project / "AGENTS.md")
    with at_terminal(place, "exec", path, odd="asks-then-touches") as terminal:
        terminal.until(" > ")
        terminal.type("y\n")
        assert terminal.wait() == 0, terminal.text
    assert (place.project / "AGENTS.md").exists()


@pytest.mark.parametrize(("name", "answer", "code"), [("claude", "a", 0), ("claude", "y", 10), ("other", "a", 10)])
def test_an_agent_may_remember_always_in_its_own_file(place: Place, name: str, answer: str, code: int) -> None:
    place.name_agent(name)
    (place.project / ".claude").mkdir()
    with at_terminal(place, "exec", "go", odd="remembers-always") as terminal:
        terminal.until(" > ")
        terminal.type(f"{answer}\n")
        assert terminal.wait() == code, terminal.text


@needs_sandbox
def test_a_command_that_names_a_protected_file_runs_outside_if_the_user_permits_it(place: Place) -> None:
    (place.project / "AGENTS.md").write_text("old\n")
    out = place.project / "out"
    words = ("exec", "--sandbox", "auto", "--output", "json", "echo new > AGENTS.md")
    with at_terminal(place, *words, odd="runs-the-prompt", stdout=out) as terminal:
        terminal.until(" > ")
        terminal.type("y\n")
        assert terminal.wait() == 0, terminal.text
    assert json.loads(out.read_text())["commands"][0]["sandbox"] is None
    assert (place.project / "AGENTS.md").read_text() == "new\n"


def test_a_protected_file_is_compared_if_the_agent_dies(place: Place) -> None:
    done = place.run("--output", "json", str(place.project / ".envrc"), odd="touches-and-dies")
    assert done.code == 10
    assert len(done.result["violations"]) == 1


def test_a_branch_that_follows_another_one_is_not_a_violation_but_a_hook_path_is(place: Place) -> None:
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=place.project, check=True)
    config = place.project / ".git" / "config"
    config.write_text(config.read_text() + '[remote "origin"]\n\turl = /nowhere\n')
    (place.project / "a.sh").write_text(
        "git config branch.main.remote origin; git config branch.main.merge refs/heads/main"
    )
    (place.project / "b.sh").write_text("git config core.hooksPath evil")
    words = ("--allow", "execute:sh a.sh", "--allow", "execute:sh b.sh", "--output", "json")
    done = place.run(*words, "sh a.sh", odd="runs-the-prompt")
    assert done.code == 0, done.err
    done = place.run(*words, "sh b.sh", odd="runs-the-prompt")
    assert done.code == 10
    assert done.result["violations"][0]["paths"] == [str(config)]


# The agent itself in the sandbox


@both
def test_a_sandboxed_agent_writes_its_folders_and_its_state_and_nothing_else(away: Place, name: str) -> None:
    prepare(away, name)
    away.name_agent("vibe-acp")
    state = away.home / ".vibe"
    targets = [away.project / "in.txt", state / "state.json", away.home / "other.txt", away.project.parent / "out.txt"]
    words = ("--sandbox-agent", "--output", "json", "\n".join(map(str, targets)))
    done = away.run(*words, odd="touches-the-prompt")
    assert done.code == 0, done.err
    assert [path.exists() for path in targets] == [True, True, False, False]
    assert done.result["sandbox"]["agent"] == name
    assert done.result["sandbox"]["agent_state"] == [str(state)]
    assert f"The agent itself runs in {name}, with the network, which its model needs. Its state: {state}." in done.err


@both
def test_a_sandboxed_agent_gets_its_own_key_and_no_other_and_no_sockets(away: Place, name: str) -> None:
    prepare(away, name)
    away.name_agent("vibe-acp")
    given = {"MISTRAL_API_KEY": "mistral-key-1", "OPENAI_API_KEY": "openai-key-1", "SSH_AUTH_SOCK": "/x"}
    away.environment |= {**given, "AWS_SECRET_ACCESS_KEY": "aws-key-123"}
    done = away.run("--sandbox-agent", "go", odd="prints-environment")
    assert done.code == 0, done.err
    seen = json.loads(done.out)
    assert seen["MISTRAL_API_KEY"] == "[MISTRAL_API_KEY]"  # as everything that exec writes
    assert not {"OPENAI_API_KEY", "SSH_AUTH_SOCK", "AWS_SECRET_ACCESS_KEY"} & set(seen)


@both
def test_folders_that_the_user_names_are_writable_in_the_sandbox(away: Place, name: str) -> None:
    prepare(away, name)
    cache = away.home / "cache"
    cache.mkdir()
    away.name_agent("unknown-agent")
    words = ("--sandbox-agent", "--sandbox-write", str(cache), "--output", "json", str(cache / "x"))
    done = away.run(*words, odd="touches-the-prompt")
    assert (cache / "x").exists()
    assert done.result["sandbox"]["agent_state"] == []


@only_thread
def test_an_agent_with_a_sandbox_of_its_own_is_refused_where_that_cannot_start(away: Place, name: str) -> None:
    prepare(away, name)
    away.name_agent("codex-acp")
    done = away.run("--sandbox-agent", "--output", "json", "go", odd="plain")
    assert done.code == 2
    assert "codex runs commands in a sandbox of its own" in done.result["error"]["message"]
    assert "--mode full-access" in done.result["error"]["hint"]
    done = away.run("--sandbox-agent", "--mode", "full-access", "--output", "json", "go", odd="starts-in-full-access")
    assert done.code == 0, done.err


@pytest.mark.parametrize("mode", ["off", "auto"])
def test_a_sandboxed_agent_without_a_sandbox_for_its_commands_is_an_error(place: Place, mode: str) -> None:
    done = place.run("--sandbox-agent", "--sandbox", mode, "go", odd="plain")
    assert done.code == 2
    assert "contradict" in done.err


@needs_sandbox
def test_an_agent_whose_daemon_runs_outside_is_refused(away: Place) -> None:
    away.name_agent("cline")
    with subprocess.Popen(["sh", "-c", "echo; read line", "--cline-hub-daemon"], stdin=PIPE, stdout=PIPE) as daemon:
        assert daemon.stdout is not None
        assert daemon.stdout.readline()  # it runs
        done = away.run("--sandbox-agent", "--output", "json", "go", odd="plain")
        assert done.code == 2
        found = done.result["error"]
        assert (
            "a daemon of cline (--cline-hub-daemon) runs outside the sandbox and would do its work" in found["message"]
        )
        assert found["hint"] == f"end it first: kill {daemon.pid}"
        assert away.run("--sandbox", "require", "--output", "json", "go", odd="plain").code == 0
        daemon.communicate(b"")


READS = "cat $(echo .en)v; echo x >$(echo do)c.txt; touch ../outside.txt"


@only_bubblewrap
@pytest.mark.parametrize("mode", [(), ("--sandbox", "auto"), ("--sandbox", "require"), ("--sandbox", "off")])
def test_files_that_rules_deny_are_closed_to_commands_whose_words_do_not_show_it(
    away: Place, name: str, mode: tuple[str, ...]
) -> None:
    (away.project / ".env").write_text("canary")
    (away.project / "doc.txt").write_text("old")
    (away.project / "run.sh").write_text(READS)
    done = away.run(
        *mode,
        *("--deny", "read:.env", "--deny", "edit:doc.txt", "--allow", "execute:sh run.sh", "--output", "json"),
        "sh run.sh",
        odd="runs-the-prompt",
    )
    is_off = mode[1:] == ("off",)
    [command] = done.result["commands"]
    assert (command["sandbox"] == name) is (mode[1:] == ("require",))
    assert ("canary" in printed(done.result)[0][1]) is is_off
    assert ((away.project / "doc.txt").read_text() == "old") is not is_off
    assert (away.project.parent / "outside.txt").exists() is (mode[1:] != ("require",))
    assert ("cannot reach what rules about files deny (2 mounts)" in done.err) is (mode[1:] in ((), ("auto",)))


@only_bubblewrap
@pytest.mark.parametrize("mode", [(), ("--sandbox", "require"), ("--sandbox", "off")])
def test_a_file_that_is_made_later_is_closed_from_the_next_command_on(
    away: Place, name: str, mode: tuple[str, ...]
) -> None:
    (away.project / "make.sh").write_text("mkdir deep; echo canary | tee .env >deep/.env; cat .e* deep/.e* >made")
    (away.project / "copy.sh").write_text("cat .e* deep/.e* >copied; mv deep/.env moved; ls >listed")
    rules = ("--deny", "read:.env", "--deny", "read:**/.env", "--allow", "execute")
    steps = [["command", "sh", "make.sh"], ["command", "sh", "copy.sh"], ["say", "done"]]
    play(away, steps, *mode, *rules)
    assert (away.project / "made").read_text() == "canary\ncanary\n"  # one command may read what it made itself
    is_off = mode[1:] == ("off",)
    assert (away.project / "copied").read_text() == ("canary\ncanary\n" if is_off else "")
    assert (away.project / "moved").exists() is is_off
    assert (away.project / "listed").exists()


@only_bubblewrap
@pytest.mark.parametrize("mode", [(), ("--sandbox", "off")])
def test_the_switch_holds_for_commands_that_the_built_in_agent_runs_itself(
    away: Place, name: str, mode: tuple[str, ...]
) -> None:
    (away.project / ".env").write_text("canary")
    settings = away.home / "dragoman/config/settings.json"
    settings.parent.mkdir(parents=True)
    (away.project / "read.sh").write_text("cat $(echo .en)v")
    settings.write_text(json.dumps({"rules": {"deny": ["read:.env"], "allow": ["execute:sh ./read.sh"]}}))
    words = ("-a", "dragoman", "--model", "scripted", "--no-terminal", *mode, "run sh ./read.sh\nsay {result}")
    done = away.run(*words)
    assert ("canary" in done.out) is bool(mode), done.err


@only_bubblewrap
def test_files_that_rules_deny_are_closed_to_a_sandboxed_agent_itself(away: Place, name: str) -> None:
    (away.project / "locked").mkdir()
    targets = [away.project / "open.txt", away.project / "locked" / "new.txt"]
    words = ("--sandbox-agent", "--deny", "edit:locked/**", "--output", "json", "\n".join(map(str, targets)))
    done = away.run(*words, odd="touches-the-prompt")
    assert done.code == 0, done.err
    assert [path.exists() for path in targets] == [True, False]
