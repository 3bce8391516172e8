"""Named tokens: who may connect to a host, with which rights, in which folders, until when.

Owns the file of tokens, which holds a hash of each token and never the token itself. A token is 256 random bits, so
that a plain hash cannot be reversed by guessing. Programs read the file again when it changes: a token that was revoked
is refused by hosts that run.

A browser that was paired is a token of the kind `device`. Its key has two halves, a cookie and a value that the page
sends in a header, because cookies are sent to every port of a name: one half alone opens nothing.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import time
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.policy.paths import is_below
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RIGHTS: Final = ("view", "prompt", "answer", "admin")
USUAL_RIGHTS: Final = ("view", "prompt", "answer")
"""What a token may do unless it was made with other rights: everything but to run the host."""
_PREFIX: Final = "dgm_"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_SEEN_SECONDS: Final = 600.0
_COOKIE_MARK: Final = "~"
_MOST_PARTS: Final = 8


class HostToken(msgspec.Struct, frozen=True, rename="camel"):
    """A token, without its secret."""

    name: str
    digest: str
    """SHA-256 of the token, in hexadecimal digits."""
    user: str
    """Whose sessions it sees; tokens of one user see the same ones."""
    rights: tuple[str, ...] = USUAL_RIGHTS
    folders: tuple[str, ...] | None = None
    """Where its sessions may work; None for all folders of the host."""
    may_start_programs: bool = False
    """Whether MCP servers that its clients send may be programs, which run with the rights of the host."""
    expires_at: float | None = None
    """Seconds since 1970."""
    created_at: float = 0.0
    kind: Literal["token", "device"] = "token"
    half: str = ""
    """Of a device: SHA-256 of the half that its page keeps; `digest` is that of its cookie."""
    title: str = ""
    """Of a device: what its user calls it."""
    agent: str = ""
    """Of a device: the browser, as it names itself."""
    seen_at: float | None = None
    """When it was used, to within some minutes."""
    idle_seconds: float | None = None
    """After so long without use it is over; None for never."""


class DeviceKey(NamedTuple):
    """Both halves of the key of a device, which are kept nowhere else."""

    cookie: str
    half: str


class _File(msgspec.Struct, rename="camel"):
    version: int
    tokens: list[HostToken]


class HostTokens:
    """The tokens of a host, in a file that only its owner can read."""

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.time) -> None:
        self.path = path
        self._clock = clock
        self._seen: tuple[int, int, int] | None = None
        self._tokens: dict[str, HostToken] = {}
        self._seen_at: dict[str, float] = {}

    def add(self, token: HostToken) -> str:
        """Keep a new token; gives its secret, which is kept nowhere.

        Args:
            token: What it may do; its digest is set here.

        Raises:
            ConfigError: there is one with this name, or something about it is wrong.
        """
        _check(token)
        secret = _PREFIX + secrets.token_urlsafe(32)
        with self._changing() as tokens:
            if token.name in tokens:
                raise ConfigError(f"there is a token {token.name!r} already; choose another name, or revoke it first")
            tokens[token.name] = replace(token, digest=_digest(secret), created_at=self._clock())
        return secret

    def add_device(self, token: HostToken) -> DeviceKey:
        """Keep a new device; gives its key.

        Args:
            token: What it may do; its name, which is the id of the device, and its digests are set here.

        Raises:
            ConfigError: something about it is wrong.
        """
        key = DeviceKey(secrets.token_urlsafe(32), secrets.token_urlsafe(32))
        now = self._clock()
        with self._changing() as tokens:
            name = f"device-{secrets.token_hex(6)}"
            made = replace(token, name=name, kind="device", created_at=now, seen_at=now)
            made = replace(made, digest=_device_digest(key.cookie), half=_device_digest(key.half))
            _check(made)
            tokens[name] = made
        return key

    def note_use(self, name: str) -> None:
        """Note that a token is used now; the file is written for it once in some minutes at most."""
        now = self._clock()
        token = self.get(name)
        self._seen_at[name] = now
        if token is not None and now - (token.seen_at or 0.0) > _SEEN_SECONDS:
            with self._changing() as tokens:
                if name in tokens:  # it may have been revoked
                    tokens[name] = replace(tokens[name], seen_at=now)

    def seen_at(self, token: HostToken) -> float | None:
        """Return when a token was last used, as far as this program has seen it or the file has it."""
        return max(filter(None, (self._seen_at.get(token.name), token.seen_at)), default=None)

    def revoke(self, name: str) -> HostToken:
        """Remove a token.

        Raises:
            ConfigError: there is none with this name.
        """
        with self._changing() as tokens:
            if name not in tokens:
                raise ConfigError(f"there is no token {name!r}; dragoman serve token list shows them")
            return tokens.pop(name)

    def all(self) -> list[HostToken]:
        """Return every token, also those that have expired, by name."""
        self._refresh()
        return [self._tokens[name] for name in sorted(self._tokens)]

    def get(self, name: str) -> HostToken | None:
        """Return the token with this name, if it is valid now."""
        self._refresh()
        token = self._tokens.get(name)
        return token if token is not None and not self.is_expired(token) else None

    def find(self, secret: str) -> HostToken | None:
        """Return the token with this secret, if it is valid now. All are compared, each in constant time."""
        self._refresh()
        given = _digest(secret)
        found = None
        for token in self._tokens.values():
            if hmac.compare_digest(token.digest, given) and token.kind == "token":
                found = token
        return None if found is None or self.is_expired(found) else found

    def find_device(self, cookie: str, half: str) -> HostToken | None:
        """Return the device with both halves of a key, if it is valid now. All are compared, each in constant time.

        Args:
            cookie: The value of the cookie, in which the keys for several hosts may be (see `join_cookie`).
            half: What the page sent.
        """
        self._refresh()
        given = [_device_digest(part) for part in cookie.split(_COOKIE_MARK)[:_MOST_PARTS]]
        other = _device_digest(half)
        found = None
        for token in self._tokens.values():
            has_cookie = sum(hmac.compare_digest(token.digest, digest) for digest in given) > 0
            if hmac.compare_digest(token.half, other) and has_cookie and token.kind == "device":
                found = token
        return None if found is None or self.is_expired(found) else found

    def is_expired(self, token: HostToken) -> bool:
        now = self._clock()
        is_idle = token.idle_seconds is not None and now - (self.seen_at(token) or 0.0) > token.idle_seconds
        return is_idle or (token.expires_at is not None and token.expires_at <= now)

    # The file

    def _refresh(self) -> None:
        """Read the file again if it was changed; a file that cannot be read means that no token is valid."""
        try:
            facts = os.stat(self.path)
        except FileNotFoundError:
            self._tokens, self._seen = {}, None
            return
        except OSError as error:
            raise ConfigError(f"the file of tokens cannot be read ({error.strerror}): {self.path}") from None
        seen = (facts.st_ino, facts.st_mtime_ns, facts.st_size)
        if seen != self._seen:
            self._tokens = _read(self.path)
            self._seen = seen

    @contextmanager
    def _changing(self) -> Iterator[dict[str, HostToken]]:
        """Yield the tokens, and write them back at the end. Two programs that change them wait for each other."""
        make_private_folder(self.path.parent)
        lock = open_private(self.path.with_name(f"{self.path.name}.lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            tokens = _read(self.path) if self.path.exists() else {}
            yield tokens
            document = msgspec.json.format(msgspec.json.encode(_File(1, list(tokens.values()))), indent=2)
            write_private(self.path, document, is_synced=True)  # a token that was withdrawn must not come back
        finally:
            os.close(lock)


def _read(path: Path) -> dict[str, HostToken]:
    try:
        with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
            found = msgspec.json.decode(file.read(), type=_File)
    except OSError as error:
        raise ConfigError(f"the file of tokens cannot be read ({error.strerror}): {path}") from None
    except msgspec.DecodeError as error:
        raise ConfigError(f"the file of tokens is broken ({error}): {path}; repair or remove it") from None
    return {token.name: token for token in found.tokens}


def checked_user(name: str) -> str:
    """Return a name, if it can be that of a token or a user. Raises: ConfigError."""
    if not _NAME.fullmatch(name):
        raise ConfigError(
            f"{name!r} cannot name a token or a user: use up to 64 letters, digits, dots, dashes and underscores"
        )
    return name


def _check(token: HostToken) -> None:
    for name in (token.name, token.user):
        checked_user(name)
    for right in token.rights:
        if right not in RIGHTS:
            raise ConfigError(f"{right!r} is not a right; the rights are {', '.join(RIGHTS)}")
    if "view" not in token.rights:
        raise ConfigError("a token without the right view could not be used for anything")
    for folder in token.folders or ():
        if not os.path.isabs(folder):
            raise ConfigError(f"the folder of a token must be absolute: {folder}")


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()


def _device_digest(secret: str) -> str:
    """Return the hash of half a key: another one than that of a token, so that it is never taken for one."""
    return _digest(f"device:{secret}")


def join_cookie(cookie: str, *, add: str | None = None, remove: HostToken | None = None) -> str:
    """Return the value of a browser's cookie with one more key, or without that of a device.

    Hosts at several ports of a machine, or behind tunnels that end there, share a cookie. Each adds its key in front.
    """
    parts = [part for part in cookie.split(_COOKIE_MARK) if part]
    if remove is not None:
        parts = [part for part in parts if _device_digest(part) != remove.digest]
    return _COOKIE_MARK.join((parts if add is None else [add, *parts])[:_MOST_PARTS])


TICKET_SECONDS: Final = 30.0
_MOST_TICKETS: Final = 10_000


class _Ticket(NamedTuple):
    token: str
    origin: bytes | None
    until: float


class Tickets:
    """Tickets for pages in a browser, which cannot send a header with a WebSocket; kept by their hashes.

    A ticket is bought with the token by `POST /ticket`, holds for one upgrade within seconds, and only from the
    origin that bought it. It is offered as a subprotocol, never in a URL: proxies write those down.
    """

    def __init__(self, *, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._tickets: dict[bytes, _Ticket] = {}

    def issue(self, token: str, origin: bytes | None) -> str:
        """Issue a new ticket for the holder of a token.

        Args:
            token: The name of the token.
            origin: Of the page that asked for it; None if no page did.
        """
        now = self._clock()
        self._tickets = {key: unused for key, unused in self._tickets.items() if unused.until > now}
        if len(self._tickets) >= _MOST_TICKETS:
            del self._tickets[next(iter(self._tickets))]
        ticket = secrets.token_urlsafe(32)
        self._tickets[_ticket_key(ticket)] = _Ticket(token, origin, now + TICKET_SECONDS)
        return ticket

    def all(self) -> list[Any]:
        """Return what another host of this machine needs to take the tickets, as JSON has it."""
        return [
            [key.hex(), found.token, None if found.origin is None else found.origin.decode("latin-1"), found.until]
            for key, found in self._tickets.items()
        ]

    def add(self, tickets: list[Any]) -> None:
        """Take the tickets of another host, whose clock is that of this machine too."""
        for key, token, origin, until in tickets:
            kept = None if origin is None else str(origin).encode("latin-1")
            self._tickets[bytes.fromhex(key)] = _Ticket(str(token), kept, float(until))

    def use(self, ticket: str, origin: bytes | None) -> str | None:
        """Use a ticket up, also if the origin is wrong, and return the name of the token behind it."""
        found = self._tickets.pop(_ticket_key(ticket), None)
        if found is None or found.until <= self._clock() or found.origin != origin:
            return None
        return found.token


def _ticket_key(ticket: str) -> bytes:
    """Return the hash to search by: how long the search takes is then independent of the tickets that exist."""
    return hashlib.sha256(ticket.encode("latin-1", "replace")).digest()


def common_folders(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """Return the folders that both allow; None stands for everything."""
    if one is None or other is None:
        return other if one is None else one
    found = []
    for left in map(os.path.realpath, one):
        for right in map(os.path.realpath, other):
            if is_below(left, right):
                found.append(left)
            elif is_below(right, left):
                found.append(right)
    return tuple(dict.fromkeys(found))
