"""The files with outputs that were too long for the model: one folder for each session, next to the store.

Owns where they are and when they go: with their session. `tools/long_output.py` writes them.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.store.sessions import Store

_log = logging.getLogger("dragoman.builtin")


def output_folder(store_path: Path, session_id: str) -> str:
    """Return the folder of a session. It may not exist yet."""
    return os.path.join(os.path.dirname(store_path), "output", session_id)


async def delete_outputs(store_path: Path, store: Store) -> None:
    """Delete the folders of all sessions that do not exist any more. Raises: StoreError."""
    parent = os.path.join(os.path.dirname(store_path), "output")
    for name in await asyncio.to_thread(_folders, parent):
        if await store.session(name) is None:
            await asyncio.to_thread(_delete, os.path.join(parent, name))


def _folders(parent: str) -> list[str]:
    try:
        with os.scandir(parent) as entries:
            return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []


def _delete(folder: str) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        _log.warning("the outputs of a deleted session are left in %s: %s", folder, error)
