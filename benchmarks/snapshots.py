"""What snapshots of a folder cost, next to a shadow git repository: ``python -m benchmarks.snapshots [FILES]``.

Two trees with the same number of files: one like a source tree, one like `node_modules` (deep, small files). Times are
seconds of CPU (user and system, children included), because the wall clock of a busy machine says nothing. Goals are
printed; nothing is asserted. `make bench` runs it, too.
"""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from statistics import median
from typing import TypeVar

from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import RACY_NS, SnapshotLimits
from dragoman.snapshots.scan import Scanner
from dragoman.snapshots.tree import Tree

T = TypeVar("T")
FILES = 50_000
ROUNDS = 7
UNCHANGED_GOAL = 1.5  # times a bare lstat loop over the same paths
FIRST_GOAL_SECONDS = 0.5  # of CPU, in a git work tree
LIMITS = SnapshotLimits(first_scan_seconds=600.0, first_scan_clock_seconds=600.0)
GIT = {
    **os.environ,
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example",
}


def main(files: int = FILES) -> None:
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as place:
        for name, make in (("source tree", make_source), ("node_modules-like tree", make_modules)):
            root = os.path.join(place, name.split()[0])
            make(root, files)
            measure(name, root, os.path.join(place, "store-" + name.split()[0]))


def make_source(root: str, files: int) -> None:
    chance = random.Random(1)
    text = chance.randbytes(16384).hex().encode()
    for number in range(files):
        folder = os.path.join(root, f"part{number % 40:02}", f"group{number // 40 % 108:03}")
        write(folder, f"file{number:05}.py", text, chance.randrange(200, 12_000), number)


def make_modules(root: str, files: int) -> None:
    chance = random.Random(2)
    text = chance.randbytes(16384).hex().encode()
    for number in range(files):
        package = number // 28
        folder = os.path.join(root, f"package-{package:04}", "lib", *(["internal"] if number % 3 == 0 else []))
        folder = os.path.join(folder, f"part{number % 4}")
        write(folder, f"module{number:05}.js", text, chance.randrange(100, 7_500), number)


def write(folder: str, name: str, text: bytes, size: int, number: int) -> None:
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, name), "wb") as file:
        file.write(b"%d\n" % number + text[:size])


def measure(name: str, root: str, base: str) -> None:
    time.sleep(2 * RACY_NS / 1e9)  # otherwise everything is too fresh to be trusted
    print(f"{name}")
    tree = first(root, base + "-plain", "first snapshot, without git")
    folders, files = len(tree.folders), len(tree)
    paths = [os.path.join(root, path) for path in (*tree.folders, *tree.paths)]
    store = FolderStore(base + "-plain", root, LIMITS)
    bare, unchanged = [], []
    for _ in range(ROUNDS):  # in turns, so that a busy moment meets both
        bare.append(cpu(lambda: [os.lstat(path) for path in paths])[0])
        unchanged.append(cpu(lambda: scan(root, store, tree))[0])
    ratio = median(unchanged) / median(bare)
    line("bare lstat loop", median(bare), f"{files} files, {folders} folders")
    line("unchanged", median(unchanged), f"{ratio:.2f} times the bare loop (goal: at most {UNCHANGED_GOAL})")
    line("unchanged, with the cache read from the disk", cpu(lambda: scan(root, store, store.load_tree()))[0])
    touch_ten(root, tree)
    line("ten changed", cpu(lambda: scan(root, store, tree))[0])
    repository(root)
    first(root, base + "-git", f"first snapshot in a git work tree (goal: at most {FIRST_GOAL_SECONDS} s and 0 bytes)")
    shadow(root, base + "-shadow", tree)


def first(root: str, base: str, what: str) -> Tree:
    store = FolderStore(base, root, LIMITS)
    store.make()
    spent, tree = cpu(lambda: scan(root, store, None))
    store.save_tree(tree)
    line(what, spent, f"{store.packs.size_bytes() / 1e6:.1f} MB stored")
    return tree


def scan(root: str, store: FolderStore, base: Tree | None) -> Tree:
    keeper = store.keeper()
    try:
        return Scanner(root, LIMITS, keeper).scan(base)
    finally:
        keeper.finish()


def touch_ten(root: str, tree: Tree) -> None:
    for path in tree.paths[:: max(1, len(tree) // 10)][:10]:
        with open(os.path.join(root, path), "ab") as file:
            file.write(b"changed\n")


def repository(root: str) -> None:
    """Make the tree a git work tree, as a checkout leaves it."""
    for words in (
        ["init", "-q", "."],
        ["config", "core.looseCompression", "0"],
        ["config", "gc.auto", "0"],
        ["add", "-A"],
        ["commit", "-q", "-m", "all"],
    ):
        subprocess.run(["git", *words], cwd=root, env=GIT, check=True)
    time.sleep(0.05)
    os.utime(os.path.join(root, ".git", "index"))


def shadow(root: str, place: str, tree: Tree) -> None:
    """What the same steps cost with a shadow repository: `add -A` and `write-tree`."""
    environment = {**GIT, "GIT_DIR": place, "GIT_WORK_TREE": root}
    subprocess.run(["git", "init", "-q", "--bare", place], env=GIT, check=True)
    subprocess.run(["git", "--git-dir", place, "config", "core.bare", "false"], env=GIT, check=True)
    subprocess.run(["git", "--git-dir", place, "config", "gc.auto", "0"], env=GIT, check=True)

    def step() -> None:
        for words in (["add", "-A"], ["write-tree"]):
            subprocess.run(["git", *words], cwd=root, env=environment, check=True, stdout=subprocess.DEVNULL)

    spent = cpu(step)[0]
    size = sum(os.lstat(os.path.join(each, name)).st_size for each, _, names in os.walk(place) for name in names)
    line("shadow git: first", spent, f"{size / 1e6:.1f} MB stored")
    line("shadow git: unchanged", cpu(step)[0])
    touch_ten(root, tree)
    line("shadow git: ten changed", cpu(step)[0])


def cpu(work: Callable[[], T]) -> tuple[float, T]:
    before = _spent()
    result = work()
    return _spent() - before, result


def _spent() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def line(what: str, seconds: float, more: str = "") -> None:
    print(f"  {what:80} {seconds * 1000:9.1f} ms{'   ' + more if more else ''}", flush=True)


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:]))
