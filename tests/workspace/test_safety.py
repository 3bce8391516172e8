"""Which commands are safe depends on the disk: links, the PATH and git's configuration."""

from pathlib import Path

import pytest

from dragoman.policy import Request, judge, parse_rule
from dragoman.workspace.safety import with_safe_parts

SAFE = parse_rule("safe", "allow", "flag", "--allow")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / ".git").mkdir(parents=True)
    (root / ".git" / "config").write_text("[core]\n\tbare = false\n")
    (root / "a.txt").write_text("a\n")
    (tmp_path / "secret.txt").write_text("s\n")
    (root / "link.txt").symlink_to(tmp_path / "secret.txt")
    return root


def action(project: Path, line: str, *denied: str) -> str:
    rules = (SAFE, *(parse_rule(text, "deny", "pinned", "settings") for text in denied))
    request = Request("x", "execute", shell=line, root=str(project), home="/nonexistent")
    return judge(rules, with_safe_parts(rules, request, [str(project)])).action


@pytest.mark.parametrize("line", ["ls", "cat a.txt", "cat a.txt | head -n 1", "git status --short", "wc -l a.txt"])
def test_readers_of_project_files_are_allowed_by_safe(project: Path, line: str) -> None:
    assert action(project, line) == "allow"


@pytest.mark.parametrize(
    "line", ["rm a.txt", "cat link.txt", "cat ../secret.txt", "cat /etc/passwd", "ls; rm a.txt", "cat a.txt > b.txt"]
)
def test_anything_else_is_not_allowed_by_safe(project: Path, line: str) -> None:
    assert action(project, line) == "ask"


def test_a_denied_read_is_not_safe(project: Path) -> None:
    assert action(project, "cat a.txt", "read:a.txt") != "allow"


@pytest.mark.parametrize(
    "key", ["[core]\n\tfsmonitor = ./x\n", "[diff]\n\texternal = ./x\n", "[include]\n\tpath = x\n"]
)
def test_git_is_not_safe_if_the_repository_may_name_a_program(project: Path, key: str) -> None:
    (project / ".git" / "config").write_text(key)
    assert action(project, "git status") == "ask"
    assert action(project, "cat a.txt") == "allow"


def test_a_program_that_the_project_may_have_written_is_not_safe(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = project / "bin" / "cat"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")
    assert action(project, "cat a.txt") == "ask"
    assert action(project, "wc -l a.txt") == "allow"
