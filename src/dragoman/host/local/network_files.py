"""Whether a folder is on a file system where an SQLite log can be kept. WAL needs memory that all its users share."""

from __future__ import annotations

import os
from typing import Final

_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "davfs", "fuse.gcsfuse"),
    )
)


def why_not_here(folder: str) -> str:
    """Why the log cannot be in this folder, as a sentence; empty if it can."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = file.read()
    except OSError:
        return ""  # another system; SQLite itself refuses what it notices
    return refuse_network(folder, file_system_of(os.path.realpath(folder), mounts))


def file_system_of(folder: str, mounts: str) -> str:
    """The type of the file system that a folder is on, by a text like `/proc/self/mounts`; empty if it is not there."""
    from dragoman.policy.paths import is_below  # only a host looks, when it starts

    best, found = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if is_below(folder, point) and len(point) >= len(best):  # of two at one point, the later one is seen
            best, found = point, words[2]
    return found


def refuse_network(folder: str, kind: str) -> str:
    """The sentence for a file system of this type; empty if the log can be there."""
    if kind not in _NETWORK:
        return ""
    return (
        f"sessions cannot be kept in {folder}: it is on a network file system ({kind}), where the log would break; "
        "set DRAGOMAN_HOME or XDG_DATA_HOME to a folder of this machine"
    )
