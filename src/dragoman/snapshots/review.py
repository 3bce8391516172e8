"""Reviews a turn hunk by hunk: keep it, or take it back in the file as it is now.

A hunk is taken back by its lines and the lines around them. If these are not found exactly once, that is refused with
the reason: a wrong place would be worse than none. What is taken back is a rewind like any other, so it can be redone.

Decisions are kept with the turn: `3` is a hunk that is kept, `*` a kept file, `-3@17` a hunk that rewind 17 took back,
`-*@17` a file. A rewind that was redone, by whatever program, does not count any more. `!t@TIME@DIGEST@NAME` is the
mark of a user who has seen the change of a file in this turn, `!s@...` that of the whole session.
"""

from __future__ import annotations

import os
from hashlib import sha256
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
    from collections.abc import Collection, Iterable

    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.rewind import Rewinder

_CONTEXT: Final = 3
_WHOLE: Final = "*"
_TURN_MARK: Final = "!t@"
_SESSION_MARK: Final = "!s@"


class ReviewRefused(Exception):
    """A hunk or file cannot be taken back or kept; the text says why."""


class ReviewMark(Struct, frozen=True):
    """A note that a user has seen a change."""

    at: int
    """Milliseconds since 1970."""
    digest: str
    """Of the change that was seen (`change_digest`)."""
    who: str


class ReviewedFile(Struct, frozen=True, kw_only=True):
    """A changed file and its hunks, with the numbers of those that were kept by the user."""

    change: TreeChange
    hunks: tuple[Hunk, ...]
    """Empty if it is not a text, or only its mode or name changed."""
    kept: frozenset[int] = frozenset()
    is_kept: bool = False
    reverted: dict[int, int] = {}
    """The hunks that were taken back, each with the number of the rewind that did it."""
    reverted_by: int = 0
    """The number of the rewind that took the whole file back; 0 if none did."""
    mark: ReviewMark | None = None
    session_mark: ReviewMark | None = None
    """That of the change which all turns of the session made together."""

    @property
    def is_reverted(self) -> bool:
        """Whether nothing of the change is left."""
        return bool(self.reverted_by) or (bool(self.hunks) and len(self.reverted) == len(self.hunks))

    @property
    def open(self) -> int:
        """How many hunks are not decided; 1 for an undecided file without hunks."""
        if self.is_kept or self.is_reverted:
            return 0
        return len(self.hunks) - len(self.kept | self.reverted.keys()) if self.hunks else 1


class Review:
    """The review of one turn in one folder."""

    def __init__(self, rewinder: Rewinder, turn: TurnChanges) -> None:
        self._rewinder = rewinder
        self._store = rewinder.store
        self._turn = turn

    @property
    def turn(self) -> TurnChanges:
        """The turn that is reviewed, in this folder."""
        return self._turn

    def files(self) -> list[ReviewedFile]:
        """Return every change of the turn with its hunks, numbered from 1 in their order."""
        return self._read(self._turn.changes)

    def file(self, path: str) -> ReviewedFile:
        """Return one changed file as it is decided now. Raises: ReviewRefused."""
        return self._file(path, ())

    def sides(self, file: ReviewedFile) -> tuple[bytes | None, bytes | None]:
        """Return what a file held before and after the turn; None for nothing, or for what was not kept."""
        change = file.change
        with Contents(self._rewinder.root, self._store.packs) as contents:
            return (
                _content(change.old_path, change.before, contents),
                _content(change.path, change.after, contents),
            )

    def _read(self, changes: Iterable[TreeChange]) -> list[ReviewedFile]:
        decided = self._store.kept_hunks(self._turn.number)
        rewinds = {record.number: record for record in self._store.rewinds() if not record.is_redone}
        whole = next((n for n, rewind in rewinds.items() if self._turn.number in rewind.turns and not rewind.redoes), 0)
        with Contents(self._rewinder.root, self._store.packs) as contents:
            return [
                _reviewed(change, change_hunks(change, contents), decided.get(_key(change.path), []), rewinds, whole)
                for change in changes
            ]

    def keep_all(self) -> None:
        """Note that the user keeps everything that is not decided. Raises: OSError."""
        decided = self._store.kept_hunks(self._turn.number)
        for file in self.files():
            if file.open:
                numbers = {str(n) for n in range(1, len(file.hunks) + 1) if n not in file.reverted}
                key = _key(file.change.path)
                decided[key] = sorted({*decided.get(key, []), *(numbers if file.reverted else {_WHOLE})})
        self._store.save_kept_hunks(self._turn.number, decided)

    def keep(self, path: str, hunks: Collection[int] = ()) -> None:
        """Note that the user keeps a file, or some hunks of it. Raises: ReviewRefused, OSError."""
        file = self._file(path, hunks)
        names = [str(number) for number in hunks] or [_WHOLE]
        self._decide(file.change.path, {*names})

    def unkeep(self, path: str, hunks: Collection[int] = ()) -> None:
        """Forget that the user keeps a file, or some hunks of it. Raises: ReviewRefused, OSError."""
        file = self._file(path, hunks)
        if hunks and file.is_kept:  # the other hunks stay kept
            numbers = {str(number) for number in range(1, len(file.hunks) + 1)}
            self._decide(file.change.path, numbers - set(map(str, hunks)), {_WHOLE, *map(str, hunks)})
        else:
            self._decide(file.change.path, set(), {_WHOLE, *map(str, hunks)})

    def mark(self, path: str, mark: ReviewMark | None, *, of_session: bool = False) -> None:
        """Note that a user has seen a change, or has not. Raises: ReviewRefused, OSError."""
        file, prefix = self._file(path, ()), _SESSION_MARK if of_session else _TURN_MARK
        old = {word for word in self._decisions(file.change.path) if word.startswith(prefix)}
        new = set() if mark is None else {f"{prefix}{mark.at}@{mark.digest}@{mark.who}"}
        self._decide(file.change.path, new, old)

    def undo(self, number: int) -> RewindOutcome:
        """Bring back what a rewind of this review took; what changed since stays if the two do not touch.

        Raises:
            ReviewRefused: there is no such rewind, or both changed the same lines.
            OSError: the store cannot be written.
        """
        plan = self._rewinder.plan_redo(number=number)
        if plan is None:
            raise ReviewRefused("that was brought back already")
        outcome = self._rewinder.apply(
            plan, {planned.path: "merge" for planned in plan.paths if planned.action == "conflict"}
        )
        for failure in outcome.failed:
            raise ReviewRefused(f"{failure.path}: {failure.reason}")
        return outcome

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
            stopped = [planned for planned in plan.paths if planned.action in ("conflict", "impossible")]
            if stopped and not (file.hunks and stopped[0].action == "conflict" and file.change.before is not None):
                raise ReviewRefused(f"{stopped[0].path}: {stopped[0].reason}")
            if not stopped and all(planned.action == "done" for planned in plan.paths):
                raise ReviewRefused(f"{path}: it is as before the turn already")
            if not stopped:
                plan = RewindPlan(
                    folder=plan.folder,
                    session_id=plan.session_id,
                    turns=(),
                    paths=tuple(_selected(planned) for planned in plan.paths),
                )
                outcome = self._rewinder.apply(plan, what=f"reverted {path}")
                if outcome.number and not outcome.failed:
                    self._decide(file.change.path, {f"-{_WHOLE}@{outcome.number}"}, {_WHOLE})
                return outcome
            numbers = [number for number in range(1, len(file.hunks) + 1) if number not in file.reverted]
        done = [number for number in numbers if number in file.reverted]
        if done or not numbers:
            raise ReviewRefused(f"{path}: hunk {(done or [1])[0]} was taken back already")
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
                back = [file.hunks[number - 1] for number in file.reverted]
                chosen = [_moved(file.hunks[number - 1], back) for number in numbers]
                try:
                    content = contents.read(path, now)
                    after = b"" if change.after is None else revert_hunks(contents.read(path, change.after), back)
                except ContentMissing as error:
                    raise ReviewRefused(f"{path}: {error}") from None
                new = take_back(content, after, chosen)
                target = FileState(now.mode, len(new), keeper.keep(new))
        finally:
            keeper.finish(syncs=True)
        step = PlannedPath(path=path, action="write", now=now, end=now, target=target)
        plan = RewindPlan(folder=self._rewinder.root, session_id=self._turn.session_id, turns=(), paths=(step,))
        names = ", ".join(map(str, numbers))
        outcome = self._rewinder.apply(plan, what=f"reverted hunk {names} of {path}")
        if outcome.number and not outcome.failed:
            others = {str(number) for number in range(1, len(file.hunks) + 1)} if file.is_kept else set()
            mine = {str(number) for number in numbers}
            self._decide(path, {f"-{number}@{outcome.number}" for number in mine} | (others - mine), {_WHOLE, *mine})
        return outcome

    def _decide(self, path: str, added: set[str], removed: Collection[str] = ()) -> None:
        decided = self._store.kept_hunks(self._turn.number)
        decided[_key(path)] = sorted({*decided.get(_key(path), []), *added} - (set(removed) - added))
        self._store.save_kept_hunks(self._turn.number, decided)

    def _decisions(self, path: str) -> list[str]:
        return self._store.kept_hunks(self._turn.number).get(_key(path), [])

    def _file(self, path: str, hunks: Collection[int]) -> ReviewedFile:
        for change in self._turn.changes:
            if path in (change.path, os.path.join(self._rewinder.root, change.path)):
                (file,) = self._read((change,))
                wrong = [number for number in hunks if not 1 <= number <= len(file.hunks)]
                if wrong:
                    raise ReviewRefused(f"{path} has {len(file.hunks)} hunks, there is no hunk {wrong[0]}")
                return file
        raise ReviewRefused(f"{path} was not changed in this turn")


def take_back(now: bytes, after: bytes, hunks: Collection[Hunk]) -> bytes:
    """Return `now` without these hunks of the change that made `after`.

    Raises:
        ReviewRefused: the lines of a hunk and those around it are not in `now`, or more than once.
    """
    if now == after:
        return revert_hunks(after, hunks)
    old = _lines(after)
    lines = _lines(now)
    for hunk in sorted(hunks, key=lambda hunk: hunk.after_line, reverse=True):
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


def _reviewed(
    change: TreeChange,
    hunks: tuple[Hunk, ...],
    decided: Collection[str],
    rewinds: Collection[int],
    whole: int,
) -> ReviewedFile:
    """Return a file with what was decided about it.

    A later decision about a hunk replaces an earlier one about the file.
    """
    kept = frozenset(int(decision) for decision in decided if decision.isdigit())
    back: dict[int, int] = {}
    reverted_by = whole
    for decision in decided:
        name, _, rewind = decision.removeprefix("-").partition("@")
        if not decision.startswith("-") or not rewind.isdigit() or int(rewind) not in rewinds:
            continue
        if name == _WHOLE:
            reverted_by = int(rewind)
        elif name.isdigit() and 1 <= int(name) <= len(hunks):
            back[int(name)] = int(rewind)
    is_back = bool(reverted_by) or (bool(hunks) and len(back) == len(hunks))
    is_kept = not is_back and (_WHOLE in decided or (bool(hunks) and kept >= set(range(1, len(hunks) + 1))))
    return ReviewedFile(
        change=change,
        hunks=hunks,
        kept=kept - back.keys(),
        is_kept=is_kept,
        reverted=dict(sorted(back.items())),
        reverted_by=reverted_by,
        mark=_mark(decided, _TURN_MARK),
        session_mark=_mark(decided, _SESSION_MARK),
    )


def _mark(decided: Collection[str], prefix: str) -> ReviewMark | None:
    for decision in decided:
        at, _, rest = decision.removeprefix(prefix).partition("@")
        digest, _, who = rest.partition("@")
        if decision.startswith(prefix) and at.isdigit():
            return ReviewMark(int(at), digest, who)
    return None


def change_digest(change: TreeChange) -> str:
    """Return a digest of what a path held before and after: another change of it has another one."""
    parts = [change.name, change.origin or b""]
    for state in (change.before, change.after):
        parts.append(b"-" if state is None else b"%o %d %b" % (state.mode, state.size, state.id))
    return sha256(b"\0".join(parts)).hexdigest()


def _moved(hunk: Hunk, back: Collection[Hunk]) -> Hunk:
    """Return a hunk where it stands after others before it were taken back."""
    shift = sum(len(earlier.before) - len(earlier.after) for earlier in back if earlier.after_line < hunk.after_line)
    return Hunk(hunk.before_line, hunk.before, hunk.after_line + shift, hunk.after)


def _content(path: str, state: FileState | None, contents: Contents) -> bytes | None:
    try:
        return None if state is None or state.is_folder else contents.read(path, state)
    except ContentMissing:
        return None


def change_hunks(change: TreeChange, contents: Contents) -> tuple[Hunk, ...]:
    """Return the hunks of a change; none if it is not one of a text, or its contents are not kept."""
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


def _selected(planned: PlannedPath) -> PlannedPath:
    """Return the step for a path that the user named: it is changed, whatever else ran in the folder."""
    from msgspec.structs import replace

    if planned.action != "offered":
        return planned
    return replace(planned, action="delete" if planned.target is None else "write", reason="")


def _key(path: str) -> str:
    return os.fsencode(path).hex() if not path.isprintable() else path
