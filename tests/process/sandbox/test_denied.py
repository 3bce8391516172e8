"""Deny rules about files as mounts: what is found on the disk, and what a program in bubblewrap can do then."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.policy import parse_rule
from dragoman.process.sandbox import Backend, Sandbox, denied
from dragoman.process.sandbox.denied import DeniedPaths, denied_paths
from dragoman.process.sandbox.policy import wide_policy
from tests.process.sandbox.kit import PYTHON, Place, only_bubblewrap, shell


def found(project: Path, *rules: str, agent: str = "other") -> DeniedPaths:
    parsed = [parse_rule(text, "deny", "pinned") for text in rules]
    return denied_paths(parsed, agent, [str(project)], str(project.parent / "home"))


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    for name in (".env", "a.txt", "secrets/key", "web/.ENV", "web/deep/cert.pem", "web/secrets/other", "doc/it.md"):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
    (tmp_path / "home" / "private").mkdir(parents=True)
    return folder


@pytest.mark.parametrize(
    ("rule", "paths"),
    [
        ("read:.env", [".env"]),
        ("read:secrets/**", ["secrets"]),
        ("read:secrets/", ["secrets"]),
        ("read:SECRETS/**", ["secrets"]),
        ("read:**/.env", [".env", "web/.ENV"]),
        ("read:**/secrets/**", ["secrets", "web/secrets"]),
        ("read:web/**/*.pem", ["web/deep/cert.pem"]),
        ("read:*.txt", ["a.txt"]),
        ("read:missing/**", []),
        ("read:a.txt/**", ["a.txt"]),
        ("read:~/private/**", ["../home/private"]),
        ("search:secrets/**", []),
        ("delete:secrets/**", []),
        ("another@read:.env", []),
        ("other@read:.env", [".env"]),
        ("execute:rm *", []),
    ],
)
def test_what_a_rule_names_is_found(project: Path, rule: str, paths: list[str]) -> None:
    result = found(project, rule)
    assert [os.path.relpath(path, project) for path in result.hidden] == paths
    assert (result.read_only, result.left) == ((), ())


def test_what_may_not_be_edited_stays_readable_and_one_mount_is_enough(project: Path) -> None:
    result = found(project, "edit:doc/**", "edit:doc/it.md", "edit:secrets/key", "read:secrets/**")
    assert [os.path.relpath(path, project) for path in result.read_only] == ["doc"]
    assert [os.path.relpath(path, project) for path in result.hidden] == ["secrets"]
    assert found(project, "edit").read_only == (str(project),)


@pytest.mark.parametrize("rule", ["read", "read:**", "read:~/../**", "read:/**"])
def test_a_whole_folder_of_the_session_is_not_hidden(project: Path, rule: str) -> None:
    with pytest.raises(ConfigError, match=r"denies to read all of|has `\.\.` in its path"):
        found(project, rule)


def test_links_are_followed_to_files_and_not_to_folders_elsewhere(project: Path, tmp_path: Path) -> None:
    (tmp_path / "real.env").write_text("x")
    (project / "linked.env").symlink_to(tmp_path / "real.env")
    (project / "system").symlink_to("/usr")
    (project / "nowhere").symlink_to(project / "gone")
    result = found(project, "read:linked.env", "read:system/**", "read:nowhere")
    assert result.hidden == (str(tmp_path / "real.env"),)
    assert result.left == (f"read:system/**: {project}/system is a link to a folder elsewhere",)


def test_the_search_is_bounded_and_says_so(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(denied, "MOST_PATHS", 1)
    result = found(project, "read:**/.env", "edit:doc/**")
    assert (len(result.hidden), result.read_only) == (1, ())
    assert "more than 1 files" in result.left[0]
    monkeypatch.setattr(denied, "MOST_ENTRIES", 3)
    assert "files to look at" in found(project, "read:**/*.pem").left[0]


@only_bubblewrap
async def test_a_program_cannot_read_or_change_what_rules_deny(there: Place, name: Backend) -> None:
    for path in (".env", "secrets/key", "doc/it.md"):
        (there.project / path).parent.mkdir(exist_ok=True)
        (there.project / path).write_text("content")
    policy = there.sandbox(name).policy
    closed = found(there.project, "read:.env", "read:secrets/**", "edit:doc/**", f"read:{there.outside}/**")
    sandbox = Sandbox(replace(policy, hidden=(*policy.hidden, *closed.hidden), read_only=closed.read_only), name)
    script = (
        "cat .env; ls -A secrets; cat doc/it.md; echo; ls -A ../outside; "
        "echo x > .env; echo x > secrets/new; echo x > doc/it.md; rm -f doc/it.md; mv doc other; rm -f .env; "
        "mv secrets gone; echo x > free.txt; echo end"
    )
    done = await shell(sandbox, script)
    lines = [line for line in done.text.splitlines() if not line.startswith(("cat: .env", "sh:", "rm:", "mv:"))]
    assert lines == ["content", "end"]
    assert (there.project / ".env").read_text() == "content"
    assert (there.project / "doc" / "it.md").read_text() == "content"
    assert os.listdir(there.project / "secrets") == ["key"]
    assert (there.project / "free.txt").exists()


# Each prints the content if it gets at it. The numbers of processes outside are those of the test and of its parent.
UNCOVERING = [
    "cat .env",
    "umount .env; cat .env",
    "umount -l .env; cat .env",
    "mount --bind . ../outside; cat ../outside/.env",
    "unshare -m sh -c 'umount .env; cat .env'",
    "unshare -rm sh -c 'umount .env; cat .env'",
    "unshare -Ur sh -c 'mount -t tmpfs x /mnt; umount .env; cat .env'",
    "nsenter -m -t PID cat $PWD/.env",
    "cat /proc/PID/root$PWD/.env",
    "cat /proc/PARENT/root$PWD/.env",
    "cat /proc/PID/cwd/.env /proc/PARENT/cwd/.env",
    "mv .env other; cat other",
    "ln .env other; cat other",
    "cp --reflink=always .env other; cat other",
    "echo x >.env; cat .env",
    "rm -f .env; echo x >.env",
    "echo x >/proc/sys/kernel/core_pattern.not-there; mknod disk b 8 0 && head -c 100 disk",
    "capsh --print | grep -i 'current.*sys_admin' && cat .env",
]


@only_bubblewrap
@pytest.mark.parametrize("line", UNCOVERING)
async def test_nothing_uncovers_a_denied_file_for_commands_outside(there: Place, name: Backend, line: str) -> None:
    (there.project / ".env").write_text("canary")
    closed = found(there.project, "read:.env")
    sandbox = Sandbox(closed.close(wide_policy([there.project])), name)
    ran = await shell(sandbox, line.replace("PID", str(os.getpid())).replace("PARENT", str(os.getppid())))
    assert "canary" not in ran.text
    assert (there.project / ".env").read_text() == "canary"


@only_bubblewrap
async def test_everything_else_is_as_without_a_sandbox_for_commands_outside(there: Place, name: Backend) -> None:
    (there.project / "doc").mkdir()
    (there.project / "doc" / "it.md").write_text("old")
    closed = found(there.project, "edit:doc/**")
    sandbox = Sandbox(closed.close(wide_policy([there.project])), name)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        line = (
            f"echo x >doc/it.md; cat doc/it.md; echo x >{there.outside}/new; cat {there.home}/.ssh/id; echo; "
            f"echo $A_TOKEN; {PYTHON} -I -c \"import socket; socket.create_connection(('127.0.0.1', {port}), 5)\" && "
            f"echo connected; kill -0 {os.getpid()} && echo signalled; exit 3"
        )
        ran = await shell(sandbox, line, A_TOKEN="kept")
    assert [each for each in ran.text.splitlines() if not each.startswith("sh:")] == [
        *("oldsecret-key", "kept", "connected", "signalled"),
    ]
    assert ran.code == 3
    assert (there.outside / "new").exists()


def test_a_search_that_takes_long_is_not_made_again_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    takes = 0.01
    searches = 0

    def search() -> DeniedPaths:
        nonlocal now, searches
        now += takes
        searches += 1
        return DeniedPaths((str(searches),))

    monkeypatch.setattr(denied, "monotonic", lambda: now)
    monkeypatch.setattr(denied, "thread_time", lambda: now)
    look = denied.DeniedSearch(search).look
    assert [look().hidden, look().hidden] == [("1",), ("2",)]  # quick: before every command
    takes = 0.5
    assert [look().hidden, look().hidden] == [("3",), ("3",)]
    now += 4.6
    assert look().hidden == ("4",)


def test_for_commands_a_rule_without_a_path_and_one_for_everything_close_nothing(project: Path) -> None:
    rules = [parse_rule(text, "deny", "flag") for text in ("edit", "read", "read:**", "read:.env")]
    result = denied_paths(rules, "other", [str(project)], str(project.parent), for_commands=True)
    assert (result.hidden, result.read_only) == ((str(project / ".env"),), ())
    assert result.left == (f"read:**: it denies to read all of {project}",)
