"""Names for what is imported: nothing that exists is overwritten, and the same thing is not imported twice."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.foreign.proposal import Program, State

_ODD: Final = re.compile(r"[^A-Za-z0-9_.-]+")


class Chosen(NamedTuple):
    """A name, and whether it is free."""

    name: str
    state: State
    note: str = ""


def choose_name(name: str, program: Program, holder: Callable[[str], str]) -> Chosen:
    """Return the name itself if it is free, else with the program behind it.

    Args:
        holder: what has a name: "" (it is free), "same" (exactly this), or a description of another holder.
    """
    first = holder(name)
    if first in ("", "same"):
        return Chosen(name, "present" if first else "ready")
    other = f"{name}-{program}"
    second = holder(other)
    if second == "same":
        return Chosen(other, "present")
    if second:
        return Chosen(name, "taken", f"{name} and {other} are taken: {first}")
    return Chosen(other, "ready", f"it is called {other}: {name} is {first}")


def plain_name(*words: str) -> str:
    """Return a name of letters, digits, `_`, `.` and `-` for a file in folders; empty if nothing is left."""
    return _ODD.sub("-", "-".join(words)).strip("-.")[:60]
