"""An agent served at an address: a port on this machine, or a Unix socket.

Owns what the address means and who may connect: a port always needs a token, also on loopback, because every program
and every web page of the machine can reach it. `transports/remote/` speaks the wire.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import secrets
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable, Sequence

    from dragoman.agent.agent import Agent
    from dragoman.rpc import Transport
    from dragoman.transports.remote.asgi import AsgiApplication
    from dragoman.transports.remote.gate import Principal
    from dragoman.transports.remote.server import NewConnection

TOKEN_VARIABLE: Final = "DRAGOMAN_TOKEN"
_UNIX: Final = "unix:"


async def serve_address(
    agent: Agent,
    address: str,
    *,
    token: str | None,
    tls: ssl.SSLContext | None,
    behind_proxy: bool,
    hosts: Sequence[str],
    origins: Sequence[str],
    on_listening: Callable[[str], None] | None,
) -> None:
    """Serve every client that connects, until the call is cancelled.

    Raises:
        ConfigError: the address cannot be used, or is open to others without TLS.
    """
    serving: set[asyncio.Task[None]] = set()

    def serve(transport: Transport) -> None:
        task = asyncio.get_running_loop().create_task(agent.serve(transport))
        serving.add(task)
        task.add_done_callback(serving.discard)

    try:
        if address.startswith(_UNIX):
            await _serve_unix(address.removeprefix(_UNIX), serve, on_listening)
        else:
            await _serve_port(address, serve, token, tls, behind_proxy, hosts, origins, on_listening)
    finally:
        for task in serving:
            task.cancel()
        if serving:
            await asyncio.wait(serving)


async def _serve_unix(
    path: str, serve: Callable[[Transport], None], on_listening: Callable[[str], None] | None
) -> None:
    from dragoman.transports.unix import UnixServer, bind_unix

    server = UnixServer(bind_unix(path), serve)
    try:
        if on_listening is not None:
            on_listening(f"{_UNIX}{path}")
        await asyncio.Event().wait()
    finally:
        # Before the path is free: another server that binds it must not meet clients of this one.
        server.close()
        with suppress(FileNotFoundError):  # a user may have removed it
            os.unlink(path)


async def _serve_port(
    address: str,
    serve: Callable[[Transport], None],
    token: str | None,
    tls: ssl.SSLContext | None,
    behind_proxy: bool,
    hosts: Sequence[str],
    origins: Sequence[str],
    on_listening: Callable[[str], None] | None,
) -> None:
    from dragoman.transports.remote.gate import GateRules
    from dragoman.transports.remote.server import RemoteServer

    host, port = read_address(address)
    if not is_loopback(host) and tls is None and not behind_proxy:
        raise ConfigError(
            f"{address} can be reached by others: pass tls=, or behind_proxy=True if a proxy in front of it speaks TLS"
        )
    wanted = token or os.environ.get(TOKEN_VARIABLE) or _token_of(address)
    sock = bind_port(host, port)
    port = sock.getsockname()[1]
    rules = GateRules(
        hosts=known_names(host, port, hosts),
        find_principal=_only(wanted),
        origins=frozenset(map(as_header, origins)),
    )
    server = RemoteServer(lambda opened: serve(opened.transport), rules)
    await server.listen(sock, ssl=tls)
    try:
        if on_listening is not None:
            shown = f"[{host}]" if ":" in host else host
            on_listening(f"{'https' if tls else 'http'}://{shown}:{port}/acp")
        await asyncio.Event().wait()
    finally:
        await server.close()


def asgi_application(
    agent: Agent, *, hosts: Sequence[str], token: str | None, origins: Sequence[str]
) -> AsgiApplication:
    """Return an agent as an ASGI application.

    Raises:
        ConfigError: no token, or no name by which clients call the server.
    """
    from dragoman.transports.remote.asgi import AsgiApplication
    from dragoman.transports.remote.gate import GateRules

    wanted = token or os.environ.get(TOKEN_VARIABLE)
    if not wanted:
        raise ConfigError(f"an agent inside an ASGI server needs a token: pass token= or set {TOKEN_VARIABLE}")
    if not hosts:
        raise ConfigError("pass hosts=, the names with port by which clients call the server, as agents.example:443")
    serving: set[asyncio.Task[None]] = set()

    def serve(opened: NewConnection) -> None:
        task = asyncio.get_running_loop().create_task(agent.serve(opened.transport))
        serving.add(task)
        task.add_done_callback(serving.discard)

    rules = GateRules(
        hosts=_listed(hosts),
        find_principal=_only(wanted),
        origins=frozenset(map(as_header, origins)),
    )
    return AsgiApplication(serve, rules)


def _only(token: str) -> Callable[[str], Principal | None]:
    """Find the one principal of the one token."""
    from dragoman.transports.remote.gate import Principal

    digest = hashlib.sha256(token.encode()).digest()
    principal = Principal("token")

    def find(secret: str) -> Principal | None:
        same = hmac.compare_digest(hashlib.sha256(secret.encode()).digest(), digest)
        return principal if same else None

    return find


def read_address(address: str) -> tuple[str, int]:
    """Take `host:port` apart; an IPv6 address stands in brackets.

    Raises:
        ConfigError: it is not one.
    """
    host, separator, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError(f"{address!r} is not an address; it looks like 127.0.0.1:8787 or unix:/path/to/socket")
    return host, int(port)


def is_loopback(host: str) -> bool:
    """Whether only programs of this machine can reach it. A name that begins like such an address is a name."""
    from ipaddress import ip_address

    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def bind_port(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigError(f"cannot listen at {host}:{port} ({error.strerror or error}); choose another port") from None


def known_names(host: str, port: int, more: Sequence[str]) -> frozenset[bytes]:
    """Return the names by which clients may call this server, each with its port."""
    names = {f"[{host}]:{port}" if ":" in host else f"{host}:{port}", *more}
    if is_loopback(host):
        names |= {f"localhost:{port}", f"127.0.0.1:{port}"}
    return _listed(names)


def _listed(names: Iterable[str]) -> frozenset[bytes]:
    """Return the names as clients write them: without the port that belongs to the scheme."""
    found = frozenset(map(as_header, names))
    return found | {name.removesuffix(b":443").removesuffix(b":80") for name in found}


def as_header(name: str) -> bytes:
    """Return a name or an origin as it stands in a header."""
    return name.lower().encode("idna" if not name.isascii() else "ascii")


def _token_of(address: str) -> str:
    """Return the token for an address, made once and kept in a file that only this user can read."""
    from dragoman.settings.places import data_dir
    from dragoman.workspace.private import make_private_folder, open_private

    folder = data_dir() / "tokens"
    path = folder / address.replace("/", "_").replace(":", "_")
    make_private_folder(folder)
    with os.fdopen(open_private(path, os.O_RDWR | os.O_CREAT), "r+") as file:
        token = file.read().strip()
        if not token:
            token = secrets.token_urlsafe(32)
            file.write(f"{token}\n")
    return token
