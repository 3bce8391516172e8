"""How many small mistakes in `src` the tests notice: `make sample`, or ``python -m tools.source_mutants [--tree DIR]``.

A fixed sample of mutations (a comparison turned, a condition negated, a number changed, a statement left out, ...) is
made one at a time in a scratch copy. Before that, every place that will be mutated is marked, and the tests that are
nearest to each of these modules run once: that shows which tests reach which place. Then only those run with the
mutation, until one fails. A failure counts only if the same test passes without the mutation. What survives is printed:
a missing test, or code that has no effect.

`--sample-of` takes the sample of another checkout, so that both can be compared: what is gone is printed. With
`--keep` a run goes on where an earlier one of the same checkout ended.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import TypedDict

from tools.mutations import SEED, Mutation, choose, find_again, find_mutations

ROOT = Path(__file__).parent.parent
COUNT = 60
MOST_FILES = 8  # test files for one mutation: more of them notice hardly more
TEST_SECONDS = 60  # a mutation may as well end in waiting: a test that takes longer fails
MOST_SECONDS = 400.0  # for all tests of one mutation; what was not noticed until then survives
REACHING_SECONDS = 45.0  # of tests that reach a mutation, as long as they took without it
# Where the tests of a package are, if its name does not say it.
_FOLDERS = {
    "runs": ("cli", "host", "builtin/subagents"),
    "proxy": ("proxy", "chains", "versions"),
    "client": ("client", "roles"),
    "agent": ("agent", "roles"),
    "host": ("host", "cli"),
    "foreign": ("foreign", "cli"),
    "errors": ("rpc", "cli"),
}


# Choosing tests


def read_importers(package: Path) -> dict[str, set[str]]:
    """Module -> the modules of the package that import it; names are without the package's own."""
    found: dict[str, set[str]] = {}
    for path in package.rglob("*.py"):
        importer = path.relative_to(package).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
        for imported in re.findall(r"dragoman\.([\w.]+)", path.read_text()):
            found.setdefault(imported, set()).add(importer)
    return found


def nearest_tests(mutation: Mutation, tests: dict[str, str], importers: dict[str, set[str]]) -> list[str]:
    """The test files that are nearest to a mutation, the nearest one first.

    Args:
        tests: name of a test file below `tests` -> its text.
        importers: what `read_importers` found.
    """
    module = mutation.path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    package, _, stem = module.rpartition(".")
    names = {part for part in mutation.function.split(".") if not part.startswith("_") and len(part) > 4}
    top = module.partition(".")[0]
    folders = _FOLDERS.get(top, (top,))
    words, around = set(stem.split("_")), set(package.replace(".", "_").split("_"))

    users = "|".join(map(re.escape, sorted(importers.get(module, ()))))

    def nearness(item: tuple[str, str]) -> float:
        name, text = item
        score = 4.0 * bool(re.search(rf"dragoman\.{re.escape(module)}\b", text))
        score += 2.0 * bool(users and re.search(rf"dragoman\.(?:{users})\b", text))
        score += 1.5 * bool(package and re.search(rf"dragoman\.{re.escape(package)}\b", text))
        score += 2.0 * any(re.search(rf"\b{re.escape(part)}\b", text) for part in names)
        score += 1.5 * name.startswith(tuple(f"{folder}/" for folder in folders))
        score += 1.0 * name.startswith(mutation.path.rpartition("/")[0] + "/")
        title = set(Path(name).stem.split("_"))
        score += 1.5 * len(words & title) / len(words) + 1.0 * bool(around & title)
        return score

    ranked = sorted(tests.items(), key=lambda item: (-nearness(item), len(item[1]), item[0]))
    return [name for name, text in ranked[:MOST_FILES] if nearness((name, text)) >= 1.5]


class Reached(TypedDict):
    """What a run with marks reported: the ids of tests, how long each took, and which of them passed which mark."""

    seconds: dict[str, float]
    tests: dict[str, list[str]]  # the key of a mutation -> tests


def reaching_tests(mutation: Mutation, reached: Reached, nearest: Sequence[str]) -> list[str]:
    """The tests to try with a mutation: the nearest ones first, of one file the quickest first, not too many."""
    ranks = {f"tests/{name}": rank for rank, name in enumerate(nearest)}
    seconds = reached["seconds"]

    def order(test: str) -> tuple[int, float, str]:
        return ranks.get(test.partition("::")[0], len(ranks)), seconds[test], test

    chosen: list[str] = []
    left = REACHING_SECONDS
    for test in sorted(reached["tests"].get(mutation.key, ()), key=order):
        left -= seconds[test]
        if chosen and left < 0:
            break
        chosen.append(test)
    return chosen


# Marking

# The module that marked code calls, in whatever process it runs. It is a plugin of pytest, too, which writes to four
# bytes of a shared file which test runs: the environment of a program that a test started may not say so.
_MARKS = """
import mmap, os

_folder = {folder!r}
_noted = set()
_numbers = {{}}
try:
    with open(_folder + "/current", "rb") as _file:
        _current = mmap.mmap(_file.fileno(), 4, access=mmap.ACCESS_READ)
except OSError:
    _current = bytes(4)

def mark(number):
    key = number, _current[:4]
    if key not in _noted:
        _noted.add(key)
        _note("reached", f"{{number}} {{int.from_bytes(key[1], 'big')}}")

def _note(name, line):
    try:
        with open(f"{{_folder}}/{{name}}", "a") as file:
            file.write(line + "\\n")
    except OSError:
        pass

def pytest_runtest_logstart(nodeid, location):
    number = _numbers.setdefault(nodeid, len(_numbers) + 1)
    with open(_folder + "/current", "r+b") as file:
        file.write(number.to_bytes(4, "big"))
    _note("tests", f"{{number}} {{nodeid}}")

def pytest_runtest_logreport(report):
    _note("seconds", f"{{_numbers[report.nodeid]}} {{report.duration:.4f}}")
"""


def marked(text: bytes, mutations: Mapping[int, Mutation]) -> bytes:
    """The text of a file that notes when it comes to one of these mutations, which have numbers."""
    pieces: list[tuple[int, float, bytes]] = []  # place, order at one place, text
    for number, mutation in mutations.items():
        call = f'__import__("_marks").mark({number})'
        length = mutation.end - mutation.start
        # At one place what ends comes first, the innermost before the others; what begins in the opposite order, and a
        # statement before an expression that is all of it.
        if mutation.is_statement:
            pieces.append((mutation.start, -length - 0.5, f"{call}; ".encode()))
        else:
            pieces.append((mutation.start, -length, f"({call} or (".encode()))
            pieces.append((mutation.end, length - 2 * len(text), b"))"))
    for place, _, piece in sorted(pieces, reverse=True):
        text = text[:place] + piece + text[place:]
    return text


# Running


class Scratch:
    """A copy of a checkout with an environment of its own, in which one mutation at a time is made."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.folder = folder
        names = subprocess.run(
            ["git", "-c", "safe.directory=*", "ls-files", "-z"], cwd=tree, capture_output=True, text=True, check=True
        ).stdout.split("\0")
        for name in filter(None, names):
            if (tree / name).is_file():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(tree / name, folder / name)
        (folder / "node_modules").symlink_to(tree / "node_modules")
        subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
        self._make_environment(tree / ".venv")

    def _make_environment(self, theirs: Path) -> None:
        """Make an environment with the packages of the checkout, in which `dragoman` is the copy."""
        ours = self.folder / ".venv"
        subprocess.run([str(theirs / "bin" / "python"), "-m", "venv", "--without-pip", str(ours)], check=True)
        (packages,) = theirs.glob("lib/python*/site-packages")
        self._packages = ours / packages.relative_to(theirs)
        (self._packages / "_copy.pth").write_text(f"{self.folder / 'src'}\n{packages}\n")
        for program in (theirs / "bin").iterdir():
            place = ours / "bin" / program.name
            if program.name == "dragoman":
                place.write_text(program.read_text().replace(str(theirs), str(ours)))
                place.chmod(0o755)
            elif not place.exists():
                place.symlink_to(program)

    def file(self, mutation: Mutation) -> Path:
        return self.folder / "src" / "dragoman" / mutation.path

    def reach(self, mutations: Sequence[Mutation], files: Sequence[str]) -> Reached:
        """Run test files once in full, with a mark at each mutation, and take the marks back."""
        notes = self.folder / "notes"
        notes.mkdir()
        (notes / "current").write_bytes(bytes(4))
        for name in ("reached", "tests", "seconds"):
            (notes / name).touch()
        (self._packages / "_marks.py").write_text(_MARKS.format(folder=str(notes)))
        before = {path: path.read_bytes() for path in map(self.file, mutations)}
        for path, text in before.items():
            here = {number: found for number, found in enumerate(mutations) if self.file(found) == path}
            path.write_bytes(marked(text, here))
        try:
            if files:
                self._pytest(["-p", "_marks", "--timeout=120", *(f"tests/{name}" for name in files)], None)
        finally:
            for path, text in before.items():
                path.write_bytes(text)
        names = dict(line.split(" ", 1) for line in (notes / "tests").read_text().splitlines())
        seconds = dict.fromkeys(names.values(), 0.0)
        for line in (notes / "seconds").read_text().splitlines():
            number, _, took = line.partition(" ")
            seconds[names[number]] += float(took)
        tests: dict[str, list[str]] = {}
        for line in dict.fromkeys((notes / "reached").read_text().splitlines()):
            place, _, number = line.partition(" ")
            if number in names:  # else it ran while tests were collected
                tests.setdefault(mutations[int(place)].key, []).append(names[number])
        shutil.rmtree(notes)
        return {"seconds": seconds, "tests": tests}

    def failing_test(self, names: Sequence[str]) -> str | None:
        """Run tests, given as files or ids, until one fails. Returns its id, or None."""
        code, out = self._pytest(["-x", f"--timeout={TEST_SECONDS}", *names], MOST_SECONDS)
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", out, flags=re.MULTILINE)
        if failed:
            return failed[1]
        return None if code in (None, 0, 5) else "pytest ends by itself"

    def _pytest(self, options: Sequence[str], seconds: float | None) -> tuple[int | None, str]:
        """Run pytest. Returns its exit code, or None if it did not end in time, and its output."""
        words = [str(self.folder / ".venv/bin/python"), "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DRAGOMAN"))}
        with tempfile.TemporaryDirectory(prefix="dgm-") as temporary:
            process = subprocess.Popen(
                [*words, "-m", "not alone", f"--basetemp={temporary}/t", *options],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            try:
                out, _ = process.communicate(timeout=seconds)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return None, ""
        return process.returncode, out


def judge(scratch: Scratch, mutation: Mutation, tests: Sequence[str]) -> str | None:
    """Make a mutation, run tests, and take it back; the test that notices it, or None."""
    path = scratch.file(mutation)
    before = path.read_bytes()
    new = mutation.new.encode()
    path.write_bytes(before[: mutation.start] + new + before[mutation.end :])
    try:
        test = scratch.failing_test(tests) if tests else None
    finally:
        path.write_bytes(before)
    if test is not None and "::" in test and scratch.failing_test([test]) is not None:
        return None  # it fails on this machine without the mutation too
    return test


class Run:
    """One run over a sample; what it found out is kept in a folder, so that a later run goes on there."""

    def __init__(self, tree: Path, sample: Sequence[Mutation], keep: Path) -> None:
        self._tree = tree
        self._sample = sample
        self._reached = keep / "reached.json"
        self._verdicts = keep / "verdicts.jsonl"
        importers, folder = read_importers(tree / "src" / "dragoman"), tree / "tests"
        texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("test_*.py")}
        self.nearest = {mutation.key: nearest_tests(mutation, texts, importers) for mutation in sample}
        self._lengths = {name: len(text) for name, text in texts.items()}

    def __call__(self, jobs: int, minutes: float) -> dict[str, str | None]:
        """Judge what is not judged yet, until the time is over. Returns key -> the test that noticed it, or None."""
        end = time.monotonic() + minutes * 60
        verdicts = self._read_verdicts()
        open_ones = [mutation for mutation in self._sample if mutation.key not in verdicts]
        if not open_ones:
            return verdicts
        with tempfile.TemporaryDirectory(prefix="dgm-") as place, ThreadPoolExecutor(jobs) as pool:
            scratches = list(pool.map(lambda number: Scratch(self._tree, Path(place, str(number))), range(jobs)))
            reached = self._reach(scratches, pool)
            free: SimpleQueue[Scratch] = SimpleQueue()
            for scratch in scratches:
                free.put(scratch)

            def one(mutation: Mutation) -> None:
                tests = reaching_tests(mutation, reached, self.nearest[mutation.key])
                scratch = free.get()
                try:
                    if time.monotonic() < end:
                        self._note(mutation, judge(scratch, mutation, tests), len(tests))
                finally:
                    free.put(scratch)

            list(pool.map(one, open_ones))
        return self._read_verdicts()

    def _reach(self, scratches: Sequence[Scratch], pool: ThreadPoolExecutor) -> Reached:
        """Find out which tests reach the sample; each copy runs its share of the test files."""
        if self._reached.exists():
            kept: Reached = json.loads(self._reached.read_text())
            return kept
        files = sorted({name for names in self.nearest.values() for name in names}, key=self._lengths.__getitem__)
        shares = [files[number :: len(scratches)] for number in range(len(scratches))]
        found: Reached = {"seconds": {}, "tests": {}}
        for part in pool.map(lambda scratch, share: scratch.reach(self._sample, share), scratches, shares):
            found["seconds"] |= part["seconds"]
            for key, tests in part["tests"].items():
                found["tests"].setdefault(key, []).extend(tests)
        self._reached.write_text(json.dumps(found))
        print(f"{len(found['tests'])} of {len(self._sample)} mutations are reached by tests", flush=True)
        return found

    def _note(self, mutation: Mutation, test: str | None, count: int) -> None:
        by = f"  by {test}" if test else f"  ({count} tests reach it)"
        print(f"{'killed  ' if test else 'SURVIVED'} {mutation}{by}", flush=True)
        with self._verdicts.open("a") as file:
            file.write(json.dumps({"key": mutation.key, "test": test}) + "\n")

    def _read_verdicts(self) -> dict[str, str | None]:
        lines = self._verdicts.read_text().splitlines() if self._verdicts.exists() else []
        return {verdict["key"]: verdict["test"] for verdict in map(json.loads, lines)}


def main() -> int:
    """Judge the sample, and print what survived."""
    parser = argparse.ArgumentParser(prog="python -m tools.source_mutants", description="Try the tests with mistakes.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to look at; this one by default")
    parser.add_argument("--sample-of", type=Path, help="another checkout, whose sample is looked for in this one")
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many mutations; {COUNT} by default")
    parser.add_argument("--seed", default=SEED, help="another sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once; 2 by default")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no mutation after this time")
    parser.add_argument("--keep", type=Path, help="a folder for what was found out; a later run goes on from there")
    parser.add_argument("--list", action="store_true", help="only print the sample, with the nearest tests")
    chosen = parser.parse_args()
    tree, other = chosen.tree.absolute(), (chosen.sample_of or chosen.tree).absolute()
    first = choose(find_mutations(other / "src" / "dragoman", chosen.seed), chosen.count)
    again = first if other == tree else find_again(first, find_mutations(tree / "src" / "dragoman", chosen.seed))
    for mutation in (old for old, new in zip(first, again, strict=True) if new is None):
        print(f"GONE     {mutation}")
    sample = list({new.key: new for new in again if new is not None}.values())
    with tempfile.TemporaryDirectory(prefix="dgm-") as temporary:
        keep = chosen.keep or Path(temporary)
        keep.mkdir(parents=True, exist_ok=True)
        run = Run(tree, sample, keep)
        if chosen.list:
            for mutation in sample:
                print(mutation, "\n    ", *run.nearest[mutation.key])
            return 0
        verdicts = run(chosen.jobs, chosen.minutes)
    judged = [mutation for mutation in sample if mutation.key in verdicts]
    survived = [mutation for mutation in judged if verdicts[mutation.key] is None]
    killed = len(judged) - len(survived)
    share = 100 * killed / max(1, len(judged))
    print(f"\n{killed} of {len(judged)} mutations were noticed: {share:.0f} %. These were not:")
    for mutation in survived:
        print(f"    {mutation}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
