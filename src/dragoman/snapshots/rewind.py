"""Going back by turns: first a plan with every path, then the plan is applied, and that can be taken back too.

For each path there are three states: what it holds now, what it held at the end of the turns (`end`), and what it held
before them (`target`). Only a path that still is as the turns left it is changed; any other difference is a conflict,
which stays as it is unless the user chooses otherwise. Blocks; asynchronous callers use a thread.
"""

from __future__ import annotations

import os
import time
from itertools import pairwise
from typing import TYPE_CHECKING, Literal, TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from dragoman.snapshots.contents import Contents
from dragoman.snapshots.differences import expanded
from dragoman.snapshots.entries import FileState
from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.limits import SNAPSHOT_LIMITS, SnapshotLimits
from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.records import RewindRecord, RewindStep, not_kept
from dragoman.snapshots.restore import FailedStep, Present, Restorer
from dragoman.workspace.hunks import find_hunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.snapshots.records import ChangedBy, TreeChange, TurnChanges
    from dragoman.workspace import Hunk

Action: TypeAlias = Literal["write", "delete", "done", "conflict", "impossible", "offered"]
Choice: TypeAlias = Literal["keep", "take", "merge"]


class PlannedPath(Struct, frozen=True, kw_only=True):
    """What a rewind would do with one path.

    `write` and `delete` change it; `done` means that it holds the target already. `conflict`, `impossible` and
    `offered` do nothing, and `reason` says why; `take` chosen for a conflict or an offered path changes it all the
    same, `merge` keeps both changes of a conflict if they do not touch.
    """

    path: str
    action: Action
    reason: str = ""
    by: ChangedBy = "turn"
    now: FileState | None = None
    end: FileState | None = None
    target: FileState | None = None


class RewindPlan(Struct, frozen=True, kw_only=True):
    """What a rewind would do in one folder."""

    folder: str
    session_id: str
    turns: tuple[int, ...]
    paths: tuple[PlannedPath, ...]
    notes: tuple[str, ...] = ()
    redoes: int = 0

    def selected(self) -> list[PlannedPath]:
        """Return the paths that are changed without any choice of the user."""
        return [planned for planned in self.paths if planned.action in ("write", "delete")]


class RewindOutcome(Struct, frozen=True, kw_only=True):
    """What a rewind did."""

    number: int
    changed: tuple[str, ...]
    failed: tuple[FailedStep, ...] = ()
    kept: tuple[str, ...] = ()
    """Paths with a conflict that were left as they are."""


class Rewinder:
    """Plans and applies rewinds in one folder."""

    def __init__(self, base: str, root: str, limits: SnapshotLimits = SNAPSHOT_LIMITS) -> None:
        self.root = os.path.realpath(root)
        self.store = FolderStore(base, self.root, limits)
        self.limits = limits

    def active_turns(self, session_id: str | None = None, agent: str = "") -> list[TurnChanges]:
        """Return the turns of a session, or of all, that changed something and are not rewound, oldest first."""
        rewound = {
            number
            for record in self.store.rewinds()
            if not record.is_redone and not record.redoes
            for number in record.turns
        }
        return [
            turn
            for turn in self.store.turns()
            if turn.changes and turn.number not in rewound
            if session_id is None or turn.session_id == session_id
            if not agent or turn.agent == agent
        ]

    def plan(self, turns: Sequence[TurnChanges]) -> RewindPlan:
        """Plan what taking back these turns, oldest first, would do. Changes nothing but the store. Raises: OSError."""
        chains: dict[str, list[tuple[TreeChange, TurnChanges]]] = {}
        for turn in turns:
            for change in expanded(turn.changes):
                chains.setdefault(change.path, []).append((change, turn))
        keeper = self.store.keeper(has_budget=False)
        try:
            with Contents(self.root, self.store.packs) as contents:
                present = Present(self.root, self.limits, keeper, contents)
                paths = [self._planned(path, chain, present) for path, chain in sorted(chains.items())]
        finally:
            keeper.finish()
        return RewindPlan(
            folder=self.root,
            session_id=turns[-1].session_id if turns else "",
            turns=tuple(turn.number for turn in turns),
            paths=tuple(planned for planned in paths if planned is not None),
            notes=(*_notes(turns), *self._running()),
        )

    def plan_redo(self, session_id: str | None = None, *, number: int | None = None) -> RewindPlan | None:
        """Plan what taking back the last rewind, or the one with a number, would do; None if there is none."""
        found = [
            record
            for record in self.store.rewinds()
            if record.is_done and record.steps and not record.redoes and not record.is_redone
            if session_id is None or record.session_id == session_id
            if number is None or record.number == number
        ]
        if not found:
            return None
        record = found[-1]
        keeper = self.store.keeper(has_budget=False)
        try:
            with Contents(self.root, self.store.packs) as contents:
                present = Present(self.root, self.limits, keeper, contents)
                paths = [
                    _decide(step.path, present.state(step.path, step.target), step.target, step.now, present)
                    for step in sorted(record.steps, key=lambda step: step.name)
                ]
        finally:
            keeper.finish()
        return RewindPlan(
            folder=self.root,
            session_id=record.session_id,
            turns=record.turns,
            paths=tuple(paths),
            redoes=record.number,
        )

    def apply(self, plan: RewindPlan, choices: Mapping[str, Choice] | None = None, *, what: str = "") -> RewindOutcome:
        """Do what a plan says. Raises: OSError if the store cannot be written; nothing has changed then."""
        chosen = choices or {}
        keeper = self.store.keeper(has_budget=False)
        steps: list[RewindStep] = []
        failed: list[FailedStep] = []
        kept: list[str] = []
        try:
            with Contents(self.root, self.store.packs) as contents:
                for planned in plan.paths:
                    if planned.action not in ("write", "delete") and chosen.get(planned.path, "keep") == "keep":
                        if planned.action in ("conflict", "offered", "impossible"):
                            kept.append(planned.path)
                        continue
                    if chosen.get(planned.path) == "keep":
                        kept.append(planned.path)
                        continue
                    target = planned.target
                    if planned.action == "impossible":
                        failed.append(FailedStep(planned.path, planned.reason))
                        continue
                    if planned.action == "conflict" and chosen.get(planned.path) == "merge":
                        merged = _merged(planned, contents)
                        if isinstance(merged, str):
                            failed.append(FailedStep(planned.path, merged))
                            continue
                        target = FileState(
                            planned.now.mode if planned.now else 0o100644, len(merged), keeper.keep(merged)
                        )
                    steps.append(RewindStep(name=os.fsencode(planned.path), now=planned.now, target=target))
        finally:
            keeper.finish(syncs=True)
        if not steps and (failed or kept or not plan.turns):
            return RewindOutcome(number=0, changed=(), failed=tuple(failed), kept=tuple(kept))
        record = RewindRecord(
            number=0,
            session_id=plan.session_id,
            at=time.time(),
            steps=tuple(steps),
            turns=plan.turns,
            what=os.fsencode(what).decode("utf-8", "replace"),  # a name in it may be any bytes
            redoes=plan.redoes,
        )
        record = self.store.add_rewind(record)
        outcome = self._run(record)
        return replace(outcome, failed=(*failed, *outcome.failed), kept=tuple(kept))

    def unfinished(self) -> list[RewindRecord]:
        """Return the rewinds that were interrupted."""
        return [record for record in self.store.rewinds() if not record.is_done]

    def complete(self) -> list[RewindOutcome]:
        """Finish the rewinds that were interrupted, for example by `kill -9`."""
        return [self._run(record) for record in self.unfinished()]

    def _run(self, record: RewindRecord) -> RewindOutcome:
        keeper = self.store.keeper(has_budget=False)
        try:
            with Contents(self.root, self.store.packs) as contents:
                present = Present(self.root, self.limits, keeper, contents)
                done, failed = Restorer(self.root, contents, present).run(record)
        finally:
            keeper.finish()
        # What failed is not a part of it any more: redo takes back what was done.
        self.store.save_rewind(replace(record, steps=tuple(done), is_done=True))
        if record.redoes:
            for earlier in self.store.rewinds():
                if earlier.number == record.redoes:
                    self.store.save_rewind(replace(earlier, is_redone=True))
        return RewindOutcome(number=record.number, changed=tuple(step.path for step in done), failed=tuple(failed))

    def _running(self) -> list[str]:
        running = [live for live, is_alive in self.store.live_turns() if is_alive]
        return [f"a turn of {live.agent or 'another session'} runs in this folder at this moment" for live in running]

    def _planned(self, path: str, chain: list[tuple[TreeChange, TurnChanges]], present: Present) -> PlannedPath | None:
        first, last = chain[0][0], chain[-1][0]
        target, end = first.before, last.after
        by: ChangedBy = "agent" if all(change.by == "agent" for change, _ in chain) else "turn"
        problem = next((change.problem for change, _ in chain[:1] if change.problem), "")
        if present.is_same(path, target, end):
            return None
        now = present.state(path, end)
        found = replace(_decide(path, now, end, target, present), by=by)
        if found.action == "done":
            return found
        if problem:
            return replace(found, action="impossible", reason=problem)
        for (earlier, _), (later, _) in pairwise(chain):
            if not present.is_same(path, earlier.after, later.before):
                reason = "it was changed between two of these turns, not by them"
                return replace(found, action="conflict", reason=reason)
        others = [name for change, turn in chain if change.by != "agent" for name in turn.overlaps]
        if others and found.action in ("write", "delete"):
            reason = f"{others[0]} ran in this folder at the same time, so it is not known whose change this is"
            return replace(found, action="offered", reason=reason)
        return found


def _decide(
    path: str, now: FileState | None, end: FileState | None, target: FileState | None, present: Present
) -> PlannedPath:
    found = PlannedPath(path=path, action="write", now=now, end=end, target=target)
    if present.is_same(path, now, target):
        return replace(found, action="done")
    if target is not None and not target.is_kept:
        return replace(found, action="impossible", reason=not_kept(target))
    if not present.is_same(path, now, end):
        return replace(found, action="conflict", reason="it was changed since the turn; rewinding would lose that")
    if now is not None and not now.is_kept:
        reason = f"redo could not bring back what it holds now: {not_kept(now)}"
        return replace(found, action="offered", reason=reason)
    return replace(found, action="delete" if target is None else "write")


def _merged(planned: PlannedPath, contents: Contents) -> bytes | str:
    """Merge the present content and the target, or return why that cannot be."""
    states = (planned.end, planned.now, planned.target)
    if any(state is None or not state.is_file for state in states):
        return "it cannot be merged: it does not exist in all three states as a file"
    try:
        texts = [contents.read(planned.path, state) for state in states if state is not None]
    except ContentMissing as error:
        return str(error)
    merged = merge(*texts)
    return "it cannot be merged: both changes touch the same lines" if merged is None else merged


def _notes(turns: Sequence[TurnChanges]) -> list[str]:
    notes = []
    for turn in turns:
        if turn.head_before != turn.head_after:
            before, after = turn.head_before[:12] or "none", turn.head_after[:12] or "none"
            notes.append(f"the branch changed (commit {before} -> {after}); rewinding files does not undo commits")
        if turn.reason:
            notes.append(f"only files that the agent named were tracked: {turn.reason}")
        if turn.is_interrupted:
            notes.append("dragoman was ended during the turn; later changes of others may be among these")
        notes += turn.notes
    return list(dict.fromkeys(notes))


def merge(base: bytes, ours: bytes, theirs: bytes) -> bytes | None:
    """Return `ours` with the changes from `base` to `theirs`; None if both changed the same or neighbouring lines."""
    if any(b"\0" in content for content in (base, ours, theirs)):
        return None
    mine, others = list(find_hunks(base, ours)), list(find_hunks(base, theirs))
    chosen: list[Hunk] = []
    for hunk in others:
        for made in mine:
            if _touch(hunk, made):
                if (hunk.before_line, hunk.before, hunk.after) == (
                    made.before_line,
                    made.before,
                    made.after,
                ):
                    break  # both made the same change
                return None
        else:
            chosen.append(hunk)
    text = base.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    last = lines.pop()
    lines = [f"{line}\n" for line in lines] + ([last] if last else [])
    for hunk in sorted([*mine, *chosen], key=lambda hunk: hunk.before_line, reverse=True):
        start = hunk.before_line - 1
        lines[start : start + len(hunk.before)] = hunk.after
    return "".join(lines).encode("utf-8", "surrogateescape")


def _touch(one: Hunk, other: Hunk) -> bool:
    return one.before_line - 1 <= other.before_end and other.before_line - 1 <= one.before_end
