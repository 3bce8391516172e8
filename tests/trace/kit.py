"""Small agents as programs, the relay in front of them, and recordings made of text."""

from __future__ import annotations

import contextlib
import io
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dragoman.trace import Direction, Frame, Trace, TraceWriter, open_trace

SECONDS = 60.0  # the bound of every wait here; two loaded cores need a part of it
DRAGOMAN = [sys.executable, "-m", "dragoman"]

BESIDE = Path(__file__).resolve().parents[3] / "shared" / "transcripts"
RECORDINGS = sorted(Path(os.environ.get("DRAGOMAN_TRANSCRIPTS", BESIDE)).glob("*.jsonl"))

ECHO = ("cat",)


def python(code: str) -> list[str]:
    """A program that starts fast."""
    return [sys.executable, "-IS", "-c", code]


def streams(trace: Trace) -> dict[Direction, bytes]:
    """The exact bytes of both directions, put together again."""
    found: dict[Direction, bytes] = {"c2a": b"", "a2c": b""}
    for frame in trace.frames:
        found[frame.dir] += frame.data + frame.eol
    return found


def trace_of(*lines: tuple[Direction, bytes] | tuple[Direction, bytes, bytes]) -> Trace:
    """A recording of these frames, written and read again."""
    file = io.BytesIO()
    writer = TraceWriter(file)
    for line in lines:
        writer.frame(*line)
    writer.close()
    file.seek(0)
    return open_trace(file)


def frames(trace: Trace) -> list[tuple[Direction, bytes, bytes]]:
    return [(entry.dir, entry.data, entry.eol) for entry in trace.entries if isinstance(entry, Frame)]


class Recording:
    """The relay in front of an agent, seen from the editor."""

    def __init__(self, process: subprocess.Popen[bytes], path: Path) -> None:
        self.process = process
        self.path = path
        self.greeting = ""
        """The first line on stderr: where the recording is."""
        assert process.stdin
        assert process.stdout
        assert process.stderr
        self.stdin, self.stdout, self.stderr = process.stdin, process.stdout, process.stderr

    def send(self, data: bytes) -> None:
        self.stdin.write(data)

    def receive(self, size: int, seconds: float = SECONDS) -> bytes:
        """Exactly `size` bytes of the agent's output, or what came in time."""
        return read_exactly(self.stdout.fileno(), size, seconds)

    def read_line(self, stream: str = "stdout") -> bytes:
        fd = (self.stdout if stream == "stdout" else self.stderr).fileno()
        line = b""
        while not line.endswith(b"\n") and (piece := read_exactly(fd, 1)):
            line += piece
        return line

    def close_stdin(self) -> None:
        self.stdin.close()

    def rest(self) -> tuple[bytes, bytes, int]:
        """What is left of stdout and stderr until both end, and the exit code."""
        out, err = self.stdout.read(), self.stderr.read()
        return out, err, self.process.wait(SECONDS)

    def trace(self) -> Trace:
        return open_trace(self.path)


def read_exactly(fd: int, size: int, seconds: float = SECONDS) -> bytes:
    data = b""
    deadline = time.monotonic() + seconds
    while len(data) < size and (left := deadline - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            piece = os.read(fd, size - len(data))
            if not piece:
                break
            data += piece
    return data


@contextlib.contextmanager
def recording(
    path: Path, command: Sequence[str], *options: str, environment: dict[str, str] | None = None
) -> Iterator[Recording]:
    """`dragoman record` with pipes at its streams; killed at the end if it is still there."""
    process = subprocess.Popen(
        [*DRAGOMAN, "record", "-o", str(path), *options, "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        env={**os.environ, **(environment or {})},
    )
    try:
        relay = Recording(process, path)
        relay.greeting = relay.read_line("stderr").decode()
        assert relay.greeting.startswith(("dragoman: recording to", "dragoman: warning: ")), relay.greeting
        yield relay
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(SECONDS)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
