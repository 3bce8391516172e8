"""Times as agents write them, and as people read them."""

from __future__ import annotations

from datetime import UTC, datetime


def moment(text: str) -> float:
    """Return an ISO 8601 time in seconds since 1970; 0 for a text that is not one."""
    try:
        found = datetime.fromisoformat(text)
        return (found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def ago(text: str, now: float) -> str:
    """Return how long ago an ISO 8601 time was: `5 min ago`; the day if that is longer than a month, else the text."""
    then = moment(text)
    if not then:
        return text
    seconds = now - then
    if seconds < -60:
        return text[:16].replace("T", " ")
    if seconds < 60:
        return "just now"
    for limit, unit, name in ((3600, 60, "min"), (86_400, 3600, "h"), (31 * 86_400, 86_400, "d")):
        if seconds < limit:
            return f"{int(seconds // unit)} {name} ago"
    return datetime.fromtimestamp(then, UTC).strftime("%Y-%m-%d")
