"""What an action of `dragoman agents` works on: the agents of the current folder, and the agent that was named."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dragoman.cli import exits

if TYPE_CHECKING:
    from dragoman.registry.agents import Agents


def load_agents_here() -> Agents:
    """Return the agents for the folder this command runs in.

    Raises:
        ConfigError: a settings file is wrong.
    """
    from dragoman.registry import load_agents
    from dragoman.settings import find_project, load_settings
    from dragoman.settings.places import cache_dir, config_dir, data_dir

    return load_agents(load_settings(config_dir(), find_project(Path.cwd())), data_dir(), cache_dir())


def required_name(name: str | None, action: str, example: str) -> str:
    """Return the name that was given. Raises: CliError, if none was."""
    if name is None:
        raise exits.CliError(f"agents {action} needs a name", hint=example)
    return name
