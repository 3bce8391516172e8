"""Which dragoman this is: its version, the version of its own methods, and a stamp of its files.

A running host and a new client compare them. The stamp changes when the package is installed again, so that a host
whose files were replaced under it can leave.
"""

import os

from dragoman._version import __version__

PROTOCOL = 1
"""Of the `_dragoman/` methods between a local host and its clients; it changes when one of them does."""


def build_stamp() -> str:
    """What the files of this package are now; different after an update in place, empty if they are gone."""
    import dragoman

    try:
        files = [os.stat(f"{folder}/{name}") for folder in dragoman.__path__ for name in ("__init__.py", "_version.py")]
    except OSError:
        return ""
    return "-".join(f"{each.st_mtime_ns:x}.{each.st_size:x}" for each in files)


def hello() -> "dict[str, object]":
    """What a host and its clients tell each other about themselves in `initialize`."""
    return {"version": __version__, "protocol": PROTOCOL, "build": build_stamp()}
