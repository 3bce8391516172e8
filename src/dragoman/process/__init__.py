"""Children that never leak.

Owns starting a program in its own session, noticing its end at once, and making sure that its whole tree is gone.
Knows nothing of JSON or of the protocol; never waits for a process it did not start. Read `child.py` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.process.launch import MARKER_VARIABLE

if TYPE_CHECKING:
    from dragoman.process.child import Child, Patience
    from dragoman.process.sweep import Spare

__all__ = ["MARKER_VARIABLE", "Child", "Patience", "Spare"]

_HOMES = {"Child": "child", "Patience": "child", "Spare": "sweep"}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """A child needs an event loop, and loading asyncio takes longer than starting a program does."""
        home = _HOMES.get(name)
        if home is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value
