"""Why a file was not read or written: a kind for programs and a sentence for users."""

from __future__ import annotations

import errno
from typing import Final, Literal, TypeAlias

from dragoman.errors import DragomanError

Kind: TypeAlias = Literal[
    "outside",  # the path leads out of the roots
    "invalid",  # the path cannot name a file: relative, a NUL, too long
    "missing",
    "not_a_file",  # a folder, a FIFO, a device, a socket
    "link",  # a symbolic link where none is followed
    "too_large",
    "binary",
    "denied",
    "busy",
    "changed",  # the file is no longer what the caller saw
    "forgotten",  # the journal was too small to keep it
    "failed",  # the disk's own trouble
]


class WorkspaceError(DragomanError):
    """A file was refused. `kind` is for programs; the message says what happened and what to do."""

    def __init__(self, kind: Kind, path: str, message: str) -> None:
        super().__init__(kind, path, message)
        self.kind: Final[Kind] = kind
        self.path: Final = path
        self.message: Final = message

    def __str__(self) -> str:
        return f"{self.path!r}: {self.message}"


# Both resolvers raise these numbers, whether the kernel or the component walk found the problem.
_MEANINGS: Final[dict[int, tuple[Kind, str]]] = {
    errno.ENOENT: ("missing", "there is no such file"),
    errno.ENOTDIR: ("missing", "there is no such file; a part of the path is not a folder"),
    errno.EXDEV: ("outside", "a link on the path leads out of the session's folders; name a file inside them"),
    errno.ELOOP: ("link", "a symbolic link is in the way that is not followed; name the file it leads to"),
    errno.ENXIO: ("not_a_file", "it is not a regular file; only those are read and written"),
    errno.EISDIR: ("not_a_file", "it is a folder; name a file"),
    errno.EACCES: ("denied", "the system does not permit it; change the file's permissions first"),
    errno.EPERM: ("denied", "the system does not permit it; change the file's permissions or attributes first"),
    errno.EROFS: ("denied", "the file system is read-only"),
    errno.ETXTBSY: ("busy", "the file is a program that runs at this moment; try again when it has ended"),
    errno.EAGAIN: ("busy", "the folders on the path keep changing; try again"),
    errno.ENAMETOOLONG: ("invalid", "the path is too long"),
    errno.EINVAL: ("invalid", "the path cannot name a file"),
}


def from_os(error: OSError, path: str) -> WorkspaceError:
    """Return the error of a system call as a WorkspaceError."""
    kind, message = _MEANINGS.get(error.errno or 0, ("failed", f"the system failed: {error.strerror or error}"))
    return WorkspaceError(kind, path, message)
