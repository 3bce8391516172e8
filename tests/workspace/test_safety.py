"""Which commands are safe depends on the disk: links, the PATH and git's configuration."""

import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.policy import Command, Request, judge, parse_rule
from dragoman.workspace.folders import SessionFolders
from dragoman.workspace.judging import with_safe_parts
from tests import machine

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
    request = Request("x", "execute", command=Command(line=line), root=str(project), home="/nonexistent")
    return judge(rules, with_safe_parts(rules, request, SessionFolders(str(project)))).action


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


@pytest.mark.parametrize("key", ["promisor = true", "uploadpack = ./x", "partialclone = o"])
def test_git_is_not_safe_if_a_missing_object_is_fetched_by_a_program(project: Path, key: str) -> None:
    (project / ".git" / "config").write_text(f'[remote "o"]\n\t{key}\n')
    assert action(project, "git log") == "ask"


@pytest.mark.parametrize("name", ["hooks/post-index-change", "config.worktree", "modules", "sharedindex.0"])
def test_git_is_not_safe_if_another_file_of_the_repository_may_name_a_program(project: Path, name: str) -> None:
    (project / ".git/hooks").mkdir()
    (project / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    assert action(project, "git status") == "allow"
    (project / ".git" / name).write_text("")
    assert action(project, "git status") == "ask"


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


def test_git_is_judged_by_the_repository_it_runs_in(project: Path) -> None:
    inner = project / "inner" / ".git"
    inner.mkdir(parents=True)
    (inner / "config").write_text("[core]\n\tbare = false\n")
    assert action(project, "cd inner && git status") == "allow"
    (inner / "config").write_text('[diff "x"]\n\ttextconv = ./run\n')
    assert action(project, "cd inner && git status") == "ask"
    assert action(project, "git status") == "allow"


def test_git_is_not_safe_in_a_folder_that_looks_like_a_bare_repository(project: Path) -> None:
    bare = project / "bare"
    for name in ("objects", "refs"):
        (bare / name).mkdir(parents=True)
    assert action(project, "cd bare && git status") == "allow"
    (bare / "HEAD").write_text("ref: refs/heads/main\n")
    assert action(project, "cd bare && git status") == "ask"


def test_git_is_not_safe_in_a_repository_with_submodules(project: Path) -> None:
    (project / ".git" / "modules").mkdir()
    assert action(project, "git status") == "ask"


def test_keys_of_the_user_are_not_safe_although_they_lie_in_the_project(project: Path) -> None:
    def action_at_home(line: str) -> str:
        request = Request("x", "execute", command=Command(line=line), root=str(project), home=str(project))
        return judge((SAFE,), with_safe_parts((SAFE,), request, SessionFolders(str(project)))).action

    assert action_at_home("cat a.txt") == "allow"
    (project / ".ssh").mkdir()
    (project / ".ssh" / "id_ed25519").write_text("key")
    for line in ("cat .ssh/id_ed25519", "cat ~/.ssh/id_ed25519", "cat .ssh/*", "grep -r key .", "cat a.txt"):
        assert action_at_home(line) == "ask", line


@pytest.mark.parametrize("line", ["rg s", "grep -rn s", "grep -r s .", "git grep s", "git log -p", "git show"])
def test_a_search_that_names_no_file_is_not_safe_if_a_rule_restricts_reading(project: Path, line: str) -> None:
    assert action(project, line, "read:b.txt") == "ask"
    assert action(project, line) == ("ask" if line.startswith("rg") and shutil.which("rg") is None else "allow")
    assert action(project, "grep a a.txt", "read:b.txt") == "allow"


def test_an_ask_about_a_file_holds_for_links_to_it(project: Path) -> None:
    (project / "b.txt").write_text("b")
    (project / "to-b").symlink_to("b.txt")
    rules = (SAFE, parse_rule("read:b.txt", "ask", "pinned", "settings"))
    request = Request("x", "execute", command=Command(line="cat to-b"), root=str(project), home="/nonexistent")
    assert judge(rules, with_safe_parts(rules, request, SessionFolders(str(project)))).action == "ask"


@machine.needs("git")
def test_git_in_a_linked_worktree_is_judged_by_the_shared_configuration(tmp_path: Path) -> None:
    main, linked = tmp_path / "main", tmp_path / "linked"
    main.mkdir()
    for words in ("init -q", "commit -q --allow-empty -m first", f"worktree add -q {linked}"):
        author = ("-c", "user.name=a", "-c", "user.email=a@b")
        subprocess.run(["git", *author, *words.split()], cwd=main, check=True, stdin=subprocess.DEVNULL)
    assert action(linked, "git status") == "allow"
    with (main / ".git" / "config").open("a") as config:
        config.write('[filter "x"]\n\tclean = ./run\n')
    assert action(linked, "git status") == "ask"
    (linked / ".git").write_text("gitdir: nowhere\n")
    assert action(linked, "git status") == "ask"


def test_a_glob_counts_by_what_it_stands_for(project: Path, tmp_path: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("a\n")
    for line in ("cat src/*", f"cat {project}/src/*.py", "cat a*.txt", "diff src src"):
        assert action(project, line) == "allow", line
    assert action(project, "ls *") == "ask", "a link leads outside"
    (project / "link.txt").unlink()
    assert action(project, "ls *") == "allow"
    (project / "src" / "link.py").symlink_to(tmp_path / "secret.txt")
    for line in ("cat src/*", f"cat {project}/src/*.py", "cat s*/*.py", "diff src src", "grep src/* a.txt"):
        assert action(project, line) == "ask", line
    assert action(project, "cat src/[^x]*.py") == "ask", "a shell reads this differently"
    (project / "-r").write_text("a name that looks like an option\n")
    assert action(project, "grep a *") == "ask"


def test_a_linked_worktree_has_the_configuration_of_its_repository(project: Path, tmp_path: Path) -> None:
    own = project / ".git" / "worktrees" / "w"
    own.mkdir(parents=True)
    (own / "commondir").write_text("../..\n")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / ".git").write_text(f"gitdir: {own}\n")
    assert action(tree, "git log") == "allow"
    (own / "config.worktree").write_text("")
    assert action(tree, "git log") == "ask"
    (own / "config.worktree").unlink()
    (project / ".git" / "config").write_text("[core]\n\tpager = ./x\n")
    assert action(tree, "git log") == "ask"


@pytest.mark.parametrize(
    "key", ["[core]\n\tpager = ./x\n", "[log]\n\tshowSignature = true\n", "[core]\n\tworktree = /\n"]
)
def test_git_log_is_not_safe_if_the_configuration_makes_it_run_or_read_more(project: Path, key: str) -> None:
    assert action(project, "git log") == "allow"
    (project / ".git" / "config").write_text(key)
    assert action(project, "git log") == "ask"
    assert action(project, "git rev-parse HEAD") == "allow"
