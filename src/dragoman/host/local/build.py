"""Which dragoman this is: its version, the version of its own methods, and a stamp of its files.

A running host and a new client compare them. The stamp changes when the package is installed again, so that a host
whose files were replaced under it can leave.
"""

import os
import sys

from dragoman._version import __version__

PROTOCOL = 3
"""Of the `_dragoman/` methods between a local host and its clients; it changes when one of them does."""


def package_folder() -> str:
    """Return the folder of this package."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def installation() -> str:
    """Return which installation this is: the environment of its Python and its own folder, each resolved, as two lines.

    Both, because two environments may use one clone with other versions of what it depends on.
    """
    return f"{os.path.realpath(sys.prefix)}\n{os.path.realpath(package_folder())}"


def build_stamp() -> str:
    """Return what the files of this package are now; different after an update in place, empty if they are gone."""
    try:
        files = [os.stat(f"{package_folder()}/{name}") for name in ("__init__.py", "_version.py")]
    except OSError:
        return ""
    return "-".join(f"{state.st_mtime_ns:x}.{state.st_size:x}" for state in files)


def hello() -> "dict[str, object]":
    """Return what a host and its clients send about themselves in `initialize`."""
    return {"version": __version__, "protocol": PROTOCOL, "words": True}
