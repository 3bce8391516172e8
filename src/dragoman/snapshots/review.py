"""Reviews a turn hunk by hunk: keep it, or take it back in the file as it is now.

A hunk is taken back by its lines and the lines around them. If these are not found exactly once, that is refused with
the reason: a wrong place would be worse than none. What is taken back is a rewind like any other, so it can be redone.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.snapshots.contents import Contents
from dragoman.snapshots.differences import expanded
from dragoman.snapshots.entries import FileState
from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.restore import Present
from dragoman.snapshots.rewind import PlannedPath, RewindOutcome, RewindPlan
from dragoman.workspace.hunks import Hunk, find_hunks, revert_hunks

if TYPE_CHECKING:
    from collections.abc import Collection

    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.rewind import Rewinder

_CONTEXT: Final = 3
_WHOLE: Final = "*"


class ReviewRefused(Exception):
    """A hunk or file cannot be taken back or kept; the text says why."""


class ReviewedFile(Struct, frozen=True, kw_only=True):
    """A changed file and its hunks, with the numbers of those that were kept by the user."""

    change: TreeChange
    hunks: tuple[Hunk, ...]
    """Empty if it is not a text, or only its mode or name changed."""
    kept: frozenset[int] = frozenset()
    is_kept: bool = False


class Review:
    """The review of one turn in one folder."""

    def __init__(self, rewinder: Rewinder, turn: TurnChanges) -> None:
        self._rewinder = rewinder
        self._store = rewinder.store
        self._turn = turn

    def files(self) -> list[ReviewedFile]:
        """Every change of the turn with its hunks, numbered from 1 in their order."""
        kept = self._store.kept_hunks(self._turn.number)
        found = []
        with Contents(self._rewinder.root, self._store.packs) as contents:
            for change in self._turn.changes:
                mine = kept.get(_key(change.path), [])
                numbers = frozenset(int(each) for each in mine if each.isdigit())
                hunks = _hunks(change, contents)
                is_kept = _WHOLE in mine or (bool(hunks) and numbers >= set(range(1, len(hunks) + 1)))
                found.append(ReviewedFile(change=change, hunks=hunks, kept=numbers, is_kept=is_kept))
        return found

    def keep(self, path: str, hunks: Collection[int] = ()) -> None:
        """Note that the user keeps a file, or some hunks of it. Raises: ReviewRefused, OSError."""
        file = self._file(path, hunks)
        kept = self._store.kept_hunks(self._turn.number)
        names = [str(number) for number in hunks] or [_WHOLE]
        kept[_key(file.change.path)] = sorted({*kept.get(_key(file.change.path), []), *names})
        self._store.save_kept_hunks(self._turn.number, kept)

    def revert(self, path: str, hunks: Collection[int] = ()) -> RewindOutcome:
        """Take back a file, or some hunks of it.

        Raises:
            ReviewRefused: the file or the lines around a hunk are not as the turn left them.
            OSError: the store cannot be written.
        """
        file = self._file(path, hunks)
        numbers = sorted(set(hunks))
        is_whole = not numbers or len(numbers) == len(file.hunks)
        if is_whole:
            plan = self._rewinder.plan([_only(self._turn, file.change)])
            stopped = [each for each in plan.paths if each.action in ("conflict", "impossible")]
            if stopped and not (file.hunks and stopped[0].action == "conflict" and file.change.before is not None):
                raise ReviewRefused(f"{stopped[0].path}: {stopped[0].reason}")
            if not stopped and all(each.action == "done" for each in plan.paths):
                raise ReviewRefused(f"{path}: it is as before the turn already")
            if not stopped:
                plan = RewindPlan(
                    folder=plan.folder,
                    session_id=plan.session_id,
                    turns=(),
                    paths=tuple(_selected(each) for each in plan.paths),
                )
                return self._rewinder.apply(plan, what=f"reverted {path}")
            numbers = list(range(1, len(file.hunks) + 1))
        return self._revert_hunks(file, numbers)

    def _revert_hunks(self, file: ReviewedFile, numbers: list[int]) -> RewindOutcome:
        change, path = file.change, file.change.path
        if change.problem:
            raise ReviewRefused(f"{path}: {change.problem}")
        keeper = self._store.keeper(has_budget=False)
        try:
            with Contents(self._rewinder.root, self._store.packs) as contents:
                present = Present(self._rewinder.root, self._rewinder.limits, keeper, contents)
                now = present.state(path, change.after)
                if now is None or not now.is_file or not now.is_kept:
                    raise ReviewRefused(f"{path}: it is not a file that can be changed any more")
                chosen = [file.hunks[number - 1] for number in numbers]
                try:
                    content = contents.read(path, now)
                    after = b"" if change.after is None else contents.read(path, change.after)
                except ContentMissing as error:
                    raise ReviewRefused(f"{path}: {error}") from None
                new = take_back(content, after, chosen)
                target = FileState(now.mode, len(new), keeper.keep(new))
        finally:
            keeper.finish(syncs=True)
        step = PlannedPath(path=path, action="write", now=now, end=now, target=target)
        plan = RewindPlan(folder=self._rewinder.root, session_id=self._turn.session_id, turns=(), paths=(step,))
        names = ", ".join(map(str, numbers))
        return self._rewinder.apply(plan, what=f"reverted hunk {names} of {path}")

    def _file(self, path: str, hunks: Collection[int]) -> ReviewedFile:
        for file in self.files():
            if path in (file.change.path, os.path.join(self._rewinder.root, file.change.path)):
                wrong = [number for number in hunks if not 1 <= number <= len(file.hunks)]
                if wrong:
                    raise ReviewRefused(f"{path} has {len(file.hunks)} hunks, there is no hunk {wrong[0]}")
                return file
        raise ReviewRefused(f"{path} was not changed in this turn")


def take_back(now: bytes, after: bytes, hunks: Collection[Hunk]) -> bytes:
    """`now` without these hunks of the change that made `after`.

    Raises:
        ReviewRefused: the lines of a hunk and those around it are not in `now`, or more than once.
    """
    if now == after:
        return revert_hunks(after, hunks)
    old = _lines(after)
    lines = _lines(now)
    for hunk in sorted(hunks, key=lambda each: each.after_line, reverse=True):
        start = hunk.after_line - 1
        stop = start + len(hunk.after)
        first, last = max(0, start - _CONTEXT), min(len(old), stop + _CONTEXT)
        block = old[first:last]
        places = [at for at in range(len(lines) - len(block) + 1) if lines[at : at + len(block)] == block]
        if not block or not places:
            raise ReviewRefused(f"the lines around line {hunk.after_line} were changed since the turn")
        if len(places) > 1:
            raise ReviewRefused(
                f"the lines around line {hunk.after_line} are in the file {len(places)} times by now, so the place is "
                "not certain"
            )
        at = places[0] + start - first
        lines[at : at + len(hunk.after)] = hunk.before
    return "".join(lines).encode("utf-8", "surrogateescape")


def _hunks(change: TreeChange, contents: Contents) -> tuple[Hunk, ...]:
    sides = []
    for path, state in ((change.old_path, change.before), (change.path, change.after)):
        if state is None:
            sides.append(b"")
            continue
        if not state.is_file:
            return ()
        try:
            sides.append(contents.read(path, state))
        except ContentMissing:
            return ()
    if any(b"\0" in side for side in sides):
        return ()
    return find_hunks(*sides)


def _lines(content: bytes) -> list[str]:
    parts = content.decode("utf-8", "surrogateescape").split("\n")
    last = parts.pop()
    lines = [f"{part}\n" for part in parts]
    return [*lines, last] if last else lines


def _only(turn: TurnChanges, change: TreeChange) -> TurnChanges:
    from msgspec.structs import replace

    return replace(turn, changes=tuple(expanded([change])))


def _selected(each: PlannedPath) -> PlannedPath:
    """A path that the user named is changed, whatever else ran in the folder."""
    from msgspec.structs import replace

    if each.action != "offered":
        return each
    return replace(each, action="delete" if each.target is None else "write", reason="")


def _key(path: str) -> str:
    return os.fsencode(path).hex() if not path.isprintable() else path
