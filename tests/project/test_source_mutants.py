"""The sample of mistakes: every mutation is a program, and moving code does not change which ones are chosen."""

from __future__ import annotations

import ast
from pathlib import Path

from tools.source_mutants import choose, find_mutations, nearest_tests

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
