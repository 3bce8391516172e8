"""The turns of one session, in all folders it worked in: what a review, a diff and a rewind are about.

Turns are in the snapshots of the folder they ran in. Two agents may use the same session id; the turns of each are its
own. Does not know how a session is named by a user.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.snapshots.overlap import stored_folders
from dragoman.snapshots.rewind import Rewinder

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.rewind import RewindPlan

BY: Final = {"agent": "the agent", "turn": "during the turn", "you": "you"}
"""Who changed a path, in words."""


class SessionTurns(Struct, frozen=True):
    """The turns of one session, oldest first, each with its records: one for each folder."""

    session_id: str
    agent: str
    turns: tuple[tuple[TurnChanges, ...], ...]
    rewinders: tuple[Rewinder, ...]

    def rewinder(self, record: TurnChanges) -> Rewinder:
        """Return what takes back a record's turn in its folder."""
        return next(rewinder for rewinder in self.rewinders if rewinder.root == record.folder)

    def active(self) -> set[str]:
        """Return the `uid` of each turn that changed something and is not taken back."""
        return {turn.uid for rewinder in self.rewinders for turn in rewinder.active_turns(self.session_id, self.agent)}

    def plan(self, first: int) -> list[tuple[Rewinder, RewindPlan]]:
        """Plan what taking back the turns from one on, counted from 1, to the last would do. Raises: OSError."""
        return self.plan_of({records[0].uid for records in self.turns[first - 1 :]})

    def plan_of(self, uids: Iterable[str]) -> list[tuple[Rewinder, RewindPlan]]:
        """Plan what taking back these turns would do, as far as they are not taken back already. Raises: OSError."""
        wanted = set(uids)
        plans = []
        for rewinder in self.rewinders:
            turns = [turn for turn in rewinder.active_turns(self.session_id, self.agent) if turn.uid in wanted]
            if turns:
                plans.append((rewinder, rewinder.plan(turns)))
        return plans

    def plan_redo(self) -> list[tuple[Rewinder, RewindPlan]]:
        """Plan what taking back the last rewind of this session would do in each folder. Raises: OSError."""
        found = ((rewinder, rewinder.plan_redo(self.session_id)) for rewinder in self.rewinders)
        return [(rewinder, plan) for rewinder, plan in found if plan is not None]


def find_session_turns(
    base: str, session_id: str, agent: str | None = None, *, roots: Sequence[str] | None = None
) -> SessionTurns | None:
    """Return the turns of a session; None if none was followed. Reads files.

    Args:
        base: the folder of all snapshots.
        agent: under which name the turns are recorded; None for any, of which the one used last is taken.
        roots: the folders to look in; None for all that have snapshots.
    """
    rewinders: dict[str, Rewinder] = {}
    found: list[TurnChanges] = []
    for root in stored_folders(base) if roots is None else dict.fromkeys(map(os.path.realpath, roots)):
        rewinder = Rewinder(base, root)
        mine = [turn for turn in rewinder.store.turns() if turn.session_id == session_id]
        if mine:
            rewinders[rewinder.root] = rewinder
            found += mine
    if agent is None and found:
        agent = max(found, key=lambda turn: turn.started_at).agent
    by_turn: dict[str, list[TurnChanges]] = {}
    for turn in found:
        if turn.agent == agent:
            by_turn.setdefault(turn.uid, []).append(turn)
    if not by_turn:
        return None
    ordered = sorted(by_turn.values(), key=lambda records: records[0].started_at)
    folders = {record.folder for records in ordered for record in records}
    return SessionTurns(
        session_id,
        ordered[-1][0].agent,
        tuple(tuple(records) for records in ordered),
        tuple(rewinder for root, rewinder in rewinders.items() if root in folders),
    )


def notes_of(records: Iterable[TurnChanges]) -> list[str]:
    """Return what a reader has to know before the changes are trusted."""
    notes = []
    for record in records:
        if record.reason:
            notes.append(f"{record.folder}: only files that the agent named were tracked: {record.reason}")
        if record.overlaps:
            notes.append(
                f"{record.folder}: {', '.join(record.overlaps)} ran here at the same time; whose changes these are "
                "cannot be separated"
            )
        if record.is_interrupted:
            notes.append("dragoman was ended during this turn; later changes of others may be among these")
        if record.head_before != record.head_after:
            before, after = record.head_before[:12] or "none", record.head_after[:12] or "none"
            notes.append(f"the branch changed in this turn (commit {before} -> {after})")
        notes += record.notes
        lost = [change for change in record.changes if change.problem]
        notes += [f"{change.path}: changed, cannot be restored: {change.problem}" for change in lost]
        if not record.changes:
            notes.append(f"{record.folder}: nothing changed in this turn")
    return notes


def without_parents(changes: Iterable[TreeChange]) -> list[TreeChange]:
    """Return the changes without folders that are new or gone together with what is in them."""
    found = list(changes)
    parents = {os.path.dirname(change.path) for change in found}
    return [
        change
        for change in found
        if change.path not in parents or not all(s.is_folder for s in (change.before, change.after) if s is not None)
    ]


def shown_path(path: str) -> str:
    """Return a path as text that JSON can hold; what is not UTF-8 is replaced."""
    return os.fsencode(path).decode("utf-8", "replace")
