"""The forms of `dragoman exec`: text, json, events and raw, each as a script reads it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from typing import Any

import jsonschema
import pytest

from tests.cli.exec_kit import SECONDS, Place, read_until
from tests.cli.ways import place, plain_place, shared_host

__all__ = ["place", "plain_place", "shared_host"]


def schema(place: Place, *words: str) -> dict[str, Any]:
    """The schema that the command prints; the same wherever it runs, so it is asked for once."""
    if words not in _SCHEMAS:
        done = place.run("--schema", *words)
        assert done.code == 0
        _SCHEMAS[words] = json.loads(done.out)
        jsonschema.Draft202012Validator.check_schema(_SCHEMAS[words])
    return _SCHEMAS[words]


_SCHEMAS: dict[tuple[str, ...], dict[str, Any]] = {}


def test_text_is_the_last_message(place: Place) -> None:
    done = place.run("x", "-q", odd="talks-while-working")
    assert (done.code, done.out) == (0, "It is done.\n")
    # Nothing else is said, but that a session of the host is kept for a while only.
    assert [line for line in done.err.splitlines() if "cannot bring a session back" not in line] == []


def test_json_has_every_message_too(place: Place) -> None:
    result = place.run("x", "--output", "json", odd="talks-while-working").result
    assert result["text"] == "It is done."
    assert result["messages"] == ["Let me look.", "It is ", "done."]


def test_a_turn_without_text_prints_nothing(place: Place) -> None:
    assert place.run("-a", "scripted", "usage").out == ""


def test_text_received_before_a_failure_is_printed(place: Place) -> None:
    done = place.run("-a", "scripted", "crash")
    assert (done.code, done.out) == (4, "goodbye\n")


@pytest.mark.parametrize(
    "run",
    [
        (("say hi",), "scripted", 0),
        (("plan",), "scripted", 0),
        (("permission",), "scripted", 5),
        (("permission", "--allow", "delete"), "scripted", 0),
        (("terminal echo hi", "--allow", "execute"), "scripted", 0),
        (("fs", "--allow", "edit"), "scripted", 0),
        (("content",), "scripted", 0),
        (("unknown",), "scripted", 0),
        (("usage",), "scripted", 0),
        (("stop refusal",), "scripted", 6),
        (("error",), "scripted", 1),
        (("crash",), "scripted", 4),
        (("x",), "wants-login", 7),
        (("x",), "dies-in-initialize", 4),
        (("x", "--timeout", "0.4"), "never-initializes", 3),
        (("x", "--image", "none"), "plain", 2),
    ],
    ids=lambda run: " ".join((*run[0], run[1])),
)
def test_every_result_and_event_fits_the_schema(run: tuple[tuple[str, ...], str, int], place: Place) -> None:
    words, agent, code = run
    odd = None if agent == "scripted" else agent
    more = ("-a", "scripted") if odd is None else ()
    done = place.run(*words, *more, "--output", "json", odd=odd)
    assert done.code == code, done.err
    jsonschema.Draft202012Validator(schema(place)).validate(done.result)
    events = place.run(*words, *more, "--output", "events", odd=odd)
    assert events.code == code
    validator = jsonschema.Draft202012Validator(schema(place, "--output", "events"))
    for event in events.events:
        validator.validate(event)
    assert [event["event"] for event in events.events].count("result") == 1
    assert events.events[-1]["event"] == "result"
    assert set(events.events[-1]["result"]) == set(done.result)


def test_the_schema_refuses_a_document_that_is_not_a_result(plain_place: Place) -> None:
    result = plain_place.run("-a", "scripted", "say hi", "--output", "json").result
    found = schema(plain_place)
    for wrong in ({**result, "exit_code": "0"}, {**result, "schema": "other"}, {"text": "hi"}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, found)
    missing = dict(result)
    del missing["permissions"]
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(missing, found)


def test_json_has_the_members_scripts_rely_on(place: Place) -> None:
    result = place.run("-a", "scripted", "tool", "--output", "json").result
    assert list(result) == [
        "schema",
        "exit_code",
        "error",
        "text",
        "messages",
        "lost_characters",
        "stop_reason",
        "session_id",
        "agent",
        "scripted",
        "usage",
        "tool_calls",
        "files_changed",
        "permissions",
        "duration_ms",
        "dangerously_allow_all",
        "violations",
        "unjudged",
        "project_code",
        "sandbox",
        "commands",
        "durations",
        "retries",
        "patch",
        "changes",
        "kept_seconds",
    ]
    assert result["schema"] == "dragoman.exec.result/1"
    assert result["agent"]["name"] == "scripted"
    [call] = result["tool_calls"]
    assert (call["title"], call["kind"], call["status"]) == ("Reading README.md", "read", "completed")
    assert call["locations"] == [{"path": str(place.project / "README.md"), "line": None}]


def test_scripted_is_true_only_for_the_scripted_agent(place: Place) -> None:
    assert place.run("-a", "scripted", "x", "--output", "json").result["scripted"] is True
    other = place.run("x", "--output", "json", odd="plain")
    assert other.result["scripted"] is False
    assert "scripted" not in other.err
    assert other.result["agent"]["name"] is None


def test_usage_is_what_the_agent_reported(place: Place) -> None:
    tokens = place.run("x", "--output", "json", odd="plain").result["usage"]
    assert (tokens["input_tokens"], tokens["output_tokens"], tokens["total_tokens"]) == (10, 2, 12)
    assert tokens["cost"] is None
    context = place.run("-a", "scripted", "usage", "--output", "json").result["usage"]
    assert (context["context_used"], context["context_size"]) == (1200, 200000)
    assert context["cost"] == {"amount": 0.0125, "currency": "USD"}


def test_changed_files_are_those_written_and_those_shown_by_completed_calls(place: Place) -> None:
    shown = place.run("x", "--output", "json", odd="shows-diffs").result["files_changed"]
    assert [(change["path"], change["change"], change["seen_by"]) for change in shown] == [
        (str(place.project / "a.txt"), "modified", ["tool_call"]),
        (str(place.project / "b.txt"), "created", ["tool_call"]),
    ]
    written = place.run("x", "--output", "json", "--allow", "edit:new.txt", odd="writes-unasked").result
    assert written["files_changed"] == [
        {"path": str(place.project / "new.txt"), "change": "created", "seen_by": ["workspace"]}
    ]
    assert (place.project / "new.txt").read_text() == "made\n"


def test_a_write_that_is_not_allowed_does_not_happen(place: Place) -> None:
    done = place.run("x", "--output", "json", odd="writes-unasked")
    assert done.code == 5
    assert not (place.project / "new.txt").exists()
    assert done.result["files_changed"] == []
    [decision] = done.result["permissions"]
    assert (decision["kind"], decision["action"], decision["decided_by"]) == ("edit", "cancelled", "nobody")


def test_events_follow_the_turn_in_order(place: Place) -> None:
    events = place.run("x", "--output", "events", odd="talks-while-working").events
    assert [event["event"] for event in events] == [
        "starting",
        "initialized",
        "session",
        "message",
        "tool_call",
        "thought",
        "message",
        "thought",
        "message",
        "result",
    ]
    assert events[0]["schema"] == "dragoman.exec.event/1"
    assert events[3]["text"] == "Let me look."


def test_events_of_a_command_show_its_output_and_the_permission(place: Place) -> None:
    done = place.run("-a", "scripted", "terminal echo forty-two", "--allow", "execute", "--output", "events")
    assert done.code == 0, done.err
    kinds = [event["event"] for event in done.events]
    assert kinds.index("permission") < kinds.index("terminal") < kinds.index("result")
    output = "".join(event["output"] for event in done.events if event["event"] == "terminal")
    assert output == "forty-two\r\n"


def test_raw_is_the_conversation_both_ways(plain_place: Place) -> None:
    done = plain_place.run("x", "--output", "raw", odd="prints-noise")
    assert done.code == 0
    first, *_, last = done.out.splitlines()
    assert json.loads(first)["method"] == "initialize"
    assert json.loads(last)["result"]["stopReason"] == "end_turn"
    assert "Loading model weights..." in done.out.splitlines(), "noise is literal too"
    methods = [json.loads(line).get("method") for line in done.out.splitlines() if line.startswith("{")]
    assert methods.count("session/prompt") == 1


def test_noise_is_a_warning_and_not_in_the_answer(place: Place) -> None:
    done = place.run("x", odd="prints-noise")
    assert (done.code, done.out) == (0, "clean\n")
    [warning] = [line for line in done.err.splitlines() if line.startswith("dragoman: warning: ")]
    assert "Loading model weights..." in warning


def test_a_key_in_a_warning_is_masked(place: Place) -> None:
    place.environment["OPENAI_API_KEY"] = key = "sk-proj-0123456789"
    done = place.run(f"what is {key}?", odd="prints-the-prompt")
    assert done.code == 0
    assert "Read: what is [OPENAI_API_KEY]?" in done.err
    assert key not in done.err


@pytest.mark.parametrize("form", ["events", "raw"])
def test_a_reader_that_goes_away_ends_the_run(form: str, place: Place) -> None:
    with place.started("-a", "scripted", "flood 1000000", "--output", form) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.wait(SECONDS) == 141
        assert process.stderr is not None
        assert "Traceback" not in process.stderr.read()


def test_a_full_disk_is_an_error(plain_place: Place) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            plain_place.words("exec", "-a", "scripted", "say hi", "--output", "json"),
            cwd=plain_place.project,
            env=plain_place.environment,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    assert done.returncode == 2
    assert "No space left on device" in done.stderr


def test_a_recording_can_be_made_on_the_way(plain_place: Place) -> None:
    assert plain_place.run("x", "--record", "run.jsonl", odd="plain").code == 0
    replayed = plain_place.run("run.jsonl", "--stats", verb="inspect")
    assert replayed.code == 0, replayed.err
    assert "session/prompt" in replayed.out


def test_verbose_shows_what_happens_and_what_the_agent_logs(plain_place: Place) -> None:
    done = plain_place.run("-a", "scripted", "print from the agent", "-v")
    assert done.code == 6, "it writes to stderr alone, which is not an answer"
    assert "from the agent" in done.err
    done = plain_place.run("-a", "scripted", "plan", "-v")
    assert "Change" in done.err
    assert done.out == ""


def test_quiet_still_shows_every_decision(place: Place) -> None:
    done = place.run("-a", "scripted", "permission", "--allow", "delete", "-q")
    assert done.code == 0
    assert "allowed delete: Deleting everything" in done.err


@pytest.mark.alone
def test_after_the_answer_a_signal_only_hastens_the_end(plain_place: Place) -> None:
    with plain_place.started("x", "--output", "events", odd="lingers") as process:
        read_until(process, '"event":"result"')
        started = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=SECONDS)
    assert process.returncode == 0, "the result that was written stands"
    assert time.monotonic() - started < 1.8, "an agent that lingers is usually given two seconds and more"


def test_what_an_agent_leaves_running_is_gone_with_it(plain_place: Place) -> None:
    """The fixture looks for what is left, here two sleeps, one of them in a session of its own."""
    assert plain_place.run("x", odd="leaves-children").out == "started\n"


def test_a_key_in_the_environment_is_masked_whatever_an_agent_does_with_it(place: Place) -> None:
    place.environment["OPENAI_API_KEY"] = key = "sk-proj-0123456789"
    for form in ("text", "json", "events", "raw"):
        recording = place.project / f"{form}.trace"
        done = place.run("--output", form, "--record", str(recording), f"what is {key}?", odd="echoes")
        assert done.code == 0, done.err
        assert "what is [OPENAI_API_KEY]?" in done.out
        assert key not in done.out + done.err + recording.read_text()
        assert "what is [OPENAI_API_KEY]?" in recording.read_text()


def test_hidden_characters_are_escaped_in_the_result_and_its_value_is_the_same(place: Place) -> None:
    text = "a\u200bb\u2028c\u202ed\x85e"
    done = place.run(text, "--output", "json", odd="plain")
    assert done.result["text"] == text
    assert done.out.isascii()
