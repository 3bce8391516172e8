"""Whose change it is: which changes of a turn are the agent's own, as far as that can be shown.

A change is the agent's if it went through the client, or if a tool call shows exactly this change. Everything else that
changed while the turn ran stays a change "during the turn". Pure. Does not know the protocol: callers pass what the
journal and the tool calls say.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.snapshots.packs import ContentMissing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.records import TreeChange


class AgentClaims:
    """What an agent is known to have done in a turn, by absolute path."""

    def __init__(self) -> None:
        self.written: dict[str, bytes | None] = {}
        """The last content that went through the client; None for a file that it removed."""
        self.shown: dict[str, list[tuple[str | None, str]]] = {}
        """The changes that tool calls show, in their order: the old text (None for a new file) and the new one."""
        self.named: set[str] = set()
        """Paths that tool calls name as changed, without a text: deleted and moved files."""

    def add_write(self, path: str, content: bytes | None) -> None:
        self.written[_place(path)] = content

    def add_diff(self, path: str, old: str | None, new: str) -> None:
        self.shown.setdefault(_place(path), []).append((old, new))

    def add_name(self, path: str) -> None:
        self.named.add(_place(path))


def attribute(changes: Iterable[TreeChange], claims: AgentClaims, root: str, contents: Contents) -> list[TreeChange]:
    """Mark the changes that are the agent's own. Takes changes without renames."""
    found = []
    for change in changes:
        path = os.path.join(root, change.path)
        if _is_claimed(change, path, claims, contents):
            change = replace(change, by="agent")
        found.append(change)
    return found


def _is_claimed(change: TreeChange, path: str, claims: AgentClaims, contents: Contents) -> bool:
    if path in claims.named and (change.after is None or change.before is None):
        return True
    if path not in claims.written and path not in claims.shown:
        return False
    try:
        after = None if change.after is None else contents.read(change.path, change.after)
        if path in claims.written and claims.written[path] == after:
            return True
        before = None if change.before is None else contents.read(change.path, change.before)
    except ContentMissing:
        return False
    shown = claims.shown.get(path)
    return shown is not None and _comparable(after) == _replayed(before, shown)


def _replayed(before: bytes | None, shown: Iterable[tuple[str | None, str]]) -> str | None:
    """Return the text after these changes; None if one does not fit."""
    text = None if before is None else _text(before)
    for old, new in shown:
        if old is None or text is None or text.rstrip("\n") == old.rstrip("\n"):
            text = new
        elif old and old in text:
            text = text.replace(old, new, 1)
        else:
            return None
    return None if text is None else text.rstrip("\n")


def _comparable(content: bytes | None) -> str | None:
    # Agents differ in whether a text in a tool call ends with the newline of the file.
    return None if content is None else _text(content).rstrip("\n")


def _text(content: bytes) -> str:
    return content.decode("utf-8", "surrogateescape").replace("\r\n", "\n")


def _place(path: str) -> str:
    """Return the file itself: its folder without links, so that one file has one name."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)
