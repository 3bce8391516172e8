"""Records conversations, inspects the recordings and replays them.

Owns the recording format and everything that is done with it. Names are loaded when first used, because `dragoman
record` delays the start of an agent by the time of its imports.
Read `entry.py` first, then `record/relay.py` for recording and `replay/play.py` for replaying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.trace.entry import Direction, End, Entry, Exit, Frame, Header, Stderr, TraceError
    from dragoman.trace.reader import Trace, open_trace, read_trace
    from dragoman.trace.record.recorder import Recorder
    from dragoman.trace.record.relay import run_relay
    from dragoman.trace.redact import Redactor
    from dragoman.trace.replay.play import Difference, Replay
    from dragoman.trace.violations import Finding, PassiveChecker
    from dragoman.trace.writer import TraceWriter

__all__ = [
    "Difference",
    "Direction",
    "End",
    "Entry",
    "Exit",
    "Finding",
    "Frame",
    "Header",
    "PassiveChecker",
    "Recorder",
    "Redactor",
    "Replay",
    "Stderr",
    "Trace",
    "TraceError",
    "TraceWriter",
    "open_trace",
    "read_trace",
    "run_relay",
]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(
        globals(),
        {
            ".entry": ("Direction", "End", "Entry", "Exit", "Frame", "Header", "Stderr", "TraceError"),
            ".reader": ("Trace", "open_trace", "read_trace"),
            ".record.recorder": ("Recorder",),
            ".record.relay": ("run_relay",),
            ".redact": ("Redactor",),
            ".replay.play": ("Difference", "Replay"),
            ".violations": ("Finding", "PassiveChecker"),
            ".writer": ("TraceWriter",),
        },
    )
