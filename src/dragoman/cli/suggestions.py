"""Words for completion that depend on this machine: the names of agents.

They are read when the script is printed, which a shell does when it starts, so that completion starts no program.
"""

from __future__ import annotations

import re


def agent_names() -> tuple[str, ...]:
    """Return the names of agents that need no quoting in a shell; none if the settings cannot be read."""
    from dragoman.cli.agents.context import load_agents_here
    from dragoman.errors import ConfigError

    try:
        names = load_agents_here().names()
    except (ConfigError, OSError):
        return ()
    return tuple(name for name in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))
