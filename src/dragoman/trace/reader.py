"""The reader of recordings: lines of a file become entries.

Owns the tolerance for recordings that were cut off and for files without a header. Messages stay bytes; `dragoman.wire`
decodes them.
"""

from __future__ import annotations

import logging
import os
from base64 import b64decode
from binascii import Error as Base64Error
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, BinaryIO, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType

from dragoman.trace.entry import FORMAT, VERSION, Direction, End, Entry, Exit, Frame, Header, Stderr, TraceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_log = logging.getLogger("dragoman.trace")

Source: TypeAlias = str | os.PathLike[str] | BinaryIO


class _Exit(Struct, gc=False):
    code: int | None = None
    signal: str | None = None


class _Line(Struct, gc=False):
    """All members that a line may have. Unknown ones are ignored: a later version may add some."""

    t: float = 0.0
    dir: Direction | UnsetType = UNSET
    msg: Raw | UnsetType = UNSET
    raw: str | UnsetType = UNSET
    b64: str | UnsetType = UNSET
    eol: Literal["", "\n", "\r\n"] = "\n"
    stderr: str | UnsetType = UNSET
    end: Direction | UnsetType = UNSET
    exit: _Exit | UnsetType = UNSET
    trace: str | UnsetType = UNSET


class _Header(Struct, gc=False):
    version: int
    started: str = ""
    by: str = ""
    command: tuple[str, ...] = ()
    cwd: str | None = None
    redacted: bool = False
    protocol: str = ""


# The answer to `initialize` is among these; noise may come before it.
_HANDSHAKE_FRAMES = 50

_decode_line = msgspec.json.Decoder(_Line).decode
_decode_header = msgspec.json.Decoder(_Header).decode


class Trace:
    """A whole recording in memory."""

    def __init__(self, header: Header, entries: list[Entry], problems: tuple[str, ...] = ()) -> None:
        self.header = header
        self.entries = entries
        """All entries but the header, in recorded order."""
        self.problems = problems
        """What had to be left out, in sentences; empty for a complete recording."""

    @property
    def protocol(self) -> Literal["1", "2"]:
        """The version of the protocol that the two sides agreed on; 1 if there is no answer to `initialize`."""
        from dragoman.trace.inspect.exchange import Exchange

        exchange, highest = Exchange(), 1
        for number, frame in enumerate(self.frames[:_HANDSHAKE_FRAMES]):
            exchange.read(number, frame)
            highest = max(highest, exchange.version)
        return "2" if highest == 2 or (exchange.version == 1 and self.header.protocol == "2") else "1"

    @property
    def frames(self) -> list[Frame]:
        """The lines of both directions."""
        return [entry for entry in self.entries if isinstance(entry, Frame)]


def open_trace(source: Source) -> Trace:
    """Read a whole recording.

    Args:
        source: A path, or a binary file opened for reading.

    Raises:
        TraceError: it is not a recording.
        OSError: the file cannot be read.
    """
    problems: list[str] = []
    header = Header()
    entries: list[Entry] = []
    for entry in read_trace(source, problems.append):
        if isinstance(entry, Header):
            header = entry
        else:
            entries.append(entry)
    return Trace(header, entries, tuple(problems))


def read_trace(source: Source, report: Callable[[str], None] | None = None) -> Iterator[Entry]:
    """Yield the entries of a recording as they are read, the header first if the file has one.

    Args:
        source: A path, or a binary file opened for reading.
        report: Called with a sentence for each line that is left out, such as a last line that was cut off. Without
            it, a warning is logged.

    Raises:
        TraceError: another line cannot be read, or the file is not a recording.
        OSError: the file cannot be read.
    """
    report = report or _log.warning
    with _opened(source) as file:
        name = str(getattr(file, "name", "the file"))
        for number, line in enumerate(file, 1):
            if line.isspace():
                continue
            try:
                entry = _read(line, is_first=number == 1)
            except (ValueError, RecursionError) as error:
                if not line.endswith(b"\n") and number > 1:
                    report(f"{name}: line {number} was cut off and is left out")
                    return
                raise _unreadable(name, number, error) from error
            if entry is not None:
                yield entry
            else:
                report(f"{name}: line {number} is of a kind that this version does not know and is left out")


@contextmanager
def _opened(source: Source) -> Iterator[BinaryIO]:
    with open(source, "rb") if isinstance(source, (str, os.PathLike)) else nullcontext(source) as file:
        yield file


def _read(line: bytes, *, is_first: bool) -> Entry | None:
    found = _decode_line(line)
    if found.dir is not UNSET:
        if found.msg is not UNSET:
            return Frame(found.t, found.dir, bytes(found.msg), found.eol.encode())
        if found.raw is not UNSET:
            return Frame(found.t, found.dir, found.raw.encode(), found.eol.encode())
        if found.b64 is not UNSET:
            return Frame(found.t, found.dir, _from_base64(found.b64), found.eol.encode())
    if found.stderr is not UNSET:
        return Stderr(found.t, found.stderr)
    if found.end is not UNSET:
        return End(found.t, found.end)
    if found.exit is not UNSET:
        return Exit(found.t, found.exit.code, found.exit.signal)
    if found.trace is not UNSET:
        return _read_header(line, found.trace)
    if is_first:
        raise ValueError("it has neither `trace` nor the members of an entry")
    return None


def _read_header(line: bytes, kind: str) -> Header:
    header = _decode_header(line)
    if kind != FORMAT or header.version != VERSION:
        raise ValueError(f"its format is {kind} {header.version}; this version reads {FORMAT} {VERSION}")
    return Header(
        started=header.started,
        by=header.by,
        command=header.command,
        cwd=header.cwd,
        redacted=header.redacted,
        protocol=header.protocol,
    )


def _from_base64(text: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except Base64Error:
        raise ValueError("`b64` is not base64") from None


def _unreadable(name: str, number: int, error: Exception) -> TraceError:
    what = "is not a recording" if number == 1 else "is damaged"
    return TraceError(f"{name} {what}: line {number} cannot be read: {error}")
