"""Where the user's files are. Asking creates nothing.

`DRAGOMAN_HOME` holds everything, if it is set; else the folders of the XDG base directory specification do.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """What the user wrote or confirmed: settings, rules, acceptances."""
    return _place("config", "XDG_CONFIG_HOME", ".config")


def data_dir() -> Path:
    """What would be missed: installed agents, sessions."""
    return _place("data", "XDG_DATA_HOME", ".local/share")


def cache_dir() -> Path:
    """What can be fetched again."""
    return _place("cache", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """What outlives a run and is no loss: logs, history."""
    return _place("state", "XDG_STATE_HOME", ".local/state")


def _place(name: str, variable: str, default: str) -> Path:
    own = os.environ.get("DRAGOMAN_HOME", "")
    if own:
        return Path(own).expanduser().absolute() / name
    base = os.environ.get(variable, "")
    # The specification wants a relative value ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / default) / "dragoman"
