"""Limits of what an agent may use: cost, tokens, turns, seconds and changed files, per session and per day.

Owns the counters. Those of a day are kept in a file, which all guards of the user share; a new day begins at midnight
UTC. What an agent does not report (cost, tokens) cannot be limited. Does not stop anything: `exchange.py` does.
"""

from __future__ import annotations

import fcntl
import math
import os
from contextlib import suppress
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.errors import ConfigError
from dragoman.workspace.private import make_private_folder, open_owned, write_private

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

SCOPES: Final = ("session", "day")
MEASURES: Final = ("cost", "tokens", "turns", "seconds", "files")
_HINT: Final = "write it like session.turns=20 or day.cost=5; measures are " + ", ".join(MEASURES)
_MOST_FILES: Final = 10_000  # names that are kept to count each file once


class Limit(msgspec.Struct, frozen=True):
    """The most of one measure, in one session or on one day."""

    scope: str
    measure: str
    most: float

    def describe(self, used: float) -> str:
        """Return the sentence for the editor when it is reached."""
        return (
            f"limit reached: {_shown(used)} of {_shown(self.most)} {self.measure} "
            f"{'in this session' if self.scope == 'session' else 'today'} "
            f"(--limit {self.scope}.{self.measure}={_shown(self.most)})"
        )


def read_limit(text: str) -> Limit:
    """Read `SCOPE.MEASURE=NUMBER`.

    Raises:
        ConfigError: it has another form.
    """
    name, _, number = text.partition("=")
    scope, _, measure = name.strip().partition(".")
    try:
        most = float(number)
    except ValueError:
        most = math.nan
    if scope not in SCOPES or measure not in MEASURES or not 0 <= most < math.inf:
        raise ConfigError(f"--limit {text!r} is not a limit: {_HINT}")
    return Limit(scope, measure, most)


class Counters(msgspec.Struct):
    """What was used so far. `files` are names, so that each counts once."""

    cost: float = 0.0
    tokens: float = 0.0
    turns: float = 0.0
    seconds: float = 0.0
    files: set[str] = set()

    def of(self, measure: str) -> float:
        """Return the number that a limit is compared with."""
        return len(self.files) if measure == "files" else float(getattr(self, measure))

    def add(self, amounts: Mapping[str, float], files: Iterable[str] = ()) -> None:
        """Count more of each measure."""
        for measure, amount in amounts.items():
            setattr(self, measure, getattr(self, measure) + amount)
        self.files.update(name for name in files if len(self.files) < _MOST_FILES)


class _Day(msgspec.Struct):
    day: str = ""
    used: Counters = msgspec.field(default_factory=Counters)


class GuardLimits:
    """The limits of one guard, and what was used.

    Args:
        limits: what must not be exceeded.
        folder: where the counters of the day are kept.
    """

    def __init__(self, limits: Iterable[Limit] = (), folder: Path | None = None) -> None:
        self._limits = tuple(limits)
        self._sessions: dict[str, Counters] = {}
        self._path = None if folder is None else folder / "day.json"
        self._has_day = any(limit.scope == "day" for limit in self._limits)

    @property
    def limits(self) -> tuple[Limit, ...]:
        """The limits in force."""
        return self._limits

    def add(self, session_id: str, amounts: Mapping[str, float], files: Iterable[str] = ()) -> None:
        """Count what a session used, for it and for the day."""
        amounts = {measure: amount for measure, amount in amounts.items() if amount}
        files = tuple(files)
        if not self._limits or not (amounts or files):
            return
        self._sessions.setdefault(session_id, Counters()).add(amounts, files)
        if self._has_day:
            self._change_day(amounts, files)

    def reached(self, session_id: str, extra: Mapping[str, float] | None = None) -> str | None:
        """Return the sentence about a limit that is reached; None if none is.

        Args:
            extra: what runs and is not counted yet, such as the seconds of the running turn.
        """
        if not self._limits:
            return None
        scopes = {"session": self._sessions.get(session_id, Counters())}
        if self._has_day:
            scopes["day"] = self._read_day()
        for limit in self._limits:
            used = scopes[limit.scope].of(limit.measure) + (extra or {}).get(limit.measure, 0)
            if used >= limit.most:
                return limit.describe(used)
        return None

    def refuses_file(self, session_id: str, path: str) -> str | None:
        """Return the sentence about the limit that one more changed file would exceed."""
        for limit in self._limits:
            if limit.measure == "files":
                used = self._used(limit, session_id)
                if path not in used.files and len(used.files) >= limit.most:
                    return limit.describe(len(used.files))
        return None

    def seconds_left(self, session_id: str) -> float | None:
        """Return how long a turn may take; None without such a limit."""
        left = [
            limit.most - self._used(limit, session_id).seconds for limit in self._limits if limit.measure == "seconds"
        ]
        return max(0.0, min(left)) if left else None

    def _used(self, limit: Limit, session_id: str) -> Counters:
        return self._read_day() if limit.scope == "day" else self._sessions.get(session_id, Counters())

    def _read_day(self) -> Counters:
        if self._path is None:
            return Counters()
        try:
            found = msgspec.json.decode(self._path.read_bytes(), type=_Day)
        except (OSError, msgspec.MsgspecError):
            return Counters()
        return found.used if found.day == _today() else Counters()

    def _change_day(self, amounts: Mapping[str, float], files: Iterable[str]) -> None:
        """Add to the file that all guards share. A disk that is full costs the count, not the conversation."""
        if self._path is None:
            return
        with suppress(OSError):
            make_private_folder(self._path.parent)
            lock = open_owned(self._path.with_suffix(".lock"), os.O_RDWR)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX)
                used = self._read_day()
                if amounts or not used.files.issuperset(files):
                    used.add(amounts, files)
                    day = msgspec.json.encode(_Day(_today(), used), order="deterministic")
                    # On the loop, but a few times in a turn: what was used must not come back after a power cut.
                    write_private(self._path, day, is_synced=True)
            finally:
                os.close(lock)


def _today() -> str:
    return datetime.now(UTC).date().isoformat()


def _shown(number: float) -> str:
    return f"{number:.4f}".rstrip("0").rstrip(".")
