"""A user at the plain terminal client: a real process, a real host, the built-in agent with a scripted model."""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from contextlib import suppress
from time import monotonic

from tests.host.local.kit import HostPlaceKit

SECONDS = 90.0


class Plain:
    """The client with pipes; what it writes is read line by line."""

    def __init__(self, place: HostPlaceKit, *words: str, python: str = sys.executable) -> None:
        self.seen: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._process = subprocess.Popen(
            [python, "-m", "dragoman", "attach", "--plain", *words],
            cwd=place.project,
            env=place.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def type(self, *lines: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write("".join(f"{line}\n" for line in lines))
        self._process.stdin.flush()

    def until(self, text: str) -> str:
        """The next line that contains a text."""
        end = monotonic() + SECONDS
        while True:
            try:
                line = self._lines.get(timeout=max(0.01, end - monotonic()))
            except queue.Empty:
                raise AssertionError(f"{text!r} did not come; there is {self.seen}") from None
            if line is None:
                raise AssertionError(f"the client ended before {text!r}; there is {self.seen}")
            self.seen.append(line)
            if text in line:
                return line

    def end(self) -> int:
        """Ctrl-D, and the rest of the output."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        code = self._process.wait(SECONDS)
        while (line := self._lines.get(timeout=SECONDS)) is not None:
            self.seen.append(line)
        return code

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(SECONDS)

    def close(self) -> None:
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with suppress(ValueError):  # closed by the test
            for line in self._process.stdout:
                self._lines.put(line.rstrip("\n"))
        self._lines.put(None)
