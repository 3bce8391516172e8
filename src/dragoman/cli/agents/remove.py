"""`dragoman agents remove`: removes an agent from the settings, an installed agent, or an acceptance, in this order.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.agents.context import load_agents_here, required_name
from dragoman.cli.agents.display import shown_path
from dragoman.cli.console import write_note

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.registry.agents import Agents


def remove_agent(call: CliCall) -> int:
    name = required_name(call.given.name, "remove", "dragoman agents remove mine")
    agents = load_agents_here()
    write_note(_remove(agents, name))
    return exits.OK


def _remove(agents: Agents, name: str) -> str:
    """Remove the agent and return what was done, as a sentence. Raises: CliError, ConfigError."""
    user = agents.settings.user
    if name in user.servers:
        from dragoman.settings.edit import edit_settings

        with edit_settings(user.path) as settings:
            del settings["agent_servers"][name]
            if settings.get("default_agent") == name:
                del settings["default_agent"]
        return f"{name} was removed from {shown_path(str(user.path))}"
    with agents.installed.locked():
        was_installed = agents.installed.remove(name)
    if was_installed:
        return f"{name} was removed from {shown_path(str(agents.installed.root))}"
    if agents.withdraw_confirmation(name):
        return f"{name} is no longer downloaded without a question"
    if agents.settings.withdraw("agent", name):
        return f"{name} of this project is no longer accepted"
    entry = agents.look_up(name) or agents.find(name)
    raise exits.CliError(
        f"{name} cannot be removed by dragoman", hint=f"it comes from {shown_path(entry.where)}; remove it there"
    )
