"""A store for one run, where the user's own store cannot be written.

Owns its folder, which is deleted when the store is closed. It is a file and not memory: the reader and the writer of a
store are two connections, and a database in memory has no log that lets both work at the same time.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from dragoman.errors import StoreError
from dragoman.store.sessions import Store

if TYPE_CHECKING:
    from collections.abc import Iterable

_MEMORY: Final = "/dev/shm"  # a private folder is made in it


class TemporaryStore:
    """An open store that is gone after `close`."""

    def __init__(self, store: Store, folder: Path) -> None:
        self.store = store
        self._folder = folder

    @classmethod
    async def open(cls) -> TemporaryStore:
        """Raises: StoreError if no folder for temporary files can be written."""
        problem = StoreError("no folder for temporary files can be written")
        for parent in _parents():
            try:
                folder = Path(await asyncio.to_thread(tempfile.mkdtemp, "", "dragoman-sessions-", parent))
            except OSError as error:
                problem = StoreError(f"{parent} cannot be written: {error.strerror or error}")
                continue
            try:
                return cls(await Store.open(folder / "sessions.db"), folder)
            except StoreError as error:
                problem = error
                await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise problem

    async def close(self) -> None:
        await self.store.close()
        await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)


def _parents() -> Iterable[str]:
    """Yield the folders to try. The second is for a disk that is full."""
    with suppress(FileNotFoundError):  # none of the usual ones can be written
        yield tempfile.gettempdir()
    if Path(_MEMORY).is_dir():
        yield _MEMORY
