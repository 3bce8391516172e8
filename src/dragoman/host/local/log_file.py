"""Which log in a data folder belongs to the host of this installation.

A log has one writer (`store/sqlite_log.py`), and each installation has its own host. So two installations with one data
folder have two logs: `hosted.db` is that of the installation which came first, `hosted-MARK.db` that of any other. The
first one is named in `hosted.installation`. If it is gone, because its environment was made again for another Python,
the next installation that starts a host takes `hosted.db` over, with the sessions in it.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.host.local.build import installation
from dragoman.host.local.place import mark_of

if TYPE_CHECKING:
    from pathlib import Path

_FIRST: Final = "hosted"
_CLAIM: Final = "hosted.installation"


def own_log_name(folder: Path) -> str:
    """Return the name of this installation's log, without an ending; the log may not exist yet."""
    claimed = ""
    with suppress(OSError):
        claimed = os.fsdecode((folder / _CLAIM).read_bytes())
    return _name(claimed)


def claim_log(folder: Path) -> str:
    """Return the same for a host, which takes the first log if no other installation has it.

    Raises:
        OSError: the folder cannot be written.
    """
    descriptor = os.open(folder / _CLAIM, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # two installations may start their first hosts at one moment
        claimed = os.fsdecode(os.pread(descriptor, 65536, 0))
        name = _name(claimed)
        if name == _FIRST and claimed != installation():
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, os.fsencode(installation()), 0)
        return name
    finally:
        os.close(descriptor)


def _name(claimed: str) -> str:
    own = installation()
    prefix, _, package = claimed.partition("\n")
    is_there = os.path.isdir(prefix) and os.path.isfile(f"{package}/__init__.py")
    return f"{_FIRST}-{mark_of(own)}" if claimed != own and is_there else _FIRST
