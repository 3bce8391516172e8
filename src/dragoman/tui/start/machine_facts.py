"""What is on this machine, and what does not work although the client opens: agents, logins, folders, a full disk.

It starts no agent. It blocks, and reads the registry and all settings, so it is loaded after the first frame, in a
thread.
"""

from __future__ import annotations

import os
import shutil
from functools import cache
from typing import TYPE_CHECKING, Final

from dragoman.settings.places import config_dir, data_dir, state_dir

if TYPE_CHECKING:
    from pathlib import Path

_MOST: Final = 5
_LITTLE_BYTES: Final = 20 * 1024 * 1024


@cache
def agents_here() -> str:
    """Describe agents: `claude (logged in), codex (not logged in), built-in (no model key)`."""
    from dragoman.registry.facts import facts_of
    from dragoman.registry.known import well_known_agents
    from dragoman.registry.login_state import login_state

    agents: list[tuple[int, str]] = []
    for agent in well_known_agents():
        is_here = shutil.which(agent.program) is not None
        sign = login_state(agent, facts_of(agent.name, (agent.program,)), os.environ).sign
        is_logged_in = sign in ("variable", "file")
        if is_here or sign == "file":
            word = "logged in" if is_logged_in else {"none": "not logged in"}.get(sign, "installed")
            agents.append((0 if is_logged_in else 1, f"{agent.name} ({word})"))
    agents.sort(key=lambda item: item[0])
    names = [text for _, text in agents]
    more = [f"{len(names) - _MOST} more"] if len(names) > _MOST else []
    return ", ".join([*names[:_MOST], *more, f"built-in ({_built_in()})"])


def _built_in() -> str:
    """Return what the built-in agent would use."""
    from dragoman.builtin.models.providers import has_key
    from dragoman.errors import ConfigError
    from dragoman.settings import load_settings
    from dragoman.settings.credentials import Credentials
    from dragoman.settings.places import config_dir
    from dragoman.tui.start.preferences import FILE_NAME, Preferences

    try:
        chosen = Preferences(data_dir() / FILE_NAME).of("dragoman").get("model")
        model = load_settings(config_dir()).model or chosen
        if model:
            return str(model)
        if Credentials(config_dir()).keys():
            return "logged in"
    except (ConfigError, OSError):
        return "settings cannot be read"
    return "model key found" if has_key(os.environ) else "no model key"


def problems_here(folder: str) -> list[str]:
    """Return sentences for the user, each with what it means for the work."""
    problems = []
    if os.path.isdir(folder) and not os.access(folder, os.W_OK):
        problems.append("this project cannot be written: the agent can read it and change nothing")
    for place, loss in (
        (config_dir(), "settings and rules cannot be changed"),
        (data_dir(), "sessions and chosen models cannot be kept"),
        (state_dir(), "drafts and logs cannot be kept"),
    ):
        nearest = _existing(place)
        if not os.access(nearest, os.W_OK):
            problems.append(f"{nearest} cannot be written: {loss}")
        elif _is_full(nearest):
            problems.append(f"the disk of {nearest} is full: {loss}")
    return problems


def _existing(place: Path) -> Path:
    while not place.exists() and place != place.parent:
        place = place.parent
    return place


def _is_full(place: Path) -> bool:
    try:
        return shutil.disk_usage(place).free < _LITTLE_BYTES
    except OSError:
        return False
