"""`dragoman check client` on programs: how they are started, ours as a program, and the official SDKs' clients."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from dragoman.cli.exits import CHECK_FAILED
from dragoman.conformance.case import CaseResult, load_cases
from dragoman.conformance.client.probe import ClientCheckSettings
from dragoman.conformance.client.program import ClientProgram
from dragoman.conformance.client.run import ClientRun
from dragoman.conformance.client.target import NoAgent
from tests.conformance.own_programs import assert_in_order
from tests.interop.support import ROOT, require
from tests.warm_programs import our_programs, python_sdk

CLIENTS = Path(__file__).parent / "clients"
OURS = (str(CLIENTS / "our_client.py"), "--cwd", "{folder}", "{agent}")
# Found by running every case and checked by hand. What the SDK leaves to its user is a finding about the SDK too: it
# checks no version, for example. Not here: what no wire shows, such as an update that is lost inside the client.
FINDINGS = {
    "py": {
        "client/envelope/stray-response": "warn",  # an id that is an object ends the connection
        "client/errors/method-not-found": "warn",  # an unknown custom method is answered with null
        "client/errors/no-leak": "warn",  # the error holds the params
        "client/fs/read-meta-ignored": "fail",  # _meta is spread into the handler's arguments
        "client/gates/terminal-refused": "warn",  # a method that the SDK does not have is answered with null
        "client/initialize/malformed-members": "fail",  # authMethods that is not a list fails the handshake
        "client/initialize/other-version": "warn",
        "client/permission/meta-ignored": "fail",  # as above
        "client/prompt/malformed-error": "warn",  # the prompt hangs
        "client/transport/batch": "warn",  # the connection is lost
        "client/transport/noise-answered": "warn",
        "client/transport/not-an-object": "warn",  # the connection is lost
        "client/transport/stderr-drained": "warn",  # a pipe that is not read
    },
    "ts": {
        "client/envelope/id-64-bit": "warn",  # numbers of JavaScript
        "client/initialize/other-version": "warn",
        "client/transport/last-line": "warn",
    },
}
# Cases both SDKs pass, among them those that would show a judge who finds too much.
INNOCENT = (
    "client/envelope/id-echo",
    "client/envelope/well-formed",
    "client/fs/read-window",
    "client/permission/several",
    "client/transport/deep-nesting",
    "client/updates/odd-items",
    "client/updates/unknown-kind",
)


def judged(command: tuple[str, ...], *only: str, seconds: float = 10.0) -> dict[str, CaseResult]:
    run = ClientRun(ClientProgram(command), ClientCheckSettings(timeout_seconds=seconds))
    report = asyncio.run(run.run(load_cases("client", only)))
    return {result.id: result for result in report.all}


def statuses(results: dict[str, CaseResult]) -> dict[str, str]:
    return {id: result.status for id, result in results.items() if result.status not in ("pass", "skipped")}


def test_our_client_as_a_program_passes() -> None:
    command = our_programs().command(*OURS)
    results = judged(command, "transport", "cancel", "terminal/kill", "initialize/first", "session/known-ids")
    assert {id: result.message for id, result in results.items() if result.status != "pass"} == {}


# What a program can do wrong with our client, which test_client_mutants.py judges in full; make soak has all cases.
OWN = ("initialize", "prompt", "permission", "cancel")


@pytest.mark.parametrize(
    ("only", "most"), [(OWN, 20), pytest.param((), 90, marks=pytest.mark.soak)], ids=["own", "all"]
)
def test_example_client_conforms(only: tuple[str, ...], most: int) -> None:
    program = (str(ROOT / "examples" / "client.py"), "--yes", "hello", "--", "{agent}")
    command = our_programs().command(*program)
    run = ClientRun(ClientProgram(command), ClientCheckSettings(timeout_seconds=20.0))
    report = asyncio.run(run.run(load_cases("client", only)))
    assert_in_order(report, "examples/client.py")
    assert report.count("pass") > most


@pytest.mark.soak  # half a minute, and about the SDKs more than about us
@pytest.mark.parametrize("sdk", FINDINGS)
def test_findings_on_official_sdk_are_those_that_were_checked(sdk: str) -> None:
    require(sdk)
    command: tuple[str, ...] = ("node", str(CLIENTS / "ts_client.mjs"), "{folder}", "{agent}")
    if sdk == "py":
        command = python_sdk().command(str(CLIENTS / "py_client.py"), "{folder}", "{agent}")
    patience = 5.0  # two findings on the Python SDK are a silence of this length
    assert statuses(judged(command, *FINDINGS["py"], *FINDINGS["ts"], *INNOCENT, seconds=patience)) == FINDINGS[sdk]


PROMPTER = """
import json, os, subprocess, sys
agent = subprocess.Popen([AGENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
def ask(id, method, params):
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + "\\n")
    agent.stdin.flush()
    while True:
        message = json.loads(agent.stdout.readline())
        if message.get("id") == id and "method" not in message:
            return message.get("result")
        if "id" in message:
            answer = {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
            agent.stdin.write(json.dumps(answer) + "\\n")
            agent.stdin.flush()
ask(0, "initialize", {"protocolVersion": 1})
session = ask(1, "session/new", {"cwd": os.getcwd(), "mcpServers": []})["sessionId"]
ask(2, "session/prompt", {"sessionId": session, "prompt": [{"type": "text", "text": "Hello"}]})
agent.stdin.close()
agent.wait()
"""


@pytest.mark.parametrize(
    ("agent", "words"),
    [
        ("sys.argv[1]", ()),
        ("sys.argv[2].removeprefix('--agent=')", ("--quiet", "--agent={agent}")),
        ("json.loads(sys.argv[1])['command']", ('{"command": "{agent}"}',)),
        ("os.environ['ACP_AGENT_COMMAND']", ()),
    ],
    ids=["appended", "inside a word", "inside JSON", "in the environment"],
)
def test_client_finds_the_agent_in_its_arguments_or_its_environment(agent: str, words: tuple[str, ...]) -> None:
    program = PROMPTER.replace("AGENT", agent)
    results = judged((sys.executable, "-c", program, *words), "initialize/first", "session/absolute-cwd")
    assert {result.status for result in results.values()} <= {"pass", "warn"}, results


def test_agent_that_is_started_and_never_spoken_to_does_not_count() -> None:
    look = "subprocess.run([sys.argv[1], '--version'], stdin=subprocess.DEVNULL, check=True, timeout=60)\nagent ="
    program = PROMPTER.replace("agent =", look, 1).replace("AGENT", "sys.argv[1]")
    results = judged((sys.executable, "-c", program, "{agent}"), "initialize/first")
    assert results["client/initialize/first"].status == "pass"


async def test_client_that_starts_no_agent_is_not_judged() -> None:
    run = ClientRun(
        ClientProgram((sys.executable, "-c", "raise SystemExit('no such option: --acp')")), ClientCheckSettings()
    )
    with pytest.raises(NoAgent, match=r"code 1.*no such option"):
        await run.run(load_cases("client", ["initialize/first"]))


async def test_client_that_never_starts_its_agent_is_waited_for_and_then_ended() -> None:
    run = ClientRun(ClientProgram(("sh", "-c", "sleep 600", "{agent}")), ClientCheckSettings(timeout_seconds=0.1))
    with pytest.raises(NoAgent, match="within"):
        await run.run(load_cases("client", ["initialize/first"]))


def test_client_that_prints_much_and_dies_early_is_inconclusive_not_failed() -> None:
    program = PROMPTER.replace("AGENT", "sys.argv[1]").replace(
        'session = ask(1, "session/new"', 'print("x" * 1_000_000, flush=True); sys.exit("gave up"); (1, "session/new"'
    )
    results = judged((sys.executable, "-c", program, "{agent}"), "updates/every-kind", "prompt/blocks", "fs/read")
    assert {result.status for result in results.values()} <= {"inconclusive", "skipped", "warn"}, results


async def test_the_exit_code_of_the_command_line_is_the_verdict() -> None:
    code, report = await check("--only", "client/initialize/first", "--", sys.executable, *OURS)
    assert code == 0
    assert report["counts"]["pass"] == 1
    code, report = await check("--only", "client/session/absolute-cwd", "--", *wrong_prompter())
    assert code == CHECK_FAILED
    assert report["counts"]["fail"] >= 1


def wrong_prompter() -> tuple[str, ...]:
    program = PROMPTER.replace("AGENT", "sys.argv[1]").replace("os.getcwd()", '"."')
    return (sys.executable, "-c", program, "{agent}")


async def check(*words: str) -> tuple[int | None, Any]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "dragoman", "check", "client", "--json", *words, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return process.returncode, json.loads(output)
