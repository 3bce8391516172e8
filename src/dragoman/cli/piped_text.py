"""What is piped in next to a prompt: `git diff | dragoman exec 'Review this:'`.

Owns when stdin is read, how much of it, and how it stands in the prompt. A prompt next to it is an instruction of the
user, while the piped text is material of any author: it is fenced, so that its end is never in doubt, and what it
mentions is not looked up.

Theory of operation
-------------------
*Whether it is meant.* A terminal and `/dev/null` are never read. A file is. A pipe that another program writes, as in
a pipeline, is read to its end, however long that takes: giving up would drop what was piped. But many programs start
others with a pipe or a socket at stdin that they never use. So where none but an ancestor of this program holds the
other end, or that cannot be seen, something has to come, or the end, within a moment. After a second of waiting a line
says what is waited for.
"""

from __future__ import annotations

import os
import re
import select
import stat
import time
from typing import Final

from dragoman.cli.console import write_note, write_warning
from dragoman.cli.exits import TIMED_OUT, CliError
from dragoman.cli.main import has_silent_stdin

PIPED_BYTES: Final = 256 * 1024
"""More is cut in the middle: it would fill a good part of a model's context."""
READ_BYTES: Final = 64 * 1024 * 1024
"""More is refused: it is held in memory."""
_FIRST_SECONDS: Final = 0.4  # a program that means to write has done so before this one runs
_QUIET_SECONDS: Final = 1.0
_STDIN: Final = 0
_PIECE_BYTES: Final = 1 << 16


class _Waiting:
    """The wait for the next bytes: says once what is waited for, and knows when to give up."""

    def __init__(self, *, is_quiet: bool, first_seconds: float | None, seconds: float | None) -> None:
        now = time.monotonic()
        self._note_at = None if is_quiet else now + _QUIET_SECONDS
        self._first_until = None if first_seconds is None else now + first_seconds
        self._until = None if seconds is None else now + seconds

    def has_more(self, *, has_begun: bool) -> bool:
        """Wait for bytes or the end; False if the first ones did not come in time.

        Raises:
            CliError: it did not end in time.
        """
        while True:
            first_until = None if has_begun else self._first_until
            moments = [moment for moment in (self._note_at, first_until, self._until) if moment is not None]
            if _is_ready(min(moments) - time.monotonic() if moments else None):
                return True
            now = time.monotonic()
            if self._until is not None and now >= self._until:
                raise CliError(
                    "stdin did not end within --timeout", hint="without it: < /dev/null", exit_code=TIMED_OUT
                )
            if first_until is not None and now >= first_until:
                return False
            if self._note_at is not None and now >= self._note_at:
                self._note_at = None
                write_note("reading stdin up to its end, for the prompt; < /dev/null leaves it out")


def read_piped(*, is_quiet: bool, seconds: float | None = None) -> bytes:
    """Return what is piped in, empty if nothing is.

    Args:
        is_quiet: whether no line says that the end of a pipe is waited for.
        seconds: how long to wait for its end; None for as long as it takes.

    Raises:
        CliError: it did not end in time, it cannot be read, or is far too large.
    """
    if has_silent_stdin():
        return b""
    is_certain = _is_ready(0) or _is_written_by_another()
    waiting = _Waiting(is_quiet=is_quiet, first_seconds=None if is_certain else _FIRST_SECONDS, seconds=seconds)
    pieces: list[bytes] = []
    size = 0
    while True:
        if not waiting.has_more(has_begun=bool(pieces)):
            write_warning(
                "stdin is open and sends nothing, so it is not part of the prompt; < /dev/null says so at once"
            )
            return b""
        try:
            piece = os.read(_STDIN, _PIECE_BYTES)
        except OSError as error:
            raise CliError(f"stdin: {error.strerror}", hint="the prompt alone: < /dev/null") from None
        if not piece:
            return b"".join(pieces)
        pieces.append(piece)
        size += len(piece)
        if size > READ_BYTES:
            raise CliError(
                f"stdin: more than {READ_BYTES // 1024 // 1024} MiB",
                hint="pipe a part, or name the file",
            )


def with_piped(prompt: str, piped: str) -> str:
    """Return a prompt with piped text below it, in a fence that is longer than any within."""
    piped = _cut(piped)
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", piped)), default=0))
    end = "" if piped.endswith("\n") else "\n"
    return f"{prompt.rstrip()}\n\nText from stdin:\n\n{fence}text\n{piped}{end}{fence}\n"


def _is_written_by_another() -> bool:
    """Whether a process that is not an ancestor of this one can write into stdin, which is a pipe."""
    from dragoman.process import proctable

    found = os.fstat(_STDIN)
    if not stat.S_ISFIFO(found.st_mode) or not proctable.is_readable():
        return False
    ancestors, parent = {os.getpid()}, os.getppid()
    while parent > 1 and parent not in ancestors:
        ancestors.add(parent)
        try:
            parent = proctable.status(parent).parent
        except OSError:  # it has ended, or is another user's
            break
    return any(pid not in ancestors and proctable.writes_to(pid, found) for pid in proctable.pids())


def _is_ready(seconds: float | None) -> bool:
    return bool(select.select([_STDIN], [], [], None if seconds is None else max(0.0, seconds))[0])


def _cut(text: str) -> str:
    """Return a text without its middle if it is too long, cut at ends of lines where there are some."""
    data = text.encode()
    if len(data) <= PIPED_BYTES:
        return text
    half = PIPED_BYTES // 2
    head = data[:half].decode(errors="ignore")
    tail = data[-half:].decode(errors="ignore")
    head = head[: head.rfind("\n") + 1] or head
    tail = tail[tail.find("\n") + 1 :] or tail
    left_out = len(data) - len(head.encode()) - len(tail.encode())
    write_warning(f"stdin has {len(data):,} bytes: {left_out:,} from its middle are left out of the prompt")
    line_end = "" if head.endswith("\n") else "\n"
    return f"{head}{line_end}[... {left_out:,} bytes left out here ...]\n{tail}"
