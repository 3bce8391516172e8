"""How programs of one user agree on one host: connect, else start it under a lock.

Theory of operation
-------------------
1. Connect. If that works, done.
2. `flock` the lock file, without waiting. If it is held, a host is starting, or ending: wait a little, go to 1.
3. With the lock, connect once more: another starter may have been faster. Refused again, the socket is stale.
4. Start the host; it inherits the descriptor of the lock and holds it for its life. The kernel releases it when the
   last copy is closed, also after `kill -9`, so a lock is never stale, and the lock file is never removed.
5. The host binds its socket under another name, listens, and renames it: a client sees the old refused socket, or one
   that listens.
6. One byte on an inherited pipe says that it is ready. Without it, the last lines of its log are the error.
7. At its end a host stops to listen, removes the socket if it is still its own, and lets the lock go by exiting. A
   client that connected in between reads the end of the file before any answer, and goes to 1 once more.

`flock` and not `fcntl` locks: closing any descriptor of the file drops the latter.
"""

import os
import sys
import time

from dragoman.host.local.build import package_folder
from dragoman.host.local.permit import is_switched_off, scope_command, why_not_start_here
from dragoman.host.local.place import HostPlace, HostPlaces, PlaceRefused
from dragoman.host.local.thin import HostLost, ThinClient, begin, begun, connect_any, connect_to

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable

START_SECONDS = 30.0
"""How long a host may take to listen, and how long a lock may be held without one. A host that dies closes its pipe, so
only one that is slow, on a machine with too much to do, is waited for."""
NOTE_SECONDS = 5.0
"""After so long the user is shown what is waited for."""
_FIRST_WAIT, _LONGEST_WAIT = 0.005, 0.05
_LOG_LINES = 12


class NoHost(Exception):
    """There is no host and none can be started; the text says why and what to do."""


def find_host(places: HostPlaces) -> ThinClient | None:
    """Connect to the host that runs and exchange hellos; None if none runs. Never starts one."""
    if is_switched_off(os.environ):
        return None
    for _ in range(2):
        client = connect_any(places)
        if client is None:
            return None
        try:
            begun(client, begin(client))
        except HostLost:  # it ended just now
            client.close()
            continue
        return client
    return None


def reach_host(places: HostPlaces, *, note: "Callable[[str], None]" = lambda text: None) -> ThinClient:
    """Connect to the host, after starting it if none runs. No hello is sent yet.

    Raises:
        NoHost: none runs, and none can be started.
    """
    if is_switched_off(os.environ):
        raise NoHost("DRAGOMAN_HOST=off: there is no host for sessions; unset it")
    client = connect_any(places)
    if client is not None:
        return client
    why = why_not_start_here()
    if why:
        raise NoHost(f"no host runs, and none is started: {why}")
    for text in places.notes:
        note(text)
    try:
        places.first.make()
    except PlaceRefused as error:
        raise NoHost(f"the host cannot be started: {error}") from None
    return _start_or_join(places.first, note)


def _start_or_join(place: HostPlace, note: "Callable[[str], None]") -> ThinClient:
    import fcntl

    started = time.monotonic()
    wait = _FIRST_WAIT
    is_noted = False
    while True:
        lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            is_ours = False
        else:
            is_ours = True
        try:
            client = connect_to(place)
            if client is not None:
                return client
            if is_ours:
                return _start(place, lock, note)
        finally:
            os.close(lock)
        waited = time.monotonic() - started
        if waited > START_SECONDS:
            raise NoHost(f"a host holds {place.lock} and does not answer: {holder_of(place)}")
        if waited > NOTE_SECONDS and not is_noted:
            is_noted = True
            note(f"waiting for the host that holds {place.lock}: {holder_of(place)}")
        time.sleep(wait)
        wait = min(2 * wait, _LONGEST_WAIT)


def _start(place: HostPlace, lock: int, note: "Callable[[str], None]") -> ThinClient:
    """Start a host while holding the lock; it goes on holding it."""
    from shutil import which

    runtime = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.geteuid()}"
    scope = scope_command(os.environ, has_program=which("systemd-run") is not None, runtime=runtime)
    is_ready = _launch(place, lock, scope, note)
    if not is_ready and scope:  # the user's systemd may refuse; a host that ends at logout is better than none
        is_ready = _launch(place, lock, [], note)
    client = connect_to(place) if is_ready else None
    if client is None:
        raise NoHost(f"the host could not be started; the end of its log {log_path(place)}: {last_lines(place)}")
    return client


def _launch(place: HostPlace, lock: int, scope: list[str], note: "Callable[[str], None]") -> bool:
    """Run the host's program; whether it became ready."""
    import select
    import subprocess

    ready, theirs = os.pipe()
    log = open_log(place)
    try:
        command = [*scope, *host_command(), place.folder, place.mark, str(lock), str(theirs)]
        # The process we start leaves a child behind and ends, so that no starter is the parent of a host.
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            pass_fds=(lock, theirs),
            start_new_session=True,
            umask=0o077,
        ) as process:
            os.close(theirs)
            theirs = -1
            found, _, _ = select.select([ready], [], [], NOTE_SECONDS)
            if not found:
                note("the host is still starting")
                found, _, _ = select.select([ready], [], [], START_SECONDS - NOTE_SECONDS)
            is_ready = bool(found) and os.read(ready, 1) == b"+"
            if not is_ready and not found:
                process.kill()
        return is_ready
    finally:
        for descriptor in (ready, theirs, log):
            if descriptor >= 0:
                os.close(descriptor)


# Finds the package in the folder that is given, whatever else is installed, and other packages where they are.
_PROGRAM = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); import dragoman; sys.path.append(sys.path.pop(0)); "
    "from dragoman.host.__main__ import program; program(sys.argv[1:])"
)


def host_command() -> list[str]:
    """Return the program of the host: of this installation, whatever the current folder and the environment have."""
    # `-I` ignores the packages of the user; an installation that is there needs them.
    where = os.path.dirname(package_folder())
    is_users = "/.local/" in f"{where}/" and not where.startswith(sys.prefix)
    return [sys.executable, *(("-E", "-P") if is_users else ("-I",)), "-c", _PROGRAM, where]


# The log of the program


def log_path(place: HostPlace) -> str:
    from dragoman.settings.places import folder_name

    return f"{folder_name('state', os.environ)}/host-{place.mark}.log"


def open_log(place: HostPlace) -> int:
    from dragoman.workspace.private import make_private_folder, open_private

    path = log_path(place)
    make_private_folder(os.path.dirname(path))
    return open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def last_lines(place: HostPlace) -> str:
    try:
        with open(log_path(place), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4096))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return "(it cannot be read)"
    return " / ".join(line.strip() for line in lines[-_LOG_LINES:]) or "(it is empty)"


# Who holds the lock


def own_identity() -> dict[str, str]:
    """Return what differs between machines, boots and containers that share a folder."""
    return {
        "machine": _text("/etc/machine-id"),
        "boot": _text("/proc/sys/kernel/random/boot_id"),
        "namespace": _link("/proc/self/ns/pid"),
    }


def holder_of(place: HostPlace) -> str:
    """Return who holds the lock, for a sentence. A pid of another boot or container means nothing here."""
    import json

    try:
        with open(place.lock, encoding="utf-8") as file:
            found = json.loads(file.read() or "{}")
    except (OSError, ValueError):
        found = {}
    pid = found.get("pid") if isinstance(found, dict) else None
    if not isinstance(pid, int):
        return "its pid is not known yet"
    if not is_here(found):
        return "it belongs to another machine or container that shares this folder"
    return f"its pid is {pid} ({found.get('executable', '?')})"


def is_here(found: "dict[str, object]") -> bool:
    """Whether what a lock file says is about a program of this boot and container, so that its pid can be used."""
    return all(found.get(name) == value for name, value in own_identity().items())


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""
