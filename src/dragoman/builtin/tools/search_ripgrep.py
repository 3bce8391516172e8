"""ripgrep, if this machine has it: the same answers as our own walk, sooner.

Owns finding and running it so that it reads the same ignore rules, in the same order, and ends when nobody waits.
Does not know what is done with its lines.
"""

from __future__ import annotations

import asyncio
import os
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Final

from dragoman.builtin.tools.walk import SEARCH_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

PROGRAM: Final = "rg"
LARGEST_BYTES: Final = 10 * 1024 * 1024  # of a file that is searched, here and in our own search
_READ_BYTES: Final = 1 << 16
_ERROR_BYTES: Final = 1 << 16
# A user's configuration, the global ignore file and `.ignore` would give other answers than without ripgrep.
_PLAIN: Final = (
    "--no-config", "--no-messages", "--no-ignore-global", "--no-ignore-dot", "--no-require-git", "--sort=path",
    f"--max-filesize={LARGEST_BYTES}", "--glob=!.git",
)  # fmt: skip


class RipgrepRefused(Exception):
    """It could not do what it was asked for, such as a pattern it has no syntax for."""


def find_ripgrep() -> str | None:
    """Where it is. A folder of PATH that depends on where we are is no place to take a program from."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, PROGRAM)
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def common_options(*, hidden: bool, ignored: bool) -> list[str]:
    """What every run is told."""
    return [*_PLAIN, *(["--hidden"] if hidden else []), *(["--no-ignore"] if ignored else [])]


class Ripgrep:
    """One run. `was_late` tells afterwards whether it was ended for taking too long."""

    def __init__(self, program: str, arguments: Sequence[str], cwd: str, ending: bytes) -> None:
        self._argv = (program, *arguments)
        self._cwd = cwd
        self._ending = ending
        self.was_late = False

    async def records(self) -> AsyncGenerator[bytes, None]:
        """What it writes, cut at each `ending`. Whoever stops early closes this, and with it the process.

        Raises: RipgrepRefused.
        """
        try:
            process = await asyncio.create_subprocess_exec(
                *self._argv,
                cwd=self._cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
        except (OSError, ValueError) as error:  # a NUL cannot be an argument
            raise RipgrepRefused(str(error)) from error
        assert process.stdout is not None
        assert process.stderr is not None
        has_answered = False
        complaints = asyncio.ensure_future(process.stderr.read(_ERROR_BYTES))
        try:
            try:
                async with aclosing(_records(process.stdout, self._ending)) as records:
                    async for record in records:
                        has_answered = True
                        yield record
            except TimeoutError:
                self.was_late = True
                return
            words = await complaints
            if await process.wait() > 1 and words and not has_answered:
                raise RipgrepRefused(words.decode("utf-8", "replace").strip())
        finally:
            complaints.cancel()
            with suppress(ProcessLookupError):
                process.kill()
            await _gone(process)


async def _records(stream: asyncio.StreamReader, ending: bytes) -> AsyncGenerator[bytes, None]:
    """Raises: TimeoutError."""
    deadline = asyncio.get_running_loop().time() + SEARCH_SECONDS
    pending = b""
    while True:
        # Around the waiting alone: across a `yield` it would end whoever reads this instead.
        async with asyncio.timeout_at(deadline):
            data = await stream.read(_READ_BYTES)
        if not data:
            break
        *whole, pending = (pending + data).split(ending)
        for record in whole:
            yield record
    if pending:
        yield pending


async def _gone(process: asyncio.subprocess.Process) -> None:
    """After it was killed. Its pipe is read to the end, because only then its transport closes."""
    assert process.stdout is not None
    while await process.stdout.read(_READ_BYTES):
        pass
    await process.wait()
