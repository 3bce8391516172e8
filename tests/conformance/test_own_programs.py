"""Our own agents conform, as programs on stdio."""

from __future__ import annotations

import asyncio

import pytest

from dragoman.conformance.agent.probe import AgentCheckSettings
from dragoman.conformance.agent.program import AgentProgram
from dragoman.conformance.agent.run import AgentRun
from dragoman.conformance.case import load_cases
from tests.conformance.own_programs import accepted, assert_in_order
from tests.warm_programs import our_programs

PROGRAMS = {
    "scripted agent": ("-m", "dragoman.testing.scripted_agent"),
    "examples/echo_agent.py": ("examples/echo_agent.py",),
}
# Everything that is not needed to be quick: a busy machine must not make a warning.
PATIENCE = AgentCheckSettings(timeout_seconds=20.0)


# What a process adds to the scripted agent, which test_mutants.py judges in full; make soak has all cases.
OWN = ("initialize", "session", "prompt", "cancel", "transport")


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("only", "most"), [(OWN, 30), pytest.param((), 70, marks=pytest.mark.soak)], ids=["own", "all"]
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_agent_conforms(name: str, only: tuple[str, ...], most: int) -> None:
    program = AgentProgram(our_programs().command(*PROGRAMS[name]))
    report = asyncio.run(AgentRun(program, PATIENCE, jobs=4).run(load_cases("agent", only)))
    assert_in_order(report, name)
    assert report.count("pass") > most


def test_every_reason_belongs_to_a_program_and_says_something() -> None:
    for program, reasons in accepted().items():
        assert program in PROGRAMS or program.endswith("client") or "client" in program
        for case, reason in reasons.items():
            assert len(reason.split()) > 4, f"{program}, {case}: {reason!r} is not a reason"
