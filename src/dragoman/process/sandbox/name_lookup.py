"""Recognises the socket that the C library opens by itself to look up the name of a user or a group.

glibc asks a cache program (`nscd`) first, by a Unix socket, and reads the files if there is none. So `ls -l`, `id`, or
`bash` without `HOME` try a socket, and lack nothing when they do not get it. The family and type of that socket are
also those of other programs; what tells it apart is that the C library itself asks for it.
"""

from __future__ import annotations

import os
import platform
import socket
import struct
from typing import Final

from dragoman.process import proctable

_TYPE: Final = socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK
_C_LIBRARIES: Final = ("libc.so", "libc-2.", "ld-linux")
# There the address to which a function returns is on top of the stack when it makes a system call.
_RETURNS_BY_STACK: Final = platform.machine() == "x86_64"


def is_name_lookup(pid: int, family: int, kind: int, protocol: int) -> bool:
    """Whether the process, stopped at its call of `socket`, asks on behalf of the C library.

    Where the process cannot be read, the form of the call decides: to report nothing is better than to blame the
    sandbox for the failure of every command that prints a user's name.
    """
    if (family, kind, protocol) != (socket.AF_UNIX, _TYPE, 0):
        return False
    if not _RETURNS_BY_STACK:
        return True
    try:
        caller = _caller(pid)
        return any(first <= caller < last for first, last in _c_library(pid))
    except (OSError, ValueError, struct.error):
        return True


def _caller(pid: int) -> int:
    """The address of the code that called the function which makes the system call."""
    *_, stack, _ = proctable.system_call(pid)
    memory = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        (address,) = struct.unpack("=Q", os.pread(memory, 8, stack))
    finally:
        os.close(memory)
    return int(address)


def _c_library(pid: int) -> list[tuple[int, int]]:
    """Where the code of the C library lies in the process."""
    found = []
    for line in proctable.mappings(pid):
        extent, permissions, *_, path = line.split(None, 5)
        if "x" in permissions and os.path.basename(path).startswith(_C_LIBRARIES):
            first, last = extent.split("-")
            found.append((int(first, 16), int(last, 16)))
    return found
