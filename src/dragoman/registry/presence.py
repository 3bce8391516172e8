"""What can be seen of an agent on this machine without starting it: its version, and whether the user is logged in."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Literal, NamedTuple

from dragoman.registry.known import WellKnownAgent, recognise
from dragoman.registry.login_state import LoginState, login_state
from dragoman.registry.program_version import package_of

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry, Agents


class Readiness(NamedTuple):
    """Whether an agent can be started."""

    state: Literal["ready", "login", "missing", "unknown"]
    how: str = ""
    """What to do first: a command, or a sentence."""


def version_here(entry: AgentEntry, agents: Agents) -> str:
    """Return the version of an agent, from the files of its package; empty if it is not known without starting it."""
    if entry.source == "registry":
        found = agents.installed.all().get(entry.name)
        return "" if found is None else found.version
    return program_version(entry)


def program_version(entry: AgentEntry) -> str:
    """Return the same for an entry alone, which of one from the registry has the version with it."""
    if entry.source == "built-in":
        from dragoman._version import __version__

        return __version__
    if entry.source == "registry":
        return entry.version
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


def readiness(entry: AgentEntry) -> Readiness:
    """Return whether an agent can be started as it is, by what can be seen without starting it; and what to do if not.

    Not for the built-in agent, which needs a model: `builtin/` has the table of keys.
    """
    if entry.problem:
        return Readiness("unknown" if entry.source == "project" else "missing", entry.problem)
    if entry.command and shutil.which(entry.command[0], path={**os.environ, **entry.env}.get("PATH")) is None:
        return Readiness("missing", f"{entry.command[0]} is not on the PATH; see dragoman agents doctor {entry.name}")
    if entry.source == "user" and recognise(entry.name, entry.command) is None:
        return Readiness("ready")  # of the user's own settings: what it needs is known there
    match login_here(entry).sign:
        case "variable" | "file":
            return Readiness("ready")
        case "none":
            return Readiness("login", f"dragoman login {entry.name}")
    return Readiness("unknown")


def _python_packages(agent: WellKnownAgent | None) -> list[str]:
    if agent is None:
        return []
    python = [] if agent.python_package is None else [agent.python_package.package]
    return [*python, *(old.package for old in agent.replaced)]
