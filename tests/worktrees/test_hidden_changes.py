"""What is done in a worktree to hide a change from git: it counts, and git runs nothing for it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from dragoman.worktrees import Worktree, apply_merge, changes_of, discard_worktree, make_worktree, patch_of, plan_merge
from tests import machine
from tests.worktrees.kit import content, git, make_project, write

pytestmark = machine.needs("git")


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "user").mkdir()
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)


def sh(folder: str | Path, line: str) -> None:
    """Runs what an agent does; git needs a name for a commit."""
    names = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
    subprocess.run(["sh", "-ec", line], cwd=folder, env={**os.environ, **names}, check=True, capture_output=True)


def kinds(worktree: Worktree) -> dict[str, str]:
    return {change.path: change.kind for change in changes_of(worktree)}


EDIT = "echo x >> a.txt; echo x > new.txt; "
EDITED = {"a.txt": "modified", "new.txt": "created"}
HIDDEN: dict[str, tuple[str, dict[str, str]]] = {
    "nothing": (EDIT, EDITED),
    "assume unchanged": (EDIT + "git update-index --assume-unchanged a.txt", EDITED),
    "skip worktree": (EDIT + "git update-index --skip-worktree a.txt", EDITED),
    "flags before the edit": ("git update-index --assume-unchanged a.txt; " + EDIT, EDITED),
    "committed": (EDIT + "git add -A; git commit -qm x", EDITED),
    "committed on a branch": (EDIT + "git checkout -qb other; git add -A; git commit -qm x", EDITED),
    "an edited .gitignore": (EDIT + "echo '*' > .gitignore", {**EDITED, ".gitignore": "modified"}),
    "another .gitignore": (EDIT + "echo '*' > sub/.gitignore; echo x > sub/x", {
        **EDITED, "sub/.gitignore": "created", "sub/x": "created",
    }),
    "info/exclude": (EDIT + "echo '*' >> $(git rev-parse --git-path info/exclude)", EDITED),
    "core.excludesFile": (EDIT + "echo '*' > $HOME/all; git config core.excludesFile $HOME/all", EDITED),
    "the user's ignore file": (EDIT + "mkdir -p $HOME/.config/git; echo '*' > $HOME/.config/git/ignore", EDITED),
    "core.worktree": (EDIT + "git config core.worktree $HOME", EDITED),
    "core.fileMode": ("git config core.fileMode false; chmod -x run; chmod +x a.txt", {
        "run": "modified", "a.txt": "modified",
    }),
    "core.ignoreStat and trustctime": (
        "git config core.ignoreStat true; git config core.trustctime false; git add -A; touch -r a.txt $HOME/t;"
        "printf '9\n2\n3\n4\n5\n6\n7\n8\n9\n' > a.txt; touch -r $HOME/t a.txt", {"a.txt": "modified"},
    ),
    "attributes that convert": (
        "printf '* text eol=crlf\n' > .gitattributes; sed -i 's/$/\\r/' sub/b.txt",
        {".gitattributes": "created", "sub/b.txt": "modified"},
    ),
    "attributes without a diff": (EDIT + "echo '* -diff -text' > .gitattributes", {
        **EDITED, ".gitattributes": "created",
    }),
    "the index removed": (EDIT + "rm $(git rev-parse --git-path index)", EDITED),
    "the index of another tree": (EDIT + "git add -A; git read-tree $(git write-tree)", EDITED),
    "the .git file removed": (EDIT + "rm .git", {**EDITED, ".git": "modified"}),
    "the .git file replaced by a repository": (
        EDIT + "rm .git; git init -q; git add -A; git commit -qm x", {**EDITED, ".git": "modified"},
    ),
    "the .git file leads elsewhere": (
        EDIT + "git init -q $HOME/o; echo gitdir: $HOME/o/.git > .git", {**EDITED, ".git": "modified"},
    ),
    "HEAD moved": (EDIT + "git update-ref --no-deref HEAD $(git commit-tree -m x $(git mktree </dev/null))", EDITED),
    "a replaced object": (
        EDIT + "git replace HEAD:a.txt $(git hash-object -w a.txt)", EDITED,
    ),
    "a nested repository": (
        "git init -q sub; git init -q own; echo x > own/x; echo x > sub/b.txt",
        {"own/.git": "created", "own/x": "created", "sub/.git": "created", "sub/b.txt": "modified"},
    ),
    "an ignored nested repository": (
        "git init -q own; echo x > own/x; echo own >> .gitignore",
        {"own/.git": "created", "own/x": "created", ".gitignore": "modified"},
    ),
    "a gitlink": (
        "git init -q own; git -C own commit -q --allow-empty -m x; echo x > own/x; git add own 2>/dev/null",
        {"own/.git": "created", "own/x": "created"},
    ),
    "a link instead of a folder": (
        "cp -r sub $HOME/sub; rm -r sub; ln -s $HOME/sub sub",
        {"sub": "created", "sub/b.txt": "deleted", "sub/c.txt": "deleted"},
    ),
    "a link instead of a file": ("mv a.txt $HOME/a.txt; ln -s $HOME/a.txt a.txt", {"a.txt": "modified"}),
    "where a link leads": ("ln -sf sub/b.txt link", {"link": "modified"}),
    "a pipe instead of a file": ("rm a.txt; mkfifo a.txt", {"a.txt": "deleted"}),
    "closed files and folders": (
        "echo x > sub/b.txt; chmod 0 sub/b.txt; mkdir deep; echo x > deep/x; chmod 0 deep sub",
        {"sub/b.txt": "modified", "deep/x": "created"},
    ),
    "an ignored name that is not ignored any more": (
        "mkdir ignored; echo x > ignored/x; echo > .gitignore", {".gitignore": "modified", "ignored/x": "created"},
    ),
    "what was ignored before": ("mkdir ignored; echo x > ignored/x", {}),
    "a sparse checkout": ("git sparse-checkout set nothing; git config core.sparseCheckout true", {
        "sub/b.txt": "deleted", "sub/c.txt": "deleted",
    }),
}  # fmt: skip


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_project(tmp_path_factory.mktemp("template"), is_git=True)


@pytest.mark.parametrize("name", HIDDEN)
def test_a_change_counts_whatever_git_is_made_to_believe(tmp_path: Path, template: Path, name: str) -> None:
    project = Path(shutil.copytree(template, tmp_path / "project", symlinks=True))
    worktree = make_worktree(str(project), "one")
    line, expected = HIDDEN[name]
    sh(worktree.folder, line)
    assert kinds(worktree) == expected
    shown = patch_of(changes_of(worktree))
    plan = plan_merge(worktree, changes_of(worktree))
    for path in expected:
        if not path.endswith(".git"):
            assert f"b/{path}".encode() in shown
    assert {each.path for each in plan.paths} == set(expected)
    assert {each.path for each in plan.left} >= {path for path in expected if path.endswith(".git")}
    assert b"Binary" not in shown
    assert b"GIT binary patch" not in shown


def test_rules_that_were_made_in_the_worktree_keep_files_from_a_merge_until_they_are_named(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    sh(worktree.folder, "mkdir cache; echo '*' > cache/.gitignore; echo x > cache/x; echo x >> a.txt")
    changes = changes_of(worktree)
    plan = plan_merge(worktree, changes)
    assert {each.path: each.action for each in plan.paths} == {
        "a.txt": "modify",
        "cache/.gitignore": "leave",
        "cache/x": "leave",
    }
    assert [each.action for each in plan_merge(worktree, changes, takes_ignored=True).paths] == [
        "modify",
        "create",
        "create",
    ]


def test_folders_of_installed_files_are_one_change_and_stay_in_the_worktree(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    sh(worktree.folder, "mkdir -p node_modules/a .venv/lib target; echo x | tee node_modules/a/x .venv/lib/x target/x")
    sh(worktree.folder, "echo node_modules >> .gitignore; echo '*' > .venv/.gitignore")
    assert kinds(worktree) == {
        ".gitignore": "modified",
        ".venv": "created",
        "node_modules": "created",
        "target/x": "created",
    }
    plan = plan_merge(worktree, changes_of(worktree), takes_ignored=True)
    assert {each.path for each in plan.left} == {".venv", "node_modules"}
    assert b"node_modules/" not in patch_of(changes_of(worktree))


def test_files_of_git_never_reach_the_project(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=False)
    git(project / "sub", "init", "-q")
    worktree = make_worktree(str(project), "one")
    assert changes_of(worktree) == []
    sh(
        worktree.folder,
        "echo x > sub/.git/hooks/post-checkout; git init -q .; mkdir -p .GIT/hooks; echo x > .GIT/x; echo x >> a.txt",
    )
    assert kinds(worktree) == {".GIT": "created", ".git": "created", "a.txt": "modified", "sub/.git": "modified"}
    before = content(project)
    plan = plan_merge(worktree, changes_of(worktree))
    apply_merge(plan)
    assert {name for name, state in content(project).items() if before.get(name) != state} == {"a.txt"}
    assert [each.path for each in plan.left] == [".GIT", ".git", "sub/.git"]


def programs(tmp_path: Path) -> dict[str, str]:
    """Settings of git by which it runs a program, each with one that leaves a trace."""
    ran = f"touch {tmp_path}/ran; cat"
    return {
        "core.fsmonitor": ran,
        "core.hooksPath": str(tmp_path / "hooks"),
        "core.sshCommand": ran,
        "core.pager": ran,
        "diff.external": ran,
        "diff.x.textconv": ran,
        "diff.x.command": ran,
        "filter.x.clean": ran,
        "filter.x.smudge": ran,
        "filter.x.process": ran,
        "merge.x.driver": ran,
        "core.attributesFile": str(tmp_path / "attributes"),
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::sh -c '{ran}'",
        "protocol.ext.allow": "always",
    }


@pytest.mark.parametrize("where", ["the worktree's repository", "the user's settings", "a folder above"])
def test_no_program_that_settings_of_git_name_runs_to_look_at_a_worktree(tmp_path: Path, where: str) -> None:
    project = make_project(tmp_path, is_git=True)
    worktree = make_worktree(str(project), "one")
    write(project, a_txt="0\n2\n3\n4\n5\n6\n7\n8\n9\n")
    folder = Path(worktree.folder)
    write(folder, a_txt="1\n2\n3\n4\n5\n6\n7\n8\nx\n")
    line = "* filter=x diff=x merge=x\n"
    (tmp_path / "attributes").write_text(line)
    write(folder, **{".gitattributes": line})
    (tmp_path / "hooks").mkdir()
    for hook in ("post-checkout", "post-index-change", "reference-transaction"):
        (tmp_path / "hooks" / hook).write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
        (tmp_path / "hooks" / hook).chmod(0o755)
    if where == "the user's settings":
        config = ["--file", str(tmp_path / "user/.gitconfig")]
    elif where == "a folder above":
        git(worktree.place, "init", "-q")
        git(tmp_path, "init", "-q")
        config = ["--file", str(worktree.place / ".git/config")]
    else:
        sh(folder, "rm .git; git init -q")
        config = ["--file", str(folder / ".git/config")]
    for name, value in programs(tmp_path).items():
        git(tmp_path, "config", *config, name, value)
    changes = changes_of(worktree)
    assert {change.path for change in changes} >= {"a.txt", ".gitattributes"}
    assert b"-9\n+x\n" in patch_of(changes)
    apply_merge(plan_merge(worktree, changes))
    assert (project / "a.txt").read_text() == "0\n2\n3\n4\n5\n6\n7\n8\nx\n"
    if where != "the user's settings":
        inner = make_worktree(worktree.folder, "inner")
        assert changes_of(inner) == []
        discard_worktree(inner)
        discard_worktree(worktree)
    assert not (tmp_path / "ran").exists()


def test_files_that_a_filter_makes_are_compared_as_they_were_checked_out(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    write(
        project, **{".gitattributes": "*.up filter=case\n*.crlf text eol=crlf\n"}, **{"x.up": "ABC\n", "y.crlf": "1\n"}
    )
    git(project, "config", "filter.case.clean", "tr A-Z a-z")
    git(project, "config", "filter.case.smudge", "tr a-z A-Z")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    worktree = make_worktree(str(project), "one")
    folder = Path(worktree.folder)
    assert (folder / "x.up").read_text() == "ABC\n"
    assert changes_of(worktree) == []
    write(folder, **{"x.up": "ABC\nD\n", ".gitattributes": ""})
    assert b"+D\n" in patch_of(changes_of(worktree))
    assert kinds(worktree) == {"x.up": "modified", ".gitattributes": "modified"}


def test_a_worktree_of_a_worktree_has_what_is_really_there(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    outer = make_worktree(str(project), "outer")
    precious = tmp_path / "user/sub"
    sh(
        outer.folder,
        "echo x >> a.txt; git update-index --assume-unchanged a.txt; echo x > new.txt; echo '*' > .gitignore",
    )
    sh(outer.folder, "cp -r sub $HOME/sub; rm -r sub; ln -s $HOME/sub sub; git commit -qm x --allow-empty; rm run")
    inner = make_worktree(outer.folder, "inner")
    assert content(Path(inner.folder)) == content(Path(outer.folder))
    assert sorted(os.listdir(precious)) == ["b.txt", "c.txt"]
    assert changes_of(inner) == []
    write(Path(inner.folder), inner_txt="x\n", a_txt="inner\n")
    assert kinds(inner) == {"a.txt": "modified", "inner.txt": "created"}
    plan = plan_merge(inner, changes_of(inner))  # the rule that ignores the new file was made in the outer one
    assert [(each.path, each.action) for each in plan.paths] == [("a.txt", "modify"), ("inner.txt", "leave")]
    apply_merge(plan_merge(inner, changes_of(inner), takes_ignored=True))
    assert kinds(outer)["inner.txt"] == "created"
    discard_worktree(inner)
    assert git(project, "worktree", "list").count("\n") == 2


def test_files_of_a_submodule_count_unless_the_project_has_the_same(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    (tmp_path / "library").mkdir()
    library = make_project(tmp_path / "library", is_git=True)
    git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
    git(project, "commit", "-qm", "two")
    worktree = make_worktree(str(project), "one")
    assert changes_of(worktree) == []
    sh(worktree.folder, "git -c protocol.file.allow=always submodule --quiet update --init")
    assert kinds(worktree) == {"lib/.git": "created"}
    sh(worktree.folder, "echo x > lib/a.txt; echo x > lib/new.txt; git -C lib commit -qam x")
    assert kinds(worktree) == {"lib/.git": "created", "lib/a.txt": "modified", "lib/new.txt": "created"}
    assert {each.path: each.action for each in plan_merge(worktree, changes_of(worktree)).paths} == {
        "lib/.git": "leave",
        "lib/a.txt": "conflict",
        "lib/new.txt": "create",
    }


def test_names_that_are_not_utf8_are_followed(tmp_path: Path) -> None:
    project = make_project(tmp_path, is_git=True)
    odd = os.fsencode(project) + b"/\xff\n"
    with open(odd, "wb") as file:
        file.write(b"one\n")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "two")
    worktree = make_worktree(str(project), "one")
    assert changes_of(worktree) == []
    with open(os.fsencode(worktree.folder) + b"/\xff\n", "wb") as file:
        file.write(b"two\n")
    (change,) = changes_of(worktree)
    assert os.fsencode(change.path) == b"\xff\n"
