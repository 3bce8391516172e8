"""A deny of reading a file holds for its hard links, too."""

import os
from pathlib import Path

import pytest

from dragoman.policy import Command, Request, Verdict, parse_rule
from dragoman.workspace import judging
from dragoman.workspace.folders import SessionFolders
from dragoman.workspace.judging import judge_with_facts

ALL = parse_rule("*", "allow", "flag", "--allow")
SAFE = parse_rule("safe", "allow", "flag", "--allow")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    root = tmp_path / "project"
    (root / "keys" / "deep").mkdir(parents=True)
    (root / "keys" / "deep" / "a.pem").write_text("secret\n")
    (root / ".env").write_text("secret\n")
    (root / "a.txt").write_text("a\n")
    os.link(root / "keys" / "deep" / "a.pem", root / "pem.txt")
    os.link(root / ".env", root / "env.txt")
    os.link(root / "a.txt", root / "b.txt")
    (tmp_path / "outside.txt").write_text("secret\n")
    os.link(tmp_path / "outside.txt", root / "outside.txt")
    return root


def verdict(project: Path, kind: str, what: str, *denied: str, action: str = "deny", allowed: str = "*") -> Verdict:
    rules = (
        parse_rule(allowed, "allow", "flag", "--allow"),
        *(parse_rule(text.replace("PLACE", str(project.parent)), action, "pinned", "settings") for text in denied),
    )
    request = Request("x", kind, root=str(project), home=str(project.parent))
    if kind == "execute":
        request = Request("x", kind, command=Command(line=what), root=str(project), home=str(project.parent))
    else:
        request = Request("x", kind, paths=(str(project / what),), root=str(project), home=str(project.parent))
    return judge_with_facts(rules, request, SessionFolders(str(project))).verdict


DENIED = [
    ("env.txt", "read:.env"),
    ("env.txt", "read:.ENV"),
    ("env.txt", "read:**/.env"),
    ("env.txt", "read:.e*"),
    ("pem.txt", "read:keys/"),
    ("pem.txt", "read:keys/**/*.pem"),
    ("outside.txt", "read:PLACE/outside.txt"),
    ("outside.txt", "read:~/*.txt"),
    ("outside.txt", "x@read:~/outside.txt"),
]


@pytest.mark.parametrize(("path", "rule"), DENIED)
def test_a_hard_link_of_a_denied_file_is_denied(project: Path, path: str, rule: str) -> None:
    assert verdict(project, "read", path).action == "allow", "without the rule it is allowed"
    assert verdict(project, "read", path, rule).action == "deny"
    assert verdict(project, "read", path, rule, action="ask").action == "ask"


@pytest.mark.parametrize(("path", "rule"), DENIED)
@pytest.mark.parametrize("line", ["cat {}", "./x --file={}", "cd keys && cat ../{}", "cat < {}", "echo a; cp {} c.txt"])
def test_a_command_that_names_a_hard_link_of_a_denied_file_is_asked_about(
    project: Path, line: str, path: str, rule: str
) -> None:
    assert verdict(project, "execute", line.format(path)).action == "allow", "without the rule it is allowed"
    assert verdict(project, "execute", line.format(path), rule).action in ("ask", "deny")


@pytest.mark.parametrize("path", ["a.txt", "b.txt", "env.txt"])
def test_files_with_other_names_are_read_as_before(project: Path, path: str) -> None:
    assert verdict(project, "read", path, "read:keys/**", "y@read:.env").action == "allow"
    assert verdict(project, "execute", f"cat {path}", "read:keys/**", allowed="safe").action == "allow"


@pytest.mark.parametrize("line", ["cat env.txt", "head -n 1 env.txt", "grep x < env.txt"])
def test_a_hard_link_of_a_denied_file_is_not_safe_to_read(project: Path, line: str) -> None:
    assert verdict(project, "execute", line, allowed="safe").action == "allow"
    assert verdict(project, "execute", line, "read:.env", allowed="safe").action == "ask"


def test_if_too_many_files_would_have_to_be_looked_at_the_user_is_asked(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(judging, "MOST_ENTRIES", 3)
    found = verdict(project, "read", "a.txt", "read:**/*.pem")
    assert found.action == "ask"
    assert "hard link" in found.why
    assert verdict(project, "read", "keys/deep/a.pem", "read:**/*.pem").action == "deny"
    (project / "b.txt").unlink()
    assert verdict(project, "read", "a.txt", "read:**/*.pem").action == "allow", "it has one name now"
