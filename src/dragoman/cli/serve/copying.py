"""The progress of backups on a terminal, and what is written about them, for the two commands that copy."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from typing import Self

    from dragoman.host.serving.backup import Manifest

_SECONDS: Final = 0.1
_COUNTED: Final = frozenset(("files", "large bodies"))


class CopyProgress:
    """A line on a terminal that says how far it is; nothing where stderr is not one."""

    def __init__(self, *, is_quiet: bool) -> None:
        self._is_drawn = sys.stderr.isatty() and not is_quiet
        self._at = 0.0
        self._has_line = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._has_line:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def report(self, what: str, done: int, total: int) -> None:
        """Show it, some times in a second."""
        now = monotonic()
        if not self._is_drawn or now - self._at < _SECONDS:
            return
        self._at, self._has_line = now, True
        shown = str if what in _COUNTED else size_text
        text = f"{what}: {shown(done)}" + (f" of {shown(total)}" if total else "")
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def size_text(size: int) -> str:
    """Return a size as people read it."""
    value, units = float(size), ["bytes", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{size} bytes" if units[0] == "bytes" else f"{value:.1f} {units[0]}"


def summary(manifest: Manifest) -> str:
    """Return what is in a backup, in a few words."""
    at = datetime.fromtimestamp(manifest.made_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return (
        f"{manifest.sessions} sessions, {manifest.blobs} large bodies, {len(manifest.files)} files, "
        f"{size_text(manifest.bytes)}, as of {at}"
    )


def describe(manifest: Manifest) -> dict[str, Any]:
    """Return the same as JSON."""
    return {
        "format": manifest.format,
        "madeBy": manifest.made_by,
        "madeAt": manifest.made_at,
        "source": manifest.source,
        "sessions": manifest.sessions,
        "blobs": manifest.blobs,
        "lost": list(manifest.lost),
        "files": len(manifest.files),
        "bytes": manifest.bytes,
    }
