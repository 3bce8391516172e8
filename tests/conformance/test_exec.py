"""`dragoman exec` judged by `dragoman check client`: nothing it must do is missing, and no warning is left open."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from dragoman.conformance.case import load_cases
from dragoman.conformance.client.probe import ClientCheckSettings
from dragoman.conformance.client.program import ClientProgram
from dragoman.conformance.client.run import ClientRun
from dragoman.conformance.report.model import ConformanceReport
from tests.conformance.own_programs import assert_in_order
from tests.warm_programs import our_programs

NAME = "dragoman exec (a client)"
SERVERS = {
    "files": {"command": "/bin/cat", "args": ["-"], "env": {"A": "b"}},
    "web": {"type": "http", "url": "http://127.0.0.1:9/mcp", "headers": {"X-A": "b"}},
}


@pytest.fixture(autouse=True)
def _own_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the user of this machine allows, or has configured, is of no concern here."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "dragoman"))


def judge(*words: str, only: tuple[str, ...] = ()) -> ConformanceReport:
    program = ("-m", "dragoman", "exec", "--cwd", "{folder}", *words, "hello", "--", "{agent}")
    command = our_programs().command(*program)
    run = ClientRun(ClientProgram(command), ClientCheckSettings(timeout_seconds=20.0))
    return asyncio.run(run.run(load_cases("client", only)))


# What exec adds to our client, which test_client_mutants.py judges in full; make soak has all cases.
OWN = ("session/new*", "prompt", "permission", "fs", "terminal", "cancel")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("only", "most"), [(OWN, 35), pytest.param((), 115, marks=pytest.mark.soak)], ids=["own", "all"]
)
def test_exec_conforms(only: tuple[str, ...], most: int) -> None:
    report = judge("--allow", "*", only=only)
    assert_in_order(report, NAME)
    assert report.count("pass") > most


def assert_passed(report: ConformanceReport, *cases: str) -> None:
    """These were not only without complaint but seen to be right."""
    assert_in_order(report, NAME)
    assert {line.id for line in report.lines("pass")} >= {f"client/{case}" for case in cases}


def test_exec_that_may_do_nothing_conforms_in_what_it_refuses() -> None:
    assert_passed(judge(only=("permission", "cancel", "fs/read*")), "permission/several")


def test_exec_passes_servers_and_folders_on_as_it_should(tmp_path: Path) -> None:
    servers = tmp_path / "servers.json"
    servers.write_text(json.dumps({"mcpServers": SERVERS}))
    cases = ("session/stdio-servers", "session/http-servers", "session/absolute-directories")
    report = judge("--mcp-config", str(servers), "--add-dir", str(tmp_path), only=cases)
    assert_passed(report, *cases)


def test_exec_resumes_as_it_should() -> None:
    assert_passed(judge("--resume", "last", only=("session/resume*",)), "session/resume-members")


def test_exec_sets_modes_as_it_should() -> None:
    cases = ("settings/known-mode", "settings/modes-as-fallback", "settings/options-before-modes")
    assert_passed(judge("--mode", "code", only=cases), *cases)


def test_exec_sets_options_as_it_should() -> None:
    words = ("--set", "size=large", "--set", "verbose=true")
    assert_passed(judge(*words, only=("settings/option-members",)), "settings/option-members")
