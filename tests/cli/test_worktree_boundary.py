"""A worktree is a boundary: what an agent in it tries against the project and against other worktrees."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests import machine
from tests.cli.exec_kit import Place
from tests.cli.step_kit import STEP_AGENT, play, script, tool
from tests.cli.warm_python import WarmPython
from tests.worktrees.kit import content, git, make_project

pytestmark = machine.needs("git")
needs_bubblewrap = machine.needs_sandbox("bubblewrap")


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Place:
    (tmp_path / "place").mkdir()
    found = Place(tmp_path / "place", warm_python)
    found.project.rmdir()
    make_project(tmp_path / "place", is_git=True)
    return found


@pytest.fixture
def away(warm_python: WarmPython) -> Iterator[Place]:
    """A place that is there in a sandbox, which has a `/tmp` of its own."""
    with TemporaryDirectory(prefix=".dragoman-test-", dir=os.path.expanduser("~")) as folder:
        found = Place(Path(os.path.realpath(folder)), warm_python)
        found.project.rmdir()
        make_project(found.project.parent, is_git=True)
        yield found


def state(project: Path) -> dict[str, Any]:
    """Everything of the project that is the user's own: its files, and what git takes from it."""
    found: dict[str, Any] = dict(content(project))
    for name in ("HEAD", "index", "config", "info/exclude", "commondir", "config.worktree", "packed-refs"):
        path = project / ".git" / name
        found[f".git/{name}"] = path.read_bytes() if path.exists() else None
    found[".git/hooks"] = sorted(os.listdir(project / ".git/hooks"))
    found["settings"] = "".join(path.read_text() for path in project.glob(".git/worktrees/*/config.worktree"))
    found["status"] = git(project, "status", "--porcelain", "--branch")
    return found


def permitted(kind: str, path: Path) -> list[Any]:
    """The step of an agent that asks before it changes a file itself."""
    options = [
        {"optionId": "y", "name": "Yes", "kind": "allow_once"},
        {"optionId": "n", "name": "No", "kind": "reject_once"},
    ]
    call = {"toolCallId": "t", "title": str(path), "kind": kind, "locations": [{"path": str(path)}]}
    return ["ask", "session/request_permission", {"toolCall": call, "options": options}]


@pytest.mark.parametrize("words", [("--allow", "edit"), ("--allow", "*"), ("--dangerously-allow-all",)])
def test_a_file_of_the_project_is_not_written_through_the_client(place: Place, words: tuple[str, ...]) -> None:
    link = place.project.parent / "behind"
    link.symlink_to(place.project)
    names = ("a.txt", "new.txt", ".git/hooks/post-checkout")
    paths = [*(place.project / name for name in names), link / "a.txt"]
    before = state(place.project)
    writes = [["ask", "fs/write_text_file", {"path": str(path), "content": "x"}] for path in paths]
    done = play(place, [*writes, ["say", "done"]], "--worktree", "one", *words)
    assert "done" in done.out, done.err
    assert state(place.project) == before


@pytest.mark.parametrize("words", [("--allow", "edit", "--allow", "delete", "--allow", "move"), ("--allow", "*")])
def test_no_rule_permits_a_change_of_the_project(place: Place, words: tuple[str, ...]) -> None:
    link = place.project.parent / "behind"
    link.symlink_to(place.project)
    files, folders = [place.project / "a.txt", link / "a.txt"], [place.project, place.project.parent]
    asked = [permitted(kind, path) for kind in ("edit", "delete", "move") for path in files]
    asked += [permitted(kind, path) for kind in ("delete", "move") for path in folders]
    done = play(place, [*asked, ["say", "done"]], "--worktree", "one", "--output", "json", *words)
    decisions = done.result["permissions"]
    assert len(decisions) == len(asked)
    assert [decision for decision in decisions if decision["action"] == "allow"] == []


def test_reading_the_project_needs_a_rule_that_names_it(place: Place) -> None:
    asked = [permitted("read", place.project / "a.txt"), ["say", "done"]]
    done = play(place, asked, "--worktree", "one", "--allow", "read", "--output", "json")
    assert done.result["permissions"][0]["action"] != "allow"
    done = play(place, asked, "--worktree", "one", "--allow", f"read:{place.project}/**", "--output", "json")
    assert done.result["permissions"][0]["action"] == "allow"


def test_a_change_that_the_agent_reports_is_a_violation(place: Place) -> None:
    path = str(place.project / "a.txt")
    edited = tool("t", kind="edit", status="completed", content=[{"type": "diff", "path": path, "newText": "x"}])
    done = play(place, [edited, ["say", "done"]], "--worktree", "one", "--allow", "edit", "--output", "json")
    assert done.code == 10
    (violation,) = done.result["violations"]
    assert (violation["decided_by"], violation["paths"]) == ("worktree", [path])


# What the agent, or a command in a terminal, does by itself

RAN = "the-attack-has-ended"
ATTACKS = {
    "redirect": "echo x > {project}/a.txt",
    "create": "touch {project}/new.txt",
    "remove": "rm -rf {project}/sub",
    "rename the project": "mv {project} {project}.old",
    "rename in it": "mv {project}/a.txt {project}/b.txt",
    "mode": "chmod 777 {project}/a.txt",
    "times": "touch -d 2001-01-01 {project}/a.txt; echo x >> {project}/a.txt",
    "hard link": "ln {project}/a.txt hard && echo x > hard",
    "symbolic link": "ln -s {project} soft && echo x > soft/a.txt",
    "link above": "ln -s {above} up && echo x > up/project/a.txt",
    "git -C": "git -C {project} commit -qam x --allow-empty; git -C {project} reset -q --hard HEAD^",
    "git checkout there": "git -C {project} checkout -q --detach; git -C {project} rm -q a.txt",
    "work tree of git": "git --git-dir={project}/.git --work-tree={project} rm -q a.txt",
    "core.worktree": "git config core.worktree {project}; git rm -q a.txt",
    "hook": "echo x > {project}/.git/hooks/post-checkout",
    "hook by git": "echo x > $(git rev-parse --git-common-dir)/hooks/pre-commit",
    "hooks folder": "cd {project}/.git; mv hooks h && mkdir hooks && touch hooks/x; cd -",
    "git folder": "cd {project}; mv .git .g && cp -r .g .git && touch .git/hooks/x; cd -",
    "config": "git config alias.st '!touch /x'; echo x >> {project}/.git/config",
    "hooks path": "git config core.hooksPath /x",
    "exclude": "echo x >> {project}/.git/info/exclude",
    "index": "echo x > {project}/.git/index",
    "head": "git -C {project} symbolic-ref HEAD refs/heads/other",
    "common folder": "echo /x > {project}/.git/commondir; echo /x > {project}/.git/config.worktree",
    "own folder of git": "cd $(git rev-parse --git-dir); echo /x > commondir; mv commondir c; rm gitdir; cd -",
    "own settings of git": "cd $(git rev-parse --git-dir); echo x > config.worktree; mv config.worktree c; cd -",
    "packed branches": "git pack-refs --all --prune; git gc -q --prune=now; rm {project}/.git/packed-refs",
    "other work trees": "rm -rf {project}/.git/worktrees/*; git worktree prune",
    "remove the work tree": "git worktree remove --force {project}; git worktree move {project} {project}.old",
    "mounts of others": "echo x > /proc/$PPID/root{project}/a.txt; echo x > /proc/1/root{project}/a.txt",
    "remount": "mount -o remount,rw,bind {project}; umount {project}; echo x > {project}/a.txt",
    "namespace": "unshare -rm sh -c 'mount -o remount,rw,bind {project}; umount {project}; echo x > {project}/a.txt'",
    "settings of the kernel": "echo x > {project}/a.txt; test ! -w /proc/sys/kernel/core_pattern || touch {above}/core",
    "the record": "echo x > ../../record.json; rm -r ../../base",
}


@needs_bubblewrap
@pytest.mark.parametrize("name", ATTACKS)
def test_no_process_of_the_agent_changes_the_project(place: Place, name: str) -> None:
    before = state(place.project)
    # A program that no rule can look into, allowed by the widest rule there is: in a terminal, and by the agent itself.
    attack = place.project.parent / "attack"
    attack.write_text(ATTACKS[name].format(project=place.project, above=place.project.parent) + f"\ntouch {RAN}-$1\n")
    steps = [["command", "sh", str(attack), "terminal"], ["run", f"sh {attack} agent"], ["say", "done"]]
    done = play(place, steps, "--worktree", "one", "--allow", "*", "-q")
    record = next(place.home.glob("dragoman/data/worktrees/*/one/record.json"))
    assert "done" in done.out, done.err
    assert len(list(Path(record.parent, "tree/project").glob(f"{RAN}-*"))) == 2
    assert state(place.project) == before
    assert (place.project / "a.txt").stat().st_mode & 0o777 == 0o644
    assert not {"project.old", "core"} & set(os.listdir(place.project.parent))
    assert json.loads(record.read_text())["project"] == str(place.project)


@needs_bubblewrap
@pytest.mark.parametrize("words", [(), ("--sandbox", "require"), ("--sandbox-agent",)])
def test_a_commit_works_and_the_rest_of_the_git_folder_is_closed(away: Place, words: tuple[str, ...]) -> None:
    place = away
    before = state(place.project)
    attack = place.project.parent / "attack"
    name = "git -c user.name=a -c user.email=a@b"
    attack.write_text(
        f"echo x > own.txt && git add own.txt && {name} commit -qm 'made inside' && git branch made-$1\n"
        f"cd {place.project}/.git && for each in HEAD index config commondir config.worktree packed-refs hooks/x\n"
        "do echo x > $each; mv $each moved; rm -f $each; done; cd -\n"
        f"touch {RAN}\n"
    )
    steps = [["command", "sh", str(attack), "terminal"], ["run", f"sh {attack} agent"], ["say", "done"]]
    if words == ("--sandbox", "require"):
        steps.pop(1)  # the agent itself is not in this sandbox; the test above has it
    done = play(place, steps, "--worktree", "one", "--allow", "*", *words)
    assert list(place.home.glob(f"dragoman/data/worktrees/*/one/tree/project/{RAN}")), done.err
    assert state(place.project) == before
    assert "made-terminal" in git(place.project, "branch"), done.err
    assert "made inside" in git(place.project, "log", "--oneline", "made-terminal")
    assert git(place.project, "fsck", "--no-dangling") == ""


@needs_bubblewrap
def test_a_rule_that_closes_files_does_not_open_the_project(place: Place) -> None:
    before = state(place.project)
    attack = place.project.parent / "attack"
    attack.write_text(f"echo x > {place.project}/a.txt\ntouch {RAN}\n")
    words = ("--worktree", "one", "--deny", "read:bin", "-q", "--dangerously-allow-all")
    done = play(place, [["command", "sh", str(attack)], ["say", "done"]], *words)
    assert list(place.home.glob(f"dragoman/data/worktrees/*/one/tree/project/{RAN}")), done.err
    assert state(place.project) == before


@needs_bubblewrap
@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_compared_agent_neither_sees_nor_changes_the_work_of_another(place: Place, jobs: str) -> None:
    worktrees = place.home / "dragoman/data/worktrees"
    line = f"for each in {worktrees}/*/*/tree/project; do echo x >> $each/visited; done"
    path = script(place, [["run", line], ["say", "done"]])
    settings = place.home / "dragoman/config/settings.json"
    settings.parent.mkdir(parents=True)
    agent = {"command": place.python, "args": ["-IS", str(STEP_AGENT), path]}
    settings.write_text(json.dumps({"agent_servers": {"first": agent, "second": agent}}))
    before = state(place.project)
    done = place.run("first", "second", "--jobs", jobs, "--json", "x", verb="compare")
    assert [each["text"] for each in json.loads(done.out)["runs"]] == ["done", "done"], done.err
    visited = sorted(worktrees.glob("*/*/tree/project/visited"))
    assert [file.read_text() for file in visited] == ["x\n", "x\n"]
    assert state(place.project) == before


def test_another_folder_of_the_session_does_not_contain_the_project(place: Place) -> None:
    done = place.run("--worktree", "one", "--add-dir", str(place.project.parent), "-a", "scripted", "hi")
    assert done.code == 2
    assert "it contains the project" in done.err


def test_without_bubblewrap_the_user_is_shown_that_only_rules_hold(place: Place) -> None:
    place.hide_bubblewrap()
    done = play(place, [["say", "done"]], "--worktree", "one")
    assert f"so only rules keep the agent from {place.project}" in done.err


def test_without_bubblewrap_a_process_that_does_not_name_the_project_reaches_it(place: Place) -> None:
    place.hide_bubblewrap()
    play(place, [["say", "done"]], "--worktree", "other")
    attack = place.project.parent / "attack"
    attack.write_text(
        f"echo x > {place.project}/a.txt; echo x > {place.project}/.git/x; for each in ../../../*/tree/*\n"
        "do echo x > $each/visited; done"
    )
    play(place, [["run", f"sh {attack}"], ["say", "done"]], "--worktree", "one", "--allow", "*")
    assert (place.project / "a.txt").read_text() == (place.project / ".git/x").read_text() == "x\n"
    assert list(place.home.glob("dragoman/data/worktrees/*/other/tree/project/visited"))
    # A line that names it is refused, whatever rules allow.
    line = ["command", "sh", "-c", f"echo y > {place.project}/a.txt"]
    play(place, [line, ["say", "done"]], "--worktree", "one", "--allow", "*")
    assert (place.project / "a.txt").read_text() == "x\n"


@needs_bubblewrap
def test_branches_are_shared_and_the_project_can_be_read(place: Place) -> None:
    name = "git -c user.name=a -c user.email=a@b"
    line = (
        f"git branch shared; cp {place.project}/a.txt copied; {name} commit -q --allow-empty -m x; git tag mine;"
        "git branch -f moved HEAD; echo x >> a.txt; git stash -q; git branch -D shared;"
        "git gc -q; git worktree add -q ../new 2>/dev/null"
    )
    git(place.project, "branch", "moved")
    play(place, [["run", line], ["say", "done"]], "--worktree", "one")
    assert "shared" in git(place.project, "branch")
    assert git(place.project, "rev-parse", "moved") == git(place.project, "rev-parse", "mine")
    assert git(place.project, "rev-parse", "moved") != git(place.project, "rev-parse", "HEAD")
    assert git(place.project, "stash", "list").count("\n") == 1
    assert git(place.project, "worktree", "list").count("\n") == 2
    (copied,) = place.home.glob("dragoman/data/worktrees/*/one/tree/project/copied")
    assert copied.read_text() == (place.project / "a.txt").read_text()
