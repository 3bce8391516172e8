"""A run of ripgrep, if it is installed: the same results as our own walk, but faster.

Owns finding and running it so that it uses the same ignore rules and order, and that it ends when the caller stops
reading. Does not interpret its output.
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
LARGEST_BYTES: Final = 10 * 1024 * 1024  # size of the largest file that is searched, here and in our own search
_READ_BYTES: Final = 1 << 16
_ERROR_BYTES: Final = 1 << 16
# The user's configuration, the global ignore file and `.ignore` would give other results than our own walk.
_PLAIN: Final = (
    "--no-config", "--no-messages", "--no-ignore-global", "--no-ignore-dot", "--no-require-git", "--sort=path",
    f"--max-filesize={LARGEST_BYTES}", "--glob=!.git",
)  # fmt: skip


class RipgrepRefused(Exception):
    """A failure of ripgrep without a result, for example because it does not support the pattern's syntax."""


def find_ripgrep() -> str | None:
    """Return the path of the program, None if there is none. Relative folders in PATH are not trusted."""
    for folder in os.get_exec_path():
        path = os.path.join(folder, PROGRAM)
        if os.path.isabs(folder) and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def common_options(*, hidden: bool, ignored: bool) -> list[str]:
    """Return the options of every run."""
    return [*_PLAIN, *(["--hidden"] if hidden else []), *(["--no-ignore"] if ignored else [])]


class Ripgrep:
    """One run. `was_late`: it was ended because it took too long."""

    def __init__(self, program: str, arguments: Sequence[str], cwd: str, ending: bytes) -> None:
        self._argv = (program, *arguments)
        self._cwd = cwd
        self._ending = ending
        self.was_late = False

    async def records(self) -> AsyncGenerator[bytes, None]:
        """Yield its output, split at each `ending`. Closing the generator ends the process.

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
            # The pipe must be read to its end, because only then its transport closes.
            while await process.stdout.read(_READ_BYTES):
                pass
            await process.wait()


async def _records(stream: asyncio.StreamReader, ending: bytes) -> AsyncGenerator[bytes, None]:
    """Raises: TimeoutError."""
    deadline = asyncio.get_running_loop().time() + SEARCH_SECONDS
    pending = b""
    while True:
        # Only around the read: across a `yield` the timeout would cancel the task that reads this generator.
        async with asyncio.timeout_at(deadline):
            data = await stream.read(_READ_BYTES)
        if not data:
            break
        *whole, pending = (pending + data).split(ending)
        for record in whole:
            yield record
    if pending:
        yield pending
