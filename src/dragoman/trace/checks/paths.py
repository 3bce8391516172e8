"""Tests whether a path is absolute on POSIX or Windows: a recording does not state the system it was made on."""

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
    """Report `rule` for a path that is not absolute. The paths of a redacted recording are not checked."""
    if not facts.is_redacted and not is_absolute(path):
        facts.report(rule, frame, f"{name} is not absolute")
