"""Code of the project is beyond what a deny of commands can see: without a user it runs, and is listed."""

from __future__ import annotations

import pytest

from tests.cli.exec_kit import Place
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

DENY = ("--deny", "execute:rm -rf *")
LISTED = "ran code of the project, which deny rules do not see: "


def write_program(place: Place, name: str) -> None:
    path = place.project / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {name} >> {place.project}/ran\n")
    path.chmod(0o755)


def ran(place: Place) -> list[str]:
    found = place.project / "ran"
    return found.read_text().split() if found.exists() else []


def test_project_code_that_a_wide_rule_allows_runs_and_is_listed_once(place: Place) -> None:
    write_program(place, "x.sh")
    done = place.run("--output", "json", "--allow", "*", *DENY, "./x.sh\n./x.sh again", odd="runs-the-prompt")
    assert done.code == 0, done.err
    assert ran(place) == ["x.sh", "x.sh"]
    assert done.result["project_code"] == ["./x.sh"]
    assert [made["project_code"] for made in done.result["permissions"]] == [["./x.sh"], ["./x.sh"]]
    assert done.err.count(f"{LISTED}./x.sh\n") == 1


def test_project_code_is_listed_without_a_document_too(place: Place) -> None:
    write_program(place, "x.sh")
    done = place.run("--allow", "*", *DENY, "./x.sh\n./x.sh again\npython3 x.sh", odd="runs-the-prompt")
    assert done.code == 0, done.err
    assert done.err.count(f"{LISTED}./x.sh, python3 x.sh\n") == 1


def test_project_code_is_in_the_events(place: Place) -> None:
    write_program(place, "x.sh")
    events = place.run("--output", "events", "--allow", "*", *DENY, "./x.sh", odd="runs-the-prompt").events
    assert [event["permission"]["project_code"] for event in events if event["event"] == "permission"] == [["./x.sh"]]
    assert events[-1]["result"]["project_code"] == ["./x.sh"]


def test_the_same_name_in_another_folder_is_other_code(place: Place) -> None:
    write_program(place, "x.sh")
    write_program(place, "sub/x.sh")
    done = place.run("--output", "json", "--allow", "*", *DENY, "./x.sh\ncd sub && ./x.sh", odd="runs-the-prompt")
    assert done.result["project_code"] == ["./x.sh", "./x.sh (in sub)"]


@pytest.mark.parametrize(
    "rules",
    [
        ("--allow", "*"),
        ("--allow", "*", "--deny", "read:.env"),
        ("--allow", "*", "--allow", "execute:./x.sh", *DENY),
        ("--allow", "execute:./x.sh *", *DENY),
    ],
    ids=["no-deny", "a-deny-of-files", "named-and-wide", "named"],
)
def test_without_a_deny_of_commands_and_with_an_allow_that_names_it_nothing_is_listed(
    place: Place, rules: tuple[str, ...]
) -> None:
    write_program(place, "x.sh")
    done = place.run("--output", "json", *rules, "./x.sh", odd="runs-the-prompt")
    assert (done.code, ran(place)) == (0, ["x.sh"]), done.err
    assert done.result["project_code"] == []
    assert LISTED not in done.err


def test_the_built_in_agent_in_its_widest_mode_runs_project_code_and_it_is_listed(place: Place) -> None:
    write_program(place, "x.sh")
    words = ("--model", "scripted", "--mode", "full", "--output", "json", *DENY)
    done = place.run(*words, "run ./x.sh\nrun ./x.sh again\nsay done")
    assert (done.code, ran(place)) == (0, ["x.sh", "x.sh"]), done.err
    assert done.result["project_code"] == ["./x.sh"]


def test_what_everything_is_allowed_for_is_listed(place: Place) -> None:
    write_program(place, "x.sh")
    words = ("--dangerously-allow-all", "--output", "json", *DENY)
    done = place.run(*words, "./x.sh", odd="runs-the-prompt")
    assert (done.code, ran(place)) == (0, ["x.sh"]), done.err
    assert done.result["project_code"] == ["./x.sh"]
