"""Entries that were kept in memory as a recording: what `dragoman inspect`, `replay` and `check` read.

Owns writing them with their own times, and reading the lines that a host has kept; `writer.py` writes entries as they
happen.
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman._version import __version__
from dragoman.trace.entry import FORMAT, VERSION, End, Exit, Frame, Header, Stderr
from dragoman.trace.writer import line_body

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.trace.entry import Entry

_encode = msgspec.json.encode


def recording_of(entries: Iterable[Entry], header: Header | None = None, *, redact: bool = False) -> bytes:
    """Make a recording with these entries.

    Args:
        entries: without a header, in their order.
        header: only for entries that begin with the connection, because that is what a header says.
        redact: replace the contents of messages, and leave out command and folder.
    """
    redactor = None
    if redact:
        from dragoman.trace.redact import Redactor

        redactor = Redactor()
    lines = [] if header is None else [_header(header, redact=redact)]
    for entry in entries:
        lines.append(_line(entry if redactor is None else redactor.entry(entry)))
    return b"".join(lines)


def frame_of(sent: dict[str, Any]) -> Frame:
    """Return a line as a host sends it in the answer to `_dragoman/traffic`."""
    data = b64decode(sent["b64"]) if "b64" in sent else str(sent.get("text", "")).encode()
    return Frame(float(sent["t"]), "c2a" if sent["dir"] == "c2a" else "a2c", data)


def _header(header: Header, *, redact: bool) -> bytes:
    found: dict[str, object] = {"trace": FORMAT, "version": VERSION, "started": header.started}
    found["by"] = header.by or f"dragoman {__version__}"
    if not redact and header.command:
        found["command"] = list(header.command)
    if not redact and header.cwd is not None:
        found["cwd"] = header.cwd
    return _encode({**found, "redacted": redact or header.redacted}) + b"\n"


def _line(entry: Entry) -> bytes:
    match entry:
        case Frame():
            end = b"" if entry.eol == b"\n" else b'"eol":%b,' % _encode(entry.eol.decode())
            return b'{"t":%.6f,"dir":"%b",%b%b}\n' % (entry.t, entry.dir.encode(), end, line_body(entry.data))
        case Stderr():
            return b'{"t":%.6f,"stderr":%b}\n' % (entry.t, _encode(entry.text))
        case End():
            return b'{"t":%.6f,"end":"%b"}\n' % (entry.t, entry.dir.encode())
        case Exit():
            how = {"signal": entry.signal} if entry.signal is not None else {"code": entry.code}
            return b'{"t":%.6f,"exit":%b}\n' % (entry.t, _encode(how))
        case _:
            raise ValueError("a header is not an entry of its own; pass it as `header`")
