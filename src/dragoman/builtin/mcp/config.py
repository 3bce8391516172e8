"""The MCP servers of a session, sent by the client or configured by the user, in one form.

Owns the reading and the message about an entry that cannot be used. Starts no server and checks no address.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from dragoman.schema import v1

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class OAuthSpec(Struct, frozen=True):
    """The OAuth client that a server's entry names, and what to ask for. By default a client is registered."""

    client_id: str = ""
    client_secret: str = ""
    scopes: tuple[str, ...] = ()
    callback_port: int = 0
    """Port of the redirect to this machine, for a client that was registered with one; 0 for any."""
    issuer: str = ""
    """The authorisation server that the client belongs to; its secret is sent to no other."""
    uses_client_credentials: bool = False
    """Whether the client logs in as itself, without a user and a browser."""


class ServerSpec(Struct, frozen=True):
    """One server: a command to start, or an address to connect to."""

    name: str
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    is_sse: bool = False
    oauth: OAuthSpec | None = OAuthSpec()
    """None if the entry switches OAuth off."""
    elicitation: bool = False
    """Whether the server may ask the user questions."""
    sampling: Literal["never", "ask", "always"] = "never"
    """Whether the server may use the session's model."""
    is_configured: bool = False
    """Whether the settings have an entry of this name for it, so that commands can name it."""

    @property
    def login_command(self) -> str:
        """The command that logs in to it."""
        return f"dragoman mcp login {self.name if self.is_configured else self.where}"

    @property
    def can_login(self) -> bool:
        """Whether OAuth can be used: it has an address, and no fixed Authorization header."""
        has_header = any(name.lower() == "authorization" for name in self.headers)
        return bool(self.url) and self.oauth is not None and not has_header

    @property
    def where(self) -> str:
        """The command, or the address without user name, password and query, for messages."""
        if self.command:
            return self.command[0]
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class Problem(Struct, frozen=True):
    """An entry that cannot be used, and why."""

    name: str
    why: str


class _OAuthEntry(Struct, rename="camel"):
    """The member `oauth`, as other programs spell it."""

    client_id: str = ""
    client_secret: str = ""
    client_secret_env: str = ""
    scopes: list[str] | str = []
    scope: str = ""
    callback_port: int = 0
    issuer: str = ""
    client_credentials: bool = False

    def spec(self) -> OAuthSpec:
        scopes = self.scopes.split() if isinstance(self.scopes, str) else self.scopes
        return OAuthSpec(
            self.client_id,
            self.client_secret or os.environ.get(self.client_secret_env, ""),
            tuple(scopes or self.scope.split()),
            self.callback_port,
            self.issuer,
            self.client_credentials,
        )


class _Entry(Struct):
    """A server as most programs write it in their configuration, with its name as the key."""

    command: str | list[str] = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str = ""
    headers: dict[str, str] = {}
    type: str | None = None
    transport: str | None = None
    enabled: bool = True
    disabled: bool = False
    oauth: _OAuthEntry | bool = True
    elicitation: bool = False
    sampling: bool | Literal["always"] = False


def read_servers(
    sent: Sequence[v1.McpServer], configured: Mapping[str, Any]
) -> tuple[tuple[ServerSpec, ...], tuple[Problem, ...]]:
    """Return the servers of a session. One that the client sent replaces a configured one of the same name.

    If both are the same server, it keeps what its entry allows and how it logs in, which the protocol cannot express.
    """
    entries = {name: spec for name, entry in configured.items() if (spec := read_entry(name, entry)) is not None}
    found: list[ServerSpec | Problem] = []
    for server in sent:
        spec = _sent(server)
        entry = entries.pop(spec.name, None)
        if isinstance(spec, ServerSpec) and isinstance(entry, ServerSpec) and _is_same(spec, entry):
            spec = replace(spec, oauth=entry.oauth, elicitation=entry.elicitation, sampling=entry.sampling)
            spec = replace(spec, is_configured=True)
        found.append(spec)
    found += entries.values()
    specs = tuple(entry for entry in found if isinstance(entry, ServerSpec))
    return specs, tuple(entry for entry in found if isinstance(entry, Problem))


def _is_same(sent: ServerSpec, entry: ServerSpec) -> bool:
    """Whether a client sent the server of an entry: clients send the path of a program, and people write its name."""
    if not sent.command or not entry.command:
        return sent.url == entry.url and not sent.command and not entry.command
    has_same_name = os.path.basename(sent.command[0]) == os.path.basename(entry.command[0])
    return has_same_name and sent.command[1:] == entry.command[1:]


def _sent(server: v1.McpServer) -> ServerSpec | Problem:
    if isinstance(server, v1.McpServerStdio):
        env = {variable.name: variable.value for variable in server.env}
        return ServerSpec(server.name, (server.command, *server.args), env)
    if isinstance(server, (v1.McpServerHttp, v1.McpServerSse)):
        headers = {header.name: header.value for header in server.headers}
        return ServerSpec(server.name, url=server.url, headers=headers, is_sse=isinstance(server, v1.McpServerSse))
    name = server.name if isinstance(server, v1.McpServerAcp) else "of an unknown kind"
    return Problem(name, "the client sent a kind of server that this agent cannot reach; send it as stdio, http or sse")


def read_entry(name: str, entry: Any) -> ServerSpec | Problem | None:
    """Read one entry of the settings. Return None for a server that is switched off."""
    try:
        read = msgspec.convert(entry, _Entry)
    except msgspec.ValidationError as error:
        return Problem(name, f"its configuration cannot be read: {error}; correct it")
    if read.disabled or not read.enabled:
        return None
    kind = read.type or read.transport or ("stdio" if read.command else "http")
    if kind == "stdio" and read.command:
        words = (read.command,) if isinstance(read.command, str) else tuple(read.command)
        return replace(_allowed(name, read), command=(*words, *read.args), env=read.env, cwd=read.cwd)
    oauth = _oauth(read)
    if oauth is not None and oauth.uses_client_credentials and not (oauth.client_id and oauth.issuer):
        # Without the issuer, the server would decide who receives the secret.
        return Problem(name, "its oauth needs clientId, a secret and issuer for clientCredentials; add them")
    if kind in ("http", "streamable-http", "streamable_http", "sse") and read.url:
        return replace(_allowed(name, read), url=read.url, headers=read.headers, is_sse=kind == "sse", oauth=oauth)
    return Problem(name, "its configuration has neither a command nor a url that fits its type; add one")


def _allowed(name: str, entry: _Entry) -> ServerSpec:
    """Return what an entry allows its server."""
    sampling: Literal["never", "ask", "always"] = "ask" if entry.sampling else "never"
    if entry.sampling == "always":
        sampling = "always"
    return ServerSpec(name, elicitation=entry.elicitation, sampling=sampling, is_configured=True)


def _oauth(entry: _Entry) -> OAuthSpec | None:
    if isinstance(entry.oauth, bool):
        return OAuthSpec() if entry.oauth else None
    return entry.oauth.spec()
