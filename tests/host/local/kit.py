"""A local host of a test's own: folders for settings, data and sockets, and the end of everything it started."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from dragoman.host.local.place import HostPlaces, find_places
from dragoman.host.local.thin import ThinClient, begin, begun, connect_any
from tests.cli.exec_kit import Done, Place
from tests.cli.warm_python import WarmPython

SECONDS = 60.0


class HostPlaceKit(Place):
    """A user of this machine with a host of their own."""

    def __init__(self, folder: Path, warm: WarmPython | None = None) -> None:
        super().__init__(folder, warm)
        # Below /tmp: the path of a socket is short.
        self.runtime = Path(tempfile.mkdtemp(prefix="dgh-", dir="/tmp"))
        self._clients: list[ThinClient] = []
        self.environment.pop("CI", None)
        self.environment |= {"XDG_RUNTIME_DIR": str(self.runtime), "DRAGOMAN_HOST": "on"}

    @property
    def places(self) -> HostPlaces:
        return find_places(self.environment)

    @property
    def socket(self) -> Path:
        return Path(self.places.first.socket)

    def settings(self, **members: Any) -> None:
        """Writes the user's settings."""
        folder = self.home / "dragoman" / "config"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "settings.json").write_text(json.dumps(members))

    def connect(self, *, begins: bool = True) -> ThinClient:
        """A client of the host that runs; `begins` exchanges hellos, and sends the environment."""
        client = connect_any(self.places)
        assert client is not None, "no host runs"
        self._clients.append(client)
        client.set_timeout(SECONDS)
        if begins:
            begun(client, begin(client))
        return client

    def host(self) -> dict[str, Any]:
        """What the host says of itself."""
        client = self.connect()
        try:
            found: dict[str, Any] = client.call("_dragoman/host")
            return found
        finally:
            client.close()

    def log(self) -> str:
        found = list((self.home / "dragoman" / "state").glob("host-*.log"))
        return found[0].read_text() if found else ""

    def run_as_older(self, *words: str) -> Done:
        """Runs `exec` of a version whose methods between client and host are others; it starts such a host."""
        return self.run_patched("build.PROTOCOL -= 1", *words)

    def run_patched(self, change: str, *words: str) -> Done:
        """Runs `exec` with a changed `build.py`; the host that it starts has the change, too."""
        patch = f"import sys; import dragoman.host.local.build as build; {change}; "
        host = patch + "from dragoman.host.__main__ import program; program(sys.argv[2:])"
        code = (
            patch + "import dragoman.host.local.start as start; "
            f"start.host_command = lambda: [sys.executable, '-c', {host!r}, 'dragoman.host']; "
            "from dragoman.cli.main import main; sys.exit(main(sys.argv[1:]))"
        )
        done = subprocess.run(
            [sys.executable, "-c", code, "exec", *words],
            cwd=self.project,
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
        return Done(done.returncode, done.stdout, done.stderr)

    def pids(self) -> list[int]:
        """The processes of hosts that were started here."""
        return [pid for pid, command in processes(self.mark) if "dragoman.host" in command]

    def end(self) -> None:
        """Ends what is left, and removes the runtime folder."""
        for client in self._clients:
            client.close()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in self.pids():
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
            if wait_for(lambda: not self.pids(), 30.0, is_required=False):
                break
        left = wait_for(lambda: not processes(self.mark), 30.0, is_required=False)
        shutil.rmtree(self.runtime, ignore_errors=True)
        assert left, processes(self.mark)


@contextmanager
def local_place(folder: Path, warm: WarmPython | None = None) -> Iterator[HostPlaceKit]:
    """A user, whose processes end with the test; `warm` starts runs that a test does not talk to."""
    place = HostPlaceKit(folder, warm)
    try:
        yield place
    finally:
        place.end()


def processes(mark: str) -> list[tuple[int, str]]:
    """Processes with this mark in their environment, with their command lines; those that have ended do not count."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (folder / "environ").read_bytes() and int(folder.name) != os.getpid():
                state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
                if state not in ("Z", "X"):
                    command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    found.append((int(folder.name), command))
        except (OSError, IndexError):
            continue
    return found


def kill(pid: int) -> None:
    """Kill a process, and wait for its end: only then are its sockets closed, and no list of processes shows that."""
    handle = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(handle, signal.SIGKILL)
        assert select.select([handle], [], [], SECONDS)[0], f"{pid} did not end"
    finally:
        os.close(handle)


def wait_for(is_true: Callable[[], object], seconds: float = SECONDS, *, is_required: bool = True) -> bool:
    """Waits for something in another process, which raises no event here."""
    deadline = time.monotonic() + seconds
    while not is_true():
        if time.monotonic() > deadline:
            assert not is_required, "it did not happen in time"
            return False
        time.sleep(0.01)
    return True


def scripted(place: HostPlaceKit, name: str = "s", prompt: str = "hello", *words: str) -> Any:
    """Opens a session with the scripted agent."""
    return place.run("--session", name, "-a", "scripted", *words, prompt)
