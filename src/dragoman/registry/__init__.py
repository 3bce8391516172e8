"""Remembers which agents exist: by what name, by which command, from where, and with which quirks.

It reads the settings of the user, of a project and of editors, and installs from the ACP registry. What a repository
ships is a proposal here, never an order. It does not know sessions, rules or screens, nor where its directories are:
they come as parameters. Read `agents.py` first, then `settings.py` and `proposals.py`; `install.py` stands by itself.
"""

from dragoman.registry.agents import AgentEntry, Agents, load_agents, resolve_command
from dragoman.registry.quirks import Quirks
from dragoman.registry.settings import RuleTexts, Settings, find_project, load_settings

__all__ = [
    "AgentEntry",
    "Agents",
    "Quirks",
    "RuleTexts",
    "Settings",
    "find_project",
    "load_agents",
    "load_settings",
    "resolve_command",
]
