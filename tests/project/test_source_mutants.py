"""The sample of mistakes: every mutation is a program, and moving code does not change which ones are chosen."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tools.mutations import choose, find_again, find_mutations
from tools.source_mutants import REACHING_SECONDS, Reached, marked, nearest_tests, reaching_tests

SOURCE = '''
class Account:
    """An account."""

    def take(self, sum: int, name: str = "x") -> bool:
        if sum > self.rest and not self.is_open:
            raise ValueError(f"{name} has {sum + 1}")
        self.rest -= sum
        self.log(sum, name)
        return True
'''


def write(folder: Path, **modules: str) -> Path:
    for name, text in modules.items():
        path = folder / f"{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def test_every_mutation_is_a_program_that_differs(tmp_path: Path) -> None:
    package = write(tmp_path, accounts=SOURCE)
    mutations = find_mutations(package)
    texts = set()
    for mutation in mutations:
        data = SOURCE.encode()
        changed = data[: mutation.start] + mutation.new.encode() + data[mutation.end :]
        texts.add(ast.unparse(ast.parse(changed)))
    assert len(texts) == len(mutations) > 8
    assert ast.unparse(ast.parse(SOURCE)) not in texts
    assert {mutation.function for mutation in mutations} == {"Account.take"}


def test_the_sample_is_the_same_where_the_code_is_the_same(tmp_path: Path) -> None:
    before = find_mutations(write(tmp_path / "before", accounts=SOURCE))
    after = find_mutations(write(tmp_path / "after", money__accounts=f"import os\n{SOURCE}", other="x = 1"))
    assert [(found.key, found.old) for found in before] == [(found.key, found.old) for found in after]
    assert [found.key for found in choose(before, 60)] == [found.key for found in before[:2]], "two of one file"


def test_a_mutation_is_found_again_where_its_code_was_moved_or_its_names_changed(tmp_path: Path) -> None:
    before = find_mutations(write(tmp_path / "before", accounts=SOURCE))
    other = SOURCE.replace("Account", "Deposit").replace("sum", "amount").replace("self.log(amount, name)", "")
    after = find_mutations(write(tmp_path / "after", money__accounts=other, copies=other.replace("take", "copy")))
    again = find_again(before, after)
    for old, new in zip(before, again, strict=True):
        if "self.log" in old.old:
            assert new is None, "this code is gone"
        else:
            assert new is not None
            assert (new.path, new.function, new.kind) == ("money/accounts.py", "Deposit.take", old.kind)
            assert new.old == old.old.replace("sum", "amount")


def test_marks_report_which_places_run_and_change_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_mutations(write(tmp_path, accounts=SOURCE))
    passed: list[int] = []
    monkeypatch.setitem(sys.modules, "_marks", SimpleNamespace(mark=passed.append))
    names: dict[str, Any] = {}
    exec(marked(SOURCE.encode(), dict(enumerate(found))), names)
    account = names["Account"]()
    account.rest, account.is_open, account.log = 5, False, lambda *_: None
    assert account.take(3) is True
    assert account.rest == 2
    reached = {found[number].kind for number in passed}
    assert reached >= {"condition negated", "comparison turned", "statement left out", "other value returned"}
    assert "nothing raised" not in reached
    with pytest.raises(ValueError, match="x has 10"):
        account.take(9)
    assert "nothing raised" in {found[number].kind for number in passed}


def test_of_the_tests_that_reach_a_mutation_the_nearest_and_quickest_are_tried_first(tmp_path: Path) -> None:
    mutation = find_mutations(write(tmp_path, accounts=SOURCE))[0]
    near, slow, far = "tests/a/test_near.py::test_b", "tests/a/test_near.py::test_a", "tests/test_far.py::test_c"
    seconds = {near: 0.1, slow: REACHING_SECONDS, far: 0.01, "tests/test_far.py::test_not": 0.0}
    reached: Reached = {"seconds": seconds, "tests": {mutation.key: [far, slow, near]}}
    assert reaching_tests(mutation, reached, ["b/test_x.py", "a/test_near.py"]) == [near]
    seconds[slow] = 1.0
    assert reaching_tests(mutation, reached, ["b/test_x.py", "a/test_near.py"]) == [near, slow, far]


def test_tests_that_import_the_module_are_nearest(tmp_path: Path) -> None:
    mutation = find_mutations(write(tmp_path, money__accounts=SOURCE))[0]
    tests = {
        "money/test_other.py": "from dragoman.money import x",
        "cli/test_far.py": "from dragoman.cli import main",
        "cli/test_near.py": "from dragoman.money.accounts import Account",
        "cli/test_next.py": "from dragoman.cli.bank import Bank",
    }
    found = nearest_tests(mutation, tests, {"money.accounts": {"cli.bank"}})
    assert found == ["cli/test_near.py", "money/test_other.py", "cli/test_next.py"]
