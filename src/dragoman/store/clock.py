"""Times in the format of the stores: ISO 8601 in UTC, which sorts as text."""

from __future__ import annotations

from datetime import UTC, datetime


def now() -> str:
    """Return the current time."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
