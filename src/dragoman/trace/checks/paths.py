"""Whether a path is absolute, by the rules of POSIX or of Windows: a recording does not say where it was made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dragoman.trace.checks.facts import Facts
    from dragoman.trace.inspect.exchange import DecodedFrame

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")


def is_absolute(path: str) -> bool:
    return path.startswith(("/", "\\\\")) or _DRIVE.match(path) is not None


def check_path(frame: DecodedFrame, facts: Facts, rule: int, name: str, path: str) -> None:
    """Reports `rule` for a path that is not absolute. A redacted recording has no paths to judge."""
    if not facts.is_redacted and not is_absolute(path):
        facts.report(rule, frame, f"{name} is not absolute")
