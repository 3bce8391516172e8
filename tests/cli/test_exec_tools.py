"""Rules about tools that only have a name, as agents of frameworks have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cli.ways import place, plain_place, shared_host

if TYPE_CHECKING:
    from tests.cli.exec_kit import Place

__all__ = ["place", "plain_place", "shared_host"]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("--allow", "tool:refund"), "y"),
        (("--allow", "tool:ref*"), "y"),
        (("--allow", "other"), "y"),
        (("--allow", "tool:refund", "--deny", "read:.env"), "y"),
        (("--allow", "tool:refund", "--deny", "tool:ref*"), "n"),
        (("--allow", "other", "--deny", "tool:refund"), "n"),
        (("--deny", "other", "--allow", "tool:refund"), "n"),
    ],
)
def test_a_tool_is_allowed_and_denied_by_its_name(words: tuple[str, ...], answer: str, place: Place) -> None:
    done = place.run("refund", *words, odd="asks-for-a-tool")
    assert (done.code, done.out) == (0, f"{answer}\n"), done.err


@pytest.mark.parametrize(
    "words", [(), ("--allow", "tool:refunds"), ("--allow", "*"), ("--allow", "other", "--deny", "read:.env")]
)
def test_no_other_rule_covers_it_and_the_hint_names_the_one_that_does(words: tuple[str, ...], place: Place) -> None:
    done = place.run("refund", *words, odd="asks-for-a-tool")
    assert done.code == 5
    assert "hint: allow it with --allow tool:refund (" in done.err
