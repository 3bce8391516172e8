"""The web page of the local host: a network endpoint that is opened inside it when `dragoman web` asks.

Theory of operation
-------------------
The page shows the sessions of this user, so it is served by the process that has them. It is open while a program
holds it, which is `dragoman web` in the foreground, or until it is stopped if it was asked to stay (`--detach`). What
stays is written down: a host that takes the place of this one, after an update or a crash, opens it again. A program
that holds it asks the next host itself. The port is chosen once and written down too, because what a browser keeps
belongs to an address with its port: at another one it would have to be paired again.

Devices and codes are in the same folder, `web` in the data folder, apart from those of `dragoman serve`.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman.errors import ConfigError
from dragoman.settings.places import data_dir
from dragoman.wire import write_notification
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    import ssl
    from pathlib import Path

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.serving.server import HostServer, ListeningAddress

_log = logging.getLogger("dragoman.host")
FIRST_PORT: Final = 8788
"""Tried first when no port was chosen; another program may have it."""
CLOSED: Final = "_dragoman/web/closed"
"""Sent to programs that hold the page when it was stopped."""
USER: Final = "local"
"""Whose sessions its devices see: those of the terminal."""
_HOLD: Final = "web"
_REPLACED: Final = "The page is opened at another address."


class WebChoice(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Where the page is to be, and for whom."""

    port: int = 0
    """0: the one that was chosen before."""
    listen: str = "127.0.0.1"
    hosts: tuple[str, ...] = ()
    tls_cert: str | None = None
    tls_key: str | None = None
    is_behind_proxy: bool = False

    @property
    def is_reachable(self) -> bool:
        """Whether other machines can reach it, directly or by a proxy."""
        from dragoman.agent.serving import is_loopback

        return not is_loopback(self.listen) or (self.is_behind_proxy and bool(self.hosts))


class WebFile(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """What is written down."""

    port: int = 0
    kept: WebChoice | None = None
    """What the next host opens by itself."""


def web_folder() -> Path:
    """Return the folder of devices, codes and the port."""
    return data_dir() / "web"


def read_web_file() -> WebFile:
    """Return what is written down; nothing if that cannot be read."""
    try:
        return msgspec.json.decode((web_folder() / "web.json").read_bytes(), type=WebFile)
    except FileNotFoundError:
        return WebFile()
    except (OSError, msgspec.DecodeError) as error:
        _log.warning("the port of the web page is not known: %s", error)
        return WebFile()


def write_web_file(file: WebFile) -> None:
    make_private_folder(web_folder())
    write_private(web_folder() / "web.json", msgspec.json.encode(file), is_synced=True)


class WebHold:
    """A program that wants the page to be open for as long as its connection is."""

    def __init__(self, page: WebPage, client: HostConnection) -> None:
        self._page = page
        self.client = client

    def close(self) -> None:
        self._page.release(self)


class WebPage:
    """The page of one host, open or closed."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._server: HostServer | None = None
        self._choice = WebChoice()
        self._holds: set[WebHold] = set()
        self._is_kept = False
        self._has_failed = False
        self._lock = asyncio.Lock()

    @property
    def is_kept(self) -> bool:
        """Whether it is to stay open without a program that holds it."""
        return self._is_kept

    async def open(self, choice: WebChoice | None, client: HostConnection, *, is_kept: bool) -> None:
        """Open the page, or attach to it.

        Args:
            choice: Where; None for where it is, or was.
            client: The program that asks.
            is_kept: Whether it stays open when that program is gone.

        Raises:
            ConfigError: it cannot be opened there.
        """
        async with self._lock:
            if self._server is None or (choice is not None and self._resolved(choice) != self._choice):
                await self._open(self._resolved(choice or WebChoice()))
            self._is_kept = self._is_kept or is_kept
            self._write()
            if not is_kept and _HOLD not in client.kept:
                hold = client.kept[_HOLD] = WebHold(self, client)
                self._holds.add(hold)

    @property
    def is_missing(self) -> bool:
        """Whether it is to be open and is not: its port may be taken for a moment."""
        return self._is_kept and self._server is None

    async def restore(self) -> None:
        """Open what an earlier host had open and was asked to keep. A failure is logged once, and may pass."""
        async with self._lock:
            kept = read_web_file().kept
            if kept is None or self._server is not None:
                return
            self._is_kept = True
            try:
                await self._open(kept)
            except (ConfigError, OSError) as error:
                if not self._has_failed:
                    _log.error("the web page cannot be opened again: %s", error)
                self._has_failed = True

    async def stop(self) -> None:
        """Close it for all programs that hold it, and keep it closed."""
        self._is_kept = False
        write_web_file(replace(read_web_file(), kept=None))
        for hold in list(self._holds):
            hold.client.peer.post(write_notification(CLOSED, b"{}"))
            hold.client.kept.pop(_HOLD, None)
        self._holds.clear()
        async with self._lock:
            await self._close("The page was closed.")

    def release(self, hold: WebHold) -> None:
        """Let go of it; it is closed behind the last program that holds it, unless it was asked to stay."""
        self._holds.discard(hold)
        _ = self._host.run(self._close_unused())

    def stop_listening(self) -> None:
        """Leave the port to the next host."""
        if self._server is not None:
            self._server.stop_listening()

    async def end(self, why: str) -> None:
        """Close it with the host; what was asked to stay is opened by the next one."""
        async with self._lock:
            await self._close(why)

    def facts(self) -> dict[str, Any]:
        """Return what there is to show about it."""
        server, choice = self._server, self._choice
        found: dict[str, Any] = {
            "isOpen": server is not None,
            "isKept": self._is_kept,
            "programs": len(self._holds),
            "folder": str(web_folder()),
        }
        if server is not None:
            page = server.page
            found |= {
                "address": self._address,
                "port": choice.port,
                "isReachable": choice.is_reachable,
                "listen": choice.listen,
                "page": None if page is None or not page.is_complete else page.version,
                "problems": [] if page is None else page.problems,
                "connections": server.connections,
            }
        return found

    @property
    def _address(self) -> str:
        """What to open in a browser."""
        pairing = None if self._server is None else self._server.pairing
        return "" if pairing is None or pairing.address is None else pairing.address.removesuffix("/")

    def _resolved(self, choice: WebChoice) -> WebChoice:
        port = choice.port or (self._choice.port if self._server is not None else 0) or read_web_file().port
        return replace(choice, port=port)

    async def _open(self, choice: WebChoice) -> None:
        from dragoman.host.serving.access_log import AccessLog
        from dragoman.host.serving.metrics import HostMetrics
        from dragoman.host.serving.routes import check_open_address
        from dragoman.host.serving.server import HostServer, ServeOptions
        from dragoman.host.serving.tls import server_tls
        from dragoman.host.serving.tokens import HostTokens

        options = ServeOptions(hosts=choice.hosts, is_behind_proxy=choice.is_behind_proxy, web=True)
        tls = server_tls(choice.tls_cert, choice.tls_key)
        check_open_address(f"{choice.listen}:{choice.port}", choice.listen, tls, options)
        await self._close(_REPLACED)  # only now: what is wrong with the choice leaves the page as it is
        tokens = HostTokens(web_folder() / "tokens.json")
        server = HostServer(self._host, tokens, options, metrics=HostMetrics(), access_log=AccessLog(None))
        try:
            listening = await _listen(server, choice, tls)
        except BaseException:
            await server.leave(_REPLACED)
            self._host.pairing = None
            raise
        self._server, self._has_failed = server, False
        self._choice = replace(choice, port=int(listening.address.rpartition(":")[2]))
        _log.info("the web page is open at %s", self._address)

    def _write(self) -> None:
        kept = self._choice if self._is_kept else None
        wanted = WebFile(self._choice.port, kept)
        if wanted != read_web_file():
            write_web_file(wanted)

    async def _close_unused(self) -> None:
        async with self._lock:
            if not self._holds and not self._is_kept:
                await self._close("The page was closed.")

    async def _close(self, why: str) -> None:
        server, self._server = self._server, None
        if server is not None:
            await server.leave(why)
            self._host.pairing = None


async def _listen(server: HostServer, choice: WebChoice, tls: ssl.SSLContext | None) -> ListeningAddress:
    """Listen at the port that was chosen; without one at the usual one, or any if that is taken."""
    shown = f"[{choice.listen}]" if ":" in choice.listen else choice.listen
    try:
        return await server.listen(f"{shown}:{choice.port or FIRST_PORT}", tls)
    except ConfigError as error:
        if choice.port:
            raise ConfigError(f"{error} with --port; browsers have to be paired again there") from None
    return await server.listen(f"{shown}:0", tls)
