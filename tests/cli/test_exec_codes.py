"""`dragoman exec` from outside: every exit code, their order, and that the result says the same."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.cli.exec_kit import SECONDS, Done, Place, read_until
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]


def test_success_is_0_and_stdout_is_the_answer_alone(place: Place) -> None:
    done = place.run("-a", "scripted", "say hello world", "-q")
    assert (done.code, done.out) == (0, "hello world \n")
    assert done.err == "dragoman: the agent is scripted: it plays a script and calls no model\n"


def test_an_agent_that_answers_with_an_error_is_1(place: Place) -> None:
    done = place.run("-a", "scripted", "error -32603", "--output", "json")
    assert done.code == 1
    error = done.result["error"]
    assert (error["kind"], error["code"], error["data"]) == ("agent_error", -32603, {"scripted": True})
    assert "As you asked" in done.err


def test_an_error_with_an_http_status_is_1(place: Place) -> None:
    done = place.run("hello", "--output", "json", odd="answers-with-http")
    assert done.code == 1
    assert done.result["error"]["code"] == 400


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("-a", "scripted", "x", "--", "agent"), "-a and a command after -- both name an agent"),
        (("x", "--"), "no command after --"),
        (("-a", "scriptde", "x"), "no agent is called 'scriptde'; did you mean scripted"),
        (("-a", "scripted", "x", "--cwd", "nowhere"), "--cwd nowhere: no such folder"),
        (("-a", "scripted", "x", "--add-dir", "nowhere"), "--add-dir nowhere: no such folder"),
        (("-a", "scripted", "x", "--timeout", "0"), "--timeout takes a number of seconds above 0, not '0'"),
        (("-a", "scripted", "x", "--timeout", "nan"), "--timeout takes a number of seconds above 0, not 'nan'"),
        (("-a", "scripted", "x", "--set", "voice"), "--set takes key=value, not 'voice'"),
        (("-a", "scripted", "x", "--image", "none.png"), "--image none.png: No such file or directory"),
        (("-a", "scripted", "x", "--file", "none"), "the prompt is given twice"),
        (("-a", "scripted", "x", "--allow", "everything"), "the rule 'everything' (--allow)"),
        (("-a", "scripted", "x", "--policy", "none.json"), "--policy none.json: No such file or directory"),
        (("-a", "scripted", "x", "--mcp-config", "none.json"), "--mcp-config none.json: No such file or directory"),
        (("-a", "scripted", "x", "--record", "no/such/file"), "--record no/such/file: No such file or directory"),
        (("-a", "scripted", "x", "--model", "scripted"), "--model scripted is for the built-in agent"),
        (("-a", "scripted", "x", "--mode", "ludicrous"), "--mode ludicrous: this agent does not offer it"),
        (("-a", "scripted", "x", "--set", "speed=1"), "--set speed: this agent has no such option"),
        (("-a", "scripted", "x", "--set", "verbose=yes"), "--set verbose=yes: it takes true or false"),
        (("-a", "scripted", "x", "--model", "large"), "this agent offers no choice of model"),
        (("-a", "scripted", "x", "-q", "-v"), "--quiet and --verbose contradict each other"),
        (("-a", "scripted"), "the prompt is empty"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_wrong_usage_is_2_with_a_result_too(words: tuple[str, ...], message: str, place: Place) -> None:
    cut = words.index("--") if "--" in words else len(words)
    done = place.run(*words[:cut], "--output", "json", *words[cut:])
    assert done.code == 2, done.err
    assert message in done.err
    assert done.result["error"]["kind"] == "usage"
    assert message in done.result["error"]["message"]


@pytest.mark.parametrize("words", [("two", "prompts"), ("x", "--no-such"), ("x", "--output", "yaml"), ("x", "--cwd")])
def test_words_that_cannot_be_read_are_2(words: tuple[str, ...], plain_place: Place) -> None:
    done = plain_place.run("-a", "scripted", *words)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("dragoman: error: ")


def test_a_timeout_is_3_and_the_turn_is_cancelled(place: Place) -> None:
    done = place.run("-a", "scripted", "slow", "--timeout", "4", "--output", "json")
    assert done.code == 3
    assert (done.result["error"]["kind"], done.result["stop_reason"]) == ("timed_out", "cancelled")
    assert done.result["text"] == "working"
    assert "timed out after 4 seconds" in done.err


def test_an_end_turn_after_the_timeout_is_not_a_success(place: Place) -> None:
    done = place.run("x", "--timeout", "3", "--output", "json", odd="is-done-anyway")
    assert done.code == 3
    assert done.result["stop_reason"] is None
    assert done.result["text"] == "working done"


def test_the_timeout_also_covers_the_start_of_the_agent(place: Place) -> None:
    done = place.run("x", "--timeout", "0.5", "--output", "json", odd="never-initializes")
    assert done.code == 3
    assert done.result["session_id"] is None


def test_a_program_that_does_not_exist_is_4(place: Place) -> None:
    done = place.run("x", "--output", "json", "--", "no-such-agent-anywhere")
    assert done.code == 4
    assert "cannot start 'no-such-agent-anywhere': not found" in done.result["error"]["message"]
    assert done.result["agent"]["command"] == ["no-such-agent-anywhere"]


@pytest.mark.parametrize(
    ("habit", "returncode", "last_words"),
    [
        ("dies-at-once", 1, "cannot find module 'x'"),
        ("dies-in-initialize", 9, "no API key"),
        ("dies-with-open-tools", 7, "boom"),
        ("is-killed", -9, None),
    ],
)
def test_an_agent_that_dies_is_4_with_its_last_words(
    habit: str, returncode: int, last_words: str | None, place: Place
) -> None:
    done = place.run("x", "--output", "json", odd=habit)
    assert done.code == 4
    error = done.result["error"]
    assert (error["kind"], error["returncode"]) == ("agent_died", returncode)
    if last_words:
        assert last_words in error["stderr_tail"]
        assert last_words in done.err


def test_what_was_open_when_the_agent_died_is_reported(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="dies-with-open-tools")
    [call] = done.result["tool_calls"]
    assert (call["status"], call["is_open"]) == ("in_progress", True)
    assert "still open: execute: Compiling (in_progress)" in done.err
    assert "\x1b" not in done.err, "what an agent writes cannot act on the terminal"


def test_a_permission_request_without_a_user_to_ask_is_5(place: Place) -> None:
    done = place.run("-a", "scripted", "permission", "--output", "json")
    assert done.code == 5
    [decision] = done.result["permissions"]
    assert (decision["action"], decision["decided_by"]) == ("cancelled", "nobody")
    # Our own agents get a rejection with the reason, for which the outcome `cancelled` has no place.
    assert done.result["text"] == "not allowed (reject)"
    assert done.result["stop_reason"] == "end_turn"


def test_a_rule_that_denies_is_not_5(place: Place) -> None:
    done = place.run("-a", "scripted", "permission", "--deny", "delete", "--output", "json")
    assert done.code == 0
    [decision] = done.result["permissions"]
    assert (decision["action"], decision["rule"], decision["option_kind"]) == ("deny", "delete", "reject_once")
    assert "denied delete: Deleting everything" in done.err
    assert "delete" in decision["decided_by"]


def test_a_rule_that_allows_chooses_once_and_is_named(place: Place) -> None:
    done = place.run("-a", "scripted", "permission", "--allow", "delete", "--output", "json")
    assert done.code == 0
    [decision] = done.result["permissions"]
    assert (decision["action"], decision["rule"], decision["option_kind"]) == ("allow", "delete", "allow_once")
    assert done.result["text"] == "allowed (allow)"
    assert "--allow" in done.err


@pytest.mark.parametrize("reason", ["max_tokens", "max_turn_requests", "refusal", "cancelled"])
def test_any_other_stop_reason_is_6(reason: str, place: Place) -> None:
    done = place.run("-a", "scripted", f"stop {reason}", "--output", "json")
    assert done.code == 6
    assert (done.result["stop_reason"], done.result["error"]["kind"]) == (reason, "stopped_early")


def test_an_unknown_stop_reason_is_6(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="stops-oddly")
    assert (done.code, done.result["stop_reason"]) == (6, "_something_new")


@pytest.mark.parametrize("habit", ["wants-login", "says-auth-later"])
def test_a_login_that_is_needed_is_7_with_the_ways_to_log_in(habit: str, place: Place) -> None:
    done = place.run("x", "--output", "json", odd=habit)
    assert done.code == 7
    assert done.result["error"]["login_methods"] == ["key", "web"]
    assert "hint: dragoman login -- " in done.err
    assert "(it offers: key, web)" in done.err


def test_an_error_comes_before_a_permission_request_without_a_user_to_ask(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="asks-then-fails")
    assert done.code == 1
    assert [decision["decided_by"] for decision in done.result["permissions"]] == ["nobody"]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_cancels_the_turn_cleanly(number: signal.Signals, code: int, place: Place) -> None:
    with place.started("-a", "scripted", "slow", "--output", "events") as process:
        read_until(process, '"event":"message"')
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code
    assert '"event":"result"' in out
    assert '"stop_reason":"cancelled"' in out
    assert f'"exit_code":{code}' in out
    assert "Traceback" not in err


@pytest.mark.parametrize("habit", ["is-done-anyway", "fails-when-cancelled"])
def test_a_cancelled_run_is_130_however_the_agent_answers(habit: str, place: Place) -> None:
    with place.started("x", "--output", "events", odd=habit) as process:
        read_until(process, '"event":"message"')
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert '"stop_reason":null' in out


def test_the_second_signal_ends_an_agent_that_does_not_listen(place: Place) -> None:
    with place.started("x", "--output", "events", odd="never-listens") as process:
        read_until(process, '"event":"message"')
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        # In a session of the host a line may come before: how long it is kept.
        assert any("cancelling the turn" in process.stderr.readline() for _ in range(2))
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=SECONDS)
    assert process.returncode == 130
    assert time.monotonic() - started < 4, "neither the agent's time to answer nor its time to end is waited for"
    assert '"exit_code":130' in out


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_before_there_is_a_turn_ends_at_once(number: signal.Signals, code: int, place: Place) -> None:
    place.name_agent(f"waiting-{code}")
    with place.started("x", "--output", "json", odd="never-initializes") as process:
        wait_for_agent(place, is_there=True)
        process.send_signal(number)
        out, err = process.communicate(timeout=SECONDS)
    assert process.returncode == code, err
    result = Done(code, out, "").result
    assert result["error"]["kind"] == ("cancelled" if code == 130 else "terminated")
    assert result["agent"]["command"][-1] == "never-initializes"
    wait_for_agent(place, is_there=False)


def wait_for_agent(place: Place, *, is_there: bool) -> None:
    """Waits until the agent of this place runs, whoever started it, or does not."""
    end = time.monotonic() + SECONDS
    while is_there != any(str(place.agent) in line and "-m dragoman" not in line for line in command_lines()):
        assert time.monotonic() < end
        os.sched_yield()


def command_lines() -> Iterator[str]:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has just ended
            yield file.read_bytes().replace(b"\0", b" ").decode(errors="replace")


def test_a_session_to_continue_that_does_not_exist_is_2(plain_place: Place) -> None:
    done = plain_place.run("-a", "scripted", "x", "--resume", "last", "--output", "json")
    assert (done.code, done.result["error"]["kind"]) == (2, "usage")
    assert "this agent has no session in" in done.result["error"]["message"]
