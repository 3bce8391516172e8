"""What is kept of turns and rewinds, as it stands in the files of the store."""

from __future__ import annotations

import os
import stat
from typing import Literal, TypeAlias

from msgspec import Struct

from dragoman.snapshots.entries import FileState

ChangedBy: TypeAlias = Literal["agent", "turn", "you"]
ChangeKind: TypeAlias = Literal["created", "modified", "deleted", "renamed", "mode", "type"]


class TreeChange(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A path before and after; None for nothing. `by` is who changed it, as far as that is known.

    `agent`: through the client, or as a tool call shows it. `turn`: while the turn ran, by a command, a formatter, an
    editor or the agent itself. `you`: between two turns.
    """

    name: bytes
    before: FileState | None
    after: FileState | None
    by: ChangedBy = "turn"
    origin: bytes | None = None
    """The path it had before, for a file that was renamed; the old path has no change of its own."""
    is_sure: bool = True
    """Whether `before` is known to be what was there when the turn began."""

    @property
    def path(self) -> str:
        """The path, relative to the folder of the session."""
        return os.fsdecode(self.name)

    @property
    def old_path(self) -> str:
        return os.fsdecode(self.name if self.origin is None else self.origin)

    @property
    def kind(self) -> ChangeKind:
        before, after = self.before, self.after
        if self.origin is not None:
            return "renamed"
        if before is None:
            return "created"
        if after is None:
            return "deleted"
        if stat.S_IFMT(before.mode) != stat.S_IFMT(after.mode):
            return "type"
        return "mode" if before.id == after.id else "modified"

    @property
    def problem(self) -> str:
        """Why the state before cannot be given back; empty if it can."""
        if not self.is_sure:
            return "what it held before the turn is not known: it was seen too late"
        if self.before is None or self.before.is_kept:
            return ""
        return not_kept(self.before)


def not_kept(state: FileState) -> str:
    """Return why the bytes of a state are not in the store."""
    match state.id[:1]:
        case b"h":
            return "its content was not kept: it is too large, or there was no room"
        case b"x":
            return "its content was not kept: it is too large, or could not be read"
        case _:
            return "it is a FIFO, a socket or a device, which is not made again"


class LiveTurn(Struct, frozen=True, kw_only=True):
    """A turn that has begun. Its file is locked as long as the program that runs it lives."""

    number: int
    uid: str
    session_id: str
    agent: str
    root: bytes
    started_at: float
    tree: int
    """The number of the tree's file; 0 if the tree is not tracked."""
    head: str = ""
    reason: str = ""
    """Why only files that the agent names are tracked; empty if the whole tree is."""
    earlier: tuple[TreeChange, ...] = ()


class TurnChanges(Struct, frozen=True, kw_only=True):
    """A turn that has ended, and what changed in one folder of its session while it ran."""

    number: int
    uid: str
    session_id: str
    agent: str
    root: bytes
    started_at: float
    ended_at: float
    ended: int
    """The number that a turn beginning at its end would have had: two turns overlap if their numbers do."""
    changes: tuple[TreeChange, ...]
    earlier: tuple[TreeChange, ...] = ()
    """What changed between the turn before it in this folder and this one."""
    head_before: str = ""
    head_after: str = ""
    reason: str = ""
    overlaps: tuple[str, ...] = ()
    """Sessions that ran a turn in this folder at the same time: whose changes these are cannot be separated."""
    notes: tuple[str, ...] = ()
    is_interrupted: bool = False
    """Whether dragoman itself was ended during the turn; the changes are then those until the next look."""
    prompt: str = ""
    """The beginning of what the user wrote, so that a list of turns can be read."""
    prompt_id: str = ""
    """By which a host knows the prompt."""

    @property
    def folder(self) -> str:
        return os.fsdecode(self.root)


class RewindStep(Struct, frozen=True, kw_only=True):
    """One path that a rewind changes: what it must hold now, and what it will hold."""

    name: bytes
    now: FileState | None
    target: FileState | None

    @property
    def path(self) -> str:
        return os.fsdecode(self.name)


class RewindRecord(Struct, frozen=True, kw_only=True):
    """A rewind: written before the first path is changed, so that it can be completed, and taken back."""

    number: int
    session_id: str
    at: float
    steps: tuple[RewindStep, ...]
    turns: tuple[int, ...] = ()
    what: str = ""
    """What it did, in a few words."""
    is_done: bool = False
    redoes: int = 0
    """The number of the rewind that this one takes back."""
    is_redone: bool = False
