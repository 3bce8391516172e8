"""The folders of the user's files. No call creates a folder.

All four are below `DRAGOMAN_HOME` if it is set; otherwise they follow the XDG base directory specification.
A client of the local host needs the names at every start, so `pathlib` is loaded only for those who want a `Path`.
"""

import os

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path


def config_dir() -> "Path":
    """Return the folder for what the user wrote or confirmed: settings, rules, acceptances."""
    return _place("config")


def data_dir() -> "Path":
    """Return the folder for what cannot be restored: installed agents, sessions."""
    return _place("data")


def cache_dir() -> "Path":
    """Return the folder for what can be fetched again."""
    return _place("cache")


def state_dir() -> "Path":
    """Return the folder for what outlives a run and may be deleted: logs, history."""
    return _place("state")


def private_folders() -> "tuple[Path, ...]":
    """Return the folders that a command in a sandbox cannot read: settings, sessions, logs."""
    return config_dir(), data_dir(), state_dir()


def folder_name(name: str, environment: "Mapping[str, str]") -> str:
    """Return the folder `config`, `data`, `cache` or `state` of a user with this environment, as text."""
    own = environment.get("DRAGOMAN_HOME", "")
    if own:
        own = os.path.expanduser(own)
        return os.path.join(own if os.path.isabs(own) else os.path.join(os.getcwd(), own), name)
    variable, default = _XDG[name]
    base = environment.get(variable, "")
    # The specification requires that a relative value is ignored.
    return os.path.join(base if os.path.isabs(base) else os.path.join(os.path.expanduser("~"), default), "dragoman")


_XDG = {
    "config": ("XDG_CONFIG_HOME", ".config"),
    "data": ("XDG_DATA_HOME", ".local/share"),
    "cache": ("XDG_CACHE_HOME", ".cache"),
    "state": ("XDG_STATE_HOME", ".local/state"),
}


def _place(name: str) -> "Path":
    from pathlib import Path

    return Path(folder_name(name, os.environ))
