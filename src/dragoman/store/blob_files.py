"""Large bodies of events as files of their own, named by their hash, so that equal ones are kept once.

Owns the folder of these files, which only the user can read. Which events name a file belongs to the log.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

from dragoman.errors import StoreError
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

BLOB_BYTES: Final = 256 * 1024
"""A body that is larger is a file of its own: a row of this size makes every read of its neighbours slow."""


class BlobFiles:
    """The folder of large bodies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, body: bytes) -> str:
        """Write a body, on disk when this returns; gives its name. Raises: OSError."""
        hash = hashlib.sha256(body).hexdigest()
        path = self._folder / hash
        if path.exists():
            return hash
        make_private_folder(self._folder)
        write_private(path, body, is_synced=True)
        return hash

    def read(self, hash: str) -> bytes:
        """Raises: StoreError if the file is missing."""
        try:
            return (self._folder / hash).read_bytes()
        except OSError as error:
            raise StoreError(f"a part of the event log is missing: {self._folder / hash} ({error.strerror})") from None

    def remove(self, hash: str) -> None:
        """Remove a body that no event names any more."""
        (self._folder / hash).unlink(missing_ok=True)
