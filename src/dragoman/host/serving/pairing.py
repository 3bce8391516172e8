"""How a browser becomes a device of a host: by a code that is shown on the host and typed, or scanned, once.

Owns the file of open codes, next to that of tokens, so that a program of the host's user can make a code for a host
that runs. A code has 40 bits, which is little: it is good once and for two minutes, and five wrong tries end all of
them. The code carries the rights; what the browser sends cannot add any.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dragoman.errors import ConfigError
from dragoman.host.serving.tokens import USUAL_RIGHTS, HostToken
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from dragoman.host.serving.tokens import DeviceKey, HostTokens

CODE_SECONDS: Final = 120
WRONG_TRIES: Final = 5
IDLE_SECONDS: Final = 30 * 86400.0
"""A device that was not used for so long is over."""
LETTERS: Final = "23456789ABCDEFGHJKLMNPQRSTUVWXYZ"
"""32 of them, without 0, O, 1 and I, which are taken for each other."""
_LENGTH: Final = 8
_MOST_CODES: Final = 16
_LONGEST_TITLE: Final = 64
_LONGEST_AGENT: Final = 256


class NewDevice(msgspec.Struct, frozen=True, rename="camel"):
    """What the device gets that is paired by a code."""

    user: str
    """Whose sessions it sees."""
    rights: tuple[str, ...] = USUAL_RIGHTS
    folders: tuple[str, ...] | None = None
    expires_at: float | None = None
    """When the device is over, in seconds since 1970; None for as long as it is used."""


class _Code(msgspec.Struct, frozen=True, rename="camel"):
    digest: str
    until: float
    device: NewDevice


class _File(msgspec.Struct, rename="camel"):
    codes: list[_Code] = []
    wrong: int = 0


class Try(NamedTuple):
    """The result of a code that was sent."""

    device: NewDevice | None
    wrong: int = 0
    """How many wrong ones were sent since the last right one."""
    ended: int = 0
    """How many open codes the wrong tries have ended."""


class Paired(NamedTuple):
    """A device that was paired."""

    token: HostToken
    key: DeviceKey


class PairingCodes:
    """The open codes of a host, in a file that only its owner can read."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock

    def issue(self, device: NewDevice) -> str:
        """Make a code, as it is shown: two groups of four."""
        code = "".join(secrets.choice(LETTERS) for _ in range(_LENGTH))
        with self._changing() as found:
            found.codes = [*found.codes[1 - _MOST_CODES :], _Code(_digest(code), self._clock() + CODE_SECONDS, device)]
        return f"{code[:4]}-{code[4:]}"

    def use(self, code: str) -> Try:
        """Use a code up. A wrong one, a used one and one that is too old are the same."""
        given = _digest(_plain(code))
        with self._changing() as found:
            right = None
            for known in found.codes:
                if hmac.compare_digest(known.digest, given):
                    right = known
            if right is not None:
                found.codes, found.wrong = [known for known in found.codes if known is not right], 0
                return Try(right.device)
            found.wrong += 1
            wrong = found.wrong
            ended = len(found.codes) if wrong >= WRONG_TRIES else 0
            if wrong >= WRONG_TRIES:
                found.codes, found.wrong = [], 0
            return Try(None, wrong, ended)

    @contextmanager
    def _changing(self) -> Iterator[_File]:
        """Yield the open codes and write them back. A file that cannot be read holds none: it lives for minutes."""
        make_private_folder(self.path.parent)
        lock = open_private(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            found = _read(self.path)
            now = self._clock()
            found.codes = [known for known in found.codes if now < known.until <= now + CODE_SECONDS]
            yield found
            write_private(self.path, msgspec.json.encode(found), is_synced=True)  # a used code must not come back
        finally:
            os.close(lock)


class Pairing:
    """The devices of a host: pairs, lists and removes them."""

    def __init__(self, tokens: HostTokens, codes: PairingCodes) -> None:
        """Prepare it.

        Args:
            tokens: Where devices are kept, as tokens of a kind.
            codes: The open codes.
        """
        self.tokens = tokens
        self.codes = codes
        self.address: str | None = None
        """Where a browser opens the page; None if that is not known."""
        self.page: str | None = None
        """The version of the page that is served; None if it is not complete."""
        self.on_removed: Callable[[], None] = lambda: None
        """Called when a device was removed, to end its connections at once."""

    def pair(self, device: NewDevice, title: str, agent: str) -> Paired:
        """Make the device that a code permits.

        Raises:
            ConfigError: it cannot be kept.
        """
        wanted = HostToken(
            name="device",
            digest="",
            user=device.user,
            rights=device.rights,
            folders=device.folders,
            expires_at=device.expires_at,
            idle_seconds=IDLE_SECONDS,
            title=title,
            agent=agent[:_LONGEST_AGENT],
        )
        key = self.tokens.add_device(wanted)
        made = self.tokens.find_device(key.cookie, key.half)
        if made is None:
            raise ConfigError("the device was paired by a code that permits nothing any more")
        return Paired(made, key)

    def remove(self, name: str, when: Callable[[Callable[[], None]], object] | None = None) -> None:
        """Remove a device, or a token, and end its connections.

        Args:
            name: Of the device or the token.
            when: Is given what ends the connections, to do that later; None for at once.

        Raises:
            ConfigError: there is none with this name.
        """
        self.tokens.revoke(name)
        if when is None:
            self.on_removed()
        else:
            when(self.on_removed)


def read_title(text: object) -> str | None:
    """Return the name that a user gave to a device; None if it cannot be one."""
    if not isinstance(text, str):
        return None
    title = " ".join(text.split())
    return title if title and len(title) <= _LONGEST_TITLE and title.isprintable() else None


def _plain(code: str) -> str:
    """Return a code without what people type into it: spaces, dashes, small letters."""
    return "".join(code.upper().replace("-", "").split())


def _digest(code: str) -> str:
    return hashlib.sha256(f"code:{code}".encode("utf-8", "surrogateescape")).hexdigest()


def _read(path: Path) -> _File:
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            return msgspec.json.decode(file.read(), type=_File)
    except (OSError, msgspec.DecodeError):
        return _File()
