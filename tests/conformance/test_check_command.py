"""`dragoman check`: what it prints, what it writes, how it ends."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dragoman.cli import exits
from dragoman.cli.main import main
from dragoman.conformance.case import load_cases
from tests.arriving import read_to_end

Captured = pytest.CaptureFixture[str]
SCRIPTED = ("--", sys.executable, "-m", "dragoman.testing.scripted_agent")
# Answers initialize with a version that was not asked for; the smallest agent that breaks a MUST.
WRONG = """
import json, sys
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request:
        print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": {"protocolVersion": 7}}), flush=True)
"""


def check(*words: str) -> int:
    return main(["check", *words])


def test_agent_that_conforms_ends_with_0_and_a_summary(capsys: Captured) -> None:
    assert check("agent", "--only", "prompt,cancel/streaming", *SCRIPTED) == exits.OK
    out, err = capsys.readouterr()
    assert out.splitlines()[-1].startswith("ACP v1: 15 passed, 0 failed, 0 warnings")
    assert err.startswith("check: 0/15\n")


def test_agent_that_breaks_a_must_ends_with_8_and_the_evidence(capsys: Captured) -> None:
    command = ("--", sys.executable, "-c", WRONG)
    assert check("agent", "--only", "initialize/version-echo", *command) == exits.CHECK_FAILED
    out, _ = capsys.readouterr()
    assert "version 1 was requested, 7 answered" in out
    assert "rule 38" in out


def test_files_and_json_are_written_together(capsys: Captured, tmp_path: Path) -> None:
    junit, page = tmp_path / "r.xml", tmp_path / "r.html"
    words = ("--only", "initialize/version-echo", "--junit", str(junit), "--html", str(page), "--json")
    assert check("agent", *words, *SCRIPTED) == exits.OK
    document = json.loads(capsys.readouterr().out)
    assert document["counts"]["pass"] == 1
    assert document["subject"]["info"]["name"] == "dragoman-scripted"
    assert ElementTree.parse(junit).getroot().attrib["tests"] == "1"
    assert page.read_text().startswith("<!doctype html>")


def test_badge_is_one_line(capsys: Captured) -> None:
    assert check("agent", "--badge", "--only", "initialize/version-echo", *SCRIPTED) == exits.OK
    assert capsys.readouterr().out == "ACP v1: 1 passed, 0 failed, 0 warnings\n"


def test_prompts_of_a_file_are_used(capsys: Captured, tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.toml"
    prompts.write_text('say = "stop refusal"\nplan = ""\n')
    words = ("--preset", "scripted", "--prompts", str(prompts), "--only", "prompt/stop-reason,updates/plan", "--json")
    assert check("agent", *words, *SCRIPTED) == exits.OK
    results = {result["id"]: result for result in json.loads(capsys.readouterr().out)["results"]}
    assert results["agent/prompt/stop-reason"]["status"] == "pass"
    assert results["agent/updates/plan"]["status"] == "inconclusive"


@pytest.mark.parametrize("what", ["agent", "client"])
def test_list_has_one_line_a_case(what: str, capsys: Captured) -> None:
    assert check(what, "--list") == exits.OK
    lines = capsys.readouterr().out.splitlines()
    ids = [case.id for case in load_cases("agent" if what == "agent" else "client")]
    assert [line.split()[0] for line in lines[1:]] == ids
    assert check(what, "--list", "--json") == exits.OK
    assert [case["id"] for case in json.loads(capsys.readouterr().out)] == ids


def test_explanation_has_what_is_sent_what_is_expected_and_the_rules(capsys: Captured) -> None:
    assert check("--explain", "agent/load/response-last") == exits.OK
    out = capsys.readouterr().out
    assert "expects no message of the history after the answer" in out
    assert "107  MUST, agent: respond to session/load only after all history was streamed" in out
    assert check("agent", "--explain", "passive/25", "--json") == exits.OK
    assert json.loads(capsys.readouterr().out)["texts"] == {"25": "every request gets exactly one response"}


def test_recording_is_judged_on_both_sides(capsys: Captured, tmp_path: Path) -> None:
    recording = tmp_path / "talk.jsonl"
    lines: list[dict[str, object]] = [
        {"dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 1}}},
        {"dir": "a2c", "raw": "Loading..."},
        {"dir": "a2c", "msg": {"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": 1}}},
    ]
    recording.write_text("".join(json.dumps({"t": n / 10, **line}) + "\n" for n, line in enumerate(lines)))
    assert check("trace", str(recording)) == exits.CHECK_FAILED
    out = capsys.readouterr().out
    assert "passive/6" in out
    assert "the agent: " in out
    assert "the client: message 1: clientInfo is missing" in out
    header, last = out.splitlines()[1], out.splitlines()[-1]
    assert header == "the agent broke 1 rule, 1 warning; the client broke 0 rules, 1 warning; 3 messages"
    assert last.startswith(f"ACP v1: {header}")


def test_one_side_of_a_recording_can_be_judged_alone(capsys: Captured, tmp_path: Path) -> None:
    recording = tmp_path / "talk.jsonl"
    lines = [
        {"dir": "c2a", "msg": {"jsonrpc": "2.0", "id": 1, "method": "craft/hello", "params": {}}},
        {"dir": "a2c", "msg": {"jsonrpc": "2.0", "id": 1, "result": {}}},
    ]
    recording.write_text("".join(json.dumps({"t": n / 10, **line}) + "\n" for n, line in enumerate(lines)))
    assert check("trace", str(recording), "--side", "agent") == exits.OK
    assert "the client" not in capsys.readouterr().out
    assert check("trace", str(recording), "--side", "client") == exits.CHECK_FAILED
    assert "the client broke 1 rule" in capsys.readouterr().out
    assert check("trace", str(recording), "--side", "both", "--json") == exits.CHECK_FAILED
    document = json.loads(capsys.readouterr().out)
    assert document["sides"] == {"agent": {"fail": 0, "warn": 0}, "client": {"fail": 1, "warn": 0}}
    assert document["notes"] == 1
    check("trace", str(recording), "--notes")
    out = capsys.readouterr().out
    assert "Notes: seen, and not proven to be wrong" in out
    assert "the agent: message 2: craft/hello is not in the protocol, yet the answer is not -32601" in out


def test_badge_is_all_that_is_printed_but_for_progress_on_a_terminal() -> None:
    words = [sys.executable, "-m", "dragoman", "check", "agent", "--badge", "--only", "initialize/version*", *SCRIPTED]
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=60)
        os.close(theirs)
        shown = read_to_end(ours)
    finally:
        os.close(ours)
    assert done.stdout == b"ACP v1: 3 passed, 0 failed, 0 warnings\n"
    assert shown.startswith("\r\x1b[K0/3")
    assert "3/3  3 passed  agent/initialize/version-" in shown
    assert shown.endswith("\r\x1b[K")
    elsewhere = subprocess.run(words, capture_output=True, check=True, timeout=60)
    assert elsewhere.stderr == b""


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("agent",), exits.USAGE, "needs the program"),
        (("agent", "--only", "nothing", *SCRIPTED), exits.USAGE, "no case is called"),
        (("agent", "--explain", "agent/cancel/streeming"), exits.USAGE, "did you mean agent/cancel/streaming?"),
        ((), exits.USAGE, "agent, client or trace"),
        (("agent", "--timeout", "soon", *SCRIPTED), exits.USAGE, "--timeout must be a number"),
        (("agent", "--preset", "unheard-of", *SCRIPTED), exits.USAGE, "no preset is called"),
        (("agent", "--prompts", "/no/such/file", *SCRIPTED), exits.USAGE, "/no/such/file"),
        (("agent", "session.jsonl", *SCRIPTED), exits.USAGE, "takes no file"),
        (("trace",), exits.USAGE, "needs a recording"),
        (("server",), exits.USAGE, "invalid choice"),
        (("agent", "--", "/no/such/program"), exits.AGENT_DIED, "/no/such/program"),
        (("agent", "--", sys.executable, "-c", "raise SystemExit('out of order')"), exits.AGENT_DIED, "out of order"),
    ],
)
def test_mistake_ends_with_its_code_and_states_what_to_do(
    words: tuple[str, ...], code: int, message: str, capsys: Captured
) -> None:
    assert check(*words) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
