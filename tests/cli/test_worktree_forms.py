"""The boundary of a worktree in every form of running, for every kind of worktree, as root and as an ordinary user.

`test_worktree_boundary.py` has the single attempts. Here one agent makes the plain ones, by its own process and by a
command of its client: against the project, the projects that this is a copy of, other worktrees, and the records.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests import machine
from tests.cli.exec_kit import PROGRAM, Place
from tests.cli.step_kit import STEP_AGENT, play, script
from tests.cli.test_serve import Home
from tests.cli.warm_python import WarmPython
from tests.host.local.kit import local_place
from tests.process.sandbox.kit import shared_folder
from tests.project.sources import ROOT
from tests.versions.line_client import program
from tests.worktrees.kit import content, git, make_project

pytestmark = [machine.needs("git"), machine.needs_sandbox("bubblewrap")]
NOBODY = 65534
RAN = "the-attack-has-ended"


def attack(folder: Path, *originals: Path, name: str = "attack") -> str:
    """Write a script that attacks these folders and everything around the worktree that it runs in; return its path.

    A worktree in which it ran has a file for each of its arguments.
    """
    lines = []
    for original in originals:
        lines += [
            "for file in a.txt new.txt sub/b.txt lib/a.txt .git/HEAD .git/index .git/commondir .git/hooks/x",
            f"do echo x > {original}/$file; rm -f {original}/$file; mv {original}/$file {original}/moved; done",
            f"rm -rf {original}/sub; ln -s {original} link-$1; echo x > link-$1/a.txt; mv {original} {original}.old",
            f"git -C {original} commit -qam x; git -C {original} checkout -q --detach",
        ]
    lines += ["for other in ../../../*/tree/*; do echo x > $other/visited; done; echo x > ../../record.json"]
    lines += ["rm -rf ../../base ../../base.msgpack", f"echo x > a.txt; touch {RAN}-$1"]
    path = folder / name
    path.write_text("\n".join(lines))
    return str(path)


def steps(path: str) -> list[Any]:
    return [["run", f"sh {path} agent"], ["command", "sh", path, "terminal"], ["say", "done"]]


def state(project: Path) -> dict[str, Any]:
    """A project with its files of git, those of objects and branches left out; a worktree writes them."""
    found: dict[str, Any] = dict(content(project))
    kept = project / ".git"
    for path in sorted(kept.rglob("*")) if kept.is_dir() else ():
        if path.is_file() and path.relative_to(kept).parts[0] not in ("objects", "refs", "logs", "worktrees"):
            found[str(path)] = path.read_bytes()
    return found


def tree(home: Path, name: str) -> Path:
    (found,) = home.glob(f"dragoman/data/worktrees/*/{name}/tree/*")
    return found


def assert_ran(folder: Path, *ways: str) -> None:
    """The agent worked in its worktree, and nowhere else."""
    assert {f"{RAN}-{way}" for way in ways} <= set(os.listdir(folder))
    assert (folder / "a.txt").read_text() == "x\n"
    assert "visited" in os.listdir(folder)
    assert json.loads((folder.parents[1] / "record.json").read_text())["name"]
    assert (folder.parents[1] / "base.msgpack").exists()


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Place:
    found = Place(tmp_path, warm_python)
    found.project.rmdir()
    return found


@pytest.mark.parametrize("kind", ["git", "copy", "submodule"])
def test_each_kind_of_worktree_is_a_boundary(place: Place, kind: str) -> None:
    project = make_project(place.project.parent, is_git=kind != "copy")
    if kind == "submodule":
        (place.home / "library").mkdir()
        library = make_project(place.home / "library", is_git=True)
        git(project, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(library), "lib")
        git(project, "commit", "-qm", "two")
    before = state(project)
    play(place, [["say", "done"]], "--worktree", "other")
    done = play(place, steps(attack(project.parent, project)), "--worktree", "one", "--allow", "*")
    assert_ran(tree(place.home, "one"), "agent", "terminal")
    assert state(project) == before, done.err
    assert "visited" not in os.listdir(tree(place.home, "other"))


def test_a_worktree_of_a_worktree_is_closed_to_both_sides(place: Place) -> None:
    project = make_project(place.project.parent, is_git=True)
    play(place, [["run", "echo outer > outer.txt"], ["say", "done"]], "--worktree", "outer")
    outer = tree(place.home, "outer")
    before, outer_before = state(project), content(outer)
    path = attack(project.parent, project, outer)
    done = play(place, steps(path), "--worktree", "inner", "--cwd", str(outer), "--allow", "*")
    inner = tree(place.home, "inner")
    assert_ran(inner, "agent", "terminal")
    assert (inner / "outer.txt").read_text() == "outer\n"
    assert state(project) == before, done.err
    assert content(outer) == outer_before
    # From the outer one the inner one is another worktree.
    path = attack(project.parent, project, inner)
    inner_before = content(inner)
    play(place, steps(path), "--worktree", "outer", "--allow", "*")
    assert_ran(outer, "agent", "terminal")
    assert state(project) == before
    assert content(inner) == inner_before
    listed = json.loads(place.run("list", "--json", "--cwd", str(outer), verb="worktrees").out)
    assert [each["name"] for each in listed] == ["inner"]


def agent_settings(path: str) -> dict[str, Any]:
    return {"agent_servers": {"sly": {"command": sys.executable, "args": ["-IS", str(STEP_AGENT), path]}}}


def test_an_agent_of_the_local_host_is_inside_the_boundary(tmp_path: Path, warm_python: WarmPython) -> None:
    with local_place(tmp_path, warm_python) as place:
        place.project.rmdir()
        project = make_project(tmp_path, is_git=True)
        place.settings(**agent_settings(script(place, steps(attack(tmp_path, project)))))
        before = state(project)
        done = place.run("x", "-a", "sly", "--session", "s", "--worktree", "one", "--allow", "*")
        assert "done" in done.out, done.err
        assert_ran(tree(place.home, "one"), "agent", "terminal")
        assert state(project) == before
        assert "files differ from the project's" in done.err


def test_an_agent_of_serve_is_inside_the_boundary_in_a_worktree(tmp_path: Path, place: Place) -> None:
    project = make_project(place.project.parent, is_git=True)
    play(place, [["say", "done"]], "--worktree", "one")
    folder = tree(place.home, "one")
    before = state(project)
    path = script(place, steps(attack(tmp_path, project)))
    home = Home(tmp_path / "server")
    home.environment |= {"HOME": str(place.home), "DRAGOMAN_HOME": str(place.home / "dragoman")}
    home.serve_folder = place.home / "dragoman/data/serve"
    words = ("--listen", "127.0.0.1:0", "--allow", "*", "--", sys.executable, "-IS", str(STEP_AGENT), path)
    with home.serving("--folder", str(folder), *words) as (_, url):
        done = home.run("exec", "--url", url, "--token-env", "T", "--cwd", str(folder), "x", T=home.token)
    assert "done" in done.out, done.err
    assert_ran(folder, "agent", "terminal")
    assert state(project) == before


async def test_an_agent_behind_a_guard_is_inside_the_boundary_in_a_worktree(place: Place) -> None:
    project = make_project(place.project.parent, is_git=True)
    play(place, [["say", "done"]], "--worktree", "one")
    folder = tree(place.home, "one")
    before = state(project)
    path = script(place, steps(attack(place.home, project)))
    words = (*PROGRAM, "guard", "--allow", "*", "--no-audit", "--ask", "deny", "--")
    env = {"HOME": str(place.home), "DRAGOMAN_HOME": str(place.home / "dragoman")}
    async with program(*words, sys.executable, "-IS", str(STEP_AGENT), path, cwd=folder, env=env) as client:
        await client.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        await client.ask("session/new", {"cwd": str(folder), "mcpServers": []})
        await client.ask("session/prompt", {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]})
    assert_ran(folder, "agent", "terminal")
    assert state(project) == before


@pytest.fixture
def ordinary() -> Iterator[Path]:
    """A folder of an ordinary user; skips the test if no such user can run programs here."""
    if os.geteuid() != 0:
        pytest.skip("the other tests run as an ordinary user already")
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    folder = "/srv" if os.path.isdir("/srv") else str(shared_folder())
    with TemporaryDirectory(prefix=".dragoman-test-", dir=folder) as made:
        yield Path(made)


def test_it_holds_for_an_ordinary_user(ordinary: Path) -> None:
    place = Place(ordinary)
    place.project.rmdir()
    project = make_project(ordinary, is_git=True)
    path = script(place, steps(attack(ordinary, project)))
    shutil.copy(STEP_AGENT, ordinary / "agent.py")
    for each in (ordinary, *ordinary.rglob("*")):
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
    become = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    env = {**place.environment, "PYTHONPATH": str(ROOT / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    # The interpreter of the tests may lie in the home of root; `setpriv` can start it, its user cannot start it again.
    python = shutil.which("python3", path="/usr/bin:/usr/local/bin")
    checked = [*become, *PROGRAM, "version"]
    if python is None or subprocess.run(checked, cwd=project, env=env, capture_output=True, check=False).returncode:
        pytest.skip("another user cannot run the programs here")

    def run(*words: str) -> str:
        done = subprocess.run(
            [*become, *PROGRAM, *words], cwd=project, env=env, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    before = state(project)
    agent = ("--", python, "-IS", str(ordinary / "agent.py"), path)
    assert "done" in run("exec", "x", "--worktree", "one", "--allow", "*", *agent)
    folder = tree(place.home, "one")
    assert_ran(folder, "agent", "terminal")
    assert state(project) == before
    assert folder.stat().st_uid == NOBODY
    # What the agent closed to its own user is counted as well.
    for closed in (folder / "a.txt", folder / "sub"):
        closed.chmod(0)
    shown = {each["path"] for each in json.loads(run("worktrees", "diff", "--json"))}
    assert {"a.txt", "visited", f"{RAN}-agent", f"{RAN}-terminal"} <= shown
