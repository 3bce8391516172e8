"""How many small mistakes in `src` the tests notice: `make sample`, or ``python -m tools.source_mutants [--tree DIR]``.

A fixed sample of mutations (a comparison turned, a condition negated, a number changed, a statement left out, ...) is
made one at a time in a scratch copy, and the tests that are nearest to the module run until one fails. A failure counts
only if the same test passes without the mutation. What survives is printed: a missing test, or code that has no effect.

The sample depends on the seed and on the text of each function, not on where the function stands. So two checkouts
get the same mutations as far as they have the same code, and their shares can be compared.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
COUNT = 60
SEED = "1"
MOST_FILES = 8  # test files for one mutation: more of them notice hardly more
TEST_SECONDS = 60  # a mutation may as well end in waiting: a test that takes longer fails
MOST_SECONDS = 400.0  # for all tests of one mutation; what was not noticed until then survives
_LEFT_OUT = ("schema/v1", "schema/v2", "evaluation/tasks", "_version.py")
_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
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


class Mutation(NamedTuple):
    """One mistake: a piece of a file, and what stands there instead."""

    path: str  # below src/dragoman
    function: str
    line: int
    start: int
    end: int
    old: str
    new: str
    kind: str
    key: str

    def __str__(self) -> str:
        shown = f"{' '.join(self.old.split())[:60]}  ->  {' '.join(self.new.split())[:60]}"
        return f"{self.path}:{self.line} {self.function}: {self.kind}: {shown}"


# Finding mutations


def find_mutations(package: Path, seed: str = SEED) -> list[Mutation]:
    """Every mutation of a package's functions, in the order of the sample."""
    found: list[Mutation] = []
    for path in sorted(package.rglob("*.py")):
        name = path.relative_to(package).as_posix()
        text = path.read_text()
        if name.startswith(_LEFT_OUT) or "generated" in "".join(text.splitlines()[:5]).lower():
            continue
        found += _mutations_of(name, text, seed)
    return sorted(found, key=lambda mutation: mutation.key)


def _mutations_of(name: str, text: str, seed: str) -> Iterator[Mutation]:
    offsets = [0]
    data = text.encode()
    for line in data.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    seen: dict[str, int] = {}
    for function, statement in _statements(ast.parse(text), ""):
        for kind, node, new in _changes(statement):
            assert node.end_lineno is not None
            assert node.end_col_offset is not None
            start = offsets[node.lineno - 1] + node.col_offset
            end = offsets[node.end_lineno - 1] + node.end_col_offset
            old = data[start:end].decode()
            what = f"{seed}|{function}|{ast.unparse(_head(statement))}|{kind}|{old}|{new}"
            seen[what] = seen.get(what, 0) + 1
            key = hashlib.sha256(f"{what}|{seen[what]}".encode()).hexdigest()
            yield Mutation(name, function, node.lineno, start, end, old, new, kind, key)


def _statements(node: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    """The statements inside of functions, each with the name of its function."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _statements(child, f"{function}.{child.name}".lstrip("."))
        elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        elif isinstance(child, ast.stmt):
            if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case) and not isinstance(node, ast.ClassDef):
                yield function, child
            yield from _statements(child, function)
        elif isinstance(child, (ast.excepthandler, ast.match_case)):
            yield from _statements(child, function)


def _head(statement: ast.stmt) -> ast.AST:
    """A statement without the statements inside of it."""
    match statement:
        case ast.If(test=part) | ast.While(test=part) | ast.For(iter=part) | ast.AsyncFor(iter=part):
            return part
        case ast.Match(subject=part):
            return part
        case ast.With(items=[first, *_]) | ast.AsyncWith(items=[first, *_]):
            return first.context_expr
        case ast.Try() | ast.TryStar():
            return ast.Pass()
    return statement


def _changes(statement: ast.stmt) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """(what kind, which node, its new text) for each mutation of one statement."""
    match statement:
        case ast.If(test=test) | ast.While(test=test) if not isinstance(test, ast.Constant):
            yield "condition negated", test, f"(not ({ast.unparse(test)}))"
        case ast.Expr(value=ast.Call() | ast.Await(value=ast.Call())) | ast.AugAssign() | ast.Delete():
            yield "statement left out", statement, "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield "statement left out", statement, "pass"
        case ast.Return(value=ast.expr() as value) if not isinstance(value, ast.Constant):
            yield "nothing returned", statement, "return None"
        case ast.Return(value=ast.Constant(value=bool() as flag)):
            yield "other value returned", statement, f"return {not flag}"
            return
        case ast.Raise(exc=ast.expr()):
            yield "nothing raised", statement, "pass"
    for node in _expressions(_head(statement)):
        yield from _changes_of_expression(node)


def _expressions(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions of a statement, without those whose text cannot be replaced or says nothing."""
    if isinstance(node, ast.JoinedStr | ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return
    if isinstance(node, ast.expr):
        yield node
    for field, value in ast.iter_fields(node):
        if field not in ("annotation", "returns"):
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from _expressions(child)


def _changes_of_expression(node: ast.expr) -> Iterator[tuple[str, ast.expr, str]]:
    match node:
        case ast.Compare(left, [operator], right):
            changed: ast.expr = ast.Compare(left, [_TURNED[type(operator)]()], right)
            yield "comparison turned", node, f"({ast.unparse(changed)})"
        case ast.BoolOp(operator, values):
            changed = ast.BoolOp(ast.Or() if isinstance(operator, ast.And) else ast.And(), values)
            yield "and, or", node, f"({ast.unparse(changed)})"
        case ast.UnaryOp(ast.Not(), operand):
            yield "not left out", node, f"({ast.unparse(operand)})"
        case ast.Constant(bool() as flag):
            yield "other truth", node, str(not flag)
        case ast.Constant(int() as number):
            yield "other number", node, str(number + 1)
        case ast.BinOp(left, ast.Add() | ast.Sub() as operator, right):
            changed = ast.BinOp(left, ast.Sub() if isinstance(operator, ast.Add) else ast.Add(), right)
            if not isinstance(left, ast.Constant) or not isinstance(left.value, str):
                yield "plus, minus", node, f"({ast.unparse(changed)})"
        case ast.Call(function, [first, second, *rest], keywords) if not isinstance(first, ast.Starred):
            if not isinstance(second, ast.Starred):
                changed = ast.Call(function, [second, first, *rest], keywords)
                yield "arguments swapped", node, ast.unparse(changed)
        case ast.IfExp(test, body, orelse):
            yield "choice turned", node, f"({ast.unparse(ast.IfExp(test, orelse, body))})"


def choose(mutations: Sequence[Mutation], count: int) -> list[Mutation]:
    """The sample: as many mutations, at most two of one file, so that no large file decides."""
    chosen: list[Mutation] = []
    for mutation in mutations:
        if len(chosen) < count and sum(other.path == mutation.path for other in chosen) < 2:
            chosen.append(mutation)
    return chosen


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
        own = ours / packages.relative_to(theirs)
        (own / "_copy.pth").write_text(f"{self.folder / 'src'}\n{packages}\n")
        for program in (theirs / "bin").iterdir():
            place = ours / "bin" / program.name
            if program.name == "dragoman":
                place.write_text(program.read_text().replace(str(theirs), str(ours)))
                place.chmod(0o755)
            elif not place.exists():
                place.symlink_to(program)

    def file(self, mutation: Mutation) -> Path:
        return self.folder / "src" / "dragoman" / mutation.path

    def failing_test(self, names: Sequence[str]) -> str | None:
        """Run tests, given as files or ids, until one fails. Returns its id, or None."""
        words = [str(self.folder / ".venv/bin/python"), "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider"]
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "DRAGOMAN"))}
        with tempfile.TemporaryDirectory(prefix="dgm-") as temporary:
            process = subprocess.Popen(
                [*words, "-m", "not alone", f"--timeout={TEST_SECONDS}", f"--basetemp={temporary}/t", *names],
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
                out, _ = process.communicate(timeout=MOST_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                process.communicate()
                return None
        failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", out, flags=re.MULTILINE)
        if failed:
            return failed[1]
        return None if process.returncode in (0, 5) else "pytest ends by itself"


def judge(scratch: Scratch, mutation: Mutation, files: Sequence[str]) -> str | None:
    """Make a mutation, run test files, and take it back; the test that notices it, or None."""
    path = scratch.file(mutation)
    before = path.read_bytes()
    new = mutation.new.encode()
    path.write_bytes(before[: mutation.start] + new + before[mutation.end :])
    try:
        test = scratch.failing_test([f"tests/{name}" for name in files]) if files else None
    finally:
        path.write_bytes(before)
    if test is not None and "::" in test and scratch.failing_test([test]) is not None:
        return None  # it fails on this machine without the mutation too
    return test


def main() -> int:
    """Judge the sample, and print what survived."""
    parser = argparse.ArgumentParser(prog="python -m tools.source_mutants", description="Try the tests with mistakes.")
    parser.add_argument("--tree", type=Path, default=ROOT, help="the checkout to look at; this one by default")
    parser.add_argument("--count", type=int, default=COUNT, help=f"how many mutations; {COUNT} by default")
    parser.add_argument("--seed", default=SEED, help="another sample")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once; 2 by default")
    parser.add_argument("--minutes", type=float, default=60.0, help="begin no mutation after this time")
    parser.add_argument("--list", action="store_true", help="only print the sample, with its tests")
    chosen = parser.parse_args()
    tree = chosen.tree.absolute()
    sample = choose(find_mutations(tree / "src" / "dragoman", chosen.seed), chosen.count)
    importers, folder = read_importers(tree / "src" / "dragoman"), tree / "tests"
    tests = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("test_*.py")}
    if chosen.list:
        for mutation in sample:
            print(mutation, "\n    ", *nearest_tests(mutation, tests, importers))
        return 0
    end = time.monotonic() + chosen.minutes * 60
    with tempfile.TemporaryDirectory(prefix="dgm-") as place:
        free: SimpleQueue[Scratch] = SimpleQueue()
        for number in range(chosen.jobs):
            free.put(Scratch(tree, Path(place, str(number))))

        def one(mutation: Mutation) -> tuple[Mutation, str | None, bool]:
            scratch = free.get()
            try:
                is_late = time.monotonic() > end
                test = None if is_late else judge(scratch, mutation, nearest_tests(mutation, tests, importers))
            finally:
                free.put(scratch)
            if not is_late:
                print(f"{'killed  ' if test else 'SURVIVED'} {mutation}{f'  by {test}' if test else ''}", flush=True)
            return mutation, test, is_late

        with ThreadPoolExecutor(chosen.jobs) as pool:
            results = list(pool.map(one, sample))
    judged = [(mutation, test) for mutation, test, is_late in results if not is_late]
    killed = sum(test is not None for _, test in judged)
    share = 100 * killed / max(1, len(judged))
    print(f"\n{killed} of {len(judged)} mutations were noticed: {share:.0f} %. These were not:")
    for mutation, test in judged:
        if test is None:
            print(f"    {mutation}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
