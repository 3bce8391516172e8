"""Connecting to an agent or a host by its URL: what the options mean, and the two ways to pass messages on."""

from __future__ import annotations

import asyncio
import os
import signal
import ssl
import sys
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit, urlunsplit

import msgspec

from dragoman.cli.console import write_json, write_note
from dragoman.cli.exits import AUTH_REQUIRED, OK, CliError
from dragoman.errors import ConfigError, ConnectionClosed, DragomanError
from dragoman.registry.elsewhere import HEADERS_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.cli.host_login import HostLogin
    from dragoman.rpc import Transport

TOKEN_VARIABLE: Final = "DRAGOMAN_TOKEN"
_UNIX: Final = "unix:"


class Remote(NamedTuple):
    """Where an agent or a host is, and what it takes to be let in."""

    url: str
    token: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    ca: str | None = None
    """A file with further certificates to trust."""
    login: HostLogin | None = None
    """The stored login to send in place of a token."""

    async def open(self) -> Transport:
        """Open a new connection.

        Raises:
            ConfigError: the URL cannot be used.
            ConnectionClosed: no server can be reached there, or it refused.
        """
        if self.url.startswith(_UNIX):
            from dragoman.transports.unix import connect_unix

            return await connect_unix(self.url.removeprefix(_UNIX), peer="the host")
        if self.login is None:
            return await self._connect(self.token)
        token = await self.login.token()
        try:
            return await self._connect(token)
        except ConnectionClosed as error:
            from dragoman.host.bridge.reasons import refused_status

            if refused_status(error) != 401:
                raise
        return await self._connect(await self.login.token(refused=token))  # it may have been revoked before its end

    async def _connect(self, token: str | None) -> Transport:
        from dragoman.transports.remote.connect import connect_url

        return await connect_url(
            self.url, token=token, headers=dict(self.headers), tls=self.tls(), reconnect_seconds=20.0
        )

    def tls(self) -> ssl.SSLContext | None:
        """Return the settings of TLS; None for those of the system. Raises: ConfigError."""
        return trusted(self.ca)


def trusted(ca: str | None) -> ssl.SSLContext | None:
    """Return settings of TLS that trust the certificates of a file; None without one. Raises: ConfigError."""
    if ca is None:
        return None
    try:
        return ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"the certificates in {ca} cannot be used ({error})") from None


def read_remote(given: Any) -> Remote:
    """Return the remote end that the options name.

    Raises:
        CliError: an option is wrong.
        ConfigError: the URL is wrong, or a file cannot be read.
    """
    url = check_url(given.url)
    token, login = find_way_in(url, given.token_env, given.token_file, given.ca)
    return Remote(url_of_agent(url, given.agent), token, read_headers(given.header), given.ca, login)


def find_way_in(
    url: str, variable: str | None, file: str | None, ca: str | None = None
) -> tuple[str | None, HostLogin | None]:
    """Return the token that was named, or else the login to this host, or else the token of the environment.

    The login goes before DRAGOMAN_TOKEN, which may be for another host. Raises: CliError, ConfigError.
    """
    from dragoman.cli.masked_streams import mask_keys
    from dragoman.text.secrets import remember_key

    if url.startswith(_UNIX):
        return None, None
    login = _stored_login(url, ca) if variable is None and file is None else None
    token = read_token(variable, file) if login is None else None
    if token is not None:
        remember_key("TOKEN", token)
        mask_keys({})
    return token, login


def log_in_first(given: Any) -> None:
    """Log in to the host, unless a login is stored that can be used.

    Raises:
        CliError, ConfigError: it did not work, or the options contradict each other.
    """
    from dragoman.cli.host_login import HostLogin, log_in_here
    from dragoman.host.bridge.reasons import LoginNeeded

    if given.token_env is not None or given.token_file is not None:
        raise CliError("--login and a token are two ways in", hint="leave out --token-env and --token-file")
    if given.url.startswith(_UNIX):
        raise CliError("a Unix socket needs no login", hint="leave out --login")
    tls = trusted(given.ca)
    login = HostLogin(given.url, tls)

    async def run() -> None:
        try:
            await login.token()
        except LoginNeeded:
            await log_in_here(given.url, tls)

    try:
        asyncio.run(run())
    except ConnectionClosed as error:
        raise CliError(str(error), exit_code=AUTH_REQUIRED) from None


def _stored_login(url: str, ca: str | None) -> HostLogin | None:
    """Return the login to this host."""
    from dragoman.settings.places import config_dir

    if not (config_dir() / "host-logins.json").exists():  # most users have none, and what follows takes time to load
        return None
    from dragoman.cli.host_login import find_login

    return find_login(url, trusted(ca))


def check_url(url: str) -> str:
    """Return the URL, if it is one of an agent.

    Raises:
        ConfigError: it is not.
    """
    if url.startswith(_UNIX):
        return f"{_UNIX}{os.path.abspath(url.removeprefix(_UNIX))}"
    from dragoman.transports.remote.http_client import read_url

    where = read_url(url)
    if not where.is_secure and not _is_loopback(where.host):
        write_note(f"warning: {url} is not encrypted: the token and all messages can be read on the way")
    return url


def _is_loopback(host: str) -> bool:
    from dragoman.agent.serving import is_loopback

    return is_loopback(host)


def url_of_agent(url: str, agent: str | None) -> str:
    """Return the address of one agent of a host, `/acp/NAME`, if the URL names none."""
    if agent is None or url.startswith(_UNIX):
        return url
    parts = urlsplit(url)
    path = parts.path.rstrip("/") or "/acp"
    return urlunsplit(parts._replace(path=f"{path}/{agent}")) if path == "/acp" else url


def read_token(variable: str | None, file: str | None) -> str | None:
    """Return the token from a variable or a file; by default from DRAGOMAN_TOKEN, if it is set.

    Raises:
        CliError: what was named does not hold one.
    """
    if variable is not None and file is not None:
        raise CliError("--token-env and --token-file both name a token", hint="use only one of them")
    if file is not None:
        try:
            with open(file, encoding="utf-8") as opened:
                token = opened.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise CliError(f"--token-file {file}: {getattr(error, 'strerror', error)}") from None
        if not token:
            raise CliError(
                f"--token-file {file}: the file is empty", hint="dragoman serve token add NAME makes a token"
            )
        return token
    token = os.environ.get(variable or TOKEN_VARIABLE, "").strip()
    if variable is not None and not token:
        raise CliError(f"--token-env {variable}: this variable is not set", hint=f"export {variable}=TOKEN")
    return token or None


def read_headers(given: list[str]) -> tuple[tuple[str, str], ...]:
    """Return headers from `NAME: VALUE`, and from the variable that entries of the settings use.

    Raises:
        CliError: one is wrong.
    """
    found: dict[str, str] = {}
    kept = os.environ.get(HEADERS_VARIABLE)
    if kept:
        try:
            found |= msgspec.json.decode(kept, type=dict[str, str])
        except msgspec.DecodeError:
            raise CliError(f"{HEADERS_VARIABLE} does not hold headers", hint='write {"NAME": "VALUE"}') from None
    for text in given:
        name, separator, value = text.partition(":")
        if not separator or not name.strip() or not (name + value).isprintable():
            raise CliError(f"--header {text!r}: not a header", hint="write it like 'X-Team: blue'")
        found[name.strip()] = value.strip()
    return tuple(found.items())


def run_bridge(remote: Remote, *, agent: str | None, maps: list[str]) -> int:
    """Serve the editor on stdin and stdout until it is gone."""
    from dragoman.host.bridge.bridge import Bridge
    from dragoman.host.bridge.paths import PathMap, read_map
    from dragoman.transports.stdio import StdioTransport

    paths = PathMap(map(read_map, maps))

    async def run() -> int:
        bridge = Bridge(StdioTransport(), remote.open, url=remote.url, agent=agent, paths=paths, note=write_note)
        _on_signal(bridge.stop)
        return await bridge.run()

    return asyncio.run(run())


def run_relay(remote: Remote) -> int:
    """Pass messages on unchanged, for tools that judge what an agent says."""
    from dragoman.host.bridge.reasons import explain
    from dragoman.host.bridge.relay import relay
    from dragoman.transports.stdio import StdioTransport

    async def run() -> int:
        try:
            agent = await remote.open()
        except DragomanError as error:
            raise CliError(explain(error, remote.url).sentence, exit_code=4) from None
        code, why = await relay(StdioTransport(), agent)
        if why:
            write_note(explain(why, remote.url).sentence)
        return code

    return asyncio.run(run())


def _on_signal(stop: Callable[[], None]) -> None:
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)


def print_settings(given: Any) -> int:
    """Write what an editor needs to start this bridge; Zed and JetBrains use the same form."""
    args = ["connect", given.url]
    for flag, value in (("--agent", given.agent), ("--token-file", given.token_file), ("--ca", given.ca)):
        if value is not None:
            args += [flag, value]
    if given.token_env is not None:
        args += ["--token-env", given.token_env]
    for pair in given.map:
        args += ["--map", pair]
    name = given.agent or urlsplit(given.url).hostname or "host"
    env = {given.token_env: "the token"} if given.token_env is not None else {}
    write_json({"agent_servers": {name: {"type": "custom", "command": _own_command(), "args": args, "env": env}}})
    return OK


def _own_command() -> str:
    return os.path.abspath(sys.argv[0]) if os.path.basename(sys.argv[0]) == "dragoman" else "dragoman"
