"""Which rules of docs/spec/rules.md are shown by a test, and which are not.

`python -m tests.project.rules --write` rewrites rules_without_test.toml: rules that gained a test leave it, rules
that lost theirs enter it without a reason, which fails until somebody writes one.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.project.sources import ROOT

LIST = ROOT / "tests" / "project" / "rules_without_test.toml"
HEAD = """\
# Rules of docs/spec/rules.md that no test cites, below the reason why.
# `python -m tests.project.rules --write` keeps the list complete; reasons are written by hand.

"""


class Rule(NamedTuple):
    number: int
    level: str
    who: str
    text: str


def known_rules() -> dict[int, Rule]:
    page = (ROOT / "docs" / "spec" / "rules.md").read_text()
    rows = re.findall(r"^\| (\d+) \| ([^|]+) \| ([^|]+) \| ((?:[^|\\]|\\.)+) \|", page, flags=re.MULTILINE)
    return {int(number): Rule(int(number), level, who, text) for number, level, who, text in rows}


@cache
def cited_rules() -> dict[int, list[str]]:
    """Rule number -> the tests that cite it."""
    cited: dict[int, list[str]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for number, test in citations(import_module(name)):
            cited.setdefault(number, []).append(f"{path.relative_to(ROOT)}::{test}")
    return cited


def citations(holder: Any, prefix: str = "") -> Iterator[tuple[int, str]]:
    """(rule, test) for every `pytest.mark.rule(...)` on a module, a class, a function or a parameter of one."""
    for mark in marks_of(holder):
        yield from ((number, prefix or "*") for number in mark.args if mark.name == "rule")
    for name, member in vars(holder).items():
        is_test = name.startswith("test_") and callable(member)
        if is_test or (name.startswith("Test") and isinstance(member, type)):
            yield from citations(member, f"{prefix}{name}") if is_test else citations(member, f"{name}.")


def marks_of(holder: Any) -> Iterator[pytest.Mark]:
    """The marks of a test, and those of its parameters."""
    given: Any = getattr(holder, "pytestmark", [])
    entries: list[Any] = given if isinstance(given, list) else [given]
    for entry in entries:
        mark: pytest.Mark = getattr(entry, "mark", entry)
        yield mark
        if mark.name == "parametrize":
            for parameter in mark.args[1]:
                for inner in getattr(parameter, "marks", ()):
                    yield getattr(inner, "mark", inner)


def excused_rules() -> dict[int, str]:
    """Rule number -> why no test shows it yet."""
    if not LIST.exists():
        return {}
    return {number: reason for reason, numbers in tomllib.loads(LIST.read_text()).items() for number in numbers}


def write_list() -> None:
    cited, excused = cited_rules(), excused_rules()
    by_reason: dict[str, list[Rule]] = {}
    for rule in known_rules().values():
        if rule.number not in cited:
            by_reason.setdefault(excused.get(rule.number, ""), []).append(rule)
    blocks = []
    for reason, rules in by_reason.items():
        lines = [f"    {rule.number},  # {rule.level}, {rule.who}: {rule.text}" for rule in rules]
        blocks.append("\n".join([f'"{reason}" = [', *lines, "]\n"]))
    LIST.write_text(HEAD + "\n".join(blocks))


def main(words: list[str]) -> int:
    if words != ["--write"]:
        sys.stderr.write("usage: python -m tests.project.rules --write\n")
        return 2
    write_list()
    sys.stdout.write(f"{Path(LIST).relative_to(ROOT)}: {len(excused_rules())} rules\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
