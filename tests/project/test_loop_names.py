"""Loop variables say what they are: `for change in changes`, not `for each in changes`."""

from __future__ import annotations

import re

import pytest

from tests.project.sources import PACKAGE, own_sources, text_of

_NAMELESS = re.compile(r"\bfor (?:\w+, )*\(?each(?:, \w+)*\)? in\b|\blambda each\b|[(,] ?each: ")


def test_loop_variables_have_names() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}:{number}: {line.strip()}"
        for path in own_sources()
        if "each" in text_of(path)
        for number, line in enumerate(text_of(path).splitlines(), 1)
        if _NAMELESS.search(line)
    ]
    assert not wrong, f"{len(wrong)} variables are called each\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    "line",
    [
        *("for each in changes:", "[each.path for each in changes]", "for at, each in enumerate(changes):"),
        *("sorted(changes, key=lambda each: each.path)", "def _merged(each: Change) -> bytes:", "for each, it in x:"),
    ],
)
def test_every_form_is_seen(line: str) -> None:
    assert _NAMELESS.search(line)


def test_sentences_are_not_meant() -> None:
    assert not _NAMELESS.search("# One for each session in the list, and for each of them a turn; each: its own.")
