"""Where a command runs: outside, as a safe command, or in the sandbox; and the words about what it changed.

Shared by the permission that decides, the tool that reports and the access that starts the command. Imports nothing
heavy, because every tool is loaded before `initialize` is answered.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.process.sandbox import ProtectedChange

Where: TypeAlias = Literal["outside", "safe", "sandbox"]

NO_SANDBOX: Final = "off"
"""In place of the name of a backend, for a command that ran outside."""


class Placement(Struct, frozen=True):
    """Where a command runs, and what the user permitted about it.

    `outside` is without a boundary: in the client's terminal if it has one. `safe` is here, with a plain environment.
    """

    where: Where = "outside"
    permitted: tuple[str, ...] = ()
    """Protected files that the command names, about which the user was asked."""
    is_exception: bool = False
    """Whether commands run in a sandbox now, and this one does not."""


OUTSIDE: Final = Placement()


def describe_change(change: ProtectedChange, by: str = "a command") -> str:
    """Return a sentence about a protected file that was changed, for the model and the user."""
    text = f"the protected file {change.path} was {change.happened} by {by}"
    if change.is_restored:
        text += "; it was removed again" if change.happened == "created" else "; its old content was put back"
    else:
        text += f"; {change.problem}" if change.problem else ""
    kept = change.replaced or change.kept
    which = "new" if change.replaced or change.happened == "created" else "old"
    return f"{text} (the {which} content is kept in {kept})" if kept else text
