"""Stored logins by OAuth: `mcp-tokens.json` and others in the configuration folder, which only the user can read.

Owns such a file: one login for each address (without its query), with the issuer it belongs to, the registered client,
the tokens and the absolute time at which the access token expires. Several programs may use it at once: each change is
made under a lock to what the file holds then, and replaces it as a whole. Does not depend on the `mcp` package.
"""

from __future__ import annotations

import asyncio
import os
import time
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.settings.documents import read_document, write_document

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path

FILE_NAME: Final = "mcp-tokens.json"
VERSION: Final = 1
# A token that expires while the request is on its way is refused; clocks differ by some seconds.
EARLY_SECONDS: Final = 30.0
# An authorisation server answers within this, or the other program has hung.
_LOCK_SECONDS: Final = 20.0
_LOOK_SECONDS: Final = 0.05


class StoredLogin(Struct, frozen=True):
    """The login to one address. The dictionaries are those of the OAuth documents."""

    issuer: str = ""
    redirect_uri: str = ""
    """The address of this machine that the client was registered with."""
    client: dict[str, Any] = {}
    tokens: dict[str, Any] = {}
    expires_at: float | None = None
    """When the access token expires, in seconds since 1970; None if the server did not state it."""
    server: dict[str, Any] = {}
    """The metadata of the authorisation server: where tokens are refreshed."""
    resource: dict[str, Any] = {}
    """The metadata of the protected resource."""

    @property
    def is_expired(self) -> bool:
        return self.expires_at is not None and self.expires_at - EARLY_SECONDS <= time.time()

    @property
    def state(self) -> str:
        """The state for lists of servers."""
        if not self.tokens.get("access_token"):
            return "logged out"
        if not self.is_expired:
            return "logged in"
        return "logged in, to be refreshed" if self.tokens.get("refresh_token") else "expired"


class TokenStore:
    """The file of logins of one user."""

    def __init__(self, config_dir: Path, file_name: str = FILE_NAME) -> None:
        self.path = config_dir / file_name

    def all(self) -> dict[str, StoredLogin]:
        """Return every login by its address. Raises: ConfigError."""
        return self._read()

    def put(self, url: str, login: StoredLogin) -> None:
        """Store a login in place of an earlier one. Raises: ConfigError."""
        with self._locked():
            self._write({**self._read(), url: login})

    def get(self, url: str) -> StoredLogin:
        """Return the login to an address; an empty one if there is none. Raises: ConfigError."""
        return self._read().get(url, StoredLogin())

    def change(self, url: str, **members: Any) -> StoredLogin:
        """Change members of a login and return it. Raises: ConfigError."""
        with self._locked():
            logins = self._read()
            changed = replace(logins.get(url, StoredLogin()), **members)
            self._write({**logins, url: changed})
        return changed

    def remove(self, url: str) -> bool:
        """Delete a login; False if there was none. Raises: ConfigError."""
        with self._locked():
            logins = self._read()
            was_there = logins.pop(url, None) is not None
            if was_there:
                self._write(logins)
        return was_there

    def forget_tokens(self, url: str, refresh_token: str) -> bool:
        """Delete tokens that were revoked, unless another program has stored newer ones. Returns whether they went."""
        with self._locked():
            logins = self._read()
            found = logins.get(url, StoredLogin())
            if found.tokens.get("refresh_token") != refresh_token:
                return False
            self._write({**logins, url: replace(found, tokens={}, expires_at=None)})
        return True

    def stamp(self) -> tuple[int, ...] | None:
        """Return what is another after each change of the file; None if there is none."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino, found.st_size

    @asynccontextmanager
    async def refreshing(self) -> AsyncIterator[None]:
        """Keep other programs from refreshing a token while entered: a refresh token can often be used only once.

        If the lock is not free within its time, the refresh is tried without it.
        """
        import fcntl

        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.path.with_suffix(".refresh"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            until = time.monotonic() + _LOCK_SECONDS
            while time.monotonic() < until:
                try:
                    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError:
                    await asyncio.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        import fcntl

        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(self.path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigError(f"{self.path}: the login cannot be stored: {error.strerror}") from error
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def _read(self) -> dict[str, StoredLogin]:
        document = read_document(self.path)
        if document is None:
            return {}
        value = document.value
        if not isinstance(value, dict) or value.get("version") != VERSION:
            raise ConfigError(f"{self.path}: not a file of logins, or written by a newer dragoman; move it away")
        try:
            return msgspec.convert(value.get("logins"), dict[str, StoredLogin])
        except msgspec.ValidationError as error:
            # The path of the error is shown, never a value: it may be a token.
            raise ConfigError(f"{self.path}: {error}; move it away, and log in again") from None

    def _write(self, logins: dict[str, StoredLogin]) -> None:
        write_document(self.path, {"version": VERSION, "logins": msgspec.to_builtins(logins)})
