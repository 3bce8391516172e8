"""The writer of recordings.

Owns the form of each line on disk and the promise that recording never disturbs the conversation: an entry is handed
to the kernel before its call returns, nothing here waits, and the first failure ends the recording, not the caller.
Keys of this program's environment are replaced by `[NAME OF THE VARIABLE]`, in both directions alike.
Does not know the protocol; `redact.py` does.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import stat
from base64 import b64encode
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from time import monotonic
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from dragoman._version import __version__
from dragoman.text.secrets import Secrets, known_keys
from dragoman.trace.entry import FORMAT, VERSION, Direction
from dragoman.trace.passed_keys import passed_keys
from dragoman.wire.bounds import find_fault
from dragoman.wire.ndjson import LIMIT_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.trace.redact import Redactor

_log = logging.getLogger("dragoman.trace")

# A recording that is a pipe may be read slowly. Up to this much is kept for its reader: the longest message, and a few
# large ones.
_UNWRITTEN_BYTES: Final = LIMIT_BYTES + (16 << 20)
_CLOSE_SECONDS: Final = 2.0  # for that reader at the end; a file takes everything at once
_SLOW: Final = "its reader is too slow"
_SECRET: Final = 0o600  # recordings contain private conversations

_encode = msgspec.json.encode


class _AnyObject(msgspec.Struct, gc=False):
    """All members are skipped: decoding to this type tests only whether a text is one JSON object."""


_decode_object = msgspec.json.Decoder(_AnyObject).decode


class TraceWriter:
    """An open recording. Its methods never raise and never block, whatever happens to the file.

    Args:
        file: A path, replaced if it exists, or a binary file opened for writing.
        command: The agent's command, for the header.
        cwd: The folder it was started in, for the header.
        redact: Write redacted entries, and neither command nor folder.
        protocol: The version of the protocol, for the header; the messages show it as well.
        on_failure: Called once, with a sentence, when the file cannot be written any more. Without it, a warning is
            logged.

    Raises:
        OSError: the path cannot be opened.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        command: Sequence[str] = (),
        cwd: str | None = None,
        redact: bool = False,
        protocol: str | None = None,
        on_failure: Callable[[str], None] | None = None,
    ) -> None:
        self._is_ours = isinstance(file, (str, os.PathLike))
        self._file: BinaryIO | FileIO = _create(file) if isinstance(file, (str, os.PathLike)) else file
        self._name = str(getattr(self._file, "name", "the recording"))
        self.on_failure: Callable[[str], None] = on_failure or _log.warning
        self._lines: list[bytes] = []
        self._lines_bytes = 0
        self._rest = memoryview(b"")  # of an earlier write that a full pipe did not take
        self._is_corked = False
        self._is_over = False
        self.secrets = known_keys or Secrets(os.environ)
        self._redactor: Redactor | None = None
        if redact:
            from dragoman.trace.redact import Redactor

            self._redactor = Redactor()
        self._started = monotonic()
        self._write_header(command, cwd, protocol)

    @property
    def is_open(self) -> bool:
        """Whether entries are still written to the file."""
        return not self._is_over

    def frame(self, direction: Direction, data: bytes, eol: bytes = b"\n") -> None:
        """Record a line that was sent in `direction`, without its end."""
        if self._is_over:
            return
        at = monotonic() - self._started
        if keys := passed_keys(data):
            self.secrets.add(keys)
        data = self.secrets.mask_bytes(data)  # here and not below: a line that is not UTF-8 is written as base64
        if self._redactor is not None:
            data = self._redactor.frame(direction, data)
        end = b"" if eol == b"\n" else b'"eol":%b,' % _encode(eol.decode())
        self._add(b'{"t":%.6f,"dir":"%b",%b%b}\n' % (at, direction.encode(), end, line_body(data)))

    def stderr(self, text: str) -> None:
        """Record a line that the agent wrote to stderr."""
        text = self.secrets.mask(text)
        if self._redactor is not None:
            text = self._redactor.text(text)
        self._add(b'{"t":%.6f,"stderr":%b}\n' % (self._now(), _encode(text)))

    def end(self, direction: Direction) -> None:
        """Record that `direction` ended."""
        self._add(b'{"t":%.6f,"end":"%b"}\n' % (self._now(), direction.encode()))

    def exit(self, code: int | None = None, signal: str | None = None) -> None:
        """Record how the agent's process ended."""
        how = {"signal": signal} if signal is not None else {"code": code}
        self._add(b'{"t":%.6f,"exit":%b}\n' % (self._now(), _encode(how)))

    def cork(self) -> None:
        """Collect entries until `uncork`, which writes them at once: for lines that arrived together."""
        self._is_corked = True

    def uncork(self) -> None:
        """Write the collected entries."""
        self._is_corked = False
        self._write_out()

    def close(self) -> None:
        """End the recording; a file that was opened here is closed."""
        self.uncork()
        deadline = monotonic() + _CLOSE_SECONDS
        while self._rest and (left := deadline - monotonic()) > 0:
            select.select([], [self._file], [], left)
            self._write_out()
        if self._rest:
            self._fail(_SLOW)
        self._is_over = True
        if self._is_ours:
            with suppress(OSError):  # a delayed failure of a network file system; the caller has finished
                self._file.close()

    def _write_header(self, command: Sequence[str], cwd: str | None, protocol: str | None) -> None:
        started = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        header: dict[str, object] = {"trace": FORMAT, "version": VERSION, "started": started}
        header["by"] = f"dragoman {__version__}"
        if self._redactor is None:
            if command:
                header["command"] = list(command)
            if cwd is not None:
                header["cwd"] = cwd
        header["redacted"] = self._redactor is not None
        if protocol is not None:
            header["protocol"] = protocol
        try:
            self._add(self.secrets.mask_bytes(_encode(header)) + b"\n")
        except UnicodeEncodeError:  # an argument or a folder that is not UTF-8
            header.pop("command", None)
            header.pop("cwd", None)
            self._add(_encode(header) + b"\n")

    def _now(self) -> float:
        return monotonic() - self._started

    def _add(self, line: bytes) -> None:
        if not self._is_over:
            self._lines.append(line)
            self._lines_bytes += len(line)
            if not self._is_corked:
                self._write_out()

    def _write_out(self) -> None:
        if self._is_over:
            return
        try:
            while self._rest or self._lines:
                if not self._rest:
                    self._rest = memoryview(b"".join(self._lines))
                    self._lines.clear()
                    self._lines_bytes = 0
                written = self._file.write(self._rest)
                if not written:  # None: a pipe that is full
                    break
                self._rest = self._rest[written:]
            if not self._is_ours:
                self._file.flush()
        except (OSError, ValueError) as error:
            self._fail((error.strerror if isinstance(error, OSError) else "") or str(error))
        else:
            if len(self._rest) + self._lines_bytes > _UNWRITTEN_BYTES:
                self._fail(_SLOW)

    def _fail(self, why: str) -> None:
        self._is_over = True
        self._lines.clear()
        self._rest = memoryview(b"")
        self.on_failure(f"recording to {self._name} stopped: {why}")


def line_body(data: bytes) -> bytes:
    """Return the member for a line: as it is if it is a JSON object, else as text, else as base64."""
    if data.startswith(b"{") and data.endswith(b"}") and _is_object(data):
        return b'"msg":%b' % data
    try:
        return b'"raw":%b' % _encode(data.decode())
    except UnicodeDecodeError:
        return b'"b64":"%b"' % b64encode(data)


def _is_object(data: bytes) -> bool:
    # The limits on depth and number of values are those of the wire, so every reader of recordings can read this.
    if find_fault(data) is not None:
        return False
    try:
        _decode_object(data)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True


def _create(path: str | os.PathLike[str]) -> FileIO:
    """Create a file that only its owner may read. A pipe or device is opened so that writing to it never blocks."""
    try:
        kind = os.stat(path).st_mode
    except FileNotFoundError:
        kind = stat.S_IFREG
    if not stat.S_ISREG(kind):
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
        return _open(path, os.O_NONBLOCK | os.O_NOCTTY)
    # Not emptied but replaced: another recorder may still be writing to the old one.
    with suppress(FileNotFoundError, PermissionError):
        if not os.path.islink(path):
            os.unlink(path)
    return _open(path, os.O_CREAT | os.O_TRUNC)


def _open(path: str | os.PathLike[str], flags: int) -> FileIO:
    return FileIO(path, "w", opener=lambda name, _: os.open(name, os.O_WRONLY | os.O_CLOEXEC | flags, _SECRET))
