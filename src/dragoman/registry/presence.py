"""What can be seen of an agent on this machine without starting it: its version, and whether the user is logged in."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

from dragoman.registry.known import WellKnownAgent, recognise
from dragoman.registry.login_state import LoginState, login_state
from dragoman.registry.program_version import package_of

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry, Agents


def version_here(entry: AgentEntry, agents: Agents) -> str:
    """Return the version of an agent, from the files of its package; empty if it is not known without starting it."""
    if entry.source == "built-in":
        from dragoman._version import __version__

        return __version__
    if entry.source == "registry":
        found = agents.installed.all().get(entry.name)
        return "" if found is None else found.version
    if entry.package:
        return entry.package.rpartition("@")[2].rpartition("=")[2]
    program = shutil.which(entry.command[0]) if entry.command else None
    if program is None:
        return ""
    package = package_of(program, _python_packages(recognise(entry.name, entry.command)))
    return "" if package is None else package.version


def login_here(entry: AgentEntry) -> LoginState:
    """Return whether the user seems to be logged in to an agent; unknown if it is not a well-known one."""
    agent = None if entry.source == "built-in" else recognise(entry.name, entry.command)
    if agent is None:
        return LoginState("unknown")
    environment = {name: value for name, value in {**os.environ, **entry.changed_env(os.environ)}.items() if value}
    return login_state(agent, entry.facts, environment)


def _python_packages(agent: WellKnownAgent | None) -> list[str]:
    if agent is None:
        return []
    python = [] if agent.python_package is None else [agent.python_package.package]
    return [*python, *(old.package for old in agent.replaced)]
