"""Which entries are the built-in agent, and which agents run their commands through the client.

The built-in agent is recognised also as a command that was written out. Does not start anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.process.own_program import own_words
from dragoman.registry.agents import BUILT_IN

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry

# The mode in which the built-in agent has a sandbox of its own, and asks only about what shall run outside.
_OWN_SANDBOX_MODE: Final = "auto"


def is_built_in(entry: AgentEntry) -> bool:
    """Return whether it is the built-in agent, which takes its model on its command line."""
    return entry.source == "built-in" and entry.name == BUILT_IN


def runs_built_in(entry: AgentEntry) -> bool:
    """Return whether it is the built-in agent, also as a command that was written out: `dragoman agent ...`."""
    return is_built_in(entry) or _is_own_command(list(entry.command))


def with_open_files(entry: AgentEntry) -> AgentEntry:
    """Return the built-in agent as it closes no files to the commands that it runs itself; another one as it is."""
    if not runs_built_in(entry):
        return entry
    from msgspec.structs import replace

    return replace(entry, command=(*entry.command, "--no-closed-files"))


def _is_own_command(words: list[str]) -> bool:
    arguments = own_words(words)
    return arguments is not None and arguments[:1] == ["agent"]


def runs_commands_at_client(entry: AgentEntry, mode: str | None) -> bool:
    """Return whether commands that the agent asks permission for are then run by its client.

    Args:
        entry: The agent.
        mode: The mode of its session; None if that is not known.
    """
    if not runs_built_in(entry):
        return entry.facts is not None and entry.facts.runs_in_terminals
    return "--no-client-terminal" not in entry.command and mode is not None and mode != _OWN_SANDBOX_MODE
