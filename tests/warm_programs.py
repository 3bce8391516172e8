"""Runs Python programs as processes of their own, without starting a Python and importing its packages for each run.

To import an SDK, or all of the built-in agent, takes ten times as long as a short exchange with it. A waiting process
has imported what its programs need, and forks for each run. A test starts `command(...)` as it would start the program:
that is a small launcher (`warm_launcher.py`), which hands its streams, folder, environment and signals to the run and
ends as the run does. If the launcher is killed, so is the run. What a start itself costs and loads is tested elsewhere.

This file is also the program of the waiting process.
"""

from __future__ import annotations

import gc
import os
import random
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, NoReturn

ROOT = Path(__file__).parents[1]
if __name__ == "__main__":
    sys.path[0] = str(ROOT)

from tests.cli.warm_python import import_all, take  # noqa: E402

LAUNCHER = Path(__file__).with_name("warm_launcher.py")
MOST_BYTES = 200_000
READY = b"ready"
OURS = (
    *("wire", "rpc", "schema", "settings", "state", "store", "text", "uistream", "workspace", "process", "policy"),
    *("agent", "client", "transports", "registry", "runs", "builtin", "proxy", "versions", "scripting"),
    *("cli.commands", "cli.exec", "cli.guard", "cli.prompt"),
)


class WarmPrograms:
    """A waiting process with some modules imported."""

    def __init__(self, *modules: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="dgm-")
        self._path = f"{self._folder.name}/line"
        command = [sys.executable, __file__, self._path, *modules]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self._process.stdout is not None
        assert self._process.stdout.read(len(READY)) == READY

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        self._process.communicate()  # it ends with its stdin
        self._folder.cleanup()

    def command(self, *words: str) -> tuple[str, ...]:
        """What runs `python WORDS`, where the words begin with a file or `-m MODULE`, or `-W error` and that."""
        return (sys.executable, "-I", "-S", str(LAUNCHER), self._path, *words)


_waiting: dict[tuple[str, ...], WarmPrograms] = {}


def warm(*modules: str) -> WarmPrograms:
    """The waiting process with these modules, which lives as long as the tests of this process."""
    if modules not in _waiting:
        _waiting[modules] = WarmPrograms(*modules)
    return _waiting[modules]


def our_programs() -> WarmPrograms:
    """A process that has imported our command line, our clients and our agents."""
    return warm("dragoman.cli.main", *(f"dragoman.{name}.*" for name in OURS))


def mcp_package() -> WarmPrograms:
    """A process that has imported the official package for MCP, which takes a second."""
    return warm("mcp.server.mcpserver", "mcp.server.elicitation", "mcp.server.extension", "mcp_types", "uvicorn")


def python_sdk() -> WarmPrograms:
    """A process that has imported the official Python SDK, which takes a second."""
    return warm("acp", "acp.http", "acp.ws")


def waiting_pids() -> set[int]:
    """The waiting processes: the only children that a test may leave behind."""
    return {program.pid for program in _waiting.values()}


def close_all() -> None:
    """End the waiting processes."""
    while _waiting:
        _waiting.popitem()[1].close()


class Run(NamedTuple):
    """A program that runs: the descriptor of its process, and its launcher."""

    process: int
    launcher: socket.socket


class Server:
    """Forks for each launcher that connects, passes its signals on, and reports the end to it."""

    def __init__(self, path: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(path)
        self._listener.listen(64)
        self._runs: dict[int, Run] = {}  # by pid

    def serve(self) -> None:
        """Serve until nobody holds the other end of stdin any more."""
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    for pid in self._runs:
                        os.kill(pid, signal.SIGKILL)
                    return
                if key.fileobj is self._listener:
                    self._start()
                elif run := self._runs.get(key.data):
                    if key.fd == run.process:
                        self._end(key.data)
                    else:
                        self._pass_on(run, key.data)

    def _start(self) -> None:
        launcher, _ = self._listener.accept()
        message, streams, _, _ = socket.recv_fds(launcher, MOST_BYTES, 3)
        if not message:
            launcher.close()
            return
        pid = os.fork()
        if pid == 0:
            for run in self._runs.values():
                run.launcher.close()
                os.close(run.process)
            self._selector.close()
            self._listener.close()
            launcher.close()
            folder, count, *rest = message.split(b"\0")
            words, environment = rest[: int(count)], rest[int(count) :]
            become(list(map(os.fsdecode, words)), folder, environment, streams)
        for stream in streams:
            os.close(stream)
        self._runs[pid] = run = Run(os.pidfd_open(pid), launcher)
        self._selector.register(run.process, selectors.EVENT_READ, pid)
        self._selector.register(launcher, selectors.EVENT_READ, pid)

    def _pass_on(self, run: Run, pid: int) -> None:
        """Pass a signal on; a launcher that was killed takes its program with it."""
        number = run.launcher.recv(1)
        os.kill(pid, number[0] if number else signal.SIGKILL)
        if not number:
            self._selector.unregister(run.launcher)

    def _end(self, pid: int) -> None:
        run = self._runs.pop(pid)
        _, status = os.waitpid(pid, 0)
        self._selector.unregister(run.process)
        with suppress(KeyError):
            self._selector.unregister(run.launcher)
        os.close(run.process)
        with suppress(OSError):  # the launcher was killed
            run.launcher.send(status.to_bytes(4, sys.byteorder))
        run.launcher.close()


def become(words: list[str], folder: bytes, environment: Sequence[bytes], streams: list[int]) -> NoReturn:
    """Run `python WORDS` as this process."""
    take(streams)
    os.chdir(folder)
    os.environb.clear()
    for variable in environment:
        name, _, value = variable.partition(b"=")
        os.environb[name] = value
    random.seed()
    code = 1
    try:
        if words[0] == "-W":
            warnings.simplefilter(words[1])  # type: ignore[arg-type]
            del words[:2]
        if words[0] == "-m":
            sys.path[0], sys.argv = os.fsdecode(folder), words[1:]
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            sys.path[0], sys.argv = os.path.dirname(os.path.abspath(words[0])), words
            runpy.run_path(words[0], run_name="__main__")
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # as the interpreter reports what a program does not catch
        traceback.print_exc()
    with suppress(ValueError):  # the program has closed it
        sys.stdout.flush()
    os._exit(code)


if __name__ == "__main__":
    server = Server(sys.argv[1])
    for words in sys.argv[2:]:
        import_all(words)
    gc.collect()
    gc.freeze()  # the collector of a run looks at what the run makes
    os.write(1, READY)
    server.serve()
