"""Background jobs of a session: commands that go on while the model works, and their output since it last looked.

Owns the list, the bounded output of each and its file, and the one line that reports an end. A job is always a local
process: a client's terminal ends with the turn. It ends with its session; `process/guard.py` ends it if this program is
killed. The list is in the session's memory, so another process of the same session starts without it.

What can race: a job ends between two looks. Its end is reported once: by the look that shows it, or in one line at the
start of the next message, whichever comes first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.builtin.tools.tool import ToolError
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.builtin.tools.tool import CommandResult, RunningCommand, ToolContext

_log = logging.getLogger("dragoman.builtin")

MOST_JOBS: Final = 16
RING_BYTES: Final = 1 << 20
FILE_BYTES: Final = 64 << 20
_KEY: Final = "jobs"
_SHOWN_LETTERS: Final = 120
# A job that writes without a pause is looked at this often while a call waits for it.
_LOOK_SECONDS: Final = 0.05


class NewOutput(Struct, frozen=True):
    """What a job wrote since the last look."""

    text: str
    lines: int
    dropped_bytes: int = 0
    """Bytes before the text that are not in memory any more."""


class Job:
    """One command in the background."""

    def __init__(self, id: str, command: str, timeout_seconds: float, path: str | None) -> None:
        from dragoman.process.ring import Ring

        self.id = id
        self.command = command
        self.timeout_seconds = timeout_seconds
        self.path = path
        """The file with its output; None if there can be none."""
        self.result: CommandResult | None = None
        self.is_announced = False
        self.was_stopped = False
        self.outcome = ""
        """How it ended, in words that follow its id, if it was not a command."""
        self._ring = Ring(RING_BYTES)
        self._seen_bytes = 0
        self._new_lines = 0
        self._file_bytes = 0
        self._fd = -1 if path is None else _open(path)
        self._news = asyncio.Event()
        self._began = time.monotonic()
        self._running: RunningCommand | None = None
        self._ending: asyncio.Task[None] | None = None

    def take(self, data: bytes) -> None:
        """Add output, as it comes."""
        self._ring.add(data)
        self._new_lines += data.count(b"\n")
        if self._fd >= 0:
            try:
                self._file_bytes += os.write(self._fd, data[: FILE_BYTES - self._file_bytes])
            except OSError as error:
                _log.warning("the output of %s is not written to %s any more: %s", self.id, self.path, error)
                self.close_file()
        self._news.set()

    def follow(self, running: RunningCommand) -> None:
        self._running = running
        self._ending = asyncio.create_task(self._wait_for_end(running), name=f"dragoman-job-{self.id}")

    async def _wait_for_end(self, running: RunningCommand) -> None:
        try:
            self.result = await running.wait()
        finally:
            self.close_file()
            self._news.set()

    @property
    def is_running(self) -> bool:
        return self._ending is None or not self._ending.done()

    @property
    def has_file_of_all(self) -> bool:
        return self.path is not None and self._file_bytes == self._ring.total_bytes

    def look(self) -> NewOutput:
        """Return the output since the last look."""
        new_bytes = self._ring.total_bytes - self._seen_bytes
        kept = self._ring.kept()
        text = kept[-new_bytes:].decode("utf-8", "replace") if new_bytes else ""
        new = NewOutput(text, self._new_lines, max(new_bytes - len(kept), 0))
        self._seen_bytes, self._new_lines = self._ring.total_bytes, 0
        if not self.is_running:
            self.is_announced = True
        return new

    def peek(self) -> str:
        """Return the output since the last look, without looking."""
        new_bytes = self._ring.total_bytes - self._seen_bytes
        return self._ring.kept()[-new_bytes:].decode("utf-8", "replace") if new_bytes else ""

    async def wait(self, seconds: float, is_enough: Callable[[str], bool] | None = None) -> None:
        """Return when the job has ended, when its new output is enough, or after so many seconds."""
        try:
            async with asyncio.timeout(seconds):
                while self.is_running and not (is_enough is not None and is_enough(self.peek())):
                    self._news.clear()
                    await self._news.wait()
                    await asyncio.sleep(_LOOK_SECONDS)
        except TimeoutError:
            pass

    async def stop(self) -> None:
        """End it with everything it started: TERM, 2 seconds, KILL."""
        if self._running is None or self._ending is None:
            return
        if self.is_running:
            self.was_stopped = True
            await self._running.stop()
        await asyncio.wait({self._ending})

    @property
    def status(self) -> str:
        """How it is, in words that follow its id."""
        result = self.result
        if self.is_running:
            return f"is running since {time.monotonic() - self._began:.0f} s"
        if self.was_stopped:
            return "was stopped"
        if self.outcome:
            return self.outcome
        if result is None:
            return "ended, and how is not known"
        if result.timed_out:
            return f"timed out (timeout {self.timeout_seconds:g} s) and was ended"
        if result.signal is not None:
            return f"ended by {result.signal}"
        return "ended, exit code unknown" if result.exit_code is None else f"ended with exit code {result.exit_code}"

    @property
    def line(self) -> str:
        """The job in a list."""
        where = f"; its output is in {self.path}" if self.path else ""
        return f"{self.id} {self.status}: {shorten(self.command, _SHOWN_LETTERS)}{where}"

    @property
    def announcement(self) -> str:
        """The line about its end for the model."""
        return f"[job {self.id} {self.status}; {self._new_lines} new lines, see bash_output]"

    def close_file(self) -> None:
        """Write no more output to the file."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Jobs:
    """The jobs of a session, oldest first."""

    def __init__(self) -> None:
        self._jobs: dict[str, Job] = {}
        self._count = 0

    async def start(self, command: str, cwd: str, timeout_seconds: float, context: ToolContext) -> Job:
        """Start a command where its permission puts it. Raises: ToolError."""
        self._make_room()
        id, path = self._next(context.overflow_dir)
        job = self.place(id, command, timeout_seconds, path)
        try:
            running = await context.access.start(
                command, cwd=cwd, timeout_seconds=timeout_seconds, placement=context.placement, on_output=job.take
            )
        except BaseException:
            del self._jobs[id]
            job.close_file()
            raise
        job.follow(running)
        return job

    def place(self, id: str, command: str, timeout_seconds: float, path: str) -> Job:
        """Add a job that does not run yet; its `follow` is called next. Raises: ToolError if there are too many."""
        self._make_room()
        try:
            job = Job(id, command, timeout_seconds, path)
        except OSError as error:
            _log.warning("the output of %s has no file: %s", id, error)
            job = Job(id, command, timeout_seconds, None)
        self._jobs[id] = job
        return job

    def _make_room(self) -> None:
        if len(self._jobs) < MOST_JOBS:
            return
        for id, job in self._jobs.items():
            if not job.is_running:
                del self._jobs[id]
                return
        raise ToolError(f"{MOST_JOBS} jobs are running, the most there can be; end one with bash_stop first")

    def _next(self, folder: str) -> tuple[str, str]:
        """Return an id whose file does not exist yet: another process may have served this session before."""
        while True:
            self._count += 1
            path = os.path.join(folder, f"bg_{self._count}.txt")
            if not os.path.lexists(path):
                return f"bg_{self._count}", path

    def find(self, id: str) -> Job:
        """Raises: ToolError if there is none of this id."""
        job = self._jobs.get(id)
        if job is None:
            known = ", ".join(self._jobs) or "none"
            raise ToolError(
                f"there is no job {id!r}; there are: {known}. Jobs end with the program that runs the session"
            )
        return job

    def lines(self) -> list[str]:
        return [job.line for job in self._jobs.values()]

    def announcements(self) -> list[str]:
        """Return the lines about jobs that have ended, each once."""
        ended = [job for job in self._jobs.values() if not job.is_running and not job.is_announced]
        for job in ended:
            job.is_announced = True
        return [job.announcement for job in ended]

    async def close(self) -> None:
        """End all jobs; return when nothing of them is left."""
        await asyncio.gather(*(job.stop() for job in self._jobs.values()))


def jobs_of(memory: dict[str, Any]) -> Jobs:
    """Return the jobs of the session with this memory."""
    jobs: Jobs = memory.setdefault(_KEY, Jobs())
    return jobs


def job_lines(memory: dict[str, Any]) -> list[str]:
    """Return the jobs as a list for the model and the user; empty if there are none."""
    return jobs_of(memory).lines() if _KEY in memory else []


def ended_jobs(memory: dict[str, Any]) -> str:
    """Return a line about each job that ended since the last message; empty if there is none."""
    return "\n".join(jobs_of(memory).announcements()) if _KEY in memory else ""


def forget_but_jobs(memory: dict[str, Any]) -> None:
    """Forget everything but the jobs: they run on, and have to be found and ended."""
    for key in [key for key in memory if key != _KEY]:
        del memory[key]


async def close_jobs(memory: dict[str, Any]) -> None:
    if _KEY in memory:
        await jobs_of(memory).close()


def _open(path: str) -> int:
    """Create a file that only the user can read. Raises: OSError."""
    folder = os.path.dirname(path)
    for place in (os.path.dirname(folder), folder):
        os.makedirs(place, mode=0o700, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
