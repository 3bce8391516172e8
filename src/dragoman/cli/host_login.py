"""Logins to hosts on other machines: by device code, stored, refreshed, and sent to the host they were made for alone.

Theory of operation
-------------------
A host says at a path of its own which provider logs its users in (RFC 9728). `log_in` shows the user a code and an
address, and asks the provider for tokens until the user has typed it there (RFC 8628). They are stored by the origin
of the host. `HostLogin.token` gives them out for a connection to that origin, and refreshes them first if they are
about to end; one program at a time, because a refresh token can often be used only once. Nothing here reads a token.

A host could name a provider and a client of another host, to get a token that is good there. So the host is named to
the user, a second host for which the same tokens would be made is refused without `--yes`, and a host that suddenly
names another provider is refused.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlencode, urlsplit

import msgspec

from dragoman.agent.serving import is_loopback
from dragoman.builtin.mcp.token_store import StoredLogin, TokenStore
from dragoman.cli.exits import AUTH_REQUIRED, CliError
from dragoman.errors import ConfigError, ConnectionClosed, RemoteProtocolError
from dragoman.host.bridge.reasons import LoginNeeded
from dragoman.host.serving.oidc.provider import ProviderAway, check_endpoint, check_issuer, fetch_discovery, fetch_json
from dragoman.settings.places import config_dir

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Mapping

FILE_NAME: Final = "host-logins.json"
METADATA: Final = "/.well-known/oauth-protected-resource/acp"
_DEVICE_FLOW: Final = "urn:ietf:params:oauth:grant-type:device_code"
_ANSWER_BYTES: Final = 256 * 1024
_REQUEST_SECONDS: Final = 30.0
_INTERVAL_SECONDS: Final = 5.0
"""Between two questions, unless the provider says otherwise (RFC 8628)."""
_LONGEST_SECONDS: Final = 1800.0
_OWN_PARAMETERS: Final = frozenset(
    ("client_id", "client_secret", "scope", "grant_type", "device_code", "refresh_token")
)


class LoginOffer(NamedTuple):
    """How a host wants its users to log in."""

    origin: str
    issuer: str
    client_id: str
    audience: str
    scopes: tuple[str, ...]
    token: str
    """Which token it takes: `access` or `id`."""
    parameters: dict[str, str]


class DeviceCode(NamedTuple):
    """What the user has to type, and where."""

    code: str
    address: str
    whole_address: str
    """With the code in it; empty if the provider has none."""


class _DeviceAnswer(msgspec.Struct):
    device_code: str
    user_code: str
    verification_uri: str
    expires_in: float
    verification_uri_complete: str = ""
    interval: float = _INTERVAL_SECONDS


class _TokenAnswer(msgspec.Struct):
    access_token: str
    token_type: str = "Bearer"
    expires_in: float | None = None
    refresh_token: str = ""
    id_token: str = ""


class _OAuthError(Exception):
    """The provider has answered with an error of OAuth."""

    def __init__(self, code: str, words: str) -> None:
        super().__init__(f"{code}: {words}" if words else code)
        self.code = code


def origin_of(url: str) -> str:
    """Return the origin that a login is stored by.

    Raises:
        ConfigError: it is not the URL of a host, or a token would be readable on the way.
    """
    from dragoman.transports.remote.http_client import read_url

    where = read_url(url)
    if not where.is_secure and not is_loopback(where.host):
        raise ConfigError(f"{url} is not encrypted; a login is sent over TLS (wss:// or https://) alone")
    return f"{'https' if where.is_secure else 'http'}://{where.host_header.lower()}"


def store() -> TokenStore:
    return TokenStore(config_dir(), FILE_NAME)


class HostLogin:
    """The stored login to one host."""

    def __init__(self, url: str, tls: ssl.SSLContext | None = None) -> None:
        self._url = url
        self._origin = origin_of(url)
        self._store = store()
        self._tls = tls

    @property
    def is_stored(self) -> bool:
        return bool(_sent(self._store.get(self._origin)))

    async def token(self, *, refused: str = "") -> str:
        """Return the token to send to this host.

        Args:
            refused: One that the host did not accept; another one is fetched.

        Raises:
            LoginNeeded: the user has to log in.
            ConnectionClosed: the provider cannot be reached now.
        """
        stored = self._store.get(self._origin)
        if _sent(stored) and not stored.is_expired and _sent(stored) != refused:
            return _sent(stored)
        async with self._store.refreshing():
            stored = self._store.get(self._origin)  # another program may have refreshed it meanwhile
            if _sent(stored) and not stored.is_expired and _sent(stored) != refused:
                return _sent(stored)
            return await self._refresh(stored)

    async def _refresh(self, stored: StoredLogin) -> str:
        refresh_token = stored.tokens.get("refresh_token", "")
        if not refresh_token:
            raise self._needed("has ended" if stored.tokens else "is missing")
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": _client(stored)}
        try:
            answer = _read(_TokenAnswer, await _post(stored.server.get("token_endpoint", ""), form, self._tls))
        except _OAuthError as error:
            self._store.forget_tokens(self._origin, refresh_token)
            raise self._needed(f"was ended by its provider ({error})") from None
        except ProviderAway as error:
            raise ConnectionClosed(f"the login to {self._origin} cannot be refreshed: {error}") from None
        except ConfigError as error:
            raise self._needed(f"cannot be refreshed: {error}") from None
        kept = _kept(answer, stored.tokens)
        changed = self._store.change(self._origin, tokens=kept, expires_at=_end(answer, kept))
        if not _sent(changed):
            raise self._needed("was refreshed without the token that the host takes")
        return _sent(changed)

    def _needed(self, what: str) -> LoginNeeded:
        return LoginNeeded(f"the login to {self._origin} {what}; log in with: dragoman login --url {self._url}")


def find_login(url: str, tls: ssl.SSLContext | None = None) -> HostLogin | None:
    """Return the stored login to the host of a URL; None if there is none."""
    if not (config_dir() / FILE_NAME).exists():
        return None
    try:
        found = HostLogin(url, tls)
    except ConfigError:  # no login is stored for an address that is not encrypted
        return None
    return found if found.is_stored else None


async def read_offer(url: str, tls: ssl.SSLContext | None = None) -> LoginOffer:
    """Ask a host how its users log in.

    Raises:
        CliError: it has no logins, or what it says cannot be used.
        ConfigError: the URL is wrong.
    """
    origin = origin_of(url)
    try:
        document = await fetch_json(f"{origin}{METADATA}", tls=tls)
    except ProviderAway as error:
        raise CliError(str(error), hint="is dragoman serve running there?") from None
    except ConfigError:
        raise CliError(
            f"{origin} has no logins; it takes tokens",
            hint="its operator makes one with: dragoman serve token add NAME",
        ) from None
    try:
        found = msgspec.convert(document, _Metadata)
        issuer = check_issuer(found.authorization_servers[0])
    except (msgspec.ValidationError, IndexError, ConfigError) as error:
        raise CliError(f"{origin} does not say how to log in: {error}") from None
    if found.resource != f"{origin}/acp":
        raise CliError(f"{origin} describes logins of another host, {found.resource!r}; nothing was sent")
    if is_loopback(urlsplit(issuer).hostname or "") and not is_loopback(urlsplit(origin).hostname or ""):
        raise CliError(f"{origin} names a provider on this machine, {issuer}; nothing was sent")
    ours = found.dragoman
    parameters = {name: value for name, value in ours.parameters.items() if name not in _OWN_PARAMETERS}
    return LoginOffer(origin, issuer, ours.client_id, ours.audience, found.scopes_supported, ours.token, parameters)


class _Ours(msgspec.Struct):
    client_id: str
    audience: str
    token: str = "access"
    parameters: dict[str, str] = {}


class _Metadata(msgspec.Struct):
    resource: str
    authorization_servers: list[str]
    dragoman: _Ours
    scopes_supported: tuple[str, ...] = ("openid", "offline_access")


async def log_in(
    offer: LoginOffer,
    show: Callable[[DeviceCode], None],
    *,
    tls: ssl.SSLContext | None = None,
    is_sure: bool = False,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Log a user in to a host, and store the login.

    Args:
        offer: How the host wants it.
        show: Called with what the user has to type.
        is_sure: Also if the same tokens would be good at another host that the user is logged in to.
        sleep: How to wait between two questions.

    Raises:
        CliError: the user declined, the time was over, or provider or host refused.
    """
    kept = store()
    _check_provider(offer, kept.get(offer.origin))
    try:
        document = await fetch_discovery(offer.issuer, tls=tls)
        endpoints = {
            name: check_endpoint(document[name], offer.issuer)
            for name in ("device_authorization_endpoint", "token_endpoint", "revocation_endpoint")
            if isinstance(document.get(name), str)
        }
        if len(endpoints.keys() - {"revocation_endpoint"}) < 2:
            raise CliError(
                f"{offer.issuer} offers no login by a device code",
                hint="ask the operator of the host to allow it for its client, or for a token",
            )
        answer = await _ask_tokens(offer, endpoints, show, tls, sleep)
    except (ProviderAway, ConfigError, _OAuthError) as error:
        raise CliError(f"the login at {offer.issuer} failed: {error}", exit_code=AUTH_REQUIRED) from None
    tokens = _kept(answer, {"kind": offer.token})
    login = StoredLogin(
        issuer=offer.issuer,
        client={"client_id": offer.client_id, "audience": offer.audience},
        tokens=tokens,
        expires_at=_end(answer, tokens),
        server=endpoints,
    )
    if not _sent(login):
        raise CliError(f"{offer.issuer} gave no {offer.token} token", exit_code=AUTH_REQUIRED)
    if not is_sure:
        _check_audience(offer, login, kept.all())
    await _try_it(offer.origin, _sent(login), tls)
    kept.put(offer.origin, login)


async def log_in_here(url: str, tls: ssl.SSLContext | None = None, *, is_sure: bool = False) -> None:
    """Log the user of this terminal in to a host: what to do is written to stderr.

    Raises:
        CliError, ConfigError: as `read_offer` and `log_in`.
    """
    from dragoman.cli.console import write_note

    offer = await read_offer(url, tls)
    write_note(f"{offer.origin} wants you to log in at {offer.issuer}; go on if you know both")

    def show(code: DeviceCode) -> None:
        write_note(f"open {code.address} in a browser and type this code: {code.code}")
        if code.whole_address:
            write_note(f"or open {code.whole_address} and compare the code")

    await log_in(offer, show, tls=tls, is_sure=is_sure)
    write_note(f"logged in to {offer.origin}")


def _check_provider(offer: LoginOffer, before: StoredLogin) -> None:
    if before.issuer not in ("", offer.issuer):
        raise CliError(
            f"{offer.origin} named the provider {before.issuer} before, and names {offer.issuer} now",
            hint=f"if that is right: dragoman logout --url {offer.origin}, and log in again",
        )


def _check_audience(offer: LoginOffer, login: StoredLogin, logins: Mapping[str, StoredLogin]) -> None:
    """Refuse a token that another host would take, too, before this one sees it."""
    ours = _audiences(login)
    for origin, other in logins.items():
        is_same = other.issuer == offer.issuer and not ours.isdisjoint(_audiences(other))
        if origin != offer.origin and is_same:
            raise CliError(
                f"the login to {offer.origin} would be good at {origin}, too, so that this host could use it there; "
                "it was not sent",
                hint="if you trust both: dragoman login --yes --url URL",
                exit_code=AUTH_REQUIRED,
            )


async def _ask_tokens(
    offer: LoginOffer,
    endpoints: Mapping[str, str],
    show: Callable[[DeviceCode], None],
    tls: ssl.SSLContext | None,
    sleep: Callable[[float], Awaitable[None]],
) -> _TokenAnswer:
    """Show the code, and ask for the tokens until the user has typed it."""
    form = {**offer.parameters, "client_id": offer.client_id, "scope": " ".join(offer.scopes)}
    started = _read(_DeviceAnswer, await _post(endpoints["device_authorization_endpoint"], form, tls))
    show(_shown_code(started, offer.issuer))
    interval = max(started.interval, 1.0)
    left = min(started.expires_in, _LONGEST_SECONDS)
    question = {"grant_type": _DEVICE_FLOW, "device_code": started.device_code, "client_id": offer.client_id}
    while left > interval:
        left -= interval
        await sleep(interval)
        try:
            found: _TokenAnswer = _read(_TokenAnswer, await _post(endpoints["token_endpoint"], question, tls))
            return found
        except ProviderAway:
            interval *= 2  # it is asked less often while it is away
        except _OAuthError as error:
            if error.code == "slow_down":
                interval += _INTERVAL_SECONDS
            elif error.code == "access_denied":
                raise CliError("the login was declined", exit_code=AUTH_REQUIRED) from None
            elif error.code == "expired_token":
                break
            elif error.code != "authorization_pending":
                raise
    raise CliError("the code was not typed in time; repeat the command for another one", exit_code=AUTH_REQUIRED)


def _shown_code(answer: _DeviceAnswer, issuer: str) -> DeviceCode:
    """Return what is shown: no sign of it may change what a terminal shows."""
    if not answer.user_code.isprintable() or not 0 < len(answer.user_code) <= 64:
        raise ConfigError("the code of the provider cannot be shown")
    address = check_endpoint(answer.verification_uri, issuer)
    whole = answer.verification_uri_complete
    return DeviceCode(answer.user_code, address, check_endpoint(whole, issuer) if whole else "")


async def _try_it(origin: str, token: str, tls: ssl.SSLContext | None) -> None:
    """Show the token to the host, so that a refusal is seen now and not by an editor."""
    from dragoman.transports.remote.http_client import HttpClient, read_url

    client = HttpClient(read_url(f"{origin}/ticket"), [("authorization", f"Bearer {token}")], context=tls)
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            answer = await client.request("POST", [("content-type", "application/json")], limit_bytes=1000)
    except (OSError, TimeoutError, RemoteProtocolError) as error:
        raise CliError(f"{origin} cannot be reached ({str(error) or 'no answer'})") from None
    finally:
        await client.close()
    if answer.status != 200:
        words = "".join(filter(str.isprintable, answer.body.decode("utf-8", "replace"))).strip()
        raise CliError(
            f"the provider has logged you in, but {origin} does not accept it ({answer.status}: {words})",
            hint="its operator sees more in its log",
            exit_code=AUTH_REQUIRED,
        )


async def log_out(url: str, tls: ssl.SSLContext | None = None) -> bool:
    """Delete the login to a host, and revoke it at its provider as far as that can be reached.

    Returns:
        Whether the provider was reached, or need not be; False if its tokens stay valid until their end.

    Raises:
        CliError: there is none.
    """
    origin, kept = origin_of(url), store()
    login = kept.get(origin)
    if not kept.remove(origin):
        raise CliError(f"there is no login to {origin}", hint=f"log in with: dragoman login --url {url}")
    refresh_token, where = login.tokens.get("refresh_token", ""), login.server.get("revocation_endpoint", "")
    if not refresh_token:
        return True
    if not where:
        return False
    form = {"token": refresh_token, "token_type_hint": "refresh_token", "client_id": _client(login)}
    try:
        await _post(where, form, tls, is_empty=True)
    except (ProviderAway, ConfigError, _OAuthError):
        return False
    return True


def _client(login: StoredLogin) -> str:
    return str(login.client.get("client_id", ""))


def _sent(login: StoredLogin) -> str:
    """Return the token that the host takes; empty if there is none."""
    found = login.tokens.get("id_token" if login.tokens.get("kind") == "id" else "access_token", "")
    return found if isinstance(found, str) else ""


def _kept(answer: _TokenAnswer, before: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tokens to store: a provider that sends no new refresh token means the old one."""
    found = {
        "kind": before.get("kind", "access"),
        "access_token": answer.access_token,
        "refresh_token": answer.refresh_token or before.get("refresh_token", ""),
        "id_token": answer.id_token,
    }
    return {name: value for name, value in found.items() if value}


def _end(answer: _TokenAnswer, tokens: Mapping[str, Any]) -> float | None:
    """Return when the token that is sent ends; that of an ID token stands in itself."""
    end = _claims(tokens.get("id_token", "")).get("exp") if tokens.get("kind") == "id" else None
    if isinstance(end, int | float):
        return float(end)
    return None if answer.expires_in is None else time.time() + answer.expires_in


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a token as they stand there: a hint for this program, and no proof of anything."""
    import base64

    try:
        found = msgspec.json.decode(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    except (IndexError, ValueError, msgspec.DecodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _audiences(login: StoredLogin) -> frozenset[str]:
    found = _claims(_sent(login)).get("aud")
    names = found if isinstance(found, list) else [found]
    return frozenset(name for name in names if isinstance(name, str))


async def _post(
    url: str, form: Mapping[str, str], tls: ssl.SSLContext | None, *, is_empty: bool = False
) -> dict[str, Any]:
    """Send a form to the provider. Raises: ProviderAway, ConfigError, _OAuthError."""
    from dragoman.transports.remote.http_client import HttpClient, read_url

    client = HttpClient(read_url(url), [("accept", "application/json")], context=tls)
    try:
        async with asyncio.timeout(_REQUEST_SECONDS):
            answer = await client.request(
                "POST",
                [("content-type", "application/x-www-form-urlencoded")],
                urlencode(form).encode(),
                limit_bytes=_ANSWER_BYTES,
            )
    except (OSError, TimeoutError, RemoteProtocolError) as error:
        raise ProviderAway(f"{url} cannot be reached ({str(error) or 'no answer'})") from None
    finally:
        await client.close()
    if answer.status >= 500 or answer.status == 429:
        raise ProviderAway(f"{url} answered with HTTP {answer.status}")
    if is_empty and answer.status == 200:
        return {}
    try:
        found = msgspec.json.decode(answer.body, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ConfigError(f"{url} answered with HTTP {answer.status}, and not with JSON") from None
    if answer.status == 200:
        return found
    code, words = (
        "".join(filter(str.isprintable, str(found.get(name) or "")))[:300] for name in ("error", "error_description")
    )
    if not code:
        raise ConfigError(f"{url} answered with HTTP {answer.status}")
    raise _OAuthError(code, words)


def _read(kind: type[Any], answer: dict[str, Any]) -> Any:
    """Return the answer as its type. Raises: ConfigError, without the content: it holds tokens."""
    try:
        found = msgspec.convert(answer, kind, strict=False)
    except msgspec.ValidationError as error:
        raise ConfigError(f"the answer of the provider cannot be used: {error}") from None
    if isinstance(found, _TokenAnswer):
        from dragoman.text.secrets import remember_key

        if found.token_type.lower() != "bearer":
            raise ConfigError(f"the provider gives tokens of another type, {found.token_type!r}")
        for token in (found.access_token, found.refresh_token, found.id_token):
            remember_key("TOKEN", token)
    return found
