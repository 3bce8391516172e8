"""`dragoman serve` as a program: its log in JSON, its audit log while it runs and after it was killed, its metrics."""

from __future__ import annotations

import json
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

from dragoman.cli.main import main
from tests.cli.test_serve import DRAGOMAN, SECONDS, Home

WORDS = "the-words-of-a-prompt"


def test_who_did_what_is_printed_while_the_host_runs_and_after_it_was_killed(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    url = f"unix:{tmp_path}/s"
    words = ("--listen", url, "--listen", "127.0.0.1:0", "-a", "scripted", "--deny", "delete:**")
    audit = home.serve_folder / "audit"
    assert home.run("serve", "audit").code == 2
    follower = subprocess.Popen(
        [*DRAGOMAN, "serve", "audit", "--follow", "--json", "--kind", "answer", "--kind", "turn_ended"],
        cwd=home.project,
        env=home.environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    operator = home.run("serve", "token", "add", "operator", "--right", "view", "--right", "admin").out.strip()
    try:
        with home.serving(*words, "--log-format", "json") as (process, _):
            assert process.stdout is not None
            assert process.stderr is not None
            address = process.stdout.readline().strip().replace("ws://", "http://").replace("/acp", "/metrics")
            assert home.run("exec", "--url", url, f"permission {WORDS}").code == 0
            assert follower.stdout is not None
            followed = json.loads(follower.stdout.readline())  # written while this waits
            assert json.loads(follower.stdout.readline())["outcome"] == "end_turn"
            request = urllib.request.Request(address, headers={"Authorization": f"Bearer {operator}"})
            with urllib.request.urlopen(request, timeout=SECONDS) as answer:
                metrics = answer.read().decode()
            running = home.run("serve", "audit", "--json")
            process.kill()
            process.wait(SECONDS)
            log = process.stderr.read()
    finally:
        follower.terminate()
        follower.communicate(timeout=SECONDS)
    assert 'dragoman_audit_ok{host="' in metrics
    assert 'dragoman_agents_most{host="' in metrics
    assert 'dragoman_turns_ended_total{host="' in metrics
    assert 'agent="scripted",outcome="end_turn"} 1' in metrics
    # While it ran
    records = [json.loads(line) for line in running.out.splitlines()]
    by_kind = {record["kind"]: record for record in records}
    assert {"connected", "request", "prompt", "answer", "turn_ended"} <= by_kind.keys()
    assert (followed["by"], followed["action"], followed["rule"]) == ("rule", "deny", "delete:**")
    assert by_kind["answer"]["hash"] == followed["hash"]
    assert by_kind["prompt"]["session"] == followed["session"] == by_kind["request"]["session"]
    # Its log: JSON, with names and without texts
    lines: list[dict[str, Any]] = [json.loads(line) for line in log.splitlines()]
    assert all({"time", "level", "event"} <= line.keys() for line in lines)
    [prompt] = [line for line in lines if line["event"] == "prompt"]
    assert (prompt["user"], prompt["agent"], prompt["session"]) == ("local", "scripted", followed["session"])
    assert prompt["request"] == by_kind["prompt"]["request"] != ""
    assert WORDS not in log
    assert operator not in log + running.out
    # After it was killed
    assert [json.loads(line) for line in home.run("serve", "audit", "--json").out.splitlines()][
        : len(records)
    ] == records
    filtered = home.run("serve", "audit", "--since", "1h", "--user", "local", "--kind", "prompt")
    assert filtered.out.count("\n") == 1
    assert main(["audit", "verify", str(audit)]) == 0
    # After it was changed
    [file] = audit.glob("audit-*.jsonl")
    kept = file.read_text().splitlines(keepends=True)
    file.write_text("".join(line for line in kept if '"kind":"prompt"' not in line))
    changed = home.run("serve", "audit", "--json")
    assert changed.code == 8
    assert "the log was changed" in changed.err
    assert main(["audit", "verify", str(audit)]) == 8


def test_a_time_that_is_none_is_refused(tmp_path: Path) -> None:
    home = Home(tmp_path)
    done = home.run("serve", "audit", "--since", "yesterday")
    assert (done.code, "is not a time" in done.err) == (2, True)
    done = home.run("serve", "--audit-days", "no", "--listen", "127.0.0.1:0", "-a", "scripted")
    assert (done.code, "--audit-days takes" in done.err) == (2, True)
