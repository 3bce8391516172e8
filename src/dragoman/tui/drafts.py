"""Drafts: what was typed and not sent, kept on disk so that it survives the end of the client, even by `kill -9`.

One file for each session, in a folder for each project below the state folder. A draft of a session comes back when the
session does. One that was in the input of a client that ended comes back in the next client of the folder, whatever
session that opens; it is taken by one client only. While its client lives, another one does not take it.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from time import time
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.settings.places import state_dir
from dragoman.tui.attachments import Chip
from dragoman.tui.history import folder_key
from dragoman.workspace.private import make_private_folder, write_private

_LARGEST_BYTES: Final = 8 << 20
_OLDEST_SECONDS: Final = 30 * 24 * 3600.0
_MOST_FILES: Final = 200


class Draft(Struct, frozen=True):
    """A text with its attachments."""

    text: str
    chips: list[Chip] = []
    pid: int = 0
    """The client in whose input it is."""
    is_shown: bool = True
    """In the input of that client; False if the client went to another session."""
    at: float = 0.0


class DraftFolder:
    """The drafts of one project. Every method raises OSError if the disk does not do what it should."""

    def __init__(self, folder: str) -> None:
        self._folder = str(state_dir() / "drafts" / folder_key(folder))

    def save(self, session_id: str | None, draft: Draft) -> None:
        """Keep a draft, in one step; an empty one is removed."""
        path = self._path(session_id)
        if not draft.text:
            self.remove(session_id)
            return
        data = msgspec.json.encode(draft)
        if len(data) > _LARGEST_BYTES:
            data = msgspec.json.encode(msgspec.structs.replace(draft, chips=[]))
        make_private_folder(self._folder)
        write_private(path, data, is_synced=False)  # while the user types: a disk must not delay the keys

    def remove(self, session_id: str | None) -> None:
        """Forget a draft: it was sent, or deleted."""
        with suppress(FileNotFoundError):
            os.unlink(self._path(session_id))

    def load(self, session_id: str | None) -> Draft | None:
        """Return the draft of a session, unless it is in the input of another client that lives."""
        found = _read(self._path(session_id))
        return None if found is None or _is_elsewhere(found) else found

    def take_left(self) -> Draft | None:
        """Return the newest draft that a client of this folder left at its end, and remove it: one client takes it."""
        found: list[tuple[float, str, Draft]] = []
        try:
            names = [name for name in os.listdir(self._folder) if name.endswith(".json")][:_MOST_FILES]
        except FileNotFoundError:
            return None
        for name in names:
            path = os.path.join(self._folder, name)
            draft = _read(path)
            if draft is None or time() - draft.at > _OLDEST_SECONDS:
                with suppress(OSError):
                    os.unlink(path)
            elif draft.is_shown and not _is_elsewhere(draft):
                found.append((draft.at, path, draft))
        for _, path, draft in sorted(found, key=lambda each: each[0], reverse=True):
            try:
                os.unlink(path)
            except FileNotFoundError:
                continue  # another client was faster
            return draft
        return None

    def _path(self, session_id: str | None) -> str:
        # Before there is a session, each client has a place of its own.
        name = f"new-{os.getpid()}" if session_id is None else hashlib.sha256(session_id.encode()).hexdigest()[:32]
        return os.path.join(self._folder, f"{name}.json")


def _read(path: str) -> Draft | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(_LARGEST_BYTES + 1), type=Draft)
    except (FileNotFoundError, msgspec.MsgspecError, UnicodeDecodeError):
        return None


def _is_elsewhere(draft: Draft) -> bool:
    """Return whether it is in the input of another client that lives."""
    if not draft.is_shown or draft.pid in (0, os.getpid()):
        return False
    try:
        os.kill(draft.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # a process of another user has the number by now, or ours has: it is not taken away
    return True
