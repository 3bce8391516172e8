"""Rules about files hold in `dragoman exec`, however a file is named: links, further folders, options, spellings."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.cli.exec_kit import Done, Place
from tests.cli.step_kit import play
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

SCRIPTED = ("--model", "scripted", "--output", "json")


def run(place: Place, line: str, *words: str) -> Done:
    """Have the built-in agent run a line."""
    return place.run(*SCRIPTED, *words, f"run {line}\nsay {{result}}")


def git(folder: Path, *words: str) -> None:
    names = ("-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True)


def test_a_redirection_through_a_link_is_not_covered_by_the_folder_that_has_the_link(place: Place) -> None:
    (place.project / "src").mkdir()
    (place.project / "src/l").symlink_to("..")
    allowed = ("--allow", "execute:echo *", "--allow", "edit:src/**")
    assert run(place, "echo x > src/l/x", *allowed).code == 5
    assert not (place.project / "x").exists()
    assert run(place, "echo x > src/x", *allowed).code == 0
    assert (place.project / "src/x").exists()


@pytest.mark.parametrize("is_read", [True, False], ids=["read", "write"])
def test_a_relative_rule_holds_in_an_added_folder(plain_place: Place, is_read: bool) -> None:
    added = plain_place.project.parent / "added"
    added.mkdir()
    (added / ".env").write_text("the key")
    path = str(added / ".env")
    step = ["ask", "fs/read_text_file", {"path": path}]
    if not is_read:
        step = ["ask", "fs/write_text_file", {"path": path, "content": "mine"}]
    words = ("--add-dir", str(added), "--allow", "*", "--deny", "read:.env", "--deny", "edit:.env", "--output", "json")
    done = play(plain_place, [step], *words, capabilities={"sessionCapabilities": {"additionalDirectories": {}}})
    [decision] = done.result["permissions"]
    assert (decision["action"], decision["rule"]) == ("deny", "read:.env" if is_read else "edit:.env")
    assert (added / ".env").read_text() == "the key"


def test_a_command_in_an_added_folder_is_judged_by_the_files_of_that_folder(place: Place) -> None:
    added = place.project.parent / "added"
    (added / "src").mkdir(parents=True)
    (added / ".env").write_text("the key")
    words = ("--add-dir", str(added), "--allow", "*", "--deny", "read:.env", "--deny", "edit:.env")
    for line in ("cat .env", "echo x > .env", "tr a b < .env", "cat src/../.env"):
        done = run(place, f"cd {added} && {line}", *words)
        assert "the key" not in done.out, line
        assert (added / ".env").read_text() == "the key", line
    allowed = ("--add-dir", str(added), "--allow", "execute:echo *", "--allow", "edit:src/**")
    assert run(place, f"cd {added} && echo x > src/new", *allowed).code == 0
    assert (added / "src/new").exists()


def test_a_search_in_a_pipe_does_not_print_a_denied_file(place: Place) -> None:
    (place.project / ".env").write_text("the key")
    (place.project / "a.txt").write_text("the lock")
    for line in ("ls | grep -r the", "grep -r the", "rg -uu the", "find . -type f | xargs cat", "tar cf - ."):
        assert "the key" not in run(place, line, "--allow", "*", "--deny", "read:.env").out, line
    assert "the lock" in run(place, "cat a.txt | grep the", "--allow", "*", "--deny", "read:.env").out


def test_a_denied_file_behind_a_mark_is_not_used(place: Place) -> None:
    (place.project / ".env").write_text("the key")
    git(place.project, "init", "-q")
    git(place.project, "add", ".env")
    uploads = ("curl -sd @.env file:///dev/null", f"curl -s file://{place.project}/.env", "dd if=.env status=none")
    for line in ("git show :.env", *uploads, "grep -f.env .env", "awk 1 .env", "sed -n 'w copy' .env"):
        done = run(place, line, "--allow", "*", "--deny", "read:.env")
        assert "read:.env" in done.result["text"], line
        assert "the key" not in done.out, line
    assert not (place.project / "copy").exists()


def test_git_does_not_print_a_denied_file_that_it_keeps(place: Place) -> None:
    (place.project / ".env").write_text("the key\n")
    (place.project / "a.txt").write_text("the lock\n")
    git(place.project, "init", "-q")
    git(place.project, "add", "a.txt")
    git(place.project, "commit", "-q", "-m", "first")
    words = ("--allow", "*", "--deny", "read:.env")
    assert "the lock" in run(place, "git show", *words).out
    git(place.project, "add", ".env")
    git(place.project, "commit", "-q", "-m", "second")
    (place.project / ".env").write_text("the key, changed\n")
    for line in (
        "git diff",
        "git show",
        "git log -p",
        "git log -1 -u",
        "git diff HEAD~1 --stat -p",
        "cd . && git show HEAD",
    ):
        assert "the key" not in run(place, line, *words).out, line
    for line in ("git log --oneline", "git diff --stat", "git status --short"):
        assert run(place, line, *words).code == 0, line
    assert run(place, "git diff", "--allow", "*", "--deny", "edit:.env").code == 0


@pytest.mark.parametrize("is_absorbed", [True, False], ids=["in .git/modules", "in the submodule"])
def test_git_status_is_not_safe_if_a_submodule_names_a_program(place: Place, is_absorbed: bool) -> None:
    other = place.project.parent / "other"
    other.mkdir()
    for folder in (other, place.project):
        git(folder, "init", "-q")
        git(folder, "commit", "-q", "--allow-empty", "-m", "x")
    if is_absorbed:
        git(place.project, "submodule", "add", "-q", str(other), "sub")
    else:
        git(place.project, "clone", "-q", str(other), "sub")
        git(place.project, "add", "sub")
    program = place.project.parent / "program"
    program.write_text(f"#!/bin/sh\ntouch {place.project}/ran\n")
    program.chmod(0o755)
    git(place.project / "sub", "config", "core.fsmonitor", str(program))
    assert run(place, "git status").code == 5
    assert not (place.project / "ran").exists()


def test_rules_hold_in_a_folder_behind_a_link(place: Place) -> None:
    (place.project / "a.txt").write_text("a\n")
    link = place.project.parent / "link"
    link.symlink_to(place.project)
    words = ("--cwd", str(link), "--allow", "edit:a.txt", "--allow", "execute:tee b.txt", "--allow", "edit:b.txt")
    assert run(place, "tee b.txt < a.txt", *words).code == 0
    assert (place.project / "b.txt").read_text() == "a\n"
    done = place.run(*SCRIPTED, *words, "edit a.txt a => b")
    assert done.code == 0, done.err
    assert run(place, f"cat {link}/a.txt", "--allow", "*", "--deny", "read:a.txt").result["text"] != "a\n"


def test_the_demonstration_runs_in_a_temporary_folder_behind_a_link(plain_place: Place) -> None:
    link = plain_place.project.parent / "link"
    link.symlink_to(plain_place.temporary)
    plain_place.environment["TMPDIR"] = str(link)
    done = plain_place.run(verb="demo")
    assert done.code == 0, done.err
    assert "Hello, world!" in done.out


def test_a_command_of_a_session_in_a_folder_below_the_project_starts_there(place: Place) -> None:
    (place.project / ".git").mkdir()
    (place.project / "sub").mkdir()
    (place.project / ".env").write_text("the key")
    words = ("--cwd", str(place.project / "sub"), "--allow", "*", "--deny", "read:.env")
    assert "the key" not in run(place, "cat ../.env", *words).out
    (place.project / ".dragoman").mkdir()
    (place.project / ".dragoman/settings.json").write_text('{"rules": {"deny": ["read:.env"]}}')
    assert "the key" not in run(place, "cat ../.env", "--cwd", str(place.project / "sub")).out


def test_a_deny_holds_for_the_other_spelling_of_a_letter(place: Place) -> None:
    folder = place.project / "cafe\u0301"
    folder.mkdir()
    (folder / "x").write_text("the key")
    words = ("--allow", "*", "--deny", "read:caf\u00e9/**", "--deny", "edit:caf\u00e9/**")
    assert "the key" not in run(place, "cat cafe\u0301/x", *words).out
    run(place, "echo y > cafe\u0301/x", *words)
    assert (folder / "x").read_text() == "the key"


def test_explain_sees_links_and_hard_links(plain_place: Place) -> None:
    (plain_place.project / ".env").write_text("the key")
    os.link(plain_place.project / ".env", plain_place.project / "hard")
    (plain_place.project / "l").symlink_to(".env")
    assert plain_place.run("add", "--deny", "read:.env", verb="rules").code == 0
    for kind, word in (("read", "hard"), ("read", "l")):
        assert plain_place.run("explain", kind, "--", word, verb="rules").out.startswith("deny: "), word
    for line in ("cat hard", "cat l", "cat < l"):
        done = plain_place.run("explain", "execute", "--", line, verb="rules")
        assert not done.out.startswith("allow"), line
        assert ".env" in done.out, line


def test_a_denied_file_that_was_read_under_another_name_is_a_violation(plain_place: Place) -> None:
    (plain_place.project / ".env").write_text("the key")
    os.link(plain_place.project / ".env", plain_place.project / "hard")
    call = {
        "sessionUpdate": "tool_call",
        "toolCallId": "t",
        "title": "Read",
        "kind": "read",
        "status": "completed",
        "locations": [{"path": str(plain_place.project / "hard")}],
    }
    done = play(plain_place, [["update", call]], "--deny", "read:.env", "--output", "json")
    assert [found["rule"] for found in done.result["violations"]] == ["read:.env"]
