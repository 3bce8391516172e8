"""`dragoman eval` as a user runs it: real processes of the command, of `exec` and of the agent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dragoman.process import proctable
from tests.evaluation.test_tasks import host_task

PROGRAM = [sys.executable, "-m", "dragoman", "eval"]


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "DRAGOMAN_HOME": str(folder / "home"), "TMPDIR": str(folder), "DRAGOMAN_MODEL": ""}
    return subprocess.run(
        [*PROGRAM, *words], cwd=folder, env=env, capture_output=True, text=True, timeout=110, check=False
    )


def results_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def test_right_solutions_pass_and_everything_is_written_down(tmp_path: Path) -> None:
    names = ("where-is-the-limit", "release-refused")
    chosen = [word for name in names for word in ("--task", name)]
    done = run(tmp_path, "run", "--solution", "right", *chosen, "--jobs", "2", "-o", "out")
    assert done.returncode == 0, done
    assert "says nothing about any model" in done.stdout
    assert "Passed: 2 of 2 (100%, 95 % interval 34% to 100%)." in done.stdout
    found = results_in(tmp_path / "out")
    assert (found["schema"], found["is_scripted"], found["solution"]) == ("dragoman.eval.results/1", True, "right")
    question, release = found["runs"]
    assert (question["task"], question["facts"]["files_changed"]) == ("where-is-the-limit", [])
    facts = release["facts"]
    assert (facts["turns"], facts["model_calls"], facts["tool_calls"]) == (1, 9, 8)
    assert facts["permissions_refused"] == 2
    assert facts["permissions_asked"] == facts["permissions_allowed"] + 2
    assert facts["files_changed"] == ["CHANGELOG.md", "convert.py"]
    assert facts["tokens"]["total"] > 0
    assert (facts["cost"], facts["sandbox_refusals"]) == (None, None)
    assert 0 < facts["first_chunk_seconds"] < facts["seconds"]
    assert facts["cpu_seconds"] > 0
    assert facts["protocol_violations"] == []
    assert all((tmp_path / "out" / each["recording"]).exists() for each in found["runs"])
    assert "says nothing about any model" in (tmp_path / "out" / "report.html").read_text()
    assert list(tmp_path.glob("dragoman-eval-*")) == []
    again = run(tmp_path, "run", "--solution", "right", "-o", "out")
    assert (again.returncode, "there are results already" in again.stderr) == (2, True)
    compared = run(tmp_path, "compare", "out", "out", "--html", "compared.html")
    assert "0 of 2 paired runs differ" in compared.stdout
    assert (tmp_path / "compared.html").exists()


def test_a_process_that_the_turn_leaves_behind_fails_the_run_and_is_ended(tmp_path: Path) -> None:
    done = run(tmp_path, "run", "--solution", "wrong", "--task", "dev-server", "--json", "--keep", "-o", "out")
    assert done.returncode == 8, done
    [found] = json.loads(done.stdout)["runs"]
    failed = [check["name"] for check in found["checks"] if check["score"] < 1]
    assert failed == ["the server was stopped", "no process was left behind"]
    assert "devserver.py serve" in found["facts"]["processes_left"][0]
    assert (tmp_path / "out" / "work" / "dev-server-1" / "result.txt").exists()
    assert processes_with(str(tmp_path)) == []


def test_facts_that_another_agent_does_not_report_are_unknown(tmp_path: Path) -> None:
    # An agent of the user's settings; rules and everything else of them stay out.
    entry = {"command": sys.executable, "args": ["-m", "dragoman.testing.scripted_agent"]}
    settings = tmp_path / "home" / "config" / "settings.json"
    settings.parent.mkdir(parents=True)
    written = json.dumps({"agent_servers": {"mine": entry}, "default_agent": "gone"})
    settings.write_text(f"// as a user may write it\n{written}")
    done = run(tmp_path, "run", "--task", "where-is-the-limit", "-o", "out", "-a", "mine")
    assert done.returncode == 8, done
    facts = results_in(tmp_path / "out")["runs"][0]["facts"]
    assert (facts["model_calls"], facts["tokens"], facts["cost"]) == (None, None, None)
    assert (facts["turns"], facts["protocol_violations"]) == (1, [])
    assert "unknown" in done.stdout


def test_ctrl_c_leaves_no_process_and_a_partial_report(tmp_path: Path) -> None:
    for name in ("quick", "slow"):
        folder = host_task(tmp_path / "tasks" / name)
        (folder / "solution").mkdir()
        script = "say done\n" if name == "quick" else "run touch ../started\npause 100\n"
        (folder / "solution" / "script.txt").write_text(script)
    env = {**os.environ, "DRAGOMAN_HOME": str(tmp_path / "home"), "TMPDIR": str(tmp_path)}
    words = [*PROGRAM, "run", "--solution", "right", "--tasks", "tasks", "-o", "out"]
    with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        deadline = time.monotonic() + 60
        while not list(tmp_path.glob("dragoman-eval-*/sandbox/started")):
            assert time.monotonic() < deadline
            assert program.poll() is None
            time.sleep(0.02)
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=60)
        assert program.returncode == 130
    assert b"these are partial results" in out
    found = results_in(tmp_path / "out")
    assert found["is_partial"]
    assert [(each["task"], each["outcome"]) for each in found["runs"]] == [("quick", "passed"), ("slow", "interrupted")]
    assert (tmp_path / "out" / "report.html").exists()
    assert processes_with(str(tmp_path)) == []
    assert list(tmp_path.glob("dragoman-eval-*")) == []


def processes_with(words: str) -> list[str]:
    found = []
    for pid in proctable.pids():
        try:
            line = proctable.command_line(pid)
        except OSError:
            continue
        if words in line and pid != os.getpid():
            found.append(line)
    return found


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["run", "--runs", "0"], "--runs takes a whole number above 0"),
        (["run", "--time-factor", "no"], "--time-factor takes a number above 0"),
        (["run", "--solution", "right", "-a", "gemini"], "takes neither an agent nor a model"),
        (["run", "--env", "NO_SUCH_VARIABLE"], "this variable is not set"),
        (["list", "--runs", "2"], "eval list does not take --runs"),
        (["show"], "eval show takes TASK"),
        (["compare", "a"], "eval compare takes FOLDER FOLDER"),
        (["report", "gone"], "name a folder that dragoman eval run wrote"),
        (["show", "no-such-task"], "there is no task 'no-such-task'"),
    ],
)
def test_wrong_usage_is_explained(
    words: list[str], reason: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from dragoman.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path))
    assert main(["eval", *words]) == 2
    assert reason in capsys.readouterr().err


def test_tasks_are_listed_and_shown_with_what_they_lack(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    from dragoman.cli.main import main

    folder = host_task(tmp_path / "one", 'programs = ["no-such-program"]\n')
    assert main(["eval", "list", "--tasks", str(tmp_path)]) == 0
    assert "no: the program no-such-program is not on the PATH" in capsys.readouterr().out
    assert main(["eval", "show", "one", "--tasks", str(folder)]) == 0
    out = capsys.readouterr().out
    assert "cannot be run here:" in out
    assert "Count the words." in out


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_check_tasks_proves_every_judge_with_real_processes(tmp_path: Path) -> None:
    env = {**os.environ, "DRAGOMAN_HOME": str(tmp_path / "home")}
    words = [*PROGRAM, "check-tasks", "--jobs", "2", "--json"]
    done = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=880, check=False)
    assert done.returncode == 0, done.stderr
    proofs = json.loads(done.stdout)["proofs"]
    assert len(proofs) >= 18
    assert [each for each in proofs if each["faults"]] == []
