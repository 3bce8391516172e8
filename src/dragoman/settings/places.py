"""The folders of the user's files. No call creates a folder.

All four are below `DRAGOMAN_HOME` if it is set; otherwise they follow the XDG base directory specification.
"""

from __future__ import annotations

import os
from pathlib import Path


def config_dir() -> Path:
    """The folder for what the user wrote or confirmed: settings, rules, acceptances."""
    return _place("config", "XDG_CONFIG_HOME", ".config")


def data_dir() -> Path:
    """The folder for what cannot be restored: installed agents, sessions."""
    return _place("data", "XDG_DATA_HOME", ".local/share")


def cache_dir() -> Path:
    """The folder for what can be fetched again."""
    return _place("cache", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """The folder for what outlives a run and may be deleted: logs, history."""
    return _place("state", "XDG_STATE_HOME", ".local/state")


def _place(name: str, variable: str, default: str) -> Path:
    own = os.environ.get("DRAGOMAN_HOME", "")
    if own:
        return Path(own).expanduser().absolute() / name
    base = os.environ.get(variable, "")
    # The specification requires that a relative value is ignored.
    return (Path(base) if os.path.isabs(base) else Path.home() / default) / "dragoman"
