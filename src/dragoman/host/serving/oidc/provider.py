"""The OpenID Connect provider of a host: its discovery document and its keys, fetched and kept.

Theory of operation
-------------------
`prepare` fetches the document and the keys when the host starts. From then on they are fetched again every hour, so
that a key which the provider withdrew is not accepted longer, and at once for a token with an unknown key, because
providers change keys without notice. Every client can send such a token, so that this happens once in some seconds at
most, and all that wait share one fetch. If the provider is away, the keys that are there are used for a day.

What is fetched is small, read within a limit and a time, and never followed to another address: a redirect is an error.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from dragoman.agent.serving import is_loopback
from dragoman.errors import ConfigError, RemoteProtocolError
from dragoman.host.serving.oidc.tokens import SigningKey, read_keys

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

_log = logging.getLogger("dragoman.host")
DISCOVERY: Final = "/.well-known/openid-configuration"
FETCH_SECONDS: Final = 10.0
_DOCUMENT_BYTES: Final = 256 * 1024
_AGAIN_SECONDS: Final = 10.0
"""Between two fetches for unknown keys."""
_RENEW_SECONDS: Final = 3600.0
_STALE_SECONDS: Final = 86400.0
"""How long keys are used that could not be fetched again."""


class ProviderAway(Exception):
    """The provider cannot be reached, or fails; it may be back later."""


class LoginProvider:
    """The keys of one provider."""

    def __init__(
        self,
        issuer: str,
        *,
        tls: ssl.SSLContext | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Take the address of the provider; `prepare` asks it.

        Raises:
            ConfigError: the address cannot be that of an issuer.
        """
        self.issuer = check_issuer(issuer)
        self._tls = tls
        self._clock = clock
        self._keys: tuple[SigningKey, ...] = ()
        self._fetched_at: float | None = None
        self._tried_at: float | None = None
        self._fetching: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.on_changed: Callable[[], None] = lambda: None
        """Called when the keys are others than before."""

    @property
    def keys(self) -> tuple[SigningKey, ...]:
        """The keys to check signatures with; none before the first answer, and after a day without one."""
        if self._fetched_at is None or self._clock() - self._fetched_at > _STALE_SECONDS:
            return ()
        return self._keys

    async def prepare(self) -> None:
        """Fetch document and keys for the first time, and keep them fresh from now on.

        Raises:
            ConfigError: what is there is not the provider of this issuer.
            ProviderAway: it cannot be reached now; it is tried again later.
        """
        self._timer = asyncio.get_running_loop().call_later(_RENEW_SECONDS, self._renew)
        self._tried_at = self._clock()
        await self._fetch()

    def ask_again(self) -> asyncio.Future[None] | None:
        """Fetch the keys because of a token whose key is unknown; None if that was done a moment ago.

        The future is done when the keys may be looked at again, with them or without.
        """
        if self._fetching is None:
            if self._tried_at is not None and self._clock() - self._tried_at < _AGAIN_SECONDS:
                return None
            self._start()
        assert self._fetching is not None
        # One of its own for each that waits: a client that leaves does not end the fetch of the others.
        waiting = asyncio.get_running_loop().create_future()
        self._fetching.add_done_callback(lambda _: None if waiting.done() else waiting.set_result(None))
        return waiting

    async def close(self) -> None:
        """End what still runs."""
        if self._timer is not None:
            self._timer.cancel()
        fetching = self._fetching
        if fetching is not None:
            fetching.cancel()
            await asyncio.wait([fetching])

    def _renew(self) -> None:
        if self._fetching is None:
            self._start()
        self._timer = asyncio.get_running_loop().call_later(_RENEW_SECONDS, self._renew)

    def _start(self) -> None:
        self._tried_at = self._clock()
        self._fetching = asyncio.get_running_loop().create_task(self._try())
        self._fetching.add_done_callback(self._tried)

    def _tried(self, task: asyncio.Task[None]) -> None:
        self._fetching = None

    async def _try(self) -> None:
        try:
            await self._fetch()
        except (ConfigError, ProviderAway) as error:
            _log.warning("the keys for logins could not be fetched: %s", error)

    async def _fetch(self) -> None:
        # The document too, each time: a provider that moves its keys says so there.
        document = await fetch_discovery(self.issuer, tls=self._tls)
        where = document.get("jwks_uri")
        if not isinstance(where, str):
            raise ConfigError(f"{self.issuer}{DISCOVERY} names no keys (jwks_uri)")
        answer = await fetch_json(check_endpoint(where, self.issuer), tls=self._tls)
        try:
            keys = read_keys(answer)
        except ValueError as error:
            raise ConfigError(f"{where} does not hold keys: {error}") from None
        if not keys:
            raise ConfigError(f"{where} holds no key that signatures can be checked with")
        is_changed = [key[:-1] for key in keys] != [key[:-1] for key in self._keys] or any(
            one.public != other.public for one, other in zip(keys, self._keys, strict=True)
        )
        self._keys, self._fetched_at = keys, self._clock()
        if is_changed:
            self.on_changed()


async def fetch_discovery(issuer: str, *, tls: ssl.SSLContext | None = None) -> dict[str, Any]:
    """Return the discovery document of a provider.

    Raises:
        ConfigError: it is not one, or that of another issuer.
        ProviderAway: it cannot be had now.
    """
    where = f"{issuer.rstrip('/')}{DISCOVERY}"
    document = await fetch_json(where, tls=tls)
    if not isinstance(document, dict) or not isinstance(document.get("issuer"), str):
        raise ConfigError(f"{where} is not the document of a provider")
    if document["issuer"] != issuer:
        raise ConfigError(
            f"{where} is the document of another issuer, {document['issuer']!r}; write it exactly as it is there"
        )
    return document


async def fetch_json(url: str, *, tls: ssl.SSLContext | None = None) -> Any:
    """Return the JSON at a URL. Raises: ConfigError if there is none, ProviderAway if it cannot be had now."""
    from dragoman.transports.remote.http_client import HttpClient, read_url

    client = HttpClient(read_url(url), [("accept", "application/json")], context=tls)
    try:
        async with asyncio.timeout(FETCH_SECONDS):
            answer = await client.request("GET", [], limit_bytes=_DOCUMENT_BYTES + 1)
    except (OSError, TimeoutError, RemoteProtocolError) as error:
        raise ProviderAway(f"{url} cannot be reached ({str(error) or 'no answer'})") from None
    finally:
        await client.close()
    if answer.status >= 500 or answer.status == 429:
        raise ProviderAway(f"{url} answered with HTTP {answer.status}")
    if answer.status != 200:
        raise ConfigError(f"{url} answered with HTTP {answer.status}; is this the address of the provider?")
    if len(answer.body) > _DOCUMENT_BYTES:
        raise ConfigError(f"{url} is longer than {_DOCUMENT_BYTES} bytes")
    try:
        return msgspec.json.decode(answer.body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{url} is not JSON") from None


def check_issuer(issuer: str) -> str:
    """Return the address of an issuer. Raises: ConfigError if it cannot be one."""
    parts = _split(issuer)
    if parts is None or parts.query or parts.fragment or "?" in issuer or "#" in issuer:
        raise ConfigError(f"{issuer!r} is not the address of an issuer; it looks like https://login.example")
    if parts.scheme != "https" and not is_loopback(parts.hostname or ""):
        raise ConfigError(f"{issuer}: an issuer needs https; http is for this machine alone")
    return issuer


def check_endpoint(url: str, issuer: str) -> str:
    """Return an address that the document of an issuer names. Raises: ConfigError if it must not be used."""
    parts, own = _split(url), urlsplit(issuer)
    if parts is None or parts.fragment:
        raise ConfigError(f"the provider {issuer} names an address that cannot be used: {url!r}")
    is_local = is_loopback(parts.hostname or "")
    if is_local != is_loopback(own.hostname or "") or (parts.scheme != "https" and not is_local):
        raise ConfigError(
            f"the provider {issuer} leads to {parts.scheme}://{parts.netloc}, which is not used for logins"
        )
    return url


def _split(url: str) -> Any:
    """Return the parts of a plain URL; None if it is not one."""
    try:
        parts = urlsplit(url)
        has_port = parts.port is None or parts.port > 0
    except ValueError:
        return None
    is_plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url and "@" not in parts.netloc
    is_known = parts.scheme in ("http", "https") and bool(parts.hostname)
    return parts if is_plain and is_known and has_port else None
