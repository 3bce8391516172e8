"""The sessions that the scripted agent remembers, and the small media it sends."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from dragoman.schema import v1

# A transparent pixel and a tenth of a millisecond of silence: the smallest files their formats allow.
PIXEL: Final = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
WAV: Final = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAgD4AAAB9AAACABAAZGF0YQIAAAAAAA=="


class RememberedSession:
    """One session of the scripted agent: enough to list it and to replay its history."""

    def __init__(self, session_id: str, cwd: str) -> None:
        self.id = session_id
        self.cwd = cwd
        self.additional_directories: tuple[str, ...] = ()
        self.title: str | None = None
        self.history: list[v1.SessionUpdate] = []
        self.updated_at = _now()

    def add(self, *updates: v1.SessionUpdate) -> None:
        self.history += updates
        self.updated_at = _now()

    def info(self) -> v1.SessionInfo:
        return v1.SessionInfo(
            self.id,
            self.cwd,
            additional_directories=list(self.additional_directories),
            title=self.title,
            updated_at=self.updated_at,
        )


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
