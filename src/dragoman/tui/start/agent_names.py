"""The agents that a user can choose from in a folder; loaded after a failure, which most sessions do not have."""

from __future__ import annotations

from pathlib import Path

from dragoman.registry.agents import load_agents
from dragoman.settings import find_project, load_settings
from dragoman.settings.places import cache_dir, config_dir, data_dir


def agent_names(folder: str) -> list[str]:
    """Return the agents that can be started, the default one first. Raises: ConfigError if settings are broken."""
    agents = load_agents(load_settings(config_dir(), find_project(Path(folder))), data_dir(), cache_dir())
    names = [entry.name for entry in agents.entries() if not entry.problem]
    return sorted(names, key=lambda name: (name != agents.default, name))
