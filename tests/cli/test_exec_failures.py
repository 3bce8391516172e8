"""What `dragoman exec` makes of a turn that failed: an empty one, an error with its cause, a timeout, another try."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from dragoman.cli.exec.activity import Activity
from dragoman.cli.exec.cause import cause_of
from dragoman.cli.exec.exit_code import RunFacts
from dragoman.cli.exec.retry import may_pass, wait_seconds
from dragoman.errors import AgentExited, AuthRequired, ConfigError, RequestError
from dragoman.schema import v1
from dragoman.state import SessionState, fold
from tests.cli.exec_kit import Place
from tests.cli.step_kit import play, script, tool, tries
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]

USAGE = {"totalTokens": 12, "inputTokens": 10, "outputTokens": 2}


@pytest.mark.parametrize(
    ("steps", "code"),
    [
        ([], 6),
        ([["say", " \n"]], 6),
        ([["update", {"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}]], 6),
        ([["update", {"sessionUpdate": "session_info_update", "title": "A title"}]], 6),
        ([["answer", {"stopReason": "end_turn", "usage": {**USAGE, "totalTokens": 0}}]], 6),
        ([["say", "hi"]], 0),
        ([tool(status="completed")], 0),
        ([["answer", {"stopReason": "end_turn", "usage": USAGE}]], 0),
        ([["update", {"sessionUpdate": "usage_update", "used": 5, "size": 10}]], 0),
    ],
    ids=["nothing", "space", "thought", "title", "no-tokens", "text", "tool", "usage", "context"],
)
def test_a_turn_that_ends_without_any_answer_is_not_a_success(steps: list[Any], code: int, place: Place) -> None:
    done = play(place, steps, "--output", "json")
    assert done.code == code, done.err
    if code:
        assert done.result["stop_reason"] == "end_turn"
        assert "without an answer" in done.result["error"]["message"]
        assert "without an answer" in done.err


@pytest.mark.parametrize(
    ("data", "cause"),
    [
        ({"details": "Invalid Mode", "message": "other"}, "Invalid Mode"),
        ({"code": 7, "message": "mock failure"}, "mock failure"),
        ({"uri": "/x"}, "/x"),
        ("no/such_method", "no/such_method"),
        ({"message": '{"type": "error", "error": {"code": 400, "message": "mock failure"}}'}, "mock failure"),
        ({"_errors": [], "prompt": {"_errors": ["expected array"]}}, "expected array"),
        ({"errorKind": "unknown"}, None),
        ({"errorKind": "unknown", "inner": ["quota\n exceeded"]}, "quota exceeded"),
        (None, None),
        (7, None),
    ],
)
def test_the_cause_of_an_error_is_found_in_the_forms_that_agents_use(data: Any, cause: str | None) -> None:
    assert cause_of(data) == cause


def test_the_cause_of_an_endless_document_is_bounded() -> None:
    nested: Any = "deep"
    for _ in range(100):
        nested = [nested]
    assert cause_of(nested) is None
    assert len(cause_of("x" * 10_000) or "") == 500


def test_an_internal_error_shows_its_cause_and_the_end_of_stderr(place: Place) -> None:
    error = {"code": -32603, "message": "Internal error", "data": {"details": "quota exceeded"}}
    done = play(place, [["stderr", "loading\nHTTP 402\n"], ["error", error]], "--output", "json")
    assert done.code == 1
    found = done.result["error"]
    assert found["message"] == "Internal error: quota exceeded (-32603)"
    assert (found["cause"], found["code"]) == ("quota exceeded", -32603)
    assert found["stderr_tail"] == "loading\nHTTP 402\n"
    assert "Internal error: quota exceeded" in done.err
    assert "    HTTP 402\n" in done.err


def test_another_error_does_not_show_stderr(place: Place) -> None:
    error = {"code": 400, "message": "Bad Request: no such model", "data": "no such model"}
    done = play(place, [["stderr", "loading\n"], ["error", error]], "--output", "json")
    assert done.result["error"]["message"] == "Bad Request: no such model (400)"
    assert done.result["error"]["stderr_tail"] is None


@pytest.mark.parametrize(
    ("seconds", "more", "what", "name", "words"),
    [
        ("1", {"never": "initialize"}, "start", None, "waiting for the agent to start"),
        ("4", {}, "tool", "execute: make", "waiting for a tool: execute: make"),
    ],
    ids=["start", "tool"],
)
def test_a_timeout_names_what_was_waited_for(
    seconds: str, more: dict[str, Any], what: str, name: str | None, words: str, place: Place
) -> None:
    call = tool(title="execute", kind="execute", rawInput={"command": "make"})
    done = play(place, [call, ["await", "session/cancel"]], "--timeout", seconds, "--output", "json", **more)
    assert done.code == 3
    assert done.result["error"]["waiting_for"] == {"what": what, "name": name}
    assert words in done.result["error"]["message"]
    assert words in done.err


def test_what_a_run_waits_for_follows_from_its_step_and_its_state() -> None:
    activity, state = Activity(), SessionState()
    assert activity.now(None) == ("start", "")
    activity.enter("opening")
    assert activity.now(None) == ("session", "")
    activity.enter("working")
    state.begin_turn([v1.TextContent("x")])
    assert activity.now(state) == ("model", "")
    assert activity.now(state, "a\nAttempt 1 failed with status 429.\n") == (
        "retry",
        "Attempt 1 failed with status 429.",
    )
    thought = v1.AgentThoughtChunk(v1.TextContent("large is busy: next try in 2 s (1 of 5)\n"))
    activity.note_update(thought)
    assert activity.now(state).what == "retry"
    activity.note_update(v1.AgentMessageChunk(v1.TextContent("hello")))
    assert activity.now(state).what == "model"
    fold(state, v1.ToolCall("t", "Reading", kind="read", status="in_progress"))
    assert activity.now(state) == ("tool", "read: Reading")
    activity.asking = "edit: a.txt"
    assert activity.now(state).phrase == "an answer to a permission request: edit: a.txt"


BUSY = {"code": -32603, "message": "Internal error", "data": {"details": "529 overloaded"}}


@pytest.mark.parametrize(
    "failure", [[["error", BUSY]], [], [["say", "half"], ["exit", 3]]], ids=["busy", "empty", "died"]
)
def test_a_failure_that_may_pass_is_tried_again(failure: list[Any], plain_place: Place) -> None:
    done = plain_place.run(
        "x", "--retries", "2", "--output", "json", odd=script(plain_place, failure, [["say", "done"]])
    )
    assert done.code == 0, done.err
    assert done.result["text"] == "done"
    [retry] = done.result["retries"]
    assert retry["waited_ms"] == 500
    assert tries(plain_place) == 2
    assert "trying again in 0.5 s (1 of 2)" in done.err


def test_every_try_may_fail_and_the_last_failure_counts(plain_place: Place) -> None:
    done = plain_place.run(
        "x", "--retries", "1", "--output", "events", "--record", "run.trace", odd=script(plain_place, [["error", BUSY]])
    )
    assert done.code == 1
    kinds = [event["event"] for event in done.events]
    first = ["starting", "initialized", "session"]
    assert kinds == [*first, "retry", *first, "result"]
    assert tries(plain_place) == 2
    assert (plain_place.project / "run.trace").exists()
    assert (plain_place.project / "run.trace.retry-1").exists()


@pytest.mark.parametrize(
    "steps",
    [
        [tool(kind="edit", status="in_progress"), ["error", BUSY]],
        [tool(kind="other", status="failed"), ["error", BUSY]],
        [["ask", "fs/write_text_file", {"path": "new.txt", "content": "made"}], ["error", BUSY]],
        [["error", {"code": -32602, "message": "Invalid params: 503"}]],
        [["error", {"code": -32603, "message": "Internal error", "data": "no such model"}]],
    ],
    ids=["edit", "unknown-tool", "write", "lasting-code", "lasting-words"],
)
def test_a_turn_that_may_have_changed_something_or_cannot_succeed_is_not_repeated(
    steps: list[Any], place: Place
) -> None:
    written = json.loads(json.dumps(steps).replace("new.txt", str(place.project / "new.txt")))
    words = ("x", "--retries", "3", "--allow", "edit", "--output", "json")
    done = place.run(*words, odd=script(place, written))
    assert done.code == 1, done.err
    assert (done.result["retries"], tries(place)) == ([], 1)


def test_a_turn_that_only_read_is_repeated(plain_place: Place) -> None:
    failure = [tool(kind="read", status="completed"), ["error", BUSY]]
    assert plain_place.run("x", "--retries", "1", odd=script(plain_place, failure, [["say", "done"]])).out == "done\n"


def test_no_retry_begins_after_the_end_of_the_time(place: Place) -> None:
    busy = {**BUSY, "data": "503, retry after 100 s"}
    started = time.monotonic()
    done = place.run("x", "--retries", "5", "--timeout", "20", odd=script(place, [["error", busy]]))
    assert (done.code, tries(place)) == (1, 1)
    assert time.monotonic() - started < 15


@pytest.mark.parametrize("text", ["-1", "x", "1.5", "1000"])
def test_a_wrong_number_of_retries_is_refused(text: str, plain_place: Place) -> None:
    done = plain_place.run("x", f"--retries={text}", odd="plain")
    assert done.code == 2
    assert "--retries takes a number" in done.err


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (RequestError(429, "slow down"), True),
        (RequestError(-32603, "socket hang up"), True),
        (RequestError(-32603, "Internal error", {"details": "API Error: 400 mock failure"}), False),
        (RequestError(400, "Bad Request"), False),
        (AuthRequired("503"), False),
        (AgentExited(1), True),
        (ConfigError("503"), False),
    ],
)
def test_which_errors_may_pass(error: Exception, expected: bool) -> None:
    assert may_pass(RunFacts(), error) is expected
    assert not may_pass(RunFacts(signal=2), error)
    assert not may_pass(RunFacts(is_timed_out=True), error)


def test_waits_grow_and_a_time_that_the_server_names_counts() -> None:
    assert [wait_seconds(number, None) for number in (1, 2, 3, 20)] == [0.5, 1.0, 2.0, 30.0]
    assert wait_seconds(1, RequestError(429, "rate limited, retry after 7s")) == 7.0
    assert wait_seconds(1, RequestError(429, "try again in 99999 s")) == 0.5
