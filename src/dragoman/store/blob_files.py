"""Large bodies of events as files of their own, named by their hash, so that equal ones are kept once.

Owns the folder of these files, which only the user can read. Which events name a file belongs to the log. A file whose
content does not have the hash that is its name is not a body: a disk that was full or lost its power leaves such files.
"""

from __future__ import annotations

import hashlib
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import StoreError
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

_log = logging.getLogger("dragoman.store")
BLOB_BYTES: Final = 256 * 1024
"""A body that is larger is a file of its own: a row of this size makes every read of its neighbours slow."""


class BlobFiles:
    """The folder of large bodies."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._reported: set[str] = set()

    def keep(self, body: bytes) -> str:
        """Write a body, on disk when this returns; gives its name. Raises: OSError."""
        hash = hashlib.sha256(body).hexdigest()
        path = self._folder / hash
        with suppress(StoreError):  # one that is damaged is written again: what names it already is whole again too
            self.read(hash)
            return hash
        make_private_folder(self._folder)
        write_private(path, body, is_synced=True)
        return hash

    def read(self, hash: str) -> bytes:
        """Raises: StoreError if the file is missing or damaged."""
        path = self._folder / hash
        try:
            body = path.read_bytes()
        except OSError as error:
            raise StoreError(f"a part of the event log is missing: {path} ({error.strerror})") from None
        if hashlib.sha256(body).hexdigest() != hash:
            raise StoreError(f"a part of the event log is damaged: {path} does not have the content of its name")
        return body

    def find(self, hash: str) -> bytes | None:
        """Return a body; None if its file is missing or damaged, which is reported once."""
        try:
            return self.read(hash)
        except StoreError as error:
            if hash not in self._reported:
                self._reported.add(hash)
                _log.error("%s; a backup may have it", error)
            return None

    def remove(self, hash: str) -> None:
        """Remove a body that no event names any more."""
        (self._folder / hash).unlink(missing_ok=True)
