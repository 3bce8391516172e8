"""Words that completion offers and only this machine knows: the names of agents.

They are read when the script is printed, which a shell does at its start, so completing itself starts nothing.
"""

from __future__ import annotations

import re


def agent_names() -> tuple[str, ...]:
    """The agents known here; none where the settings cannot be read. A shell would cut a name with a space in two."""
    from dragoman.cli.agents.context import load_agents_here
    from dragoman.errors import ConfigError

    try:
        names = load_agents_here().names()
    except (ConfigError, OSError):
        return ()
    return tuple(name for name in names if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name))
