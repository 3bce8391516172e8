"""The system calls that no sandboxed command may make, as a seccomp program for this machine.

Owns the numbers of the calls and the program's bytes. Does not install it: `thread.py` does, or bubblewrap.
"""

from __future__ import annotations

import errno
import os
import socket
import struct
from collections.abc import Sequence
from typing import Final, NamedTuple

# Offsets in the kernel's `struct seccomp_data`; of 64-bit arguments the lower half is enough here.
_NUMBER: Final = 0
_ARCHITECTURE: Final = 4
_ARGUMENTS: Final = 16
# Codes of the classic BPF machine, as <linux/bpf_common.h> has them.
_LOAD: Final = 0x20
_JUMP_EQUAL: Final = 0x15
_JUMP_AT_LEAST: Final = 0x35
_JUMP_BITS: Final = 0x45
_RETURN: Final = 0x06

_ALLOW: Final = 0x7FFF0000
_NOTIFY: Final = 0x7FC00000
_REFUSE: Final = 0x00050000 | errno.EPERM
_UNKNOWN: Final = 0x00050000 | errno.ENOSYS
_X32: Final = 0x40000000  # the x32 calls of x86-64: other numbers for the same calls
# A new user namespace gives every capability in it: root could mount the control groups, and own them.
_NEW_USER: Final = 0x10000000
_CLONE3: Final = 435  # the same on every processor
# Typing into the terminal that started us, and the same for the console.
_IOCTLS: Final = (0x5412, 0x541C)


class Machine(NamedTuple):
    """Numbers that differ between processors."""

    audit: int
    seccomp: int
    capset: int
    prctl: int
    socket: int
    connect: int
    sendto: int
    ioctl: int
    clone: int
    unshare: int
    refused: tuple[int, ...]


# Refused: keyctl, add_key and request_key (the user's keyring), bpf, io_uring (three calls; past the socket check),
# perf_event_open, userfaultfd and open_by_handle_at (ways into the kernel that no build needs).
_URING: Final = (425, 426, 427)
MACHINES: Final = {
    "x86_64": Machine(0xC000003E, 317, 126, 157, 41, 42, 44, 16, 56, 272, (250, 248, 249, 321, *_URING, 298, 323, 304)),
    "aarch64": Machine(
        0xC00000B7, 277, 91, 167, 198, 203, 206, 29, 220, 97, (219, 217, 218, 280, *_URING, 241, 282, 265)
    ),
}


def machine() -> Machine | None:
    """Return this processor's numbers; None if they are not known."""
    return MACHINES.get(os.uname().machine)


def thread_filter(calls: Machine, *, network: bool) -> bytes:
    """Return the program for the restricted thread: it reports a socket that is not allowed, and the listener refuses.

    Unix sockets are refused: without a mount namespace those of docker and of the ssh-agent could be reached.
    Netlink stays: the C library looks for addresses with it, and changes need rights that a command does not have.
    """
    allowed = [socket.AF_NETLINK, *((socket.AF_INET, socket.AF_INET6) if network else ())]
    families = [_equal(family, then=_ALLOW) for family in allowed]
    return _program(calls, [*(code for pair in families for code in pair), (_RETURN, 0, 0, _NOTIFY)])


def namespace_filter(calls: Machine, *, nests: bool = False) -> bytes:
    """Return the program for bubblewrap, whose network is its namespace's: it refuses what ignores namespaces.

    Args:
        nests: the command may make user namespaces, which a sandbox of its own needs.
    """
    refused = [_equal(family, then=_REFUSE) for family in (socket.AF_PACKET, _AF_VSOCK)]
    return _program(calls, [*(code for pair in refused for code in pair), (_RETURN, 0, 0, _ALLOW)], nests=nests)


def user_filter(calls: Machine, *, nests: bool) -> bytes:
    """Return the program that refuses new user namespaces, and programs for other processors; nothing if it `nests`."""
    if nests:
        return _bytes([(_RETURN, 0, 0, _ALLOW)])
    return _program(calls._replace(refused=()), [(_RETURN, 0, 0, _ALLOW)], may_type=True)


def address_filter(calls: Machine) -> bytes:
    """Return the second program for bubblewrap: it reports every call that names an address. It refuses nothing."""
    codes: list[_Code] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, calls.audit),
        (_RETURN, 0, 0, _ALLOW),
        (_LOAD, 0, 0, _NUMBER),
        *_equal(calls.connect, then=_NOTIFY),
        # Without an address it goes where the socket is connected to, which was reported then.
        (_JUMP_EQUAL, 0, 4, calls.sendto),
        (_LOAD, 0, 0, _ARGUMENTS + 8 * 4),
        *_equal(0, then=_ALLOW),
        (_RETURN, 0, 0, _NOTIFY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return _bytes(codes)


_AF_VSOCK: Final = 40  # not in Python on every system
_Code = tuple[int, int, int, int]


def _program(calls: Machine, on_socket: Sequence[_Code], *, nests: bool = False, may_type: bool = False) -> bytes:
    """Return a program that allows what no block refuses. A block is entered by its number, and never left."""
    spaces: list[_Code] = []
    if not nests:
        on_flags = [(_JUMP_BITS, 0, 1, _NEW_USER), (_RETURN, 0, 0, _REFUSE), (_RETURN, 0, 0, _ALLOW)]
        spaces += [*_block(calls.clone, 0, on_flags), *_block(calls.unshare, 0, on_flags)]
        # Its flags are in memory, which a program here cannot read. The C library then uses `clone`.
        spaces += _equal(_CLONE3, then=_UNKNOWN)
    terminal = [code for request in (() if may_type else _IOCTLS) for code in _equal(request, then=_REFUSE)]
    codes: list[_Code] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        # Programs for another processor (32 bit) would call by other numbers.
        (_JUMP_EQUAL, 1, 0, calls.audit),
        (_RETURN, 0, 0, _REFUSE),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _REFUSE),
        *(code for number in calls.refused for code in _equal(number, then=_REFUSE)),
        *spaces,
        *_block(calls.socket, 0, on_socket),
        *_block(calls.ioctl, 1, [*terminal, (_RETURN, 0, 0, _ALLOW)]),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return _bytes(codes)


def _bytes(codes: Sequence[_Code]) -> bytes:
    return b"".join(struct.pack("=HBBI", *code) for code in codes)


def _equal(value: int, *, then: int) -> tuple[_Code, _Code]:
    return (_JUMP_EQUAL, 0, 1, value), (_RETURN, 0, 0, then)


def _block(number: int, argument: int, codes: Sequence[_Code]) -> list[_Code]:
    """Return `codes` for one call, with one of its arguments loaded."""
    inside = [(_LOAD, 0, 0, _ARGUMENTS + 8 * argument), *codes]
    return [(_JUMP_EQUAL, 0, len(inside), number), *inside]
