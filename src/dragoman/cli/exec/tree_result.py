"""What the folders of a run show about its changes, as a part of the result."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct


class TreeChangeResult(Struct, kw_only=True):
    """A path that differs from before the turn."""

    path: str
    kind: Literal["created", "modified", "deleted", "renamed", "mode", "type"]
    """`mode`: only its permissions changed. `type`: for example a file that became a folder."""
    by: Literal["agent", "turn"]
    """`agent`: dragoman wrote it for the agent, or a tool call shows this change. `turn`: it changed while the turn
    ran, by a command, a formatter, another program or the agent itself."""
    old_path: str | None = None
    """The path before, of a renamed file."""
    is_folder: bool = False
    lines_added: int | None = None
    """Null for what is not text."""
    lines_removed: int | None = None
    problem: str | None = None
    """Why the state before cannot be given back; null if it can."""


class TreeChanges(Struct, kw_only=True):
    """What changed in the folders of the session while the turn ran, by any program."""

    is_complete: bool
    """False if a folder is too large or too private to be followed as a whole: then only files are here that the agent
    named."""
    reasons: list[str]
    """Why it is not complete, and what could not be kept."""
    paths: list[TreeChangeResult]
    overlaps: list[str]
    """Other sessions that ran in the same folder at the same time; their changes cannot be separated from these."""
    changed_before: list[str]
    """Paths that you or others changed between the last turn in this folder and this one."""
