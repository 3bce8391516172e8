"""A shell line that is run to its end, with bytes on its stdin, and what it wrote.

Owns the time limit and the bounds of the outputs. `child.py` promises that nothing of the command survives.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, NamedTuple

from dragoman.process.child import Child, Patience
from dragoman.process.pty import SHELL

_READ_BYTES: Final = 1 << 16
# A pipe for stdin could fill up if the command does not read it. A file cannot, and is removed as soon as it is open.
_WITH_STDIN: Final = 'exec 0<"$1" && rm -f "$1" && eval "$2"'
_PATIENCE: Final = Patience(stdin_seconds=0.0, term_seconds=1.0)


class Finished(NamedTuple):
    """How a command ended, and the beginning of what it wrote."""

    returncode: int | None
    stdout: str
    stderr: str
    timed_out: bool = False
    is_cut: bool = False
    """There was more on stdout than is kept."""


async def run_to_end(
    line: str,
    *,
    cwd: str,
    env: Mapping[str, str],
    stdin: bytes = b"",
    timeout_seconds: float,
    limit_bytes: int = 1 << 18,
) -> Finished:
    """Run a shell line. A command that takes too long is ended with everything it started.

    Args:
        env: The whole environment of the command.
        limit_bytes: How much of the beginning of stdout is kept; the end of stderr is kept.

    Raises:
        ConfigError: The folder cannot be used.
        DragomanError: The system could not start one more program.
    """
    handle, path = tempfile.mkstemp(prefix="dragoman-stdin-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(stdin)
        child = Child.spawn(
            [SHELL, "-c", _WITH_STDIN, "sh", path, line], cwd=cwd, env=env, inherit_env=False, patience=_PATIENCE
        )
        try:
            return await _finish(child, timeout_seconds, limit_bytes)
        finally:
            await child.close()
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


async def _finish(child: Child, timeout_seconds: float, limit_bytes: int) -> Finished:
    own_stdin, stdout = child.take_pipes()
    os.close(own_stdin)
    os.set_blocking(stdout, False)
    loop = asyncio.get_running_loop()
    kept, total, timed_out = bytearray(), 0, False

    def read() -> bool:
        nonlocal total
        try:
            found = os.read(stdout, _READ_BYTES)
        except (BlockingIOError, InterruptedError):
            return False
        if not found:
            loop.remove_reader(stdout)
            return False
        total += len(found)
        kept.extend(found[: max(0, limit_bytes - len(kept))])
        return True

    loop.add_reader(stdout, read)
    try:
        async with asyncio.timeout(timeout_seconds):
            await child.wait()
    except TimeoutError:
        timed_out = True
    finally:
        while total <= limit_bytes and read():
            pass  # what it wrote before its end; a process that it left behind may go on writing
        loop.remove_reader(stdout)
        os.close(stdout)
    text = kept.decode(errors="replace")
    return Finished(child.returncode, text, child.stderr_tail(8192), timed_out, total > limit_bytes)
