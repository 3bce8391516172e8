"""The browsers that want to be notified: the key of the host, and a subscription for each device.

A subscription is an address of a push service, which the host will call. A page names it, so it is checked like any
address that others choose: `https`, a known push service by its exact name, no other port, no user. It belongs to a
device and is gone with it. Does not send anything.
"""

from __future__ import annotations

import os
import threading
import time
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import ConfigError
from dragoman.workspace.private import make_private_folder, open_private, write_private

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KINDS: Final = ("question", "ended", "failed")
SERVICES: Final = ("fcm.googleapis.com", "web.push.apple.com")
"""Push services of browsers, by their whole names."""
SERVICE_DOMAINS: Final = (".push.services.mozilla.com", ".push.apple.com", ".notify.windows.com")
"""Ends of the names of those that have many hosts."""
_LONGEST_ENDPOINT: Final = 2048
_POINT_BYTES: Final = 65
_AUTH_BYTES: Final = 16
# The curve P-256: a point that is not on it would give away the key that is used with it.
_P: Final = 2**256 - 2**224 + 2**192 + 2**96 - 1
_B: Final = 0x5AC635D8AA3A93E7B3EBBD55769886BC651D06B0CC53B0F63BCE3C3E27D2604B


class PushSubscription(msgspec.Struct, frozen=True):
    """Where and about what the browser of a device is notified."""

    device: str
    user: str
    endpoint: str
    p256dh: str
    auth: str
    kinds: tuple[str, ...]
    at: float
    """Seconds since 1970."""


class PushRefused(Exception):
    """A subscription that is not kept; the text says why."""


class PushSubscriptions:
    """The subscriptions of a host, in a file that only its owner can read."""

    def __init__(self, folder: Path | None, clock: Callable[[], float] = time.time) -> None:
        """Prepare it; nothing is read before it is used.

        Args:
            folder: That of the log; None for a host that keeps nothing on disk.
            clock: The time, in seconds since 1970.
        """
        self._folder = folder
        self._clock = clock
        self._found: dict[str, PushSubscription] | None = None
        self._lock = threading.Lock()

    def public_key(self) -> str:
        """Return the key by which push services know this host; made once. Blocks.

        Raises:
            ConfigError: the package that makes it is missing, or it cannot be kept.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric import ec
            from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
        except ImportError:
            from dragoman.extras import install_command

            raise ConfigError(f"notifications need one more package: {install_command('push')}") from None
        with self._lock:
            key = ec.derive_private_key(int.from_bytes(self._secret(), "big"), ec.SECP256R1())
        point = key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)
        return urlsafe_b64encode(point).rstrip(b"=").decode()

    def _secret(self) -> bytes:
        path = self._file("push.key")
        try:
            with os.fdopen(open_private(path, os.O_RDONLY), "rb") as file:
                kept = file.read()
            if len(kept) == 32:
                return kept
        except FileNotFoundError:
            pass
        except OSError as error:
            raise ConfigError(f"the key for notifications cannot be read ({error.strerror}): {path}") from None
        from cryptography.hazmat.primitives.asymmetric import ec

        secret = ec.generate_private_key(ec.SECP256R1()).private_numbers().private_value.to_bytes(32, "big")
        make_private_folder(path.parent)
        write_private(path, secret, is_synced=True)  # a new key would end all subscriptions
        return secret

    def add(self, subscription: PushSubscription) -> None:
        """Keep the subscription of a device, in place of an earlier one. Blocks.

        Raises:
            PushRefused: something about it is wrong.
            ConfigError: it cannot be kept.
        """
        check_endpoint(subscription.endpoint)
        check_point(subscription.p256dh)
        if len(_decoded(subscription.auth, "auth")) != _AUTH_BYTES:
            raise PushRefused(f"auth must be {_AUTH_BYTES} bytes, as base64url")
        if not subscription.kinds or not set(subscription.kinds) <= set(KINDS):
            raise PushRefused(f"kinds must be some of {', '.join(KINDS)}")
        with self._lock:
            found = {**self._read(), subscription.device: msgspec.structs.replace(subscription, at=self._clock())}
            self._write(found)

    def find(self, device: str) -> PushSubscription | None:
        """Return the subscription of a device."""
        with self._lock:
            return self._read().get(device)

    def remove(self, device: str) -> None:
        """Forget the subscription of a device. Blocks."""
        self.keep_only(lambda subscription: subscription.device != device)

    def keep_only(self, is_wanted: Callable[[PushSubscription], bool]) -> None:
        """Forget the subscriptions that are not wanted any more. Reads a file the first time only."""
        with self._lock:
            found = self._read()
            kept = {device: subscription for device, subscription in found.items() if is_wanted(subscription)}
            if len(kept) != len(found):
                self._write(kept)

    # The file

    def _file(self, name: str) -> Path:
        if self._folder is None:
            raise ConfigError("this host keeps nothing on disk, and cannot notify")
        return self._folder / name

    def _read(self) -> dict[str, PushSubscription]:
        if self._found is None:
            try:
                with os.fdopen(open_private(self._file("push.json"), os.O_RDONLY), "rb") as file:
                    found = msgspec.json.decode(file.read(), type=list[PushSubscription])
                self._found = {subscription.device: subscription for subscription in found}
            except (OSError, msgspec.MsgspecError, ConfigError):  # browsers subscribe again
                self._found = {}
        return self._found

    def _write(self, found: dict[str, PushSubscription]) -> None:
        path = self._file("push.json")
        make_private_folder(path.parent)
        try:
            write_private(path, msgspec.json.encode(list(found.values())), is_synced=True)
        except OSError as error:
            raise ConfigError(f"the subscriptions cannot be written ({error.strerror}): {path}") from None
        self._found = found


def check_endpoint(endpoint: str) -> None:
    """Refuse an address that is not one of a known push service. Raises: PushRefused."""
    if len(endpoint) > _LONGEST_ENDPOINT or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise PushRefused("the endpoint is not an address")
    try:
        parts = urlsplit(endpoint)
        port = parts.port
    except ValueError:
        raise PushRefused("the endpoint is not an address") from None
    name = (parts.hostname or "").lower()
    if parts.scheme != "https" or port not in (None, 443) or parts.username is not None or parts.password is not None:
        raise PushRefused("the endpoint must be an https address, without a port or user of its own")
    # The name as it was written is compared as well: programs differ in how they read what stands before a slash.
    if parts.netloc.lower().removesuffix(":443") != name or "\\" in endpoint:
        raise PushRefused("the endpoint is not an address")
    if name not in SERVICES and not any(name.endswith(domain) for domain in SERVICE_DOMAINS):
        raise PushRefused("the endpoint is not one of a known push service")


def check_point(text: str) -> None:
    """Refuse what is not a point of the curve P-256. Raises: PushRefused."""
    point = _decoded(text, "p256dh")
    if len(point) != _POINT_BYTES or point[0] != 4:
        raise PushRefused("p256dh must be an uncompressed point of P-256, as base64url")
    x, y = int.from_bytes(point[1:33], "big"), int.from_bytes(point[33:], "big")
    if x >= _P or y >= _P or (y * y - (x * x * x - 3 * x + _B)) % _P:
        raise PushRefused("p256dh is not a point of P-256")


def _decoded(text: str, name: str) -> bytes:
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except ValueError:
        raise PushRefused(f"{name} must be base64url") from None
