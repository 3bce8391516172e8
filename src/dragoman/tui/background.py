"""Work in threads that imports modules on its way: one piece at a time.

Two threads that import packages with imports in a circle see each other's half-made modules, and one of them fails. The
client starts by looking for agents and opening a session at once, which import the same packages.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING, Final, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
T = TypeVar("T")
_TURN: Final = threading.Lock()


async def in_turn(function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Run a function in a thread, after the ones that were passed before."""

    def call() -> T:
        with _TURN:
            return function(*arguments, **named)

    return await asyncio.to_thread(call)
