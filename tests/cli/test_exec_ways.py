"""Both ways of `dragoman exec` give the same document for the same turn."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.exec_kit import Place
from tests.cli.ways import SessionPlace, place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

ODD_NAMES = ("acts-unasked", "shows-diffs", "reports-refusals-as-completed")


def comparable(result: dict[str, Any]) -> str:
    """A result without what differs between two runs of one agent: ids, times, and how long it took."""
    for name in ("session_id", "duration_ms", "durations", "kept_seconds"):
        result[name] = None
    for call in result["tool_calls"]:
        call["started_at"], call["ended_at"] = call["started_at"] is not None, call["ended_at"] is not None
    return re.sub(r"call_[0-9a-f]+", "call", repr(result))


@pytest.fixture
def there(shared_host: SessionPlace, tmp_path: Path) -> SessionPlace:
    shared_host.begin(tmp_path)
    return shared_host


@pytest.mark.parametrize("prompt", ["hello", "tools", "permission", "edit a.txt", "say one\nplan"])
def test_result_of_the_scripted_agent_is_the_same_in_both_ways(there: SessionPlace, prompt: str) -> None:
    plain = there.run_plainly("-a", "scripted", "--output", "json", prompt)
    hosted = there.run("-a", "scripted", "--output", "json", prompt)
    assert hosted.code == plain.code
    assert comparable(hosted.result) == comparable(plain.result)


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        ("hello", ()),
        ("tools\nplan\nusage", ()),
        ("permission", ("--deny", "delete")),
        ("permission", ()),
        ("edit a.txt", ("--allow", "edit")),
        ("terminal echo hi", ("--allow", "execute:echo *")),
    ],
)
def test_events_of_the_scripted_agent_are_the_same_in_both_ways(
    there: SessionPlace, prompt: str, words: tuple[str, ...]
) -> None:
    words = ("-a", "scripted", "--output", "events", *words, prompt)
    plain, hosted = there.run_plainly(*words), there.run(*words)
    assert hosted.code == plain.code
    assert comparable_events(hosted.events) == comparable_events(plain.events)
    assert hosted.err == plain.err


def test_running_call_has_the_command_of_its_terminal_in_both_ways(place: Place) -> None:
    done = place.run("-a", "scripted", "--output", "events", "--allow", "execute:echo *", "terminal echo hi")
    calls = [event["tool_call"] for event in done.events if event["event"] == "tool_call"]
    commands = [call["command"] for call in calls if call["is_open"] and call["terminals"]]
    assert set(commands) == {"/bin/sh -c 'echo hi'"}


def comparable_events(events: list[dict[str, Any]]) -> list[str]:
    """Events without what differs between two runs: other updates, pieces of texts and open calls come at any time."""
    comparable(events[-1]["result"])
    kept = []
    for event in events:
        match event["event"]:
            case "message" | "update":
                continue
            case "tool_call":
                call = event["tool_call"]
                if call["is_open"]:
                    continue
                call["started_at"], call["ended_at"] = call["started_at"] is not None, call["ended_at"] is not None
            case "session":
                event["session_id"] = None
        kept.append(event)
    return [re.sub(r"(call_|term-)[0-9a-f]+", r"\1", repr(event)) for event in kept]


@pytest.mark.parametrize("odd", ODD_NAMES)
@pytest.mark.parametrize("words", [(), ("--deny", "execute"), ("--deny", "edit:b.txt", "--fail-on-deny")])
def test_result_of_an_agent_that_acts_by_itself_is_the_same_in_both_ways(
    there: SessionPlace, odd: str, words: tuple[str, ...]
) -> None:
    plain = there.run_plainly("--output", "json", *words, "go", odd=odd)
    hosted = there.run("--output", "json", *words, "go", odd=odd)
    assert hosted.code == plain.code
    assert comparable(hosted.result) == comparable(plain.result)


@pytest.mark.parametrize("odd", ["dies-at-once", "dies-in-initialize", "wants-login", "says-auth-later"])
def test_result_of_a_turn_that_fails_is_the_same_in_both_ways(there: SessionPlace, odd: str) -> None:
    plain = there.run_plainly("--output", "json", "go", odd=odd)
    hosted = there.run("--output", "json", "go", odd=odd)
    assert hosted.code == plain.code
    assert comparable(hosted.result) == comparable(plain.result)
    assert hosted.err.splitlines()[-1] == plain.err.splitlines()[-1]


def test_result_without_a_program_to_start_is_the_same_in_both_ways(there: SessionPlace) -> None:
    words = ("--output", "json", "go", "--", "no-such-agent-anywhere")
    plain, hosted = there.run_plainly(*words), there.run(*words)
    assert comparable(hosted.result) == comparable(plain.result)


def test_text_of_a_turn_that_breaks_a_rule_ends_with_10_in_a_session_too(there: SessionPlace) -> None:
    done = there.run("--deny", "execute", "go", odd="acts-unasked")
    assert done.code == 10
    assert "violation: execute: git push was done, but is denied by rule execute (--deny)" in done.err


def test_document_of_a_warm_session_needs_neither_msgspec_nor_the_state(there: SessionPlace) -> None:
    assert there.run_plainly("--session", "warm", "-a", "scripted", "hello").code == 0
    program = (
        "import sys; before = set(sys.modules); from dragoman.cli.main import main; "
        "code = main(['exec', '--session', 'warm', '--output', 'json', '-q', 'hello']); "
        "assert not {'msgspec', 'asyncio', 'dragoman.state', 'dragoman.schema', 'argparse', 'json', 're'} "
        "& (set(sys.modules) - before), sorted(sys.modules); sys.exit(code)"
    )
    done = subprocess.run(
        [there.python, "-c", program],
        cwd=there.project,
        env=there.environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"text": "hello"' in done.stdout
