"""How a permission request is answered when no user can be asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from dragoman.versions.frames import Frame, objects

Decide: TypeAlias = Callable[[Frame, list[Frame], str], str | None]
"""Takes the params of a request of version 1, the tool calls that the turn has reported so far, each with all its
members, and the session's folder; returns the id of the option to choose, or None to refuse."""

_REFUSALS: Final = ("reject_once", "reject_always")


def answer(params: Frame, reported: list[Frame], folder: str, decide: Decide | None) -> Frame:
    """Return the result of a permission request: what was decided, else a refusal, never a guess that allows.

    A decision counts only if it names an option that was offered.
    """
    options = objects(params.get("options"))
    chosen: Any = None if decide is None else decide(params, reported, folder)
    if chosen is None or not any(option.get("optionId") == chosen for option in options):
        chosen = None
        for kind in _REFUSALS:
            found = [option.get("optionId") for option in options if option.get("kind") == kind]
            if found and isinstance(found[0], str):
                chosen = found[0]
                break
    if chosen is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": chosen}}
