"""Stored keys of model providers: `credentials.json` in the configuration folder, which only the user can read.

Owns the file. A key is in the file itself, or in the keyring of the system (`keyring.py`), and the file then only names
its provider. Does not know which providers there are, or what a key is used for.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document
from dragoman.settings.keyring import read_from_keyring, remove_from_keyring, write_to_keyring

if TYPE_CHECKING:
    from pathlib import Path

KeyPlace: TypeAlias = Literal["file", "keyring"]

FILE_NAME: Final = "credentials.json"
VERSION: Final = 1


class StoredKey(Struct, frozen=True):
    """The key of one provider. `key` is empty if it is in the keyring."""

    provider: str
    place: KeyPlace
    key: str = ""
    added: str = ""

    def read(self) -> str:
        """Return the key. Blocks for some seconds at most. Raises: ConfigError if the keyring does not give it."""
        return self.key if self.place == "file" else read_from_keyring(self.provider)


class Credentials:
    """The file of stored keys of one user. It is read again when it has changed."""

    def __init__(self, config_dir: Path) -> None:
        self.path = config_dir / FILE_NAME
        self._state: tuple[int, ...] | None = None
        self._keys: dict[str, StoredKey] = {}

    def keys(self) -> dict[str, StoredKey]:
        """Return the stored keys by provider.

        Raises:
            ConfigError: the file is broken; it is never treated as empty.
        """
        state = self.stamp()
        if state != self._state:
            document = None if state is None else read_document(self.path)
            self._keys = {} if document is None else _read(document.value, self.path)
            self._state = state
        return dict(self._keys)

    def put(self, provider: str, key: str, place: KeyPlace = "file") -> None:
        """Store a key in place of an earlier one. Raises: ConfigError."""
        from datetime import UTC, datetime

        keys = self.keys()
        if place == "keyring":
            write_to_keyring(provider, key)
        self._forget_other_place(keys.get(provider), place)
        added = datetime.now(UTC).isoformat(timespec="seconds")
        self._write({**keys, provider: StoredKey(provider, place, key if place == "file" else "", added)})

    def remove(self, provider: str) -> StoredKey | None:
        """Delete a key and return what was stored, None if there was none. Raises: ConfigError."""
        keys = self.keys()
        found = keys.pop(provider, None)
        if found is not None:
            if found.place == "keyring":
                remove_from_keyring(provider)
            self._write(keys)
        return found

    def _forget_other_place(self, before: StoredKey | None, place: KeyPlace) -> None:
        """A key that moves from the keyring to the file must not stay in the keyring."""
        if before is not None and before.place == "keyring" and place == "file":
            with suppress(ConfigError):  # a keyring that is gone holds nothing that could be used
                remove_from_keyring(before.provider)

    def _write(self, keys: dict[str, StoredKey]) -> None:
        entries = {
            each.provider: {"key": each.key, "added": each.added}
            if each.place == "file"
            else {"keyring": True, "added": each.added}
            for each in keys.values()
        }
        write_document(self.path, {"version": VERSION, "keys": entries})
        folder = self.path.parent
        with suppress(OSError):  # the file itself is private; a folder of another owner stays as it is
            mode = stat.S_IMODE(folder.stat().st_mode)
            if mode & 0o077:
                folder.chmod(mode & 0o700)
        self._keys, self._state = keys, self.stamp()

    def stamp(self) -> tuple[int, ...] | None:
        """Return what is another after each change of the file; None if there is none. Raises: ConfigError."""
        try:
            found = os.stat(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise ConfigError(f"{self.path}: cannot be read: {error.strerror}; correct it or remove it") from error
        return found.st_mtime_ns, found.st_ino, found.st_size


def _read(value: Any, path: Path) -> dict[str, StoredKey]:
    if not isinstance(value, dict) or value.get("version") != VERSION or not isinstance(value.get("keys"), dict):
        raise ConfigError(f"{path}: not a file of stored keys, or written by a newer dragoman; move it away")
    found = {}
    for provider, entry in value["keys"].items():
        # The entry itself is never shown: it may be the key.
        if not isinstance(entry, dict) or not (isinstance(entry.get("key"), str) or entry.get("keyring") is True):
            raise ConfigError(
                f"{path}: the entry {provider!r} has no key; "
                f"remove it, and log in with: dragoman agent login {provider}"
            )
        place: KeyPlace = "keyring" if entry.get("keyring") is True else "file"
        key = entry["key"] if place == "file" else ""
        found[provider] = StoredKey(provider, place, key, str(entry.get("added", "")))
    return found
