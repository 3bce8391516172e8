"""The hand-over of a served host to the next one on the same machine, in which no client is refused.

Theory of operation
-------------------
A host waits at `handover.sock` in its data folder. The next one (`dragoman serve --replace`) connects there when it has
checked what can be checked without the data. It gets copies of the listening sockets and of the lock of the folder
(SCM_RIGHTS), binds what else it wants, and says that it is ready. From then on the old host begins nothing: turns that
run go on there, with their questions; prompts are committed and kept; a new session waits.

*Who accepts.* The old host, until its turns have ended or `--drain` is over: it has the data, so that it can answer.
Then it stops to accept, answers what it has accepted, ends every line with 4503, closes the log, and says that it is
over. What connects meanwhile waits in the kernel, at the sockets that both have, and is accepted by the next host.

*Whose the data is.* The lock belongs to an open file, which both have: no third program gets the folder in between. The
next host writes when it has read that the old one is over, or the end of the line: the old one is dead then, and its
lock, its sockets and the prompts that it kept are there, as after every `kill -9`.

*If the next one dies while it waits*, the old host reads the end of the line, goes on, and runs what it has kept. A
second one is refused meanwhile. Once sessions are being closed there is no way back: a next host that dies in this
second leaves the start to the service manager.

Tickets and the keys of MCP servers are in memory only, so they are sent along, and are never on disk.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.errors import ConfigError, DragomanError
from dragoman.host.host import Visitor
from dragoman.schema import decode, encode, v1
from dragoman.transports._acceptor import Acceptor
from dragoman.transports.unix import peer_user
from dragoman.workspace.private import write_private

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dragoman.host.host import Host
    from dragoman.host.serving.server import HostServer
    from dragoman.host.session import HostedSession

_log = logging.getLogger("dragoman.host")
_NAME: Final = "handover.sock"
_KEPT: Final = ".dragoman-kept-prompts"  # by this name it is not part of a backup
_LINE_BYTES: Final = 64 * 1024
_MOST_BYTES: Final = 64 * 1024 * 1024
_MOST_SOCKETS: Final = 64
_LOOK_SECONDS: Final = 0.05
ANSWER_SECONDS: Final = 30.0
"""How long a host may take to pass on its sockets."""
WHY: Final = "The host is being replaced by a new one, which goes on with the session."


class KeptSessions:
    """The sessions that have prompts for the next host: a file in the data folder, so that a killed host has it too."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / _KEPT
        self._principals: dict[str, str] = {}

    def add(self, session: HostedSession) -> None:
        """Note a session; its prompts are in the log."""
        if session.id not in self._principals:
            self._principals[session.id] = session.record.principal
            try:
                write_private(self._path, json.dumps(self._principals).encode(), is_synced=False)
            except OSError as error:  # they run when a client comes back to the session
                _log.error("%s cannot be written: %s", self._path, error.strerror)

    def forget(self) -> None:
        self._principals.clear()
        self._path.unlink(missing_ok=True)

    def read(self) -> dict[str, str]:
        """Return what the host before this one noted: sessions, with their users."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError):
            return {}

    async def run_in(self, host: Host, sessions: dict[str, str]) -> None:
        """Let a host run the prompts that the one before it kept, also if no client comes back to them."""
        for session, principal in sessions.items():
            with suppress(DragomanError):  # it is logged; the prompts run when a client comes back to the session
                await host.find(session, Visitor(principal=principal))
        self.forget()


class HandOver:
    """The old host's part: passes on its sockets, and gives its sessions up when its turns have ended."""

    def __init__(self, server: HostServer, host: Host, folder: Path, lock: int, seconds: float) -> None:
        """Prepare it; `listen` opens it.

        Args:
            server: The server of the host.
            host: What it serves.
            folder: The data folder.
            lock: The descriptor of its lock.
            seconds: How long turns may go on.
        """
        self._server = server
        self._host = host
        self._folder = folder
        self._lock = lock
        self._seconds = seconds
        self._kept = KeptSessions(folder)
        self._acceptor: Acceptor | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._line: socket.socket | None = None
        self._lost = asyncio.Event()
        self.pid = 0
        """Of the next host."""
        self.is_refused = False
        """Whether no other host is let in, because this one ends by itself."""
        self.asked = asyncio.Event()
        """Set while another host is ready to go on."""

    def listen(self) -> None:
        """Wait for another host. Raises: OSError."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_path(self._folder) as path:
                with suppress(FileNotFoundError):
                    os.unlink(self._folder / _NAME)  # of a host that was killed: the lock says that none uses it
                sock.bind(path)
                os.chmod(self._folder / _NAME, 0o600)
        except BaseException:
            sock.close()
            raise
        self._acceptor = Acceptor(sock, self._accepted)

    def _accepted(self, line: socket.socket) -> None:
        line.setblocking(False)
        user = peer_user(line)
        if user is not None and user != os.geteuid():
            line.close()
            return
        task = asyncio.get_running_loop().create_task(self._meet(line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _meet(self, line: socket.socket) -> None:
        """Speak with another host until it is gone."""
        is_ours = False
        try:
            buffer = bytearray()
            wanted = await _read(line, buffer)
            if wanted is None or not isinstance(wanted.get("listen"), list):
                return
            if self._line is not None or self.is_refused:
                why = f"pid {self.pid} waits already" if self._line is not None else "it is shutting down"
                await _send(line, {"error": f"the host in {self._folder} is already in a hand-over, or ends: {why}"})
                return
            is_ours, self._line, self.pid = True, line, _peer_pid(line)
            self._lost.clear()
            names = [address for address, _ in self._server.listening]
            socket.send_fds(
                line,
                [json.dumps({"pid": os.getpid(), "version": __version__, "sockets": names}).encode() + b"\n"],
                [self._lock, *(sock.fileno() for _, sock in self._server.listening)],
            )
            answer = await _read(line, buffer)
            if answer is not None and answer.get("ready") is True:
                self.asked.set()
                await _read(line, buffer)  # it has nothing more to say: this is the end of the line
        except OSError as error:
            _log.warning("the next host cannot be spoken with: %s", error)
        finally:
            if is_ours:
                self._line = None
                self._lost.set()
            line.close()

    async def hand_over(self, hurry: asyncio.Event) -> bool:
        """Let the other host go on when the turns have ended; False if it died before, and this one goes on.

        Args:
            hurry: Cancels what runs, so that the other host begins at once.
        """
        host, server = self._host, self._server
        _begin(host, self._kept.add)
        server.is_draining = True
        deadline = asyncio.get_running_loop().time() + self._seconds
        reported = -1
        while (turns := server.working) and not self._lost.is_set() and not hurry.is_set():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            if turns != reported and self._line is not None:
                reported = turns
                with suppress(OSError):
                    await _send(self._line, {"turns": turns, "seconds": round(left)})
            await asyncio.sleep(_LOOK_SECONDS)
        if self._lost.is_set():
            self.asked.clear()
            server.is_draining = False
            _take_back(host)
            self._kept.forget()
            return False
        await server.hand_over(WHY)
        return True

    async def finish(self) -> None:
        """Let the other host have the data: the log is closed."""
        if self._line is not None:
            notify_manager(f"MAINPID={self.pid}")
            servers = {
                id: msgspec.json.decode(encode(list(session.servers)))
                for id, session in self._server.handed_over.items()
                if session.servers
            }
            with suppress(OSError):  # it is dead: what it would have had is in the log
                await _send(self._line, {"over": True, "tickets": self._server.tickets.all(), "servers": servers})

    def stop(self) -> None:
        """Let no other host in any more."""
        if self._acceptor is not None:
            self._acceptor.close()
            self._acceptor = None
            with suppress(FileNotFoundError):
                os.unlink(self._folder / _NAME)

    async def close(self) -> None:
        """End every line."""
        self.stop()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)


def _begin(host: Host, on_kept: Callable[[HostedSession], None]) -> None:
    """Let a host begin nothing more: prompts are kept for the host after it, new sessions wait."""
    host.is_retiring, host.on_kept = True, on_kept
    for session in host.live_sessions():
        session.prompts.keep()
        if session.attachments and not session.is_closed:
            session.notice(WHY)


def _take_back(host: Host) -> None:
    """Let a host go on as before."""
    host.is_retiring, host.on_kept = False, None
    for connection in host.connections:
        connection.sessions.cancel_held("")
    for session in host.live_sessions():
        session.prompts.go_on()


class Predecessor:
    """The next host's part: has the sockets and the lock of the host before it, and waits for its end. Blocks."""

    def __init__(self, line: socket.socket, folder: Path, addresses: Sequence[str]) -> None:
        """Ask the host for its sockets.

        Raises:
            ConfigError: it does not pass them on.
        """
        self._line = line
        self._buffer = bytearray()
        self.tickets: list[Any] = []
        self.servers: dict[str, list[Any]] = {}
        line.settimeout(ANSWER_SECONDS)
        try:
            hello = {"pid": os.getpid(), "version": __version__, "listen": list(addresses)}
            line.sendall(json.dumps(hello).encode() + b"\n")
            data, descriptors, _, _ = socket.recv_fds(line, _LINE_BYTES, _MOST_SOCKETS)
            for descriptor in descriptors:
                os.set_inheritable(descriptor, False)
            self._buffer += data
            answer = self._next() or {"error": f"the host in {folder} ended while it was asked to hand over"}
        except OSError as error:
            raise ConfigError(f"the host in {folder} does not hand over: {error}") from None
        if not descriptors:
            raise ConfigError(str(answer.get("error", f"the host in {folder} passes on no sockets")))
        self.pid, self.version = int(answer["pid"]), str(answer["version"])
        self.lock, *others = descriptors
        self.sockets = [
            (str(name), socket.socket(fileno=descriptor))
            for name, descriptor in zip(answer["sockets"], others, strict=True)
        ]

    @classmethod
    def find(cls, folder: Path, addresses: Sequence[str]) -> Predecessor | None:
        """Return the host that uses a data folder and can be replaced; None if there is none."""
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            with _short_path(folder) as path:
                line.connect(path)
        except OSError:
            line.close()
            return None
        return cls(line, folder, addresses)

    def wait(self, progress: Callable[[int, int], None]) -> bool:
        """Return when the data is ours: the host before this one is over, or dead; whether it ended in order.

        Args:
            progress: Called with how many turns run there, and for how many seconds at most.
        """
        self._line.settimeout(None)
        self._line.sendall(b'{"ready": true}\n')
        is_in_order = False
        with suppress(ConnectionError):  # it was killed
            while (message := self._next()) is not None:
                if message.get("over") is True:
                    is_in_order = True
                    self.tickets, self.servers = message["tickets"], message["servers"]
                    break
                progress(int(message["turns"]), int(message["seconds"]))
        self._line.close()
        return is_in_order

    def _next(self) -> dict[str, Any] | None:
        while b"\n" not in self._buffer:
            data = self._line.recv(_LINE_BYTES)
            if not data:
                return None
            self._buffer += data
        return _take_line(self._buffer)


def read_servers(servers: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """Return the MCP servers of sessions, as the host before this one sent them."""
    found = {}
    for session, sent in servers.items():
        written = msgspec.json.encode({"cwd": "/", "mcpServers": sent})
        found[session] = list(decode(v1.NewSessionRequest, msgspec.Raw(written)).mcp_servers or ())
    return found


# The service manager


def notify_manager(text: str) -> None:
    """Send a line to the service manager (systemd: `sd_notify`), if one started this program and waits for it."""
    place = os.environ.get("NOTIFY_SOCKET", "")
    if place[:1] in ("/", "@"):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
            sock.connect(f"\0{place[1:]}" if place.startswith("@") else place)
            sock.send(text.encode())


def passed_sockets() -> list[tuple[str, socket.socket]]:
    """Return the listening sockets that a service manager has passed to this program (`LISTEN_FDS`), by address."""
    if os.environ.get("LISTEN_PID") != str(os.getpid()):
        return []
    count = os.environ.get("LISTEN_FDS", "")
    found = []
    for descriptor in range(3, 3 + (int(count) if count.isdigit() else 0)):
        os.set_inheritable(descriptor, False)
        sock = socket.socket(fileno=descriptor)
        found.append((address_of(sock), sock))
    return found


def address_of(sock: socket.socket) -> str:
    """Return the address of a listening socket, as `--listen` takes it."""
    name = sock.getsockname()
    if sock.family == socket.AF_UNIX:
        return f"unix:{os.fsdecode(name)}"
    return f"[{name[0]}]:{name[1]}" if ":" in name[0] else f"{name[0]}:{name[1]}"


# Lines of JSON


@contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """Give a path of the socket that is short enough for the system, however long that of the folder is."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{_NAME}"
    finally:
        os.close(descriptor)


def _peer_pid(line: socket.socket) -> int:
    data = line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return int(struct.unpack("3i", data)[0])


async def _send(line: socket.socket, message: dict[str, Any]) -> None:
    await asyncio.get_running_loop().sock_sendall(line, json.dumps(message).encode() + b"\n")


async def _read(line: socket.socket, buffer: bytearray) -> dict[str, Any] | None:
    """Return the next line; None at the end, or if it is not one of ours."""
    while b"\n" not in buffer:
        data = await asyncio.get_running_loop().sock_recv(line, _LINE_BYTES)
        if not data or len(buffer) > _MOST_BYTES:
            return None
        buffer += data
    return _take_line(buffer)


def _take_line(buffer: bytearray) -> dict[str, Any] | None:
    line, _, rest = bytes(buffer).partition(b"\n")
    buffer[:] = rest
    try:
        message = json.loads(line)
    except ValueError:
        return None
    return message if isinstance(message, dict) else None
