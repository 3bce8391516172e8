"""What a test can rely on is asked once for a whole run, and not by each file when it is imported."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator
from types import SimpleNamespace

from tests import conftest, machine
from tests.project.sources import ROOT

PROBES = {"which", "available", "find_ripgrep", "find_bwrap", "why_not"}


def calls_at_import(tree: ast.AST) -> Iterator[str]:
    """The names of the functions that are called when a module is imported, marks of tests included."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for decorator in node.decorator_list:
                yield from calls_at_import(ast.Expression(decorator))
            continue
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        yield from calls_at_import(node)


def test_no_file_asks_the_machine_when_it_is_imported() -> None:
    """Another program may install something between two imports: then two workers would disagree."""
    found = [
        f"{path.relative_to(ROOT)}: {name}; use tests/machine.py"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        if any(f"{name}(" in (text := path.read_text()) for name in PROBES)
        for name in calls_at_import(ast.parse(text))
        if name in PROBES
    ]
    assert found == []


def test_a_worker_uses_the_answers_of_the_process_that_started_it() -> None:
    node = SimpleNamespace(workerinput={})
    conftest.pytest_configure_node(node)
    answers = json.loads(json.dumps(node.workerinput["machine"]))
    answers["programs"]["git"] = None
    spec = importlib.util.spec_from_file_location("another_worker", machine.__file__)
    assert spec is not None
    assert spec.loader is not None
    worker = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(worker)
    worker.use(answers)
    assert worker.program("git") is None
    assert worker.needs("git").mark.kwargs["reason"] == "not installed: git"
    assert worker.sandbox() == machine.sandbox()
    assert worker.ripgrep() == machine.ripgrep()
