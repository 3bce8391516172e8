"""What `dragoman exec` shows before it permits something, and what it saves: exactly what was stated."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal
from tests.client.lying_agent import HIDDEN

__all__ = ["place"]

LIAR = ("--", sys.executable, str(Path(__file__).parents[1] / "client/lying_agent.py"))
ANSWERS = ("allow-once", "allow-session", "allow-project", "reject-once", "reject-session", "reject-project")


def test_the_command_that_runs_is_shown_and_the_title_as_the_agents_word(place: Place) -> None:
    with at_terminal(place, "exec", "lie", *LIAR) as terminal:
        terminal.until(" > ")
        shown = unwrapped(terminal.text)
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert "  kind   execute\n" in shown
    assert f"  shell  │ {HIDDEN}\n" in shown
    assert "  agent  calls it: npm test\n" in shown
    assert "  a 2       yes, always: Reject\n" in shown
    assert (place.project / "hidden-file").exists()


@pytest.mark.parametrize("number", range(1, 7))
def test_every_answer_to_a_question_of_the_client_saves_what_it_stated(place: Place, number: int) -> None:
    saved, shown = answered(place, "run touch made", *LIAR, number=number)
    option = ANSWERS[number - 1]
    action = "allow" if option.startswith("allow") else "deny"
    assert (place.project / "made").exists() == (action == "allow")
    if option.endswith("project"):
        assert saved == [(action, "execute:touch made")]
        assert f"writes: {action} execute:touch made, in {where(place)}" in shown
    else:
        assert saved == []
        assert f"keeps: {action} execute:touch made" in shown, "the answer for the session names its rule, too"


@pytest.mark.parametrize("number", range(1, 7))
def test_every_answer_to_the_built_in_agent_saves_what_it_stated(place: Place, number: int) -> None:
    saved, shown = answered(place, "run touch made", "--model", "scripted", number=number)
    option = ANSWERS[number - 1]
    action = "allow" if option.startswith("allow") else "deny"
    assert (place.project / "made").exists() == (action == "allow")
    assert "no rule is saved here" not in shown
    for each in ("allow", "deny"):
        assert f"keeps: {each} execute:touch made\n" in shown
        assert f"writes: {each} execute:touch made, in {where(place)}\n" in shown
    assert saved == ([(action, "execute:touch made")] if option.endswith("project") else [])


def test_an_answer_for_the_session_to_the_built_in_agent_is_asked_once(place: Place) -> None:
    with at_terminal(place, "exec", "run touch a\nrun touch a", "--model", "scripted") as terminal:
        terminal.until(" > ")
        terminal.type("2\n")
        assert terminal.wait() == 0
    assert terminal.text.count("asks for permission") == 1
    assert (place.project / "a").exists()


def unwrapped(text: str) -> str:
    """What is on the terminal without colours, and with long lines in one piece."""
    return re.sub(r"\n +⤷ ", "", re.sub(r"\x1b\[[0-9;]*[mK]|\r(?!\n)", "", text))


def where(place: Place) -> str:
    """The rule file, as it is shown."""
    return str(rule_file(place)).replace(str(place.home), "~", 1)


def rule_file(place: Place) -> Path:
    return place.home / "dragoman/config/rules.json"


def answered(place: Place, *words: str, number: int) -> tuple[list[Any], str]:
    """Answers the first question of a run; returns the rules that are kept then, and what was shown."""
    with at_terminal(place, "exec", *words) as terminal:
        terminal.until(" > ")
        shown = unwrapped(terminal.text)
        terminal.type(f"{number}\n")
        assert terminal.wait() in (0, 5)
    if not rule_file(place).exists():
        return [], shown
    ((_, rules),) = json.loads(rule_file(place).read_text())["projects"].items()
    return [(rule["action"], rule["rule"]) for rule in rules], shown
