"""Small mistakes that can be made in the functions of a package, and a sample of them that stays the same.

The sample depends on a seed and on the text of each function, not on where the function stands. So two checkouts get
the same mutations as far as they have the same code. A mutation is found again in another checkout where its code was
moved, or where its variables have other names.
"""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

SEED = "1"
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
_STATEMENTS = ("statement left out", "nothing returned", "other value returned", "nothing raised")


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
    """The same where function, statement and change are the same."""
    meaning: str
    """The same also if variables have other names, or the function has."""

    @property
    def is_statement(self) -> bool:
        """Whether a statement is replaced, not an expression."""
        return self.kind in _STATEMENTS

    def __str__(self) -> str:
        shown = f"{' '.join(self.old.split())[:60]}  ->  {' '.join(self.new.split())[:60]}"
        return f"{self.path}:{self.line} {self.function}: {self.kind}: {shown}"


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
            meaning = f"{kind}|{_nameless(_head(statement))}|{_nameless(node)}|{seen[what]}"
            yield Mutation(name, function, node.lineno, start, end, old, new, kind, key, meaning)


def _nameless(node: ast.AST) -> str:
    """A piece of code with numbers for its variables, in the order in which they appear."""
    numbers: dict[str, str] = {}
    return re.sub(r"Name\(id='(\w+)'", lambda found: numbers.setdefault(found[1], f"#{len(numbers)}"), ast.dump(node))


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


def find_again(sample: Sequence[Mutation], mutations: Sequence[Mutation]) -> list[Mutation | None]:
    """For each mutation of another checkout the one that means the same here, or None if its code is gone."""
    by_key = {mutation.key: mutation for mutation in reversed(mutations)}
    by_meaning: dict[str, list[Mutation]] = {}
    for mutation in mutations:
        by_meaning.setdefault(mutation.meaning, []).append(mutation)
    return [by_key.get(mutation.key) or _likest(mutation, by_meaning.get(mutation.meaning, [])) for mutation in sample]


def _likest(mutation: Mutation, others: Sequence[Mutation]) -> Mutation | None:
    """Of mutations with one meaning the one in a function of the same name, or the only one with the same text."""

    def likeness(other: Mutation) -> tuple[bool, ...]:
        return (
            other.function.split(".")[-1] == mutation.function.split(".")[-1],
            other.old == mutation.old,
            other.function == mutation.function,
            other.path == mutation.path,
            Path(other.path).stem == Path(mutation.path).stem,
        )

    best = max(others, key=likeness, default=None)
    if best is None or likeness(best)[0]:
        return best
    same = [other for other in others if other.old == mutation.old]
    return same[0] if len(same) == 1 else None
