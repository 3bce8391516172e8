"""The timeline as JSON lines, in a form to which members are only added. docs/inspect.md describes it."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Any

import msgspec

from dragoman.trace.entry import Frame, Stderr

if TYPE_CHECKING:
    from dragoman.trace.entry import Entry
    from dragoman.trace.inspect.timeline import Row
    from dragoman.trace.violations import Finding


def row_document(row: Row) -> dict[str, Any]:
    """Return a row as plain data; members that do not apply are null."""
    return {
        "n": row.number,
        "t": round(row.t, 6),
        "kind": row.kind,
        "dir": row.dir,
        "method": row.method or None,
        "update": row.update or None,
        "id": row.id,
        "session": row.session,
        "bytes": row.size_bytes,
        "request": row.request,
        "answer": row.answer,
        "latency": None if row.latency is None else round(row.latency, 6),
        "error": row.error_code,
        "summary": row.summary,
        "findings": [finding_document(finding) for finding in row.findings],
    }


def finding_document(finding: Finding) -> dict[str, Any]:
    """Return a finding as plain data."""
    return {
        "rule": finding.rule,
        "level": finding.level,
        "dir": finding.dir,
        "n": finding.index,
        "message": finding.message,
    }


def entry_document(entry: Entry) -> dict[str, Any]:
    """Return an entry's body: `message`, or `raw` or `base64` for a line that is not JSON, or `text` from stderr."""
    if isinstance(entry, Stderr):
        return {"text": entry.text}
    if not isinstance(entry, Frame):
        return {}
    try:
        return {"message": msgspec.json.decode(entry.data)}
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return {"raw": entry.data.decode()}
    except UnicodeDecodeError:
        return {"base64": b64encode(entry.data).decode()}
