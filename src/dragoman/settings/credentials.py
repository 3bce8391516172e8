"""Stored keys of model providers: `credentials.json` in the configuration folder, which only the user can read.

Owns the file. A key is in the file itself, or in the keyring of the system (Secret Service, KWallet, Keychain) through
the package `keyring`, and the file then only names its provider. A key that the user typed for a variable of another
agent stands under `AGENT/VARIABLE`. Does not know which providers there are, or what a key is used for.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KeyPlace: TypeAlias = Literal["file", "keyring"]

FILE_NAME: Final = "credentials.json"
VERSION: Final = 1
T = TypeVar("T")
SERVICE: Final = "dragoman"
# A user needs longer to type the password of a keyring, but a session must not wait so long for a key.
SECONDS: Final = 10.0
_INSTEAD: Final = "or store the key in the file, without --keyring"


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

    def put_variable(self, agent: str, variable: str, key: str) -> None:
        """Store a key for a variable of an agent, in place of an earlier one. Raises: ConfigError."""
        self.put(f"{agent}/{variable}", key)

    def variables_of(self, agent: str) -> dict[str, str]:
        """Return the keys that were stored for variables of an agent. Raises: ConfigError."""
        start = f"{agent}/"
        found = {id.removeprefix(start): stored.key for id, stored in self.keys().items() if id.startswith(start)}
        return {name: key for name, key in found.items() if key}

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
        """Remove from the keyring a key that moves to the file."""
        if before is not None and before.place == "keyring" and place == "file":
            with suppress(ConfigError):  # a keyring that is gone holds nothing that could be used
                remove_from_keyring(before.provider)

    def _write(self, keys: dict[str, StoredKey]) -> None:
        entries = {
            stored.provider: {"key": stored.key, "added": stored.added}
            if stored.place == "file"
            else {"keyring": True, "added": stored.added}
            for stored in keys.values()
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


def write_to_keyring(provider: str, key: str) -> None:
    """Raises: ConfigError if there is no keyring, or it does not answer in time."""
    _call("cannot be written", lambda keyring: keyring.set_password(SERVICE, provider, key))


def read_from_keyring(provider: str) -> str:
    """Raises: ConfigError if there is no keyring, it does not answer in time, or it has no such key."""
    key = _call("cannot be read", lambda keyring: keyring.get_password(SERVICE, provider))
    if not isinstance(key, str) or not key:
        raise ConfigError(
            f"the keyring has no key of {provider}; store it again: dragoman agent login {provider} --keyring"
        )
    return key


def remove_from_keyring(provider: str) -> None:
    """Remove a key; one that is gone already is not an error. Raises: ConfigError."""

    def remove(keyring: Any) -> None:
        if keyring.get_password(SERVICE, provider) is not None:
            keyring.delete_password(SERVICE, provider)

    _call("cannot be changed", remove)


def _call(problem: str, work: Callable[[Any], T]) -> T:
    """Call the keyring within a time limit: one that is locked may show a dialog, or wait for one that no screen shows.

    The call runs in a thread, which is left behind when the time is over, because it cannot be ended.
    """
    results: list[T] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            import keyring  # type: ignore[import-not-found, unused-ignore]  # not part of any install of ours

            results.append(work(keyring))
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=run, name="dragoman-keyring", daemon=True)
    thread.start()
    thread.join(SECONDS)
    if results:
        return results[0]
    if not errors:
        raise ConfigError(
            f"the keyring {problem}: it did not answer within {SECONDS:g} s; unlock it and repeat, {_INSTEAD}"
        )
    if isinstance(errors[0], ImportError):
        raise ConfigError(f"the keyring {problem}: install it with pip install keyring, {_INSTEAD}") from errors[0]
    # The package's own errors have a base class that is only known once it is installed.
    name = type(errors[0]).__name__
    raise ConfigError(f"the keyring {problem}: {name}: {errors[0]}; {_INSTEAD}") from errors[0]
