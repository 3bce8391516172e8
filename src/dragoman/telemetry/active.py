"""The telemetry of this process, for code that has no connection at hand: the model calls of the built-in agent.

Owns one name. It is None unless `environment.py` set it, so looking at it costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.telemetry.spans import Telemetry

telemetry: Telemetry | None = None
