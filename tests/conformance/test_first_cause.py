"""What `dragoman check agent` prints for small agents that are wrong in one way: the cause, soon, and nothing else.

Real programs in real processes; `agents/odd_agent.py` has what is wrong with each.
"""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli import exits
from tests.arriving import read_to_end

ODD = Path(__file__).parent / "agents" / "odd_agent.py"
PROMPTS = 'say = "say"\nslow = "slow"\nask = "ask {file}"\n'
CHECK = (sys.executable, "-m", "dragoman", "check", "agent")


def agent(oddity: str) -> tuple[str, ...]:
    return ("--", sys.executable, str(ODD), *([oddity] if oddity else []))


def check(*words: str, timeout: float = 60.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*CHECK, *words), capture_output=True, text=True, timeout=timeout, check=False)


def report(tmp_path: Path, oddity: str, *words: str) -> dict[str, Any]:
    prompts = tmp_path / "prompts.toml"
    prompts.write_text(PROMPTS)
    done = check("--json", "--timeout", "5", "--prompts", str(prompts), *words, *agent(oddity))
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def statuses(found: dict[str, Any]) -> dict[str, str]:
    return {each["id"]: each["status"] for each in found["results"] if each["status"] in ("fail", "error", "warn")}


@pytest.mark.parametrize(
    ("oddity", "id", "seen"),
    [
        ("only-initialize", "agent/session/new", "no answer to session/new within 5 s"),
        ("several-lines", "passive/5", "a message was written on several lines"),
        ("banner", "passive/6", "1 lines are not messages, the first line is 'Welcome to Odd Agent 1.0!'"),
        ("dies", "agent/prompt/stop-reason", "the connection ended"),
    ],
)
def test_agent_without_a_plain_turn_is_one_finding_with_its_cause(oddity: str, id: str, seen: str) -> None:
    done = check("--timeout", "5", *agent(oddity))
    assert done.returncode == exits.CHECK_FAILED
    lines = done.stdout.splitlines()
    assert lines[1].startswith("Stopped: the agent does not get through a plain turn")
    assert len(lines) < 20
    assert id in done.stdout
    assert seen in done.stdout
    assert "1 failed, 0 warnings" in lines[-1]


def test_client_that_sends_no_prompt_cannot_be_judged_and_learns_why(tmp_path: Path) -> None:
    script = tmp_path / "client.sh"
    script.write_text(
        'printf \'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\\n\' | "$1"\n'
    )
    words = (*CHECK[:4], "client", "--timeout", "5", "--", "sh", str(script))
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == exits.AGENT_DIED
    assert "the client does not get through a plain turn" in done.stderr
    assert "it has to open a session and send one prompt" in done.stderr


def test_all_cases_run_if_asked_for_although_the_plain_turn_fails() -> None:
    done = check("--timeout", "0.2", "--keep-going", "--only", "initialize/answers,session/new", *agent("banner"))
    assert "Stopped" not in done.stdout
    assert "agent/initialize/answers" in done.stdout


def test_findings_of_one_cause_are_shown_once_with_the_others_named() -> None:
    only = "session/new,session/unique-ids,session/meta-ignored"
    done = check("--timeout", "5", "--only", only, *agent("only-initialize"))
    assert done.stdout.count("no answer to session/new within") == 1
    assert "also in   2 others: agent/session/" in done.stdout
    assert "3 failed" in done.stdout


def test_budget_ends_the_run_and_reports_what_was_found() -> None:
    done = check("--budget", "2", "--timeout", "60", "--only", "session,prompt", *agent("only-initialize"))
    assert done.returncode == exits.TIMED_OUT
    assert "Stopped: the time budget of 2 s is used up." in done.stdout
    assert "not run" in done.stdout.splitlines()[-1]


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signal_ends_the_run_and_reports_what_was_found(number: signal.Signals, code: int) -> None:
    words = (*CHECK, "--timeout", "60", "--only", "authentication/method-shape,session/new", "--jobs", "1")
    running = subprocess.Popen(
        (*words, *agent("only-initialize")), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert running.stderr is not None
    progress = running.stderr.readline() + running.stderr.readline()
    assert "1/2  1 other" in progress
    running.send_signal(number)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == code
    assert f"Stopped: ended by {number.name}. 1 cases were not run." in out
    assert "0 passed, 0 failed, 0 warnings, 1 skipped, 1 not run" in out


def test_progress_shows_counts_in_plain_lines_where_there_is_no_terminal() -> None:
    done = check("--only", "initialize", "--timeout", "5", *agent(""))
    assert "check: 0/" in done.stderr
    assert " passed" in done.stderr
    assert "\x1b" not in done.stderr
    assert check("--badge", "--only", "initialize", *agent("")).stderr == ""


def test_progress_shows_counts_in_one_line_on_a_terminal() -> None:
    ours, theirs = pty.openpty()
    words = (*CHECK, "--badge", "--only", "initialize/version*", *agent(""))
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=theirs):
        os.close(theirs)
        shown = read_to_end(ours)
    os.close(ours)
    assert "3/3  3 passed  agent/initialize/version-" in shown


def test_agent_is_only_warned_for_what_the_judge_provoked(tmp_path: Path) -> None:
    found = report(tmp_path, "believes", "--only", "session/params*,list,options", "--jobs", "1")
    assert [id for id, status in statuses(found).items() if status == "fail"] == []
    assert statuses(found)["agent/session/params-missing"] == "warn"
    assert statuses(found)["agent/options/unknown-value"] == "warn"


def test_same_mistakes_that_nothing_provoked_fail(tmp_path: Path) -> None:
    found = report(tmp_path, "own-methods", "--only", "prompt/stop-reason")
    assert statuses(found)["passive/331"] == "fail"
    [finding] = [each for each in found["results"] if each["id"] == "passive/331"]
    assert finding["count"] >= 2


def test_what_is_printed_after_the_end_of_input_is_read(tmp_path: Path) -> None:
    found = report(tmp_path, "goodbye", "--only", "session/new")
    assert statuses(found) == {"passive/6": "fail"}


def test_tool_that_runs_although_it_was_rejected_is_a_failure(tmp_path: Path) -> None:
    found = report(tmp_path, "runs-anyway", "--only", "permission/rejected,permission/not-decided")
    assert statuses(found) == {"agent/permission/rejected": "fail", "agent/permission/not-decided": "fail"}
    assert statuses(report(tmp_path, "", "--only", "permission/rejected,permission/not-decided")) == {}


def test_finding_of_a_case_is_not_repeated_as_a_watched_rule(tmp_path: Path) -> None:
    found = report(tmp_path, "believes", "--only", "options/unknown-value")
    assert "agent/options/unknown-value" in statuses(found)
    assert "passive/166" not in statuses(found)
