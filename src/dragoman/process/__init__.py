"""Child processes that never leak.

Owns starting a program in its own session, noticing its end at once, and making sure that every process it started is
gone. Does not know JSON or the protocol, and never waits for a process it did not start. Read `child.py` first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.process.launch import MARKER_VARIABLE

if TYPE_CHECKING:
    from dragoman.process.child import Child, Patience
    from dragoman.process.sweep import Spare

__all__ = ["MARKER_VARIABLE", "Child", "Patience", "Spare"]

if not TYPE_CHECKING:
    from dragoman._lazy import lazy_exports

    # A child needs an event loop, and importing asyncio takes longer than starting a program does.
    __getattr__ = lazy_exports(globals(), {".child": ("Child", "Patience"), ".sweep": ("Spare",)})
