"""What `dragoman exec` permits an agent that asks first and then acts through its client: only what it showed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal

__all__ = ["place"]


@pytest.mark.parametrize(
    ("script", "written"),
    [
        ("write new.txt some text", "new.txt"),
        ("edit note.txt alpha => omega", "note.txt"),
        ("run touch made.txt && echo made", "made.txt"),
    ],
)
def test_the_built_in_agent_is_permitted_with_one_question(place: Place, script: str, written: str) -> None:
    (place.project / "note.txt").write_text("one\nalpha\n")
    out = place.project / "out"
    with at_terminal(place, "exec", "--model", "scripted", script, "--output", "json", stdout=out) as terminal:
        terminal.until(" > ")
        terminal.type("y\n")
        assert terminal.wait() == 0
    made = [each for each in result_in(out)["permissions"] if each["kind"] != "read"]
    decided = [(each["action"], each["decided_by"]) for each in made]
    assert decided == [("allow", "person"), ("allow", "grant")]
    assert (place.project / written).read_text() != "one\nalpha\n"


def test_an_agent_does_only_what_it_showed_at_a_terminal(place: Place) -> None:
    with at_terminal(place, "exec", "x", odd="shows-other") as terminal:
        for answer in "ycyc":
            terminal.until("your answer: ")
            terminal.type(f"{answer}\n")
        assert terminal.wait() == 0
    assert not (place.project / "ran").exists()
    assert not (place.project / "a.txt").exists()


def test_an_agent_does_only_what_it_showed_under_a_wide_rule(place: Place) -> None:
    done = place.run("x", "--allow", "execute", "--output", "json", odd="shows-other")
    assert done.code == 5
    assert {made["action"] for made in done.result["permissions"]} == {"cancelled"}
    assert not (place.project / "ran").exists()


def test_a_deny_and_a_protected_file_hold_for_agents_that_name_no_kind(place: Place) -> None:
    done = place.run("x", "--allow", "*", "--deny", "execute:rm *", "--output", "json", odd="patches-quietly")
    assert done.result["text"] == "cancelled n"
    assert [(made["kind"], made["action"]) for made in done.result["permissions"]] == [
        ("edit", "cancelled"),
        ("execute", "deny"),
    ]


def result_in(out: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(out.read_text())
    return found
