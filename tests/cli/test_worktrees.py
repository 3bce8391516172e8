"""`exec --worktree`, `worktrees` and `compare`, as a user meets them."""

from __future__ import annotations

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from tests import machine
from tests.cli.exec_kit import Place
from tests.cli.step_kit import STEP_AGENT, play, script
from tests.cli.warm_python import WarmPython
from tests.worktrees.kit import content, git, make_project, write

pytestmark = machine.needs("git")
EDIT = (
    "-a",
    "dragoman",
    "--model",
    "scripted",
    "--allow",
    "edit",
    "edit a.txt 5 => five\nwrite new.txt new\nsay ready",
)


@pytest.fixture
def place(tmp_path: Path, warm_python: WarmPython) -> Place:
    (tmp_path / "place").mkdir()
    found = Place(tmp_path / "place", warm_python)
    found.project.rmdir()
    make_project(tmp_path / "place", is_git=True)
    return found


def test_a_run_in_a_worktree_leaves_the_project_alone_until_it_is_merged(place: Place) -> None:
    before = content(place.project)
    done = place.run("--worktree", "one", *EDIT)
    assert (done.code, done.out) == (0, "ready\n"), done.err
    assert "worktree one: 2 files differ from the project's" in done.err
    assert content(place.project) == before
    again = place.run("--worktree", "one", "-q", "-a", "dragoman", "--model", "scripted", "read new.txt\nsay {result}")
    assert "new" in again.out
    assert "worktree one:" not in again.err

    listed = json.loads(place.run("list", "--json", verb="worktrees").out)
    assert [(each["name"], each["files_changed"]) for each in listed] == [("one", 2)]
    folder = place.run("path", "one", verb="worktrees").out.strip()
    assert Path(folder, "new.txt").read_text() == "new"
    assert "+five" in place.run("diff", verb="worktrees").out
    planned = place.run("merge", "--dry-run", verb="worktrees")
    assert planned.out == "modify    a.txt\ncreate    new.txt\n"
    assert content(place.project) == before

    merged = place.run("merge", "one", "a.txt", verb="worktrees")
    assert "1 of 1 changed files written" in merged.err
    assert (place.project / "a.txt").read_text() == "1\n2\n3\n4\nfive\n6\n7\n8\n9\n"
    assert not (place.project / "new.txt").exists()
    assert place.run("merge", "one", verb="worktrees").code == 0
    assert (place.project / "new.txt").read_text() == "new"
    assert json.loads(place.run("--json", verb="worktrees").out) == []
    assert git(place.project, "worktree", "list").count("\n") == 1


def test_a_conflict_writes_nothing_and_says_what_to_do(place: Place) -> None:
    place.run("--worktree", "one", *EDIT)
    write(place.project, a_txt="other\n")
    done = place.run("merge", "one", verb="worktrees")
    assert done.code == 2
    assert "conflict  a.txt  (the same lines were changed in the project)" in done.out
    assert "nothing was merged: 1 file is in conflict" in done.err
    assert not (place.project / "new.txt").exists()
    refused = place.run("discard", "one", verb="worktrees")
    assert refused.code == 2
    assert "2 changed files of the worktree one would be lost" in refused.err
    assert place.run("discard", "one", "--yes", verb="worktrees").code == 0
    assert "has no worktrees" in place.run("diff", verb="worktrees").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("exec", "--worktree", "../x", "hi", "-a", "scripted"), "cannot be the name of a worktree"),
        (("exec", "--worktree", "x", "--cwd", "ignored", "hi", "-a", "scripted"), "has no folder ignored"),
        (("exec", "--worktree", "x", "--url", "ws://127.0.0.1:1", "hi"), "--worktree is for agents on this machine"),
        (("worktrees", "merge", "unknown"), "has no worktree unknown"),
        (("worktrees", "list", "one"), "takes no name"),
        (("worktrees", "discard", "--keep"), "--keep goes with merge"),
        (("compare", "only-a-prompt"), "at least one agent and a prompt"),
        (("compare", "scripted", "scripted", "hi"), "named twice"),
        (("compare", "scripted", "hi", "--jobs", "0"), "--jobs takes a whole number above 0"),
        (("compare", "scripted", "hi", "--html", "/nothing/x.html"), "cannot be written"),
    ],
)
def test_wrong_words_are_explained(place: Place, words: tuple[str, ...], message: str) -> None:
    write(place.project, ignored__x_txt="x")
    done = place.run(*words[1:], verb=words[0])
    assert done.code == 2
    assert message in done.err


def test_agents_are_compared_in_worktrees_of_their_own(place: Place, tmp_path: Path) -> None:
    before = content(place.project)
    page = tmp_path / "page.html"
    prompt = "write </pre><script>.txt hello\nsay I am <b>done</b>"
    done = place.run(
        "dragoman:scripted", "unknown", "--allow", "edit", "--html", str(page), "--json", prompt, verb="compare"
    )
    assert done.code == 0, done.err
    found = json.loads(done.out)
    ours, other = found["runs"]
    assert (ours["exit_code"], ours["text"], ours["tool_calls"]) == (0, "I am <b>done</b>", 1)
    assert [each["path"] for each in ours["files"]] == ["</pre><script>.txt"]
    assert (ours["added"], ours["removed"]) == (1, 0)
    assert other["exit_code"] == 2
    assert "no agent is called 'unknown'" in other["error"]
    assert content(place.project) == before
    html = page.read_text()
    assert "<script>" not in html
    assert "<b>done" not in html
    assert "+hello" in html
    shown, merged, _ = re.findall("<code>dragoman worktrees ([^<]*)</code>", html)  # of the only one with changes
    assert "+hello" in place.run(*shlex.split(shown), verb="worktrees").out
    assert place.run(*shlex.split(merged), verb="worktrees").code == 0
    assert (place.project / "</pre><script>.txt").read_text() == "hello"


# What an agent does so that git shows nothing of it, with the paths that changed
HIDING = """
echo x >> a.txt; git update-index --assume-unchanged a.txt
echo x > sub/b.txt; git update-index --skip-worktree sub/b.txt
echo x > new.txt; echo '*' > .gitignore; echo '*' >> "$(git rev-parse --git-path info/exclude)"
git config core.fileMode false; chmod a-x run
git init -q own; echo x > own/x.txt
ln -sf sub/b.txt link
"""
HIDDEN = {".gitignore", "a.txt", "link", "new.txt", "own/.git", "own/x.txt", "run", "sub/b.txt"}


@pytest.mark.parametrize("then", ["", "rm .git; git init -q; git add -fA; git commit -qm x"])
def test_what_an_agent_hides_from_git_is_counted_shown_and_merged(place: Place, then: str) -> None:
    attack = place.project.parent / "attack"
    attack.write_text(HIDING + then)
    steps = [["run", f"sh {attack}"], ["say", "done"]]
    done = play(place, steps, "--worktree", "one", "--allow", "*", "--output", "json")
    folder = place.run("path", "one", verb="worktrees").out.strip()
    reported = {os.path.relpath(each["path"], folder) for each in done.result["changes"]["paths"]}
    assert reported - {"own"} == HIDDEN - {"own/.git"}
    shown = json.loads(place.run("diff", "--json", verb="worktrees").out)
    # With bubblewrap the worktree's `.git` cannot be replaced.
    assert {each["path"] for each in shown} - {".git"} == HIDDEN
    assert f"worktree one: {len(shown)} files differ" in done.err
    assert "files of git, or ignored only by rules that were changed in the worktree" in done.err
    patch = place.run("diff", verb="worktrees")
    assert all(f" b/{path}\n" in patch.out for path in HIDDEN if path != "own/.git")
    assert "own/.git was created; files of git are not in the patch" in patch.err
    merged = place.run("merge", "one", verb="worktrees")
    assert "leave     own/.git  (files of git are not merged)" in merged.out
    assert "leave     new.txt  (only a rule that was changed in the worktree ignores it; name it to" in merged.out
    assert (place.project / "sub/b.txt").read_text() == "x\n"
    assert not (place.project / "run").stat().st_mode & 0o111
    assert not (place.project / "new.txt").exists()
    assert "the worktree is kept" in merged.err
    assert place.run("merge", "one", "new.txt", "own", verb="worktrees").code == 0
    assert (place.project / "new.txt").read_text() == (place.project / "own/x.txt").read_text() == "x\n"
    assert not (place.project / "own/.git").exists()


def test_what_an_agent_hides_from_git_is_compared(place: Place) -> None:
    attack = place.project.parent / "attack"
    attack.write_text(HIDING)
    path = script(place, [["run", f"sh {attack}"], ["say", "done"]])
    settings = place.home / "dragoman/config/settings.json"
    settings.parent.mkdir(parents=True)
    agent = {"command": place.python, "args": ["-IS", str(STEP_AGENT), path]}
    settings.write_text(json.dumps({"agent_servers": {"sly": agent}}))
    (found,) = json.loads(place.run("sly", "--json", "x", verb="compare").out)["runs"]
    assert {each["path"] for each in found["files"]} == HIDDEN
    assert "+x\n" in found["patch"]


def test_a_comparison_that_is_killed_leaves_no_process(place: Place) -> None:
    import signal
    import subprocess

    settings = place.home / "dragoman/config/settings.json"
    settings.parent.mkdir(parents=True)
    agent = {"command": place.python, "args": ["-IS", str(place.agent), "never-initializes"]}
    settings.write_text(json.dumps({"agent_servers": {"slow": agent}}))
    with subprocess.Popen(
        place.words("compare", "slow", "hi"),
        cwd=place.project,
        env=place.environment,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not any("odd_agent" in line for line in place.leftovers() if "-m dragoman" not in line):
            assert process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=60)
    place.assert_clean()
