"""With a user at the terminal, code of the project is asked about once for each file or tool in a session."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.cli.exec_kit import ODD_AGENT, Place, place
from tests.cli.terminal_kit import at_terminal
from tests.cli.test_exec_project_code import DENY, LISTED, ran, write_program
from tests.cli.test_exec_shown import answered, unwrapped
from tests.cli.ways import SessionPlace, shared_host

__all__ = ["place", "shared_host"]

RULES = ("--allow", "*", *DENY)
RUNS = ("--", sys.executable, "-IS", str(ODD_AGENT), "runs-the-prompt")
BUILT_IN = ("--model", "scripted", "--mode", "full", *DENY)


def run(place: Place, *words: str, answers: str = "") -> str:
    """Answer the questions of a run, each with one letter; gives what the terminal showed."""
    with at_terminal(place, "exec", *words) as terminal:
        for answer in answers:
            terminal.until(" > ")
            terminal.type(f"{answer}\n")
        assert terminal.wait() in (0, 5)
    shown = unwrapped(terminal.text)
    assert shown.count("asks for permission") == len(answers)
    return shown


def test_it_is_asked_about_once_and_other_code_again(place: Place) -> None:
    write_program(place, "x.sh")
    write_program(place, "y.sh")
    shown = run(place, "./x.sh\ntimeout 60 ./x.sh again\n./y.sh", *RULES, *RUNS, answers="11")
    assert ran(place) == ["x.sh", "x.sh", "y.sh"]
    assert (
        "it runs `./x.sh`, code of the project, and rule execute:rm -rf * (--deny) cannot see what that does; "
        "a yes holds for it in this session"
    ) in " ".join(shown.split())
    assert LISTED not in shown, "the user was asked"


def test_what_the_user_refuses_does_not_run_and_is_asked_about_again(place: Place) -> None:
    write_program(place, "x.sh")
    run(place, "./x.sh\n./x.sh", *RULES, *RUNS, answers="41")
    assert ran(place) == ["x.sh"]


def test_always_writes_the_rule_that_was_shown_and_a_new_session_does_not_ask(place: Place) -> None:
    write_program(place, "x.sh")
    saved, shown = answered(place, "./x.sh a", *RULES, *RUNS, number=3)
    assert saved == [("allow", "execute:./x.sh *")]
    assert "writes: allow execute:./x.sh *, in " in shown
    run(place, "./x.sh b", *RULES, *RUNS)
    assert ran(place) == ["x.sh", "x.sh"]


def test_an_allow_that_names_it_and_a_run_without_a_deny_are_not_asked_about(place: Place) -> None:
    write_program(place, "x.sh")
    run(place, "./x.sh", *RULES, "--allow", "execute:./x.sh", *RUNS)
    run(place, "./x.sh", "--allow", "*", *RUNS)
    assert ran(place) == ["x.sh", "x.sh"]


def test_the_built_in_agent_is_asked_about_once_too(place: Place) -> None:
    write_program(place, "x.sh")
    run(place, "run ./x.sh\nrun ./x.sh again", *BUILT_IN, answers="1")
    assert ran(place) == ["x.sh", "x.sh"]


def test_in_a_session_of_the_host_it_is_asked_about_once_too(shared_host: SessionPlace, tmp_path: Path) -> None:
    shared_host.begin(tmp_path)
    write_program(shared_host, "x.sh")
    run(shared_host, "--session", "one", "./x.sh\n./x.sh again", *RULES, *RUNS, answers="1")
    assert ran(shared_host) == ["x.sh", "x.sh"]
