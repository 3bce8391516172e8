"""Every change is kept, can be reviewed per hunk, and can be taken back unless that would lose something."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.workspace import Change, FileLimits, Workspace, WorkspaceError
from tests.workspace.kit import refused, tree


def test_every_change_is_recorded_with_both_sides_under_its_label(workspace: Workspace, project: Path) -> None:
    workspace.write_text(project / "src" / "main.py", "print(2)\n", label="0")
    workspace.write_text(project / "new.txt", "new\n", label="1")
    main, new = workspace.journal.changes()
    assert (main.path, main.before, main.after) == (str(project / "src" / "main.py"), b"print(1)\n", b"print(2)\n")
    assert (new.path, new.before, new.after, new.label) == (str(project / "new.txt"), None, b"new\n", "1")
    assert workspace.journal.changes("1") == (new,)
    assert workspace.journal.changes("2") == ()


def test_a_write_that_was_refused_is_not_recorded(workspace: Workspace, project: Path) -> None:
    with refused("outside"):
        workspace.write_text(project.parent / "elsewhere" / "x", "x")
    assert workspace.journal.changes() == ()


def test_the_net_of_a_turn_is_one_change_for_each_file(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    for text in ("a\n", "b\n", "c\n"):
        workspace.write_text(path, text, label="0")
        workspace.write_text(project / "new.txt", text, label="0")
    workspace.write_text(project / "undone.txt", "x\n", label="1")
    workspace.write_text(path, "d\n", label="1")
    assert [(change.before, change.after) for change in workspace.journal.net("0")] == [
        (b"print(1)\n", b"c\n"),
        (None, b"c\n"),
    ]
    assert [(change.before, change.after) for change in workspace.journal.net()] == [
        (b"print(1)\n", b"d\n"),
        (None, b"c\n"),
        (None, b"x\n"),
    ]


def test_the_net_of_a_turn_holds_nothing_that_another_program_did(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.write_text(path, "agent\n", label="0")
    path.write_text("agent\nuser\n")
    workspace.write_text(path, "agent\nuser\nagent again\n", label="0")
    assert [change.hunks[0].after for change in workspace.journal.net("0")] == [("agent\n",), ("agent again\n",)]
    with refused("changed"):
        workspace.journal.rewind("0")
    assert path.read_text() == "agent\nuser\nagent again\n"


def test_a_turn_is_rewound_and_nothing_of_it_is_left(workspace: Workspace, project: Path) -> None:
    (project / "crlf.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
    (project / "src" / "main.py").chmod(0o755)
    before = tree(project)
    workspace.write_text(project / "kept.txt", "of another turn\n", label="0")
    for text in ("x\n", "y\n"):
        for path in ("src/main.py", "crlf.txt", "new.txt", "deep/er/new.txt", "deep/two.txt"):
            workspace.write_text(project / path, text, label="1")
    undone = workspace.journal.rewind("1")
    assert len(undone) == 5
    assert tree(project) == {**before, "kept.txt": b"of another turn\n"}
    assert not (project / "deep").exists()
    assert (project / "src" / "main.py").stat().st_mode & 0o777 == 0o755
    assert workspace.journal.net("1") == ()
    assert workspace.journal.rewind("1") == []


def test_a_rewind_can_be_taken_back_itself(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    workspace.write_text(path, "print(2)\n", label="0")
    (undone,) = workspace.journal.rewind("0")
    assert path.read_text() == "print(1)\n"
    workspace.journal.revert(undone)
    assert path.read_text() == "print(2)\n"
    assert [change.after for change in workspace.journal.net("0")] == [b"print(2)\n"]


def test_a_folder_that_holds_something_else_by_now_stays(workspace: Workspace, project: Path) -> None:
    workspace.write_text(project / "made" / "new.txt", "x\n", label="0")
    (project / "made" / "mine.txt").write_text("mine\n")
    workspace.journal.rewind("0")
    assert tree(project / "made") == {"mine.txt": b"mine\n"}


@pytest.mark.parametrize("since", ["edited", "deleted", "a later turn", "a link", "a folder"])
def test_a_rewind_that_would_lose_something_touches_nothing(workspace: Workspace, project: Path, since: str) -> None:
    path = project / "src" / "main.py"
    workspace.write_text(project / "first.txt", "first\n", label="0")
    workspace.write_text(path, "print(2)\n", label="0")
    workspace.write_text(project / "third.txt", "third\n", label="0")
    if since == "edited":
        path.write_text("print(3)\n")
    elif since == "a later turn":
        workspace.write_text(path, "print(3)\n", label="1")
    else:
        path.unlink()
        if since == "a link":
            path.symlink_to("../first.txt")
        if since == "a folder":
            path.mkdir()
    before = tree(project)
    recorded = workspace.journal.changes()
    with pytest.raises(WorkspaceError) as caught:
        workspace.journal.rewind("0")
    assert caught.value.kind in ("changed", "link", "not_a_file")
    assert caught.value.path == str(path)
    assert tree(project) == before
    assert workspace.journal.changes() == recorded


def test_turns_are_rewound_from_the_last_to_the_first(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    for turn in range(3):
        workspace.write_text(path, f"print({turn + 2})\n", label=str(turn))
    for turn in (2, 1, 0):
        workspace.journal.rewind(str(turn))
        assert path.read_text() == f"print({turn + 1})\n"


def test_some_hunks_of_a_change_are_taken_back_and_the_rest_stays(workspace: Workspace, project: Path) -> None:
    path = project / "list.txt"
    path.write_text("a\nb\nc\nd\ne\n")
    change = workspace.write_text(path, "A\nb\nC\nd\nE\n", label="0")
    workspace.journal.revert(change, [change.hunks[1]])
    assert path.read_text() == "A\nb\nc\nd\nE\n"
    (left,) = workspace.journal.net("0")
    assert [hunk.after for hunk in left.hunks] == [("A\n",), ("E\n",)]
    workspace.journal.revert(left, left.hunks)
    assert path.read_text() == "a\nb\nc\nd\ne\n"
    assert workspace.journal.net("0") == ()


def test_hunks_of_a_file_that_was_changed_since_are_refused(workspace: Workspace, project: Path) -> None:
    path = project / "list.txt"
    path.write_text("a\nb\nc\n")
    change = workspace.write_text(path, "A\nb\nC\n", label="0")
    workspace.journal.revert(change, [change.hunks[0]])
    with refused("changed"):
        workspace.journal.revert(change, [change.hunks[1]])
    assert path.read_text() == "a\nb\nC\n"


def test_a_hunk_of_another_change_is_refused(workspace: Workspace, project: Path) -> None:
    change = workspace.write_text(project / "src" / "main.py", "print(2)\n")
    other = workspace.write_text(project / "other.txt", "x\n")
    with refused("changed"):
        workspace.journal.revert(change, other.hunks)
    assert (project / "src" / "main.py").read_text() == "print(2)\n"


def test_taking_back_all_of_a_new_file_deletes_it_and_taking_back_nothing_does_not(
    workspace: Workspace, project: Path
) -> None:
    change = workspace.write_text(project / "new.txt", "", label="0")
    workspace.journal.revert(change, [])
    assert (project / "new.txt").exists()
    workspace.journal.revert(change)
    assert not (project / "new.txt").exists()


def test_a_change_of_another_program_can_be_recorded_and_reverted(workspace: Workspace, project: Path) -> None:
    path = project / "src" / "main.py"
    path.write_text("print('by the agent itself')\n")
    workspace.record(path, b"print(1)\n", b"print('by the agent itself')\n", label="0")
    workspace.journal.rewind("0")
    assert path.read_text() == "print(1)\n"


def test_a_journal_over_its_limit_forgets_the_oldest_and_says_so(project: Path) -> None:
    with Workspace([project], limits=FileLimits(journal_bytes=3000)) as workspace:
        for turn in range(4):
            workspace.write_text(project / f"{turn}.txt", "x" * 1000, label=str(turn))
        assert [change.label for change in workspace.journal.changes()] == ["1", "2", "3"]
        with refused("forgotten"):
            workspace.journal.rewind("0")
        workspace.journal.rewind("3")
        assert not (project / "3.txt").exists()


TEXT = st.text(alphabet="ab\n", max_size=20)


@settings(max_examples=50, deadline=None)
@given(
    original=st.none() | TEXT,
    writes=st.lists(TEXT, min_size=1, max_size=4),
    picks=st.lists(st.integers(0, 10), max_size=4),
)
def test_whatever_was_written_and_taken_back_a_rewind_restores_the_beginning(
    original: str | None, writes: list[str], picks: list[int]
) -> None:
    with tempfile.TemporaryDirectory() as name, Workspace([name]) as workspace:
        path = Path(name).resolve() / "file.txt"
        if original is not None:
            path.write_text(original)
        for text in writes:
            workspace.write_text(path, text, label="0")
        for pick in picks:
            net: tuple[Change, ...] = workspace.journal.net("0")
            if net and net[0].hunks:
                workspace.journal.revert(net[0], [net[0].hunks[pick % len(net[0].hunks)]])
        workspace.journal.rewind("0")
        assert (path.read_text() if path.exists() else None) == original
