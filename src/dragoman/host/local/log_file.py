"""Which log in a data folder belongs to a host.

A log has one writer (`store/sqlite_log.py`), and each settings folder and installation has its own host. So hosts with
one data folder have logs of their own: `hosted.db` is that of the first one, `hosted-MARK.db` that of any other. The
first one is named in `hosted.installation`. If its installation is gone, because its environment was made again for
another Python, the next host that is started takes `hosted.db` over, with the sessions in it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.host.local.build import installation
from dragoman.host.local.place import mark_of
from dragoman.settings.places import folder_name

if TYPE_CHECKING:
    from pathlib import Path

_FIRST: Final = "hosted"
_CLAIM: Final = "hosted.installation"


def own_log_name(folder: Path) -> str:
    """Return the name of the log of our host, without an ending; the log may not exist yet."""
    claimed = ""
    with suppress(OSError):
        claimed = os.fsdecode((folder / _CLAIM).read_bytes())
    return _name(claimed, _own())


def claim_log(folder: Path) -> str:
    """Return the same for a host, which takes the first log if no other host has it.

    Raises:
        OSError: the folder cannot be written.
    """
    descriptor = os.open(folder / _CLAIM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # two of them may be started for the first time at one moment
        claimed, own = os.fsdecode(os.pread(descriptor, 65536, 0)), _own()
        name = _name(claimed, own)
        if name == _FIRST and claimed != own:
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, os.fsencode(own), 0)
        return name
    finally:
        os.close(descriptor)


def _own() -> str:
    """Return what a host differs by from others with its data folder, as three lines."""
    return f"{os.path.realpath(folder_name('config', os.environ))}\n{installation()}"


def _name(claimed: str, own: str) -> str:
    prefix, package = ["", "", *claimed.split("\n")][-2:]
    is_there = os.path.isdir(prefix) and os.path.isfile(f"{package}/__init__.py")
    return f"{_FIRST}-{mark_of(own)}" if claimed != own and is_there else _FIRST
