"""Which protected files may change: exactly those of what was permitted."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.policy import Command, Request
from dragoman.policy.decide import ALLOW_ALL, TURN_PERMISSION, USER, Decision
from dragoman.policy.permitted import Permitted


def by(decided_by: str, **members: Any) -> Decision:
    return Decision(action="allow", decided_by=decided_by, **members)


def edit(*paths: str) -> Request:
    return Request("a", "edit", paths=paths)


def line(text: str) -> Request:
    return Request("a", "execute", command=Command(line=text))


@pytest.mark.parametrize("kind", ["edit", "delete", "move"])
def test_a_permitted_change_covers_its_path_and_what_is_below(kind: str) -> None:
    permitted = Permitted("/p")
    assert not permitted
    permitted.add([Request("a", kind, paths=("/p/.git/hooks",))], by("rule edit (flag)"))
    assert permitted
    assert permitted.covers("/p/.git/hooks")
    assert permitted.covers("/p/.git/hooks/pre-commit")
    assert not permitted.covers("/p/.git/hooks2")


@pytest.mark.parametrize("decided_by", [USER, TURN_PERMISSION])
def test_a_command_covers_a_file_by_its_path_or_its_name_below_the_project(decided_by: str) -> None:
    permitted = Permitted("/p")
    permitted.add([line("cp x .git/hooks/pre-push; cp y /q/.envrc")], by(decided_by))
    assert permitted.covers("/p/.git/hooks/pre-push")
    assert permitted.covers("/q/.envrc")


def test_a_command_does_not_cover_another_file_of_the_same_name() -> None:
    permitted = Permitted("/p")
    permitted.add([line("cp x sub/.git/config")], by(USER))
    assert not permitted.covers("/p/.git/hooks/config")
    assert not permitted.covers("/other/.git/config")


def test_a_command_that_a_rule_allows_covers_nothing() -> None:
    permitted = Permitted("/p")
    permitted.add([line("cp x .git/config")], by("rule execute:cp * (flag)"))
    permitted.add([Request("a", "read", paths=("/p/.git/config",))], by(USER))
    assert not permitted
    assert not permitted.covers("/p/.git/config")


def test_an_answer_of_always_covers_the_files_in_which_the_agent_keeps_it() -> None:
    permitted = Permitted("/p", (".claude/settings.local.json",))
    permitted.add([edit("/p/a.txt")], by(USER, option_kind="allow_once"))
    assert not permitted.covers("/p/.claude/settings.local.json")
    permitted.add([edit("/p/a.txt")], by(ALLOW_ALL, option_kind="allow_always"))
    assert not permitted.covers("/p/.claude/settings.local.json")
    permitted.add([edit("/p/a.txt")], by(USER, option_kind="allow_always"))
    assert permitted.covers("/p/.claude/settings.local.json")


def test_everything_is_covered_if_the_user_permitted_that_in_advance() -> None:
    assert Permitted("/p", is_everything=True).covers("/etc/passwd")


def test_only_the_last_commands_are_remembered() -> None:
    permitted = Permitted("/p")
    permitted.add([line("cp x .git/config")], by(USER))
    permitted.add([line(f"make {number}") for number in range(1_000)], by(USER))
    assert not permitted.covers("/p/.git/config")
