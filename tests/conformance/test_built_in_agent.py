"""The built-in agent conforms, with the scripted model, as the program an editor starts."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.program import AgentProgram
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import load_cases
from tests.conformance.own_programs import assert_in_order
from tests.warm_programs import our_programs

NAME = "dragoman agent"
COMMAND = ("-m", "dragoman", "agent", "--model", "scripted")
# Everything that is not needed to be quick: a busy machine must not make a warning.
PATIENCE = AgentCheckSettings(timeout_seconds=20.0)


# What the built-in agent decides itself. The rest (envelopes, the transport, errors) is the work of our agent role:
# test_own_programs.py and test_mutants.py judge that, and make soak has all cases.
OWN = (
    *("session", "prompt", "cancel", "options", "updates", "load", "list", "modes", "permission", "terminals", "files"),
    *("tool-calls", "close", "delete", "resume", "elicitation", "authentication", "capabilities", "initialize"),
)


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("only", "most"), [(OWN, 80), pytest.param((), 100, marks=pytest.mark.soak)], ids=["own", "all"]
)
def test_the_built_in_agent_conforms(tmp_path: Path, only: tuple[str, ...], most: int) -> None:
    program = AgentProgram(our_programs().command(*COMMAND), env={**os.environ, "DRAGOMAN_HOME": str(tmp_path)})
    report = asyncio.run(AgentRun(program, PATIENCE, jobs=4).run(load_cases("agent", only)))
    assert_in_order(report, NAME)
    assert report.count("pass") > most
