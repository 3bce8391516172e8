"""OAuth for MCP servers at an address, through the official `mcp` package, with logins that outlive the process.

Owns what the package leaves out: the absolute expiry and the authorisation server are stored with the tokens, so that a
new process refreshes; a 401 in mid-session is answered by a refresh first; one program refreshes at a time; and without
a user to log in, an error names the command that does. `login.py` asks the user. The package is loaded by the first use
of this, not by its import.
"""

from __future__ import annotations

import logging
import time
from functools import cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

from dragoman.builtin.mcp.server import McpConnectionLost, McpLoginNeeded
from dragoman.builtin.mcp.token_store import EARLY_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    import httpx2
    from mcp.client.auth import OAuthClientProvider
    from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthToken

    from dragoman.builtin.mcp.config import ServerSpec
    from dragoman.builtin.mcp.token_store import StoredLogin, TokenStore
else:
    OAuthClientProvider = object  # the real one is added as a base when the package is there, see `_provider`

_UNAUTHORIZED: Final = 401
_REFUSED: Final = (400, 401, 403)
# Where a client without a user would be redirected to; it is never used.
_NOWHERE: Final = "http://127.0.0.1/callback"


class UserLogin(Protocol):
    """The login of the user: it shows the page, and returns what that redirects to."""

    redirect_uri: str

    async def show(self, url: str) -> None:
        """Show the page of the authorisation server."""
        ...

    async def answer(self) -> AuthorizationCodeResult:
        """Return the redirect. Raises: McpConnectionLost if the user declined, or the time is over."""
        ...


def auth_for(spec: ServerSpec, tokens: TokenStore, user: UserLogin | None = None) -> httpx2.Auth | None:
    """Return how requests to a server are authorised; None if they are sent as they are.

    Args:
        user: who can log in; without it only stored logins and client credentials are used.
    """
    if not spec.can_login or spec.oauth is None:
        return None
    # The package logs whole answers of the authorisation server, which may hold tokens; its errors are reported by us.
    logging.getLogger("mcp.client.auth").setLevel(logging.CRITICAL + 1)
    if spec.oauth.uses_client_credentials:
        from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider

        return ClientCredentialsOAuthProvider(
            spec.url,
            _Memory(),
            spec.oauth.client_id,
            spec.oauth.client_secret,
            scope=" ".join(spec.oauth.scopes) or None,
            issuer=spec.oauth.issuer,
        )
    if user is None and not tokens.get(spec.where).tokens:
        return None  # the refusal of the server then names the command to log in; nothing is registered before
    return _provider()(spec, tokens, user)


def refused_address(server: str, url: str) -> str:
    """Return why a request of a login is not sent; empty if it may be.

    A server names its authorisation server, and so chooses where this machine sends requests. One of the network must
    not reach what only this machine, or its network, can: a service without a password, the metadata of a cloud.
    """
    own, other = urlsplit(server), urlsplit(url)
    if (own.scheme, own.netloc) == (other.scheme, other.netloc) or _is_internal(own.hostname or ""):
        return ""
    if other.scheme != "https":
        return f"its login leads to {other.scheme}://{other.netloc}, which is not https"
    if _is_internal(other.hostname or ""):
        return f"its login leads to {other.netloc}, an address that only this machine or its network can reach"
    return ""


def _is_internal(host: str) -> bool:
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return not ip_address(host).is_global
    except ValueError:  # a name
        return False


@cache
def _provider() -> type[StoredOAuth]:
    from mcp.client.auth import OAuthClientProvider

    return type("StoredOAuthProvider", (StoredOAuth, OAuthClientProvider), {})


class _Memory:
    """Tokens of a client that can always get new ones by itself."""

    def __init__(self) -> None:
        self._tokens: OAuthToken | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return None

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        """Do nothing: the client is that of the settings."""


class _Storage:
    """The store as the package uses it."""

    def __init__(self, spec: ServerSpec, tokens: TokenStore, user: UserLogin | None) -> None:
        self._spec = spec
        self._tokens = tokens
        self._user = user

    async def get_tokens(self) -> OAuthToken | None:
        from mcp.shared.auth import OAuthToken

        stored = self._tokens.get(self._spec.where).tokens
        return OAuthToken.model_validate(stored) if stored else None

    async def set_tokens(self, tokens: OAuthToken) -> None:
        expires_at = None if tokens.expires_in is None else time.time() + tokens.expires_in
        self._tokens.change(self._spec.where, tokens=tokens.model_dump(exclude_none=True), expires_at=expires_at)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        from mcp.shared.auth import OAuthClientInformationFull
        from pydantic import AnyUrl

        preset = self._spec.oauth
        stored = self._tokens.get(self._spec.where)
        if preset is not None and preset.client_id:
            redirect = self._user.redirect_uri if self._user is not None else _NOWHERE
            return OAuthClientInformationFull(
                client_id=preset.client_id,
                client_secret=preset.client_secret or None,
                redirect_uris=[AnyUrl(redirect)],
                token_endpoint_auth_method="client_secret_post" if preset.client_secret else "none",
                issuer=preset.issuer or stored.issuer or None,
            )
        if not stored.client or (self._user is not None and stored.redirect_uri != self._user.redirect_uri):
            return None  # a client is bound to the address it was registered with: another port needs another client
        return OAuthClientInformationFull.model_validate(stored.client)

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        # Tokens of an earlier client, perhaps of another issuer, cannot be refreshed by this one.
        self._tokens.change(
            self._spec.where,
            issuer=client_info.issuer or "",
            redirect_uri=self._user.redirect_uri if self._user is not None else "",
            client=client_info.model_dump(mode="json", exclude_none=True),
            tokens={},
            expires_at=None,
        )


class StoredOAuth(OAuthClientProvider):
    """The OAuth client of one server, with a login that is stored.

    Theory of operation: before each request the store is read again if another program changed it, and an expired
    token is refreshed, under a lock of all programs. If the server then answers with 401, the token is refreshed once
    and the request is sent again. Only then the flow of the package begins, which needs the user.
    """

    def __init__(self, spec: ServerSpec, tokens: TokenStore, user: UserLogin | None) -> None:
        from mcp.shared.auth import OAuthClientMetadata
        from pydantic import AnyUrl

        redirect = user.redirect_uri if user is not None else tokens.get(spec.where).redirect_uri or _NOWHERE
        super().__init__(
            spec.url,
            OAuthClientMetadata(
                client_name="Dragoman",
                redirect_uris=[AnyUrl(redirect)],
                response_types=["code"],
                scope=" ".join(spec.oauth.scopes) if spec.oauth is not None and spec.oauth.scopes else None,
            ),
            _Storage(spec, tokens, user),
            self._show,
            self._wait,
        )
        self._spec = spec
        self._tokens = tokens
        self._user = user
        self._stamp: tuple[int, ...] | None = None
        self._was_revoked = False

    # For the package

    async def _initialize(self) -> None:
        await super()._initialize()
        self._adopt(self._tokens.get(self._spec.where))

    def _adopt(self, stored: StoredLogin) -> None:
        """Take over what the package does not store."""
        from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

        context = self.context
        self._stamp = self._tokens.stamp()
        context.token_expiry_time = None if stored.expires_at is None else stored.expires_at - EARLY_SECONDS
        if stored.server and context.oauth_metadata is None:
            context.oauth_metadata = OAuthMetadata.model_validate(stored.server)
        if stored.resource and context.protected_resource_metadata is None:
            context.protected_resource_metadata = ProtectedResourceMetadata.model_validate(stored.resource)

    async def _auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        async with self.context.lock:
            await self._reread()
            if not self.context.is_token_valid() and self.context.can_refresh_token():
                async with self._tokens.refreshing():
                    await self._reread()
                    if not self.context.is_token_valid() and self.context.can_refresh_token():
                        answer = yield await self._refresh_token()
                        await self._handle_refresh_response(answer)
            if self.context.is_token_valid():
                self._add_auth_header(request)
            response = yield request
            if response.status_code == _UNAUTHORIZED and self.context.can_refresh_token():
                refused = self.context.current_tokens
                async with self._tokens.refreshing():
                    await self._reread()
                    if self.context.current_tokens == refused:
                        answer = yield await self._refresh_token()
                        await self._handle_refresh_response(answer)
                if self.context.is_token_valid():
                    self._add_auth_header(request)
                    response = yield request
            if response.status_code != _UNAUTHORIZED:
                return
            if self._user is None:
                raise McpLoginNeeded(self._login_advice())
            # The flow of the package begins with a request without tokens.
            self.context.clear_tokens()
            request.headers.pop("Authorization", None)
        flow = super()._auth_flow(request)
        try:
            outgoing = await anext(flow)
            while True:
                if why := refused_address(self._spec.url, str(outgoing.url)):
                    raise McpConnectionLost(f"{why}; nothing was sent there")
                response = yield outgoing
                outgoing = await flow.asend(response)
        except StopAsyncIteration:
            self._keep_metadata()
        finally:
            await flow.aclose()

    async def _reread(self) -> None:
        """Read the store at first, and again after another program has changed it."""
        if not self._initialized or self._tokens.stamp() != self._stamp:
            await self._initialize()

    async def _handle_refresh_response(self, response: httpx2.Response) -> bool:
        """Raises: McpConnectionLost if the authorisation server fails, so that the tokens are kept."""
        current = self.context.current_tokens
        if response.status_code not in (200, 201, *_REFUSED):
            where = response.request.url.host
            raise McpConnectionLost(
                f"its login cannot be refreshed: {where} answered with HTTP {response.status_code}; try again later"
            )
        is_refreshed = await super()._handle_refresh_response(response)
        if is_refreshed:
            self._stamp = self._tokens.stamp()
        elif current is not None and current.refresh_token:
            self._was_revoked = self._tokens.forget_tokens(self._spec.where, current.refresh_token)
            if not self._was_revoked:
                await self._initialize()  # another program has newer tokens
        return is_refreshed

    async def _perform_authorization(self) -> httpx2.Request:
        scopes = self._spec.oauth.scopes if self._spec.oauth is not None else ()
        if scopes:  # the package replaces them by those that the server names
            self.context.client_metadata.scope = " ".join(scopes)
        return await super()._perform_authorization()

    def _keep_metadata(self) -> None:
        """Store where tokens are refreshed: it is found only by asking the server without a token."""
        context = self.context
        members: dict[str, Any] = {}
        if context.oauth_metadata is not None:
            members["server"] = context.oauth_metadata.model_dump(mode="json", exclude_none=True)
            members["issuer"] = str(context.oauth_metadata.issuer)
        if context.protected_resource_metadata is not None:
            members["resource"] = context.protected_resource_metadata.model_dump(mode="json", exclude_none=True)
        if members:
            self._tokens.change(self._spec.where, **members)
            self._stamp = self._tokens.stamp()

    # The user

    def _login_advice(self) -> str:
        problem = "its login was revoked or has expired" if self._was_revoked else "it does not accept the stored login"
        return f"{problem}; log in again with: {self._spec.login_command}"

    async def _show(self, url: str) -> None:
        if self._user is None:
            raise McpLoginNeeded(self._login_advice())
        await self._user.show(url)

    async def _wait(self) -> AuthorizationCodeResult:
        assert self._user is not None, "`_show` has raised"
        return await self._user.answer()
