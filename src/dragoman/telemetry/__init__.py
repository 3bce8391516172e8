"""OpenTelemetry spans of connections, sessions, turns, tool calls and model calls; needs the extra `otel`.

Owns which spans there are and what they state: names, ids, durations and numbers, and no text of users or agents unless
asked. Does not set up exporters, except for `dragoman agent`. Nothing of OpenTelemetry is imported before a `Telemetry`
is made. Read `spans.py` first.
"""

# Not `typing.TYPE_CHECKING`: type checkers know this name too, and the built-in agent looks in here at its start.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from dragoman.telemetry.spans import ModelCall, Telemetry

__all__ = ["ModelCall", "Telemetry"]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    __getattr__ = lazy_exports(globals(), {"dragoman.telemetry.spans": ("ModelCall", "Telemetry")})
