"""The principals of a served host: whom a token, a paired browser, a ticket or a login stands for.

Everything behind the gate asks here, so that it is the same whatever a client entered with. A login (`oidc/logins.py`)
is a `HostToken` that is in no file. Each connection remembers the one that it came with: if a user has several logins,
each connection ends with its own.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import ConfigError
from dragoman.host.serving.oidc.logins import LoginRefused, is_signed_form
from dragoman.host.serving.tokens import HostToken, Tickets
from dragoman.transports.remote.answers import JSON, HttpReply
from dragoman.transports.remote.gate import ALL_RIGHTS, Entered, GateRefusal, Principal

if TYPE_CHECKING:
    from dragoman.host.serving.oidc.logins import Logins
    from dragoman.host.serving.tokens import HostTokens

_log = logging.getLogger("dragoman.host")
LOGIN_PATH: Final = "/.well-known/oauth-protected-resource/acp"
"""Where clients read how users log in: the metadata of the resource `/acp`, RFC 9728."""
_LOGIN: Final = ":"
"""In the digest of a login, and never in that of a token."""
_NOT_ACCEPTED: Final = GateRefusal(401, "The login is not accepted.")
_NO_KEYS: Final = GateRefusal(
    503, "The provider of logins cannot be reached; try again later.", ((b"retry-after", b"10"),)
)


class Principals:
    """Everything that a client can enter with."""

    def __init__(self, tokens: HostTokens, logins: Logins | None) -> None:
        self._tokens = tokens
        self._logins = logins
        self.tickets = Tickets()

    # For the gate

    def find(self, secret: str) -> Principal | GateRefusal | None:
        """Return the principal of a bearer token, of this host or of its provider."""
        if self._logins is None or not is_signed_form(secret):
            try:
                return _principal(self._tokens.find(secret))
            except ConfigError as error:
                _log.error("%s", error)
                return None
        try:
            found = self._logins.find(secret)
        except LoginRefused as refused:
            words = str(refused)
            return GateRefusal(403 if refused.is_forbidden else 401, f"{words[:1].upper()}{words[1:]}.")
        if isinstance(found, HostToken):
            return _principal(found, found.digest)
        refusal = _NOT_ACCEPTED if self._logins.provider.keys else _NO_KEYS
        return refusal._replace(again=found)

    def find_device(self, cookie: str, half: str) -> Principal | None:
        """Return the principal of a paired browser."""
        try:
            return _principal(self._tokens.find_device(cookie, half))
        except ConfigError as error:
            _log.error("%s", error)
            return None

    def issue_ticket(self, entered: Entered) -> str:
        """Return a new ticket for the page that has sent a request."""
        principal = entered.principal
        return self.tickets.issue(principal.key or principal.name, entered.headers.get(b"origin"))

    def use_ticket(self, ticket: str, origin: bytes | None) -> Principal | None:
        """Return the principal of the token, browser or login that has bought a ticket."""
        bought = self.tickets.use(ticket, origin)
        if bought is None:
            return None
        login = None if self._logins is None else self._logins.get(bought)
        return _principal(login, bought) if login is not None else _principal(self._named(bought))

    # Behind the gate

    def token_of(self, principal: Principal) -> HostToken | None:
        """Return what a principal came with, if it is still valid."""
        if principal.key:
            return None if self._logins is None else self._logins.get(principal.key)
        return self._named(principal.name)

    def is_valid(self, token: HostToken) -> bool:
        """Whether what a connection came with is still valid."""
        if _LOGIN in token.digest:
            return self._logins is not None and not self._logins.is_over(token)
        known = self._named(token.name)
        return known is not None and known.digest == token.digest

    def note_use(self, token: HostToken) -> None:
        """Note that it is used now; of a login nothing is kept."""
        if _LOGIN in token.digest:
            return
        try:
            self._tokens.note_use(token.name)
        except (ConfigError, OSError) as error:  # a client is not refused because a time cannot be written down
            _log.error("the use of a token cannot be noted: %s", error)

    # How users log in

    @property
    def has_logins(self) -> bool:
        return self._logins is not None

    async def login_page(self, entered: Entered, body: bytes) -> HttpReply:
        """Answer how users log in: the metadata of a protected resource, with what our clients need besides."""
        assert self._logins is not None
        settings = self._logins.settings
        name = entered.headers[b"host"].decode("latin-1").lower()
        document = {
            "resource": f"{'https' if entered.is_secure else 'http'}://{name}/acp",
            "authorization_servers": [settings.issuer],
            "scopes_supported": settings.scopes,
            "bearer_methods_supported": ["header"],
            "dragoman": {
                "client_id": settings.client_id or settings.audience[0],
                "audience": settings.audience[0],
                "token": settings.token,
                "parameters": settings.parameters,
            },
        }
        return HttpReply(200, msgspec.json.encode(document), JSON, ((b"cache-control", b"no-store"),))

    def _named(self, name: str) -> HostToken | None:
        try:
            return self._tokens.get(name)
        except ConfigError as error:  # no client enters while the file is broken
            _log.error("%s", error)
            return None


def _principal(token: HostToken | None, key: str = "") -> Principal | None:
    """Return the principal of a token: one of its own for the gate, so that none can use the connection of another."""
    if token is None:
        return None
    return Principal(token.name, frozenset(right for right in ALL_RIGHTS if right in token.rights), token.folders, key)
