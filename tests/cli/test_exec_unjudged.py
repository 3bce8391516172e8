"""What an agent did without asking and cannot be read is not innocent: it is reported as unjudged, in every form."""

from __future__ import annotations

import pytest

from tests.cli.exec_kit import Place
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

DENY = ("--deny", "execute:git push *")


def test_a_completed_call_whose_command_cannot_be_read_is_unjudged(place: Place) -> None:
    done = place.run("--output", "json", *DENY, "Tidy up", odd="acts-by-title")
    assert done.code == 0, done.err
    assert done.result["violations"] == []
    [found] = done.result["unjudged"]
    assert (found["kind"], found["title"], found["rule"]) == ("execute", "Tidy up", "execute:git push *")
    assert (found["tool_call_id"], found["decided_by"]) == ("t1", "rule execute:git push * (--deny)")
    assert found["why"] == "the command cannot be read (it names no command)"
    assert (
        "unjudged: execute: Tidy up was done; the command cannot be read (it names no command), "
        "and rule execute:git push * (--deny) may concern it"
    ) in done.err


def test_what_is_unjudged_is_stated_without_a_document_too(place: Place) -> None:
    done = place.run(*DENY, "Tidy up", odd="acts-by-title")
    assert done.code == 0, done.err
    assert done.err.count("unjudged: execute: Tidy up was done") == 1


def test_what_is_unjudged_is_an_event_too(place: Place) -> None:
    events = place.run("--output", "events", *DENY, "Tidy up", odd="acts-by-title").events
    kinds = [event["event"] for event in events]
    [found] = [event["unjudged"] for event in events if event["event"] == "unjudged"]
    assert found["rule"] == "execute:git push *"
    done = next(n for n, event in enumerate(events) if event.get("tool_call", {}).get("status") == "completed")
    assert kinds[done + 1] == "unjudged"


def test_what_is_unjudged_ends_the_turn_if_violations_do(place: Place) -> None:
    words = ("--output", "json", "--stop-on-violation", *DENY, "Tidy up")
    done = place.run(*words, odd="acts-by-title-until-cancelled")
    assert done.code == 10
    assert done.result["text"] == "stopped"
    assert done.result["error"]["kind"] == "unjudged"
    assert "the agent did what cannot be judged: execute: Tidy up" in done.result["error"]["message"]
    assert "cancelling the turn because of what cannot be judged" in done.err


@pytest.mark.parametrize("rule", ["read:.env", "edit:secret/**", "execute:rm *"])
def test_any_deny_that_a_command_could_break_counts(place: Place, rule: str) -> None:
    done = place.run("--output", "json", "--deny", rule, "Tidy up", odd="acts-by-title")
    assert [found["rule"] for found in done.result["unjudged"]] == [rule]


@pytest.mark.parametrize("flags", [(), ("--allow", "*"), ("--deny", "fetch:example.com"), ("--deny", "mcp:files")])
def test_without_a_deny_that_could_concern_it_nothing_is_unjudged(place: Place, flags: tuple[str, ...]) -> None:
    done = place.run("--output", "json", *flags, "Tidy up", odd="acts-by-title")
    assert done.code == 0, done.err
    assert done.result["unjudged"] == []


def test_a_list_of_steps_is_not_unjudged(place: Place) -> None:
    done = place.run("--output", "json", "--stop-on-violation", *DENY, "go", odd="keeps-todos")
    assert done.code == 0, done.err
    assert done.result["unjudged"] == []


# The title, the source of last resort


@pytest.mark.parametrize("title", ["git push origin", "Run `git push -f`", "terminal: git push", "$ git push"])
def test_a_title_that_is_a_denied_command_is_a_violation(place: Place, title: str) -> None:
    done = place.run("--output", "json", *DENY, title, odd="acts-by-title")
    assert done.code == 10
    assert [found["rule"] for found in done.result["violations"]] == ["execute:git push *"]
    assert done.result["unjudged"] == []


@pytest.mark.parametrize("title", ["ls", "Push to git", "terminal: cat a.txt && git pu…"])
def test_a_title_does_not_acquit(place: Place, title: str) -> None:
    done = place.run("--output", "json", *DENY, title, odd="acts-by-title")
    assert (done.code, done.result["violations"]) == (0, [])
    assert len(done.result["unjudged"]) == 1


# Hermes


@pytest.mark.parametrize("line", ["git push", f"echo {'x' * 90} && git push --force"])
def test_what_hermes_shows_as_its_first_content_is_its_command(place: Place, line: str) -> None:
    done = place.run("--output", "json", *DENY, line, odd="acts-like-hermes")
    assert done.code == 10
    [found] = done.result["violations"]
    assert (found["rule"], found["tool_call_id"]) == ("execute:git push *", "tc-1")


@pytest.mark.parametrize("line", ["ls", "go test ./...", f"echo {'x' * 90}"])
def test_a_harmless_command_of_hermes_is_judged(place: Place, line: str) -> None:
    done = place.run("--output", "json", "--stop-on-violation", *DENY, line, odd="acts-like-hermes")
    assert done.code == 0, done.err
    assert (done.result["violations"], done.result["unjudged"]) == ([], [])
