"""Rules of which the last that matches wins, as rules without an order."""

from __future__ import annotations

from itertools import product

import pytest

from dragoman.foreign.precedence import OrderedRule, covers, overlap, resolve
from dragoman.foreign.rules import Action, command_rule


def rules(*written: tuple[str, Action]) -> list[OrderedRule]:
    return [OrderedRule("bash", pattern, action, pattern) for pattern, action in written]


def outcome(*written: tuple[str, Action]) -> list[str]:
    found = resolve(rules(*written), lambda rule: (command_rule(rule.pattern),))
    return ["void" if each.is_void else each.texts[0] if each.texts else "-" for each in found]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ([("*", "allow"), ("rm *", "deny")], ["execute", "execute:rm *"]),
        ([("rm *", "deny"), ("*", "allow")], ["void", "execute"]),
        ([("git *", "allow"), ("*", "deny")], ["void", "execute"]),
        ([("*", "deny"), ("git *", "allow")], ["-", "execute:git *"]),
        ([("*", "ask"), ("git *", "allow")], ["-", "execute:git *"]),
        ([("git *", "deny"), ("git log", "ask")], ["-", "execute:git log"]),
        ([("git *", "ask"), ("git push *", "deny")], ["execute:git *", "execute:git push *"]),
        ([("gitk", "deny"), ("git *", "allow")], ["execute:gitk", "execute:git *"]),
        ([("git", "deny"), ("git *", "allow")], ["void", "execute:git *"]),
        # An allow whose restriction cannot be expressed would allow more than it did.
        ([("git *", "allow"), ("git *main", "deny")], ["-", "-"]),
        ([("ls *", "allow"), ("git *main", "deny")], ["execute:ls *", "-"]),
    ],
)
def test_the_order_is_resolved(written: list[tuple[str, Action]], expected: list[str]) -> None:
    assert outcome(*written) == expected


def matches(pattern: str, text: str) -> bool:
    if not pattern:
        return not text
    if pattern[0] == "*":
        return matches(pattern[1:], text) or (bool(text) and matches(pattern, text[1:]))
    return bool(text) and pattern[0] in ("?", text[0]) and matches(pattern[1:], text[1:])


def test_covering_and_overlapping_agree_with_what_patterns_match() -> None:
    letters = ("a", "b", "*", "?")
    patterns = ["".join(each) for length in (1, 2, 3) for each in product(letters, repeat=length)]
    texts = ["".join(each) for length in range(5) for each in product("abc", repeat=length)]
    sets = {pattern: frozenset(text for text in texts if matches(pattern, text)) for pattern in patterns}
    for one, other in product(patterns[::3], patterns):
        first, second = (OrderedRule("x", each, "deny", each) for each in (one, other))
        if covers(first, second):
            assert sets[other] <= sets[one], (one, other)
        assert overlap(first, second) == bool(sets[one] & sets[other]), (one, other)
