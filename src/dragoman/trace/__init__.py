"""Record a conversation, read the recording, play it again.

Owns the recording format and what is done with it; knows the protocol where it has to (redaction, replay) and nothing
of screens. Names are loaded when first used: `dragoman record` is in the way of every start of an agent.
Read `entry.py` first, then `relay.py` for recording and `replay.py` for playing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from dragoman.trace.entry import Direction, End, Entry, Exit, Frame, Header, Stderr, TraceError
    from dragoman.trace.reader import Trace, open_trace, read_trace
    from dragoman.trace.recorder import Recorder
    from dragoman.trace.redact import Redactor
    from dragoman.trace.relay import run_relay
    from dragoman.trace.replay import Difference, Replay
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

_HOMES: Final = {
    "entry": ("Direction", "End", "Entry", "Exit", "Frame", "Header", "Stderr", "TraceError"),
    "reader": ("Trace", "open_trace", "read_trace"),
    "recorder": ("Recorder",),
    "redact": ("Redactor",),
    "relay": ("run_relay",),
    "replay": ("Difference", "Replay"),
    "violations": ("Finding", "PassiveChecker"),
    "writer": ("TraceWriter",),
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        for module, names in _HOMES.items():
            if name in names:
                from importlib import import_module

                value = getattr(import_module(f"{__name__}.{module}"), name)
                globals()[name] = value
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
