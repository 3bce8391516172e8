"""A real agent with a model, a project and a home of its own, driven through `dragoman` as a program.

Owns starting the program, reading what it prints while it runs, and looking for processes that were left behind. What
a run should have come to is for the tests to say.
"""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.interop.agents.recipes import prepare
from tests.interop.model_server.server import ModelServer

# Two cores, and an agent that loads a hundred megabytes of JavaScript first.
SECONDS: Final = 60.0
# Makes the terminal it is started on its own, then becomes the program.
_AT_TERMINAL: Final = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(2, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Done(NamedTuple):
    """A finished run."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """What `--output json` printed."""
        result: dict[str, Any] = json.loads(self.out)
        assert result["exit_code"] == self.code, self
        return result


class Running:
    """`dragoman exec --output events` that has not ended yet."""

    def __init__(self, process: subprocess.Popen[bytes], screen: int | None = None) -> None:
        self._process = process
        self._screen = screen
        self._out = b""
        self._shown = b""

    def until_event(self, kind: str) -> dict[str, Any]:
        """The first event of a kind, as soon as it was printed."""
        seen = 0
        deadline = time.monotonic() + SECONDS
        while True:
            lines = self._out.split(b"\n")[:-1]
            for line in lines[seen:]:
                event: dict[str, Any] = json.loads(line)
                if event["event"] == kind:
                    return event
            seen = len(lines)
            self._read(deadline)

    def until_shown(self, words: str) -> None:
        """Returns when these words are on the terminal."""
        deadline = time.monotonic() + SECONDS
        while words.encode() not in self._shown:
            self._read(deadline)

    def interrupt(self) -> None:
        """What Ctrl-C does."""
        if self._screen is None:
            self._process.send_signal(signal.SIGINT)
        else:
            self.type("\x03")

    def until_file(self, path: Path) -> None:
        """Returns when a file is there that some process of the agent makes."""
        deadline = time.monotonic() + SECONDS
        while not path.exists():
            self._read(deadline)

    def type(self, keys: str) -> None:
        """What the person at the terminal types."""
        assert self._screen is not None
        os.write(self._screen, keys.encode())

    def end(self) -> Done:
        """The run when it is over, with its last event, the result, as what was printed."""
        deadline = time.monotonic() + SECONDS
        while self._process.poll() is None or self._can_read():
            self._read(deadline, must_read=False)
        last = json.loads(self._out.splitlines()[-1])
        return Done(self._process.returncode, json.dumps(last["result"]), self._shown.decode(errors="replace"))

    @property
    def _tail(self) -> str:
        """The last of what was seen; agents are wordy."""
        return (self._out[-2000:] + b"\n" + self._shown[-2000:]).decode(errors="replace")

    def _can_read(self) -> bool:
        assert self._process.stdout is not None
        return not self._process.stdout.closed

    def _read(self, deadline: float, *, must_read: bool = True) -> None:
        """Takes what was printed, on stdout or on the terminal; waits for it, bounded."""
        out = self._process.stdout
        assert out is not None
        sources = [each for each in (out.fileno() if not out.closed else None, self._screen) if each is not None]
        ready, _, _ = select.select(sources, [], [], max(0.0, min(0.2, deadline - time.monotonic())))
        assert time.monotonic() < deadline, f"nothing more came of it: {self._tail}"
        for source in ready:
            try:
                data = os.read(source, 65536)
            except OSError:  # nobody has the terminal open any more
                data = b""
            if source == self._screen:
                self._shown += data
                if not data:
                    self._screen = None
            else:
                self._out += data
                if not data:
                    out.close()
                    assert not must_read, f"it ended early: {self._tail}"


class InstalledAgent:
    """One installed agent with its settings and a work folder, for several runs of dragoman."""

    def __init__(self, name: str, folder: Path, server: ModelServer) -> None:
        self.name = name
        self.server = server
        self.work = folder / "work"
        self.work.mkdir()
        self.agent = prepare(name, folder, server.url)
        settings = folder / "dragoman" / "config" / "settings.json"
        settings.parent.mkdir(parents=True)
        command, *arguments = self.agent.command
        entry = {"command": command, "args": arguments, "env": self.agent.env}
        settings.write_text(json.dumps({"agent_servers": {name: entry}}))
        self.env = {**self.agent.surroundings, "DRAGOMAN_HOME": str(folder / "dragoman")}

    def exec(self, *words: str) -> Done:
        """One run of `dragoman exec` with this agent and a result as JSON; nothing may be left of it."""
        return self.run("exec", "-a", self.name, "--output", "json", *words)

    def run(self, *words: str, env: dict[str, str] | None = None, seconds: float = SECONDS) -> Done:
        """One run of `dragoman` in the project's folder."""
        done = subprocess.run(
            [sys.executable, "-m", "dragoman", *words],
            cwd=self.work,
            env={**self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds,
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert self.left() == []
        return Done(done.returncode, done.stdout, done.stderr)

    @contextmanager
    def started(self, *words: str, at_terminal: bool = False) -> Iterator[Running]:
        """`dragoman exec --output events` with this agent, killed if the test does not end it."""
        command = [sys.executable, "-m", "dragoman", "exec", "-a", self.name, "--output", "events", *words]
        screen, slave = pty.openpty() if at_terminal else (None, None)
        try:
            with subprocess.Popen(
                [sys.executable, "-c", _AT_TERMINAL, *command] if at_terminal else command,
                cwd=self.work,
                env={**self.env, "TERM": "xterm"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=slave if at_terminal else subprocess.DEVNULL,
            ) as process:
                if slave is not None:
                    os.close(slave)
                try:
                    yield Running(process, screen)
                finally:
                    process.kill()
        finally:
            if screen is not None:
                os.close(screen)
        assert self.left() == []

    def left(self) -> list[str]:
        """The command lines of processes that have this agent's home."""
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                variables = (place / "environ").read_bytes().split(b"\0")
                if f"HOME={self.env['HOME']}".encode() in variables:
                    found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
            except OSError:  # gone, or somebody else's
                continue
        return found
