"""The parts of a message that still grows: those of its steps that are over stay as they are.

A turn of a day's work is one message with thousands of parts, and each step sends all of it. What is made of a part,
such as its bytes in a wire form, is made once with this. Pure.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING

from dragoman.uistream.messages import StepStartPart

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.uistream.messages import Part


def running_step(parts: Sequence[Part]) -> int:
    """Return the number of the part that begins the last step, 0 if there is none."""
    for number in range(len(parts) - 1, -1, -1):
        if isinstance(parts[number], StepStartPart):
            return number
    return 0


class GrowingParts:
    """The parts of a message that grows, with a memory of which were returned as those of steps that are over."""

    def __init__(self) -> None:
        self._over: list[Part] = []

    def divide(self, parts: Sequence[Part]) -> tuple[bool, list[Part], list[Part]]:
        """Divide the parts of a message that grew.

        Returns whether it is the message of the last call, so that what was made of its steps holds; the parts of the
        steps that are over since then, all of them if it is another message; and the parts of the running step.
        """
        end = running_step(parts)
        goes_on = len(self._over) <= end and all(map(is_, self._over, parts))
        ended = list(parts[len(self._over) if goes_on else 0 : end])
        self._over = [*self._over, *ended] if goes_on else ended
        return goes_on, ended, list(parts[end:])
