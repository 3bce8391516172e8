"""`dragoman exec --patch`: real git applies it to the files as they were, and gets the files as they are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from dragoman.runs.patch import PatchWatch
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.workspace import Change
from tests.cli.exec_kit import Place
from tests.cli.step_kit import play, tool
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]


def git(folder: Path, *words: str) -> str:
    settings = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", "core.autocrlf=false"]
    done = subprocess.run(["git", *settings, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def assert_applies(patch: bytes, before: dict[str, bytes], after: dict[str, bytes], folder: Path) -> None:
    """Give the files as they were to git, and compare what the patch makes of them."""
    folder.mkdir()
    git(folder, "init", "-q")
    for name, content in before.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (folder.parent / "x.patch").write_bytes(patch)
    git(folder, "apply", "--check", str(folder.parent / "x.patch"))
    git(folder, "apply", "--whitespace=nowarn", str(folder.parent / "x.patch"))
    assert tree(folder) == after


LONG = "".join(f"line {number}\n" for number in range(60))

VERSIONS: dict[str, tuple[bytes | None, bytes | None]] = {
    "new.txt": (None, b"one\ntwo\n"),
    "empty.txt": (None, b""),
    "no-newline.txt": (b"a\nb", b"a\nc"),
    "gains-newline.txt": (b"a", b"a\n"),
    "loses-newline.txt": (b"a\nb\n", b"a\nb"),
    "gone.txt": (b"x\n", None),
    "emptied.txt": (b"x\n", b""),
    "long.txt": (LONG.encode(), LONG.replace("line 7\n", "").replace("line 50", "LINE 50").encode()),
    "far apart.txt": (LONG.encode(), ("first\n" + LONG + "last").encode()),
    "crlf.txt": (b"a\r\nb\r\n", b"a\r\nc\r\n"),
    "latin.txt": (b"caf\xe9\n", b"th\xe9\n"),
    "ünï/a b.txt": (b"1\n", b"2\n"),
    'quo"te\\and\ttab.txt': (b"1\n", b"2\n"),
    "-dash.txt": (None, b"--- a\n+++ b\n@@ -1 +1 @@\n"),
}


def test_git_applies_every_kind_of_change(tmp_path: Path) -> None:
    root = tmp_path / "project"
    root.mkdir()
    for name, (_, after) in VERSIONS.items():
        if after is not None:
            (root / name).parent.mkdir(exist_ok=True)
            (root / name).write_bytes(after)
    changes = [Change(str(root / name), *both) for name, both in VERSIONS.items()]
    patch, files, left_out = PatchWatch(str(root)).build(changes, None, None)
    assert (len(files), left_out) == (len(VERSIONS), [])
    old = {name: content for name, (content, _) in VERSIONS.items() if content is not None}
    new = {name: content for name, (_, content) in VERSIONS.items() if content is not None}
    assert_applies(patch, old, new, tmp_path / "repository")


def test_what_was_written_through_the_client_and_by_the_agent_itself_is_one_patch(place: Place) -> None:
    project = place.project
    (project / "note.txt").write_text("line one\nalpha\nline three\n")
    (project / "own.txt").write_text("old\n")
    before = tree(project)
    piece = {"type": "diff", "path": str(project / "note.txt"), "oldText": "alpha", "newText": "omega"}
    whole = {"type": "diff", "path": str(project / "made.txt"), "oldText": None, "newText": "made"}
    empty = {"type": "diff", "path": str(project / "copilot.txt"), "oldText": "", "newText": "made\n"}
    failed = {"type": "diff", "path": str(project / "failed.txt"), "newText": "x"}
    steps: list[Any] = [
        ["write", str(project / "note.txt"), "line one\nomega\nline three\n"],
        tool("1", kind="edit", status="completed", content=[piece]),
        ["write", str(project / "made.txt"), "made\n"],
        ["write", str(project / "copilot.txt"), "made\n"],
        tool("2", kind="edit", status="completed", content=[whole, empty]),
        tool("3", kind="edit", status="failed", content=[failed]),
        ["ask", "fs/write_text_file", {"path": str(project / "own.txt"), "content": "new\n"}],
        ["say", "done"],
    ]
    done = play(place, steps, "--patch", "../run.patch", "--allow", "edit", "--output", "json")
    assert done.code == 0, done.err
    patch = done.result["patch"]
    names = ["copilot.txt", "made.txt", "note.txt", "own.txt"]
    assert (patch["file"], patch["left_out"]) == (str(project.parent / "run.patch"), [])
    assert patch["files"] == [str(project / name) for name in names]
    assert_applies((project.parent / "run.patch").read_bytes(), before, tree(project), place.temporary / "git")
    shutil.rmtree(place.temporary / "git")
    (place.temporary / "x.patch").unlink()


def test_a_copy_made_before_the_change_finds_what_the_piece_alone_does_not(place: Place) -> None:
    project = place.project
    (project / "a.txt").write_text("x\nx\nx\n")
    (project / "cut.txt").write_text("keep\ndrop\n")
    (project / "gone.txt").write_text("gone\n")
    before = tree(project)
    diff = {"type": "diff", "path": str(project / "a.txt"), "oldText": "x", "newText": "y"}
    cut = {"type": "diff", "path": str(project / "cut.txt"), "oldText": "drop\n", "newText": ""}
    gone = [{"path": str(project / "gone.txt")}]
    options = [{"optionId": "y", "name": "Yes", "kind": "allow_once"}]
    call = {"toolCallId": "1", "title": "Edit", "kind": "edit", "content": [diff, cut]}
    delete = {"toolCallId": "2", "title": "Delete", "kind": "delete", "locations": gone}
    steps: list[Any] = [
        ["ask", "session/request_permission", {"toolCall": call, "options": options}],
        ["write", str(project / "a.txt"), "y\ny\ny\n"],
        ["write", str(project / "cut.txt"), "keep\n"],
        tool("1", new=False, status="completed"),
        ["ask", "session/request_permission", {"toolCall": delete, "options": options}],
        ["remove", str(project / "gone.txt")],
        tool("2", new=False, status="completed"),
    ]
    done = play(place, steps, "--patch", "../run.patch", "--allow", "edit", "--allow", "delete", "--output", "json")
    assert done.code == 0, done.err
    assert done.result["patch"]["left_out"] == []
    assert_applies((project.parent / "run.patch").read_bytes(), before, tree(project), place.temporary / "git")
    shutil.rmtree(place.temporary / "git")
    (place.temporary / "x.patch").unlink()


def test_a_change_that_is_not_known_is_left_out_and_named(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("b b")
    (tmp_path / "binary").write_bytes(b"\0\1")
    outside = tmp_path.parent / "outside.txt"
    state = SessionState()
    state.begin_turn([v1.TextContent("x")])
    diffs = [
        v1.Diff(str(tmp_path / "a.txt"), "b", old_text="a"),
        v1.Diff(str(tmp_path / "never-written.txt"), "b"),
    ]
    fold(state, v1.ToolCall("t", "Edit", kind="edit", status="completed", content=list(diffs)))
    changes = [Change(str(tmp_path / "binary"), None, b"\0\1"), Change(str(outside), None, b"x\n")]
    patch, files, left_out = PatchWatch(str(tmp_path)).build(changes, state, state.turns[-1])
    assert (patch, files) == (b"", [])
    assert {Path(each.path).name for each in left_out} == {"a.txt", "never-written.txt", "binary", "outside.txt"}
    assert all(each.reason for each in left_out)


@pytest.mark.parametrize("name", ["no/such/folder/x.patch", "."])
def test_a_patch_that_cannot_be_written_is_refused_before_the_agent_starts(name: str, place: Place) -> None:
    done = play(place, [["say", "hi"]], "--patch", name)
    assert done.code == 2
    assert "--patch" in done.err
    assert not (place.project.parent / "script.json.count").exists()


def test_a_run_without_changes_writes_an_empty_patch(place: Place) -> None:
    done = play(place, [["say", "hi"]], "--patch", "x.patch", "--output", "json")
    assert (done.code, done.result["patch"]["files"]) == (0, [])
    assert (place.project / "x.patch").read_bytes() == b""
