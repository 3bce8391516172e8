"""Whether a user seems to be logged in to an agent, by its variables and files alone.

The agent is not started and no server is asked, so a key that has expired looks like one that works, and a login in the
keyring of the system is not seen.
"""

from __future__ import annotations

import os
from glob import escape, glob
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.registry.facts import AgentFacts
    from dragoman.registry.known import WellKnownAgent

LoginSign = Literal["variable", "file", "none", "unknown"]


class LoginState(NamedTuple):
    """What was found: a variable that is set, a file that a login leaves, neither, or an agent that shows neither."""

    sign: LoginSign
    detail: str = ""
    """The name of the variable, or the path of the file."""


def login_state(agent: WellKnownAgent, facts: AgentFacts | None, environment: Mapping[str, str]) -> LoginState:
    """Look for signs of a login.

    Args:
        agent: the agent's row of the table.
        facts: what is known about its state folder.
        environment: the variables that the agent would get.
    """
    for name in agent.variables:
        if environment.get(name):
            return LoginState("variable", name)
    for pattern in agent.login_files:
        found = glob(_placed(pattern, facts, environment))
        if found:
            return LoginState("file", min(found))
    # Without a list of files, a login may be anywhere: in the keyring, or with a provider of its own.
    return LoginState("none" if agent.login_files else "unknown")


def _placed(pattern: str, facts: AgentFacts | None, environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")
    if facts is not None and facts.state_variable and environment.get(facts.state_variable):
        folder = f"{facts.state[0]}/"
        if pattern.startswith(folder):
            state = os.path.expanduser(environment[facts.state_variable])
            return os.path.join(escape(state), pattern.removeprefix(folder))
    return os.path.join(escape(home), pattern)
