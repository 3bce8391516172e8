"""An MCP server that wants a login, with its authorisation server, by the official package: `/mcp`, and `/sse` by SSE.

It prints its port. `POST /control` takes {"reset": true} (count from zero), {"expire": true} (access tokens end now),
{"revoke": true} (refresh tokens end now), {"fail": true} (the token endpoint answers with 503), and returns how often
each endpoint was used.
"""

import json
import secrets
import socket
import sys
import time
from typing import Any

import uvicorn
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

SECONDS = 3600
PRESET = "Basic cHJlc2V0OnByZXNldC1zZWNyZXQ="
counts = dict.fromkeys(("register", "authorize", "code", "refresh"), 0)
is_failing = False


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.clients: dict[str, OAuthClientInformationFull] = {
            "preset": OAuthClientInformationFull(
                client_id="preset",
                client_secret="preset-secret",
                redirect_uris=["http://127.0.0.1:1/callback"],  # type: ignore[list-item]
                grant_types=["authorization_code", "refresh_token"],
            )
        }
        self.codes: dict[str, AuthorizationCode] = {}
        self.refreshes: dict[str, RefreshToken] = {}
        self.accesses: dict[str, AccessToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        counts["register"] += 1
        self.clients[client_info.client_id or ""] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        counts["authorize"] += 1
        code = AuthorizationCode(
            code=secrets.token_hex(16),
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id or "",
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state, iss=self.issuer)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        counts["code"] += 1
        del self.codes[authorization_code.code]
        return self.issue(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refreshes.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        counts["refresh"] += 1
        del self.refreshes[refresh_token.token]  # each can be used once
        return self.issue(client, scopes, refresh_token.resource)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.accesses.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        raise NotImplementedError

    def issue(self, client: OAuthClientInformationFull, scopes: list[str], resource: str | None) -> OAuthToken:
        access, refresh, owner = secrets.token_hex(16), secrets.token_hex(16), client.client_id or ""
        until = int(time.time()) + SECONDS
        self.accesses[access] = AccessToken(
            token=access, client_id=owner, scopes=scopes, expires_at=until, resource=resource
        )
        self.refreshes[refresh] = RefreshToken(token=refresh, client_id=owner, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=SECONDS, scope=" ".join(scopes), refresh_token=refresh)


def main() -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = Provider(base)
    server = MCPServer(
        "locked",
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=base,  # type: ignore[arg-type]
            resource_server_url=base,  # type: ignore[arg-type]
            client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use", "more"]),
            required_scopes=["use"],
            validate_token_resource=False,
        ),
    )

    @server.tool()
    def open() -> str:
        return "opened"

    @server.custom_route("/control", methods=["POST"])  # type: ignore[untyped-decorator]  # of the package
    async def control(request: Request) -> Response:
        global is_failing
        wanted: dict[str, Any] = json.loads(await request.body())
        if wanted.get("reset"):
            counts.update(dict.fromkeys(counts, 0))
        if wanted.get("expire"):
            provider.accesses.clear()
        if wanted.get("revoke"):
            provider.refreshes.clear()
        is_failing = bool(wanted.get("fail"))
        return JSONResponse(counts)

    app, events = server.streamable_http_app(), server.sse_app()

    async def with_token_endpoint(scope: Any, receive: Any, send: Any) -> None:
        if scope.get("path", "").startswith(("/sse", "/messages")):
            await events(scope, receive, send)
            return
        if scope.get("path") != "/token":
            await app(scope, receive, send)
            return
        request = Request(scope, receive)
        body = await request.body()
        if is_failing:
            await Response("busy", 503)(scope, receive, send)
        elif b"grant_type=client_credentials" in body:  # the package does not serve it
            is_known = request.headers.get("authorization") == PRESET
            token = provider.issue(provider.clients["preset"], ["use"], None)
            answer = JSONResponse(
                token.model_dump(exclude={"refresh_token"}) if is_known else {}, 200 if is_known else 401
            )
            await answer(scope, receive, send)
        else:

            async def again() -> Any:
                return {"type": "http.request", "body": body}

            await app(scope, again, send)

    sys.stdout.write(f"{listener.getsockname()[1]}\n")
    sys.stdout.flush()
    uvicorn.Server(uvicorn.Config(with_token_endpoint, log_level="error", lifespan="on")).run([listener])


main()
