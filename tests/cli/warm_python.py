"""Runs `python -m dragoman` as a process of its own, without starting a Python for each run.

Most of the time of a short command goes into starting Python and importing what the command needs. A waiting process
has imported that and forks for each run: the run has its own process, environment, folder and streams. No module of
ours looks at these when it is imported. What a command loads, and when, is tested with a Python of its own
(`test_startup.py`). Runs at a terminal, runs that a test talks to, and those with settings for Python itself start a
Python of their own, as users do.

This file is also the program of the waiting process. A message to it is argv, folder and environment as JSON, with the
descriptors of the three streams; it answers with the pid, and with the wait status when the run has ended.
"""

import gc
import io
import json
import os
import pkgutil
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import NoReturn, Self

LOADED = ("argparse", "asyncio", "hashlib", "ipaddress", "msgspec", "pathlib", "shlex", "shutil", "sqlite3", "uuid")
# Our packages that commands use before they have an agent, and around its turn.
OURS = (
    *("wire", "rpc", "schema", "settings", "state", "store", "text", "workspace", "process", "policy", "view"),
    *("client", "transports", "registry", "runs", "snapshots", "foreign", "cli"),
)
MOST_BYTES = 100_000  # of a message; the kernel takes twice as much
PIECE = 65536


class WarmPython:
    """The waiting process of this one. It does one run at a time."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._settings = settings_of(os.environ)
        with theirs:
            number = theirs.fileno()
            command = [sys.executable, __file__, str(number)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[number], cwd="/")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._process.wait()

    def run(
        self, words: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: str, seconds: float
    ) -> subprocess.CompletedProcess[str] | None:
        """Run `dragoman` with these words to its end. Returns None if it has to be started in the usual way.

        Raises: TimeoutExpired; what ran is ended then.
        """
        message = json.dumps([words, str(cwd), dict(env)]).encode()
        if len(message) > MOST_BYTES or settings_of(env) != self._settings:
            return None
        (their_in, our_in), (our_out, their_out), (our_err, their_err) = (os.pipe() for _ in range(3))
        try:
            socket.send_fds(self._socket, [message], [their_in, their_out, their_err])
        finally:
            for each in (their_in, their_out, their_err):
                os.close(each)
        pid = int(self._socket.recv(PIECE))
        deadline = time.monotonic() + seconds
        try:
            out, err = _exchange(our_in, stdin.encode(), [our_out, our_err], deadline)
            self._socket.settimeout(max(1.0, deadline - time.monotonic()))
            status = int(self._socket.recv(PIECE))
        except TimeoutError:
            os.kill(pid, signal.SIGKILL)
            self._socket.settimeout(None)
            self._socket.recv(PIECE)
            raise subprocess.TimeoutExpired(list(words), seconds) from None
        self._socket.settimeout(None)
        return subprocess.CompletedProcess(list(words), os.waitstatus_to_exitcode(status), _text(out), _text(err))


def _exchange(to: int, data: bytes, sources: Sequence[int], deadline: float) -> list[bytes]:
    """Write data to one pipe and read the others to their ends, then close all of them. Raises: TimeoutError."""
    found = dict.fromkeys(sources, b"")
    with selectors.DefaultSelector() as selector:
        for source in sources:
            selector.register(source, selectors.EVENT_READ)
        os.set_blocking(to, False)
        selector.register(to, selectors.EVENT_WRITE)
        try:
            while selector.get_map():
                if deadline < time.monotonic():
                    raise TimeoutError
                for key, _ in selector.select(1.0):
                    if key.fd == to:
                        try:
                            data = data[os.write(to, data) :] if data else data
                        except BrokenPipeError:
                            data = b""
                        is_over = not data
                    else:
                        piece = os.read(key.fd, PIECE)
                        found[key.fd] += piece
                        is_over = not piece
                    if is_over:
                        selector.unregister(key.fd)
                        os.close(key.fd)
        finally:
            for key in list(selector.get_map().values()):
                os.close(key.fd)
    return list(found.values())


def _text(data: bytes) -> str:
    """As `subprocess` decodes it."""
    return data.decode().replace("\r\n", "\n").replace("\r", "\n")


def settings_of(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that a Python reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LC_", "LANG", "TZ"))}


def serve(line: socket.socket) -> None:
    """Fork for each message, until the other side is gone."""
    while True:
        message, streams, _, _ = socket.recv_fds(line, 2 * MOST_BYTES, 3)
        if not message:
            return
        pid = os.fork()
        if pid == 0:
            line.close()
            words, folder, environment = json.loads(message)
            become(words, folder, environment, streams)
        for each in streams:
            os.close(each)
        try:
            line.send(b"%d" % pid)
            line.send(b"%d" % os.waitpid(pid, 0)[1])
        except BrokenPipeError:
            return


def become(words: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> NoReturn:
    """Run `python -m dragoman` with these words, as this process."""
    take(streams)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["dragoman", *words]
    sys.path[0] = folder
    code = 1
    try:
        runpy.run_module("dragoman", run_name="__main__", alter_sys=True)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # as the interpreter reports what a program does not catch
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def import_all(name: str) -> None:
    """Import a module, or with `.*` at the end a package and all that is below it and can be imported here."""
    module = import_module(name.removesuffix(".*"))
    if name.endswith(".*"):
        for part in pkgutil.walk_packages(module.__path__, f"{module.__name__}."):
            with suppress(ImportError):  # it needs a package that is not installed
                import_module(part.name)


def take(streams: Sequence[int]) -> None:
    """Make these descriptors the streams of this process."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
        old, file = getattr(sys, name), io.FileIO(number, mode, closefd=False)
        new = io.TextIOWrapper(
            io.BufferedReader(file) if mode == "r" else io.BufferedWriter(file),
            encoding=old.encoding,
            errors=old.errors,
            line_buffering=name == "stderr",
        )
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)  # it lives as long as the process, whatever takes its place


if __name__ == "__main__":
    for name in (*LOADED, *(f"dragoman.{package}.*" for package in OURS)):
        import_all(name)
    gc.freeze()  # the collector of a run looks at what the run makes
    with socket.socket(fileno=int(sys.argv[1])) as found:
        serve(found)
