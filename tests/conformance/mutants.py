"""For every case that binds agents, an agent that fails it: the scripted one with one switch turned."""

from __future__ import annotations

from dragoman.conformance.agent.in_process import AgentInProcess
from dragoman.testing import scripted_agent
from tests.conformance import mutants_session, mutants_turn, mutants_wire
from tests.conformance.tamper import Mutation, Wire

MUTANTS: dict[str, Mutation] = {
    f"agent/{area}/{name}": mutation
    for module in (mutants_session, mutants_turn, mutants_wire)
    for area, mutations in module.BY_AREA.items()
    for name, mutation in mutations.items()
}
# Only an agent that wants a login shows whether it lets people in.
NEEDS_LOGIN = {"agent/authentication/required", "agent/authentication/opens"}


def mutant(mutation: Mutation, *, requires_login: bool = False) -> AgentInProcess:
    """The scripted agent, over memory, with this mutation on its wire."""
    return AgentInProcess(
        lambda: scripted_agent(requires_login=requires_login), around=lambda transport: Wire(transport, mutation)
    )
