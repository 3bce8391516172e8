"""Random trees and random turns: a rewind gives back bytes, modes and links, or says why not."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dragoman.snapshots.limits import SnapshotLimits
from dragoman.snapshots.rewind import merge
from dragoman.snapshots.tree import decode_tree, encode_tree
from tests.snapshots.kit import Folder, contents

Edits: TypeAlias = list[tuple[str, str, object, int | None]]
NAMES = st.sampled_from(["a", "b", "c.txt", "D", "d", "e\nf", "\udcff"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"one\n", b"one\ntwo\n", b"\0binary", b"x" * 300, b"no end"])
MODES = st.sampled_from([0o644, 0o755, 0o600, 0o400])
EDITS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), PATHS, CONTENTS, MODES),
        st.tuples(st.just("link"), PATHS, PATHS, st.none()),
        st.tuples(st.just("folder"), PATHS, st.none(), st.sampled_from([0o755, 0o700])),
        st.tuples(st.just("delete"), PATHS, st.none(), st.none()),
        st.tuples(st.just("move"), PATHS, PATHS, st.none()),
        st.tuples(st.just("fifo"), PATHS, st.none(), st.none()),
    ),
    max_size=12,
)


def edit(root: Path, edits: Edits) -> None:
    for what, path, more, mode in edits:
        place = root / path
        try:
            if what == "delete":
                shutil.rmtree(place) if place.is_dir() and not place.is_symlink() else place.unlink()
                continue
            place.parent.mkdir(parents=True, exist_ok=True)
            if what == "write":
                if os.path.exists(place) and not place.is_file():
                    continue  # writing a FIFO waits for a reader
                place.write_bytes(more)  # type: ignore[arg-type]
                place.chmod(mode or 0o644)
            elif what == "link":
                place.symlink_to(str(more))
            elif what == "folder":
                place.mkdir(mode=mode or 0o755)
            elif what == "fifo":
                os.mkfifo(place)
            else:
                place.rename(root / str(more))
        except OSError:
            continue  # not possible in this tree


def play(first: Edits, turns: list[Edits]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place), SnapshotLimits(largest_kept_bytes=200))
        edit(folder.root, first)
        states = [contents(folder.root)]
        for edits in turns:
            record = folder.turn(lambda edits=edits: edit(folder.root, edits))  # type: ignore[misc]
            now = contents(folder.root)
            assert bool(record.changes) == (now != states[-1])
            if record.changes:
                states.append(now)
        after = states.pop()
        while states:
            before = states.pop()
            plan = folder.plan()
            excused = {each.path for each in plan.paths if each.action in ("impossible", "offered")}
            assert all(each.reason for each in plan.paths if each.path in excused)
            outcome = folder.rewinder.apply(plan)
            excused |= {each.path for each in outcome.failed}
            now = contents(folder.root)
            differing = {path for path in now.keys() | before.keys() if now.get(path) != before.get(path)}
            # A path is excused, too, if the excused one is in it or above it.
            for path in differing:
                assert any(
                    path == each or path.startswith(f"{each}/") or each.startswith(f"{path}/") for each in excused
                ), (path, plan, outcome)
            if differing:
                return
            folder.redo()
            assert contents(folder.root) == after
            folder.rewind()
            after = before


@settings(max_examples=25)
@given(first=EDITS, turns=st.lists(EDITS, min_size=1, max_size=2))
def test_any_turn_is_taken_back_or_it_is_reported_why_not(first: Edits, turns: list[Edits]) -> None:
    play(first, turns)


@pytest.mark.soak
@settings(max_examples=400)
@given(first=EDITS, turns=st.lists(EDITS, min_size=1, max_size=4))
def test_any_turn_is_taken_back_or_it_is_reported_why_not_often(first: Edits, turns: list[Edits]) -> None:
    play(first, turns)


@settings(max_examples=15)
@given(first=EDITS)
def test_a_tree_survives_its_cache_file(first: Edits) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Folder(Path(place))
        edit(folder.root, first)
        tracker = folder.tracker()
        tracker.begin()
        tree = tracker.folders[0]._tree
        tracker.close()
        assert tree is not None
        again = decode_tree(encode_tree(tree))
        assert (again.paths, again.ids, again.rows, again.folders) == (tree.paths, tree.ids, tree.rows, tree.folders)
        assert (again.modes, again.sizes, again.ctimes, again.starts) == (
            tree.modes,
            tree.sizes,
            tree.ctimes,
            tree.starts,
        )


LINES = st.lists(st.sampled_from([b"a\n", b"b\n", b"c\n", b"d\n"]), max_size=8).map(b"".join)


@given(base=LINES, ours=LINES, theirs=LINES)
def test_a_merge_is_symmetric_and_keeps_a_change_that_is_alone(base: bytes, ours: bytes, theirs: bytes) -> None:
    assert merge(base, ours, base) == ours
    assert merge(base, base, theirs) == theirs
    assert merge(base, ours, theirs) == merge(base, theirs, ours)
