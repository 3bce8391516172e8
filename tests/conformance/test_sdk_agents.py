"""The judge is right about agents on the official SDKs: what it finds was checked by hand, and nothing more.

The behaviour behind the warnings is the SDKs' own (what they make of bad lines, odd ids and `_meta`); a few findings
are about the example agent on top of it, and say so.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.program import AgentProgram
from dragoman.conformance.agent.prompts import read_prompts
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import load_cases
from tests.interop.support import require
from tests.warm_programs import python_sdk

HERE = Path(__file__).parent
TYPESCRIPT = ("node", str(HERE.parent / "interop" / "peers" / "ts_agent.mjs"))
# What does not depend on the words of a prompt, and does not concern the example on top of the SDK. Each start
# of the Python SDK costs a second, so what is known (that it ends when its input does, for example) is left out.
ONLY = (
    "transport/[b-dgilno]*",
    "envelope/id-*",
    "envelope/empty-object",
    "envelope/method-not-a-string",
    "envelope/notification-*",
    "envelope/one-response",
    "envelope/stray-response",
    "envelope/unknown-method",
    "extensions/unknown",
    "initialize/[acfmv]*",
    "capabilities/unadvertised-refused",
    "errors",
    "session/meta-ignored",
    "session/malformed-server",
    "session/null-lists",
    "session/params-*",
    "prompt/meta-ignored",
    "prompt/params-missing",
)
FINDINGS = {
    "py": {
        "agent/capabilities/unadvertised-refused": "warn",  # what a subclass does not override succeeds with {}
        "agent/envelope/empty-object": "warn",  # ignored
        "agent/envelope/id-invalid": "warn",  # answered with it
        "agent/envelope/method-not-a-string": "warn",  # -32603
        "agent/extensions/unknown": "warn",  # a null result
        "agent/initialize/agent-info": "warn",  # the example's own
        "agent/initialize/capabilities": "warn",  # the example's own
        "agent/initialize/first": "warn",  # accepted before initialize
        "agent/initialize/meta-ignored": "fail",  # _meta is spread into the handler's arguments
        "agent/initialize/version-unknown": "fail",  # the example repeats what it was asked; the SDK has no help for it
        "agent/prompt/meta-ignored": "fail",  # _meta.self: "got multiple values for argument 'self'"
        "agent/session/malformed-server": "warn",  # dropped in silence, as the schema of its release states
        "agent/session/meta-ignored": "fail",  # as in prompt
        "agent/session/null-lists": "warn",  # -32602; newer than its schema
        "agent/transport/batch": "warn",  # the process dies
        "agent/transport/deep-nesting": "warn",  # never answered
        "agent/transport/garbage-answered": "warn",  # ignored
        "agent/transport/invalid-utf8": "warn",  # never answered
        "agent/transport/not-an-object": "warn",  # the process dies
        "passive/45": "warn",
        "passive/119": "warn",  # the example knows no sessions
    },
    "ts": {
        "agent/envelope/id-64-bit": "warn",  # numbers of JavaScript
        "agent/transport/last-line": "warn",  # a last line without newline is lost
        "passive/102": "warn",  # the example sends its commands before the answer, on purpose
    },
}


@pytest.mark.timeout(300)
@pytest.mark.soak  # a minute, and about the SDKs more than about us
@pytest.mark.parametrize("sdk", FINDINGS)
def test_findings_on_official_sdk_are_those_that_were_checked(sdk: str) -> None:
    require(sdk)
    settings = AgentCheckSettings(timeout_seconds=10.0, prompts=read_prompts(HERE / "peers.toml"))
    command = TYPESCRIPT if sdk == "ts" else python_sdk().command(str(HERE / "peers" / "py_echo.py"))
    report = asyncio.run(AgentRun(AgentProgram(command), settings).run(load_cases("agent", ONLY)))
    found = {line.id: line.status for line in report.lines("fail", "error", "warn")}
    assert found == FINDINGS[sdk]
    assert report.count("pass") > 25
