"""What an agent does although a rule denies it is a violation, reported in every form."""

from __future__ import annotations

import pytest

from tests.cli.exec_kit import Place
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]


@pytest.mark.parametrize("rule", ["execute", "execute:git push *", "*"])
def test_a_denied_command_that_was_run_without_asking_is_a_violation(place: Place, rule: str) -> None:
    done = place.run("--output", "json", "--deny", rule, "go", odd="acts-unasked")
    assert done.code == 10
    assert done.result["error"]["kind"] == "violation"
    [found] = done.result["violations"]
    assert (found["kind"], found["title"], found["rule"]) == ("execute", "git push", rule)
    assert found["tool_call_id"] == "t1"
    assert f"violation: execute: git push was done, but is denied by rule {rule} (--deny)" in done.err


@pytest.mark.parametrize("flags", [(), ("--deny", "edit"), ("--deny", "execute:git pull *"), ("--allow", "*")])
def test_what_no_rule_denies_is_not_a_violation(place: Place, flags: tuple[str, ...]) -> None:
    done = place.run("--output", "json", *flags, "go", odd="acts-unasked")
    assert done.code == 0, done.err
    assert done.result["violations"] == []


def test_a_denied_file_that_a_call_shows_as_changed_is_a_violation(place: Place) -> None:
    done = place.run("--output", "json", "--deny", "edit:b.txt", "--deny", "edit:c.txt", "go", odd="shows-diffs")
    assert done.code == 10
    [found] = done.result["violations"]  # the call about c.txt failed
    assert found["paths"] == [str(place.project / "b.txt")]


def test_a_call_that_was_refused_is_not_a_violation_if_it_is_reported_as_completed(place: Place) -> None:
    done = place.run("--output", "json", "--deny", "execute", "go", odd="reports-refusals-as-completed")
    assert done.code == 0, done.err
    assert done.result["violations"] == []


def test_a_violation_is_an_event_too(place: Place) -> None:
    events = place.run("--output", "events", "--deny", "execute", "go", odd="acts-unasked").events
    [found] = [event["violation"] for event in events if event["event"] == "violation"]
    assert found["rule"] == "execute"


def test_events_are_written_in_the_order_in_which_they_happen(place: Place) -> None:
    events = place.run("--output", "events", "--deny", "execute", "go", odd="acts-unasked").events
    kinds = [event["event"] for event in events]
    done = next(n for n, event in enumerate(events) if event.get("tool_call", {}).get("status") == "completed")
    assert kinds[done + 1] == "violation"


def test_the_turn_is_cancelled_at_the_first_violation_if_that_is_wanted(place: Place) -> None:
    words = ("--output", "json", "--stop-on-violation", "--deny", "execute", "go")
    done = place.run(*words, odd="acts-until-cancelled")
    assert done.code == 10
    assert done.result["text"] == "stopped"
    assert "cancelling the turn because of the violation" in done.err


def test_the_built_in_agent_commits_no_violation_when_it_is_refused(place: Place) -> None:
    script = "write a.txt text\nrun echo hi\nread a.txt"
    done = place.run("--model", "scripted", "--output", "json", "--deny", "edit", "--deny", "execute", script)
    assert done.code == 0, done.err
    assert done.result["violations"] == []
