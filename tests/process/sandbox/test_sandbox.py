"""The interface: what is available, what is in force, what was denied, what the environment holds."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.process.sandbox import Backend, Sandbox, available, bubblewrap, landlock, make_policy, thread
from dragoman.process.sandbox.denials import Denial, file_denials
from dragoman.process.sandbox.environment import scrub
from tests import machine
from tests.process.sandbox.kit import AVAILABLE, Place, both, git, only_bubblewrap, only_thread, run, shell


def test_every_backend_works_or_has_a_reason() -> None:
    assert {*AVAILABLE.backends, *AVAILABLE.reasons} == {"bubblewrap", "thread"}
    assert not {*AVAILABLE.backends} & {*AVAILABLE.reasons}


def test_without_bwrap_and_landlock_there_is_no_sandbox_and_the_reasons_are_given(
    monkeypatch: pytest.MonkeyPatch, there: Place
) -> None:
    monkeypatch.setenv("PATH", str(there.outside))
    monkeypatch.setattr(landlock, "abi", lambda: 2)
    found = available()
    assert found.backends == ()
    assert "bwrap is not installed" in found.describe()
    assert "version 3 (Linux 6.2) is needed" in found.describe()
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)
    with pytest.raises(ConfigError, match="no sandbox is available"):
        Sandbox.best(policy)
    with pytest.raises(ConfigError, match="cannot be used"):
        Sandbox(policy, "thread")
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert thread.why_not() == "the kernel has no Landlock, or it is switched off"


def test_a_bwrap_that_does_not_work_or_can_be_written_by_commands_is_not_used(
    monkeypatch: pytest.MonkeyPatch, there: Place
) -> None:
    program = there.project / "bwrap"
    program.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{there.project}:{os.environ['PATH']}")
    assert bubblewrap.find_bwrap([str(there.project)]) is None
    assert bubblewrap.find_bwrap([]) == str(program)
    assert bubblewrap.why_not(str(program)) == f"{program} does not work here: No permissions to create new namespace"
    assert "bubblewrap" in available([str(there.project)]).reasons


@both
def test_the_backend_in_force_and_its_limits_are_described(name: Backend, there: Place) -> None:
    sandbox = there.sandbox(name)
    text = sandbox.describe()
    assert {"thread": "restricted thread", "bubblewrap": "in bubblewrap"}[name] in text
    assert "It does not stop" in text
    assert str(there.project) in text
    assert sandbox.must_restore == (name == "thread")
    assert "the network is open" in there.sandbox(name, network=True).describe()


@both
async def test_a_file_that_the_sandbox_closed_is_named(name: Backend, there: Place) -> None:
    target = there.outside / "file"
    ran = await shell(there.sandbox(name), f"echo x >{target} || true")
    assert (ran.code, ran.denials) == (0, [Denial("write", str(target))])
    assert ran.denials[0].describe() == f"to change {target}"


@both
async def test_only_the_file_is_named_where_every_word_could_be_one(name: Backend, there: Place) -> None:
    """In a folder outside the roots `sh` in front of the error would be a closed path too."""
    ran = await shell(there.sandbox(name), "echo x >new; touch other", cwd=there.outside)
    assert ran.denials == [Denial("write", str(there.outside / word)) for word in ("new", "other")]


@both
async def test_a_secret_that_the_sandbox_hid_is_named(name: Backend, there: Place) -> None:
    ran = await shell(there.sandbox(name), f"cat {there.home}/.ssh/id")
    assert ran.denials == [Denial("read", str(there.home / ".ssh" / "id"))]


@only_bubblewrap
async def test_a_protected_file_that_was_kept_is_named(name: Backend, there: Place) -> None:
    git(there.project, "init", "-q")
    ran = await shell(there.sandbox(name), "echo x >.git/config")
    assert ran.denials == [Denial("write", str(there.project / ".git" / "config"))]


@both
async def test_an_ordinary_failure_is_not_blamed_on_the_sandbox(name: Backend, there: Place) -> None:
    line = "cat missing; cat /nowhere/x; echo 'Permission denied: src/main.py'; ./; mkdir /proc/x; exit 1"
    assert (await shell(there.sandbox(name), line)).denials == []


@only_thread
async def test_a_unix_socket_is_not_reported_as_the_network(name: Backend, there: Place) -> None:
    ran = await shell(there.sandbox(name), "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'")
    assert {each.kind for each in ran.denials} == {"socket"}


# Both look up a user's name at their start, which the C library tries with a socket of its own.
@pytest.mark.parametrize("line", ["env -i PATH=$PATH bash -c 'exit 1'", "ls -l /; exit 1"])
@only_thread
async def test_looking_up_the_name_of_a_user_lacks_nothing(name: Backend, there: Place, line: str) -> None:
    assert (await shell(there.sandbox(name), line)).denials == []


@machine.needs("node")
@only_thread
async def test_a_program_that_opens_a_socket_of_the_same_type_is_reported(name: Backend, there: Place) -> None:
    ran = await run(there.sandbox(name), str(machine.program("node")), "-e", "require('net').connect('/run/x.sock')")
    assert "socket" in {each.kind for each in ran.denials}


@pytest.mark.parametrize(
    "line",
    [
        "sh: 1: cannot create {}: Permission denied",
        "touch: cannot touch '{}': Read-only file system",
        "PermissionError: [Errno 13] Permission denied: '{}'",
        "Error: EACCES: permission denied, open '{}'",
        "mv: cannot move 'a' to '{}': Invalid cross-device link",
        'open("{}"): Device or resource busy',
    ],
)
def test_paths_are_found_in_the_words_of_common_programs(line: str, there: Place) -> None:
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)
    path = str(there.outside / "file")
    assert file_denials(policy, (), line.format(path), str(there.project)) == [Denial("write", path)]
    inside = str(there.project / "file")
    assert file_denials(policy, (), line.format(inside), str(there.project)) == []


@pytest.mark.parametrize("piece", ["a", "a.", "'", "'\"", "a/", "~"])
def test_reading_a_long_line_takes_time_in_proportion(piece: str, there: Place) -> None:
    """The output is the command's: it could otherwise keep this program busy."""
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)

    def seconds(size: int) -> float:
        line = piece * (size // len(piece)) + " permission denied"
        began = time.process_time()
        for _ in range(3):
            file_denials(policy, (), line, str(there.project))
        return time.process_time() - began

    assert seconds(60_000) < 30 * max(seconds(7_500), 0.001)  # 64 times if it were the square


def test_the_environment_loses_keys_and_ways_out_and_keeps_the_rest() -> None:
    kept = {"PATH": "/bin", "LANG": "C", "GIT_AUTHOR_NAME": "a", "GIT_PAGER": "cat", "KEYBOARD": "de", "MONKEY": "1"}
    lost = [
        *(
            "OPENAI_API_KEY",
            "ANTHROPIC_API_KEY",
            "GITHUB_TOKEN",
            "npm_config__auth_token",
            "DB_PASSWORD",
            "SSH_AUTH_SOCK",
        ),
        *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "DOCKER_HOST", "BASH_ENV", "LD_PRELOAD", "GIT_SSH_COMMAND"),
        *("GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "AWS_SECRET_ACCESS_KEY", "BASH_FUNC_ls%%"),
    ]
    scrubbed = scrub({**kept, **dict.fromkeys(lost, "x"), "TMPDIR": "/tmp"}, "/private")
    assert scrubbed == {**kept, "TMPDIR": "/private", "TMP": "/private", "TEMP": "/private"}


@both
async def test_a_command_sees_the_scrubbed_environment(name: Backend, there: Place) -> None:
    ran = await shell(there.sandbox(name), "env", OPENAI_API_KEY="canary", WORD="seen")
    assert "canary" not in ran.text
    assert {"WORD=seen", f"TMPDIR={there.temporary}"} <= set(ran.text.splitlines())


@only_thread
async def test_the_ruleset_is_kept_until_a_folder_changes(name: Backend, there: Place) -> None:
    policy = make_policy([there.project], temporary=there.temporary, home=there.home)
    ruleset = landlock.Ruleset(policy, landlock.abi())
    built: list[int] = []
    build = ruleset._build
    ruleset._build = lambda: (built.append(1), build())[1]  # type: ignore[method-assign, func-returns-value]
    ruleset.descriptor()
    (Path(policy.roots[0]) / "file").touch()
    ruleset.descriptor()
    assert len(built) == 1
    (there.home / "new").touch()
    ruleset.descriptor()
    assert len(built) == 2
    ruleset.close()
