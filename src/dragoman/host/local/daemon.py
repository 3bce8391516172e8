"""The program of the local host: from an inherited lock to the last client.

Owns the process: its descriptors, its log, its signals, and when it ends. Sessions belong to `LocalHost`.

Theory of operation
-------------------
The host lives while a client is connected, a turn runs or waits, or a question is open; `host.idle` seconds after
that it ends, unless it has a session that would be lost (`LocalHost.keeps_sessions`). Ends come from the idle timer,
SIGTERM, `_dragoman/retire`, the removal of its folder (a logout removes it, and then no client can find the socket any
more), or new files of its own package. All but SIGTERM wait for an idle moment.

*After an update.* The host looks at its files when a client comes, and says in `initialize` that it is outdated. A
client that wants to begin something then sends `_dragoman/retire`. From there on the host begins nothing: new sessions
and prompts are held, with a line to their clients, and never get an answer here. Turns that run, and prompts that wait
behind them, go on to their ends, with their questions; their clients get all of it. Then the host ends, also if clients
are attached: they connect again, to the host that the first of them starts, load their sessions from the log, and send
what was held once more, under the same id. The log has one writer at any moment, so no session has two hosts.

`_end` is the one way out: it stops to listen first, so that a client that is not accepted yet finds the end of the file
and asks for another host, and only then looks whether there is anything to close.
Timers use the monotonic clock, which stands still while a laptop sleeps: not all of them fire when it wakes.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import logging
import os
import signal
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import DragomanError
from dragoman.host.environment import collect_rarely
from dragoman.host.host import Visitor
from dragoman.host.local.build import build_stamp, clone_stamp, hello, package_folder
from dragoman.host.local.local_host import open_local_host
from dragoman.host.local.log_file import claim_log
from dragoman.host.local.place import HostPlace
from dragoman.host.local.preload import load_everything
from dragoman.host.local.start import own_identity
from dragoman.host.working.turn_reports import AgentWarnings
from dragoman.settings.places import data_dir
from dragoman.transports.unix import UnixServer, UnixTransport, bind_unix
from dragoman.workspace.private import make_private_folder

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.host.local.local_host import LocalHost

_log = logging.getLogger("dragoman.host")
_LOG_BYTES: Final = 5 * 1024 * 1024
DRAIN_SECONDS: Final = 10.0
WATCH_SECONDS: Final = 2.0
FIRST_USE_SECONDS: Final = 10.0
"""How long a host waits at least for its first client, the program that started it."""
RETIRE_SECONDS: Final = 0.1
"""How often a host that retires looks whether its turns have ended: clients of the next one wait for it."""
CLONE_SECONDS: Final = 1.0
"""How often the files of a clone are looked at, at most; see `clone_stamp`."""
# An older host whose folder was removed notices it after WATCH_SECONDS, and writes the log until then.
_OWNER_SECONDS: Final = 4.0
# Write-ahead logging needs memory that all users of the file share.
_NETWORK: Final = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "9p", "ceph", "glusterfs", "lustre", "gpfs", "beegfs"),
        *("fuse.sshfs", "fuse.glusterfs", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "davfs", "fuse.gcsfuse"),
    )
)


def run_host(folder: str, mark: str, lock: int, ready: int, started_from: tuple[str, str]) -> int:
    """Be the host until it is not needed any more; gives the exit code of the program.

    Args:
        folder, mark: Where the socket is.
        lock: The descriptor of the lock, which is held.
        ready: The descriptor that gets a byte when the host listens.
        started_from: The stamps of the package's files when the program began.
    """
    place = HostPlace(folder, mark)
    settle_process(lock, ready)
    keep_short_log()
    collect_rarely()
    try:
        owner, log = own_log(data_dir())
        try:
            host = open_local_host(log, mark)
        except BaseException:
            os.close(owner)
            raise
    except DragomanError as error:
        _log.error("the host cannot start: %s", error)
        return 1
    try:
        asyncio.run(_serve(host, place, lock, ready, started_from))
    finally:
        if host.ledger is not None:
            host.ledger.close()
    return 0


async def _serve(host: LocalHost, place: HostPlace, lock: int, ready: int, started_from: tuple[str, str]) -> None:
    try:
        await _Daemon(host, place, lock, ready, started_from).run()
    finally:
        await host.log.close()


def settle_process(lock: int, ready: int) -> None:
    """Keep nothing of the starter but the lock, the pipe and the log; agents must not inherit the lock either."""
    os.umask(0o077)
    os.chdir("/")
    for descriptor in (lock, ready):
        os.set_inheritable(descriptor, False)
    low, high = sorted((lock, ready))
    last = os.sysconf("SC_OPEN_MAX")
    for start, end in ((3, low), (low + 1, high), (high + 1, last)):
        os.closerange(start, end)


def keep_short_log() -> None:
    """Write warnings to stderr, which is the log file, and start it again when it is too long."""

    class Limited(logging.StreamHandler[Any]):
        def emit(self, record: logging.LogRecord) -> None:
            shorten_log(2)
            super().emit(record)

    handler = Limited(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    logging.getLogger("dragoman").addHandler(handler)
    logging.getLogger("dragoman").addHandler(AgentWarnings(logging.WARNING))
    logging.getLogger("dragoman").setLevel(logging.INFO)
    logging.getLogger("asyncio").addHandler(handler)


def shorten_log(descriptor: int, most_bytes: int = _LOG_BYTES) -> None:
    """Empty a file that is written at its end, if it is too long."""
    with suppress(OSError):  # stderr may be a pipe when the program is started by hand
        if os.fstat(descriptor).st_size > most_bytes:
            os.ftruncate(descriptor, 0)


def own_log(folder: Path, seconds: float = _OWNER_SECONDS) -> tuple[int, Path]:
    """Lock the event log of this installation: two writers must never meet, also if the runtime folder was made twice.

    Returns:
        The descriptor that holds the lock, and the log.

    Raises:
        DragomanError: another host writes it, or it is in a place where it cannot be kept.
    """
    try:
        make_private_folder(folder)
        why = why_not_here(os.fspath(folder))
        if why:
            raise DragomanError(why)
        name = claim_log(folder)
        descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DragomanError(f"{folder} cannot be used: {error.strerror}") from None
    deadline = time.monotonic() + seconds
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor, folder / f"{name}.db"
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = holder_of_file(descriptor)
                os.close(descriptor)
                raise DragomanError(
                    f"another host{holder} still writes the sessions in {folder}; end it first"
                ) from None
            time.sleep(0.05)


def holder_of_file(descriptor: int) -> str:
    """Return the pid of the program that has locked a file, for a sentence; empty if the system does not say it."""
    inode = str(os.fstat(descriptor).st_ino)
    with suppress(OSError), open("/proc/locks", encoding="ascii") as file:
        for line in file:
            words = line.split()
            if len(words) > 5 and words[1] == "FLOCK" and words[5].rpartition(":")[2] == inode and words[4] != "-1":
                return f" (pid {words[4]})"
    return ""


class _Daemon:
    """One running host with its socket."""

    def __init__(self, host: LocalHost, place: HostPlace, lock: int, ready: int, started_from: tuple[str, str]) -> None:
        self._host = host
        self._place = place
        self._lock = lock
        self._ready = ready
        self._over = asyncio.Event()
        self._serving: set[asyncio.Task[None]] = set()
        self._idle: asyncio.TimerHandle | None = None
        self._watch: asyncio.TimerHandle | None = None
        self._is_leaving_soon = False
        self._is_terminated = False
        self._has_stayed = False
        self._was_used = False
        self._build, self._clone = started_from
        self._looked_at = time.monotonic()

    async def run(self) -> None:
        """Serve until the end."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._terminate)
        self._server, self._inode = self._listen()
        self._host.on_retire = self._retire
        self._host.describe(self._place)
        self._write_holder()
        os.write(self._ready, b"+")
        os.close(self._ready)
        _log.info("listening at %s, pid %d", self._place.socket, os.getpid())
        self._watch = loop.call_later(WATCH_SECONDS, self._look)
        _ = self._host.run(self._host.web.restore())
        self._wait_for_use()
        loading = loop.create_task(asyncio.to_thread(load_everything))
        try:
            await self._over.wait()
        finally:
            await self._end(loading)

    def _listen(self) -> tuple[UnixServer, int]:
        """Bind under another name, listen, and take the place of a stale socket in one step."""
        path = f"{self._place.socket}.{os.getpid()}"
        with suppress(FileNotFoundError):
            os.unlink(path)  # of a host with our pid, long ago
        server = UnixServer(bind_unix(path), self._opened)
        inode = os.stat(path).st_ino
        os.rename(path, self._place.socket)
        return server, inode

    def _write_holder(self) -> None:
        holder = {"pid": os.getpid(), "executable": sys.executable, **hello(), **own_identity()}
        os.ftruncate(self._lock, 0)
        os.pwrite(self._lock, json.dumps(holder).encode(), 0)

    # Clients

    def _opened(self, transport: UnixTransport) -> None:
        if not self._host.is_outdated and self._is_changed():
            _log.info("the files of %s were changed; this host leaves to another one", package_folder())
            self._host.is_outdated = self._is_leaving_soon = True
        self._was_used = True
        task = asyncio.get_running_loop().create_task(self._host.serve(transport, Visitor()))
        self._serving.add(task)
        task.add_done_callback(self._closed)

    def _is_changed(self) -> bool:
        """Whether the files of the package are others than when this program began."""
        if build_stamp() != self._build:
            return True
        if time.monotonic() - self._looked_at < CLONE_SECONDS:
            return False
        self._looked_at = time.monotonic()
        return clone_stamp() != self._clone

    def _closed(self, task: asyncio.Task[None]) -> None:
        self._serving.discard(task)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a connection failed", exc_info=task.exception())
        self._wait_for_use()

    # Ends

    @property
    def _is_idle(self) -> bool:
        return not self._serving and self._host.is_idle

    def _wait_for_use(self) -> None:
        """Start the idle time again."""
        if self._idle is not None:
            self._idle.cancel()
        seconds = 0.0 if self._is_leaving_soon else self._host.idle_seconds
        if not self._was_used:  # the program that started it is on its way, however short the idle time is
            seconds = max(seconds, FIRST_USE_SECONDS)
        self._idle = asyncio.get_running_loop().call_later(seconds, self._idle_is_over)

    def _idle_is_over(self) -> None:
        is_kept = self._host.keeps_sessions or self._host.web.is_kept
        if self._is_idle and (self._is_leaving_soon or not is_kept):
            self._over.set()
        elif not self._serving:  # a turn runs without a client, or a session is kept; there is no event for their end
            if self._is_idle and not self._has_stayed:
                self._has_stayed = True
                why = "sessions that cannot come back" if self._host.keeps_sessions else "the web page"
                _log.info("idle, and it stays for %s", why)
            self._idle = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._idle_is_over)

    def _look(self) -> None:
        """Leave if the socket is not ours any more, and end questions that were not answered for a day."""
        try:
            is_found = os.stat(self._place.socket).st_ino == self._inode
        except OSError:
            is_found = False
        if not is_found and not self._is_leaving_soon:
            _log.info("the socket is gone; this host ends when it is idle")
            self._is_leaving_soon = True
        if self._host.is_retiring and self._host.is_drained:
            self._stop_listening()
            self._over.set()
        elif self._is_leaving_soon and self._is_idle:
            self._over.set()
        if self._host.web.is_missing and not self._host.is_retiring:
            _ = self._host.run(self._host.web.restore())
        self._host.end_old_questions()
        self._host.end_unused_sessions()
        seconds = RETIRE_SECONDS if self._host.is_retiring else WATCH_SECONDS
        self._watch = asyncio.get_running_loop().call_later(seconds, self._look)

    def _retire(self) -> bool:
        """Begin nothing more and leave when what runs has ended, for a client of the new code; whether that is now."""
        self._is_leaving_soon = self._host.is_retiring = True
        if self._watch is not None:
            self._watch.cancel()
        self._look()
        return self._over.is_set()

    def _terminate(self) -> None:
        self._is_terminated = True
        self._over.set()

    def _stop_listening(self) -> None:
        self._server.close()
        self._host.web.stop_listening()
        with suppress(OSError):
            if os.stat(self._place.socket).st_ino == self._inode:
                os.unlink(self._place.socket)

    async def _end(self, loading: asyncio.Task[None]) -> None:
        self._stop_listening()
        for timer in (self._idle, self._watch):
            if timer is not None:
                timer.cancel()
        why = "The host was asked to end." if self._is_terminated else "The host ends."
        is_replaced = self._host.is_retiring and not self._is_terminated
        if is_replaced:
            why = "The host ends, because dragoman was updated; the next one goes on with the session."
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._host.close(why, "replaced" if is_replaced else None)
                await self._host.web.end(why)
                if self._serving:
                    await asyncio.wait(self._serving)
        except TimeoutError:
            _log.warning("not everything ended within %g seconds", DRAIN_SECONDS)
        for task in self._serving:
            task.cancel()
        with suppress(Exception):
            await loading
        _log.info("ended, pid %d", os.getpid())


def why_not_here(folder: str) -> str:
    """Return why the log cannot be in this folder, as a sentence; empty if it can."""
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            mounts = file.read()
    except OSError:
        return ""  # another system; SQLite itself refuses what it notices
    return refuse_network(folder, file_system_of(os.path.realpath(folder), mounts))


def file_system_of(folder: str, mounts: str) -> str:
    """Return the type of a folder's file system, by a text like `/proc/self/mounts`; empty if it is not there."""
    from dragoman.policy.paths import is_below  # only a host looks, when it starts

    best, found = "", ""
    for line in mounts.splitlines():
        words = line.split(" ")
        if len(words) < 3:
            continue
        point = words[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        if is_below(folder, point) and len(point) >= len(best):  # of two at one point, the later one is seen
            best, found = point, words[2]
    return found


def refuse_network(folder: str, kind: str) -> str:
    """Return the sentence for a file system of this type; empty if the log can be there."""
    if kind not in _NETWORK:
        return ""
    return (
        f"sessions cannot be kept in {folder}: it is on a network file system ({kind}), where the log would break; "
        "set DRAGOMAN_HOME or XDG_DATA_HOME to a folder of this machine"
    )
