"""What a decision is about, in a few words: the command or the path, not only the title that the agent chose.

Pure. The words are the agent's: make them safe before they are shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence


class Described(Protocol):
    """A decision, or its description in a result."""

    @property
    def title(self) -> str: ...

    @property
    def kind(self) -> str: ...

    @property
    def command(self) -> str | None: ...

    @property
    def paths(self) -> Sequence[str]: ...


def subject(decision: Described, root: str = "") -> str:
    """Return the command or the paths of a decision, behind its title if that says more than the kind.

    Args:
        root: paths below this folder are shown relative to it.
    """
    title, what = decision.title, _what(decision, root)
    if not what or what in title or (decision.command is None and decision.paths and _names(title, decision.paths)):
        return title or what
    is_bare = len(title.split()) < 2 or title.lower() in (decision.kind, "(no title)")
    return what if is_bare else f"{title}: {what}"


def _what(decision: Described, root: str) -> str:
    if decision.command is not None:
        return decision.command
    if not decision.paths:
        return ""
    below = root.rstrip("/") + "/"
    first = decision.paths[0].removeprefix(below) if root else decision.paths[0]
    more = len(decision.paths) - 1
    return f"{first} and {more} more" if more else first


def _names(title: str, paths: Sequence[str]) -> bool:
    return all(path.rpartition("/")[2] in title for path in paths)
