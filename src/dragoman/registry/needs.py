"""What agents need: where the program of a well-known one comes from, which variables it reads, and its runtime.

`doctor.py` uses this for its advice, and examines an agent that is not known with less advice. A variable that is not
set may be no problem: the agent may read others, or the user may have logged in.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class AgentNeeds(NamedTuple):
    """How to install one agent, and the variables of which one is enough (as is a login)."""

    get: str
    variables: tuple[str, ...] = ()


_NODE: Final = "install Node.js 22 or newer, which includes it"
_UV: Final = "install uv (pip install uv), or install the agent with: dragoman agents install NAME"
# Programs that run others.
RUNTIMES: Final = {
    "node": _NODE,
    "npx": _NODE,
    "npm": _NODE,
    "bun": "install Bun (npm install -g bun)",
    "bunx": "install Bun (npm install -g bun)",
    "deno": "install Deno (npm install -g deno)",
    "uvx": _UV,
    "uv": _UV,
    "pipx": "install pipx (pip install pipx)",
    "python3": "install Python 3.11 or newer",
    "python": "install Python 3.11 or newer",
}


def needs_of(programs: set[str]) -> AgentNeeds | None:
    """Return the needs of the agent that one of these programs is; None if it is not known."""
    from dragoman.registry.known import well_known_agents

    for agent in well_known_agents():
        if agent.names & programs:
            return AgentNeeds(agent.how_to_install, agent.variables)
    return None
