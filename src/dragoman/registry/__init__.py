"""Which agents exist: their names, their commands, where each comes from, and their quirks.

Names come from the settings, from other editors and from the ACP registry, which agents are also installed from.
It does not know sessions, permission rules or user interfaces, nor where its folders are: they are parameters.
Read `agents.py` first; `catalogue.py` and `install.py` are about the ACP registry, `doctor.py` about what is missing.
"""

from dragoman.registry.agents import AgentEntry, Agents, load_agents, resolve_command
from dragoman.registry.quirks import Quirks

__all__ = ["AgentEntry", "Agents", "Quirks", "load_agents", "resolve_command"]
