"""Which dragoman this is: its version, the version of its own methods, and a stamp of its files.

A host compares the stamp of the files that it was started from with that of the files which are there now: after an
update it leaves to a host of the new code. Clients compare nothing but the version of the methods.
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


def clone_stamp() -> str:
    """Return what all files of a clone are now; empty for a package that was installed.

    An installer writes every file of a package again, so two of them show it. In a clone any file changes by itself.
    To look at 1,300 files takes 6 ms, which is why a host does it, and not each of its clients.
    """
    if "/site-packages/" in package_folder() or "/dist-packages/" in package_folder():
        return ""
    from binascii import crc32

    found = []
    folders = [package_folder()]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.name.startswith(".") or entry.name == "__pycache__":
                        continue
                    if entry.is_dir():
                        folders.append(entry.path)
                    elif not entry.name.endswith("~"):
                        state = entry.stat()
                        found.append(f"{entry.path} {state.st_mtime_ns} {state.st_size}")
        except OSError:  # it is being changed at this moment
            found.append("")
    return f"{crc32(os.fsencode(chr(0).join(sorted(found)))):08x}"


def hello() -> "dict[str, object]":
    """Return what a host and its clients send about themselves in `initialize`."""
    return {"version": __version__, "protocol": PROTOCOL, "words": True}
