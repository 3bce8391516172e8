"""What a look at an unchanged folder costs, compared in one run with the system calls that it cannot do without."""

from __future__ import annotations

import os
import time
from pathlib import Path
from statistics import median

import pytest

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SNAPSHOT_LIMITS
from dragoman.snapshots.scan import Scanner


@pytest.mark.alone
def test_an_unchanged_tree_costs_little_more_than_a_bare_lstat_loop(tmp_path: Path) -> None:
    root = tmp_path / "project"
    for number in range(60):
        folder = root / f"{number % 6}" / f"{number}"
        folder.mkdir(parents=True)
        for file in range(50):
            (folder / f"{file}.txt").write_bytes(b"")
    store = FolderStore(str(tmp_path / "store"), str(root), SNAPSHOT_LIMITS)
    store.make()

    def scan(base: object) -> object:
        keeper = store.keeper()
        found = Scanner(str(root), SNAPSHOT_LIMITS, keeper).scan(base)  # type: ignore[arg-type]
        keeper.finish()
        return found

    tree = scan(None)
    while scan(tree) is not tree:  # until nothing is fresh any more
        tree = scan(tree)
    paths = [str(root), *(os.path.join(place, name) for place, d, f in os.walk(root) for name in (*d, *f))]
    bare, whole = [], []
    for _ in range(9):
        began = time.thread_time()
        for path in paths:
            os.lstat(path)
        middle = time.thread_time()
        scan(tree)
        bare.append(middle - began)
        whole.append(time.thread_time() - middle)
    assert median(whole) <= 1.5 * median(bare)
