"""The table of conventions in docs/terminal.md: each act of each form has a test, and each mark is in the table."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.project.sources import ROOT

FORMS = ("full screen", "inline", "plain", "exec")


def promised() -> dict[tuple[str, str], str]:
    """(act, form) -> what the table promises; cells without a promise are left out."""
    page = (ROOT / "docs" / "terminal.md").read_text()
    section = page.partition("\n## Conventions\n")[2].partition("\n## ")[0]
    head, _, *rows = [line for line in section.split("\n") if line.startswith("|")]
    assert cells(head) == ["act", *FORMS]
    found: dict[tuple[str, str], str] = {}
    for row in rows:
        act, *texts = cells(row)
        assert len(texts) == len(FORMS), row
        assert (act, FORMS[0]) not in found, f"{act} stands there twice"
        found.update({(act, form): text for form, text in zip(FORMS, texts, strict=True) if text != "-"})
    return found


def cells(row: str) -> list[str]:
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", row.strip().strip("|"))]


def shown() -> dict[tuple[str, str], list[str]]:
    """(act, form) -> the tests that are marked with it."""
    found: dict[tuple[str, str], list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text()
        if "mark.convention" in text:
            for act, form, name in marks_in(ast.parse(text)):
                found.setdefault((act, form), []).append(f"{path.relative_to(ROOT)}::{name}")
    return found


def marks_in(tree: ast.Module) -> Iterator[tuple[str, str, str]]:
    """(act, form, test) for every `@pytest.mark.convention(...)` of a module."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.convention":
                act, *forms = [ast.literal_eval(argument) for argument in mark.args]
                assert forms, f"{node.name}: the mark names no form"
                yield from ((act, form, node.name) for form in forms)


def test_each_act_of_the_table_has_a_test_in_each_form_and_each_mark_is_in_the_table() -> None:
    table, tests = promised(), shown()
    missing = [f"{act}, {form}: {text}" for (act, form), text in table.items() if (act, form) not in tests]
    assert not missing, "\n".join(["promises without a test:", *missing])
    unknown = [f"{act}, {form}: {names[0]}" for (act, form), names in tests.items() if (act, form) not in table]
    assert not unknown, "\n".join(["tests of what the table does not have:", *unknown])


def test_a_mark_is_found_wherever_it_stands() -> None:
    source = '@pytest.mark.convention("stop", "plain", "exec")\n@pytest.mark.slow\nasync def test_x(): ...\n'
    assert list(marks_in(ast.parse(source))) == [("stop", "plain", "test_x"), ("stop", "exec", "test_x")]
    with pytest.raises(AssertionError, match="names no form"):
        list(marks_in(ast.parse('@pytest.mark.convention("stop")\ndef test_x(): ...\n')))
