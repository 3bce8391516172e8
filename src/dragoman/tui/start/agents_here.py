"""One line about the agents of this machine, and whether the user is logged in to them. Starts nothing; blocks."""

from __future__ import annotations

import os
import shutil
from functools import cache
from typing import Final

_MOST: Final = 5


@cache
def agents_here() -> str:
    """Such as `claude (logged in), codex (not logged in), built-in (no model key)`."""
    from dragoman.registry.facts import facts_of
    from dragoman.registry.known import well_known_agents
    from dragoman.registry.login_state import login_state

    found: list[tuple[int, str]] = []
    for agent in well_known_agents():
        is_here = shutil.which(agent.program) is not None
        sign = login_state(agent, facts_of(agent.name, (agent.program,)), os.environ).sign
        is_logged_in = sign in ("variable", "file")
        if is_here or sign == "file":
            word = "logged in" if is_logged_in else {"none": "not logged in"}.get(sign, "installed")
            found.append((0 if is_logged_in else 1, f"{agent.name} ({word})"))
    found.sort(key=lambda each: each[0])
    names = [text for _, text in found]
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join([*names[:_MOST], *more, f"built-in ({_built_in()})"])


def _built_in() -> str:
    """Return what the built-in agent would use."""
    from dragoman.builtin.models.providers import CHOSEN
    from dragoman.errors import ConfigError
    from dragoman.settings import load_settings
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir

    try:
        model = load_settings(config_dir()).model
        if model:
            return model
        if Credentials(config_dir()).keys():
            return "logged in"
    except (ConfigError, OSError):
        return "settings cannot be read"
    has_key = any(os.environ.get(name) for provider in CHOSEN for name in provider.variables)
    return "model key found" if has_key else "no model key"
