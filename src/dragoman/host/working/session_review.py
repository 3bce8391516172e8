"""What the turns of a session changed, as the documents that clients get, and what a user decides about it.

Blocks: `methods/changes.py` calls it in a thread, one at a time for each folder. Paths in documents are relative to the
session's folder, and absolute in its other directories; one that is not UTF-8 is shown with replacements, and found by
what is shown. Does not know connections or rights.
"""

from __future__ import annotations

import os
import stat
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.snapshots.contents import Contents
from dragoman.snapshots.differences import expanded, with_renames
from dragoman.snapshots.records import TreeChange, not_kept
from dragoman.snapshots.review import (
    Review,
    ReviewedFile,
    ReviewMark,
    ReviewRefused,
    change_digest,
    change_hunks,
    take_back,
)
from dragoman.snapshots.session_turns import notes_of, shown_path, without_parents
from dragoman.workspace.hunks import revert_hunks

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from dragoman.snapshots.entries import FileState
    from dragoman.snapshots.records import ChangedBy, TurnChanges
    from dragoman.snapshots.rewind import Rewinder
    from dragoman.snapshots.session_turns import SessionTurns
    from dragoman.workspace import Hunk

SESSION: Final = "session"
_FILES: Final = 2_000
_FILE_LINES: Final = 5_000
_FILE_CHARS: Final = 1024 * 1024
_ANSWER_CHARS: Final = 4 * 1024 * 1024
_ONE_FILE_LINES: Final = 50_000
_CONTEXT_LINES: Final = 2_000
_CONTEXT_CHARS: Final = 1024 * 1024
_AROUND: Final = 3
_TRIED_HUNKS: Final = 200  # of one file: whether each could still be taken back


class ReviewedChange(NamedTuple):
    """A changed file of a turn, or of all turns together."""

    rewinder: Rewinder
    records: tuple[TurnChanges, ...]
    """The turns that changed it; one, unless it is the view of the session."""
    file: ReviewedFile
    turn: int
    """The number of the last of them, from 1 on."""
    is_joined: bool = False


class SessionReview:
    """The changes of one session."""

    def __init__(self, turns: SessionTurns, cwd: str) -> None:
        """Take its turns, and the folder that it works in."""
        self._turns = turns
        self._cwd = os.path.realpath(cwd)

    @property
    def count(self) -> int:
        """How many turns were followed."""
        return len(self._turns.turns)

    def revision(self) -> str:
        """Return a word that changes with every turn, decision and rewind."""
        seen: list[Any] = []
        for rewinder in self._turns.rewinders:
            rewinds = [(rewind.number, rewind.is_done, rewind.is_redone) for rewind in rewinder.store.rewinds()]
            seen += [rewinder.root, rewinds]
        for records in self._turns.turns:
            for record in records:
                kept = self._turns.rewinder(record).store.kept_hunks(record.number)
                seen += [record.folder, record.number, sorted(kept.items())]
        return sha256(msgspec.json.encode(seen)).hexdigest()[:16]

    # Documents

    def overview(self) -> dict[str, Any]:
        """Return the turns, oldest first."""
        active = self._turns.active()
        documents = []
        for number, records in enumerate(self._turns.turns, 1):
            counts = self._counts_of(number)
            first, last = records[0], records[-1]
            has_changes = any(record.changes for record in records)
            documents.append(
                {
                    "turn": number,
                    "promptId": first.prompt_id or None,
                    "prompt": first.prompt,
                    "startedAt": round(first.started_at * 1000),
                    "endedAt": round(last.ended_at * 1000),
                    **counts._asdict(),
                    "isRewound": has_changes and first.uid not in active,
                    "notes": _notes(records),
                }
            )
        return {"turns": documents, "revision": self.revision(), "canRedo": self._can_redo()}

    def summary(self) -> dict[str, Any]:
        """Return how much the session changed, for lists; `reviewed` is whether all of it was decided or seen."""
        files = [found for found in self._joined() if not self._is_back(found)]
        # Without a decision in every turn there is something open, and nothing more has to be read to know it.
        is_seen = self._is_decided() and all(
            not self._open(found) or self._mark_of(found) is not None for found in files
        )
        return {"files": len(files), **_line_counts(found.file for found in files), "reviewed": is_seen}

    def _is_back(self, found: ReviewedChange) -> bool:
        """Whether nothing of a change is left, because it was taken back file by file."""
        store = found.rewinder.store
        if not all(store.kept_hunks(record.number) for record in _naming(found)):
            return False
        return all(part.is_reverted for part in self._parts(found))

    def _is_decided(self) -> bool:
        active = self._turns.active()
        return all(
            self._turns.rewinder(record).store.kept_hunks(record.number)
            for records in self._turns.turns
            for record in records
            if record.changes and record.uid in active
        )

    def _counts_of(self, turn: int) -> _Counts:
        """Return how much a turn changed; kept for the next time, because each file has to be read for it."""
        found = [_Counts(0, 0, 0, 0)]
        for record in self._turns.turns[turn - 1]:
            store = self._turns.rewinder(record).store
            rewinds = tuple((rewind.number, rewind.is_redone) for rewind in store.rewinds())
            key = (store.folder, record.number, msgspec.json.encode(store.kept_hunks(record.number)), rewinds)
            counts = _counted.get(key)
            if counts is None:
                files = [file.file for file in self._files_in(record, turn)]
                open_hunks = sum(file.open for file in files)
                counts = _Counts(files=len(files), **_line_counts(files), open=open_hunks)
                _counted[key] = counts
                while len(_counted) > _MOST_COUNTED:
                    _counted.pop(next(iter(_counted)), None)
            found.append(counts)
        return _Counts(*(sum(part) for part in zip(*found, strict=True)))

    def files(self, turn: int | str, path: str | None = None) -> dict[str, Any]:
        """Return the files of a turn, or of all turns; with a path that one alone, as long as it is."""
        found = [self._find(turn, path)] if path is not None else list(self._select(turn))
        room = _Room(_ONE_FILE_LINES, _ANSWER_CHARS) if path is not None else _Room(_FILE_LINES, _FILE_CHARS)
        documents = [self._document(one, room) for one in found[:_FILES]]
        records = self._turns.turns[turn - 1] if isinstance(turn, int) else ()
        left_out = max(0, len(found) - _FILES)
        return {"files": documents, "notes": _notes(records), "leftOut": left_out, "revision": self.revision()}

    def document(self, turn: int | str, path: str) -> dict[str, Any]:
        """Return one file."""
        return self._document(self._find(turn, path), _Room(_ONE_FILE_LINES, _ANSWER_CHARS))

    def context(self, turn: int | str, path: str, side: str, first: int, last: int) -> dict[str, Any]:
        """Return lines of a file before or after a change, counted from 1, both ends included."""
        found = self._find(turn, path)
        before, after = self._sides(found)
        lines = _lines(before if side == "before" else after)
        wanted, size = [], 0
        for line in lines[max(0, first - 1) : min(last, first - 1 + _CONTEXT_LINES)]:
            size += len(line)
            if size > _CONTEXT_CHARS:
                break
            wanted.append(_shown(line))
        return {"lines": wanted, "total": len(lines)}

    # Decisions

    def decide(self, turn: int | str, path: str | None, hunks: Sequence[int], do: str) -> None:
        """Keep, open again, take back or bring back. Raises: ReviewRefused, OSError."""
        if path is None:
            if do != "keep":
                raise ReviewRefused("name a path: only keeping is possible for all files at once")
            for found in self._select(turn):
                if self._open(found):
                    self._decide(found, (), "keep")
            return
        self._decide(self._find(turn, path), hunks, do)

    def _decide(self, found: ReviewedChange, hunks: Sequence[int], do: str) -> None:
        if found.is_joined:
            if hunks or do in ("revert", "undo"):
                raise ReviewRefused("several turns made this change: decide about it in one of them, or rewind them")
            for record in _naming(found):
                self._decide(self._of_record(found, record), (), do)
            return
        path = found.file.change.path
        review, file = Review(found.rewinder, found.records[0]), found.file
        match do:
            case "keep":
                is_back = file.is_reverted if not hunks else any(number in _back(file) for number in hunks)
                if is_back:
                    raise ReviewRefused(f"{shown_path(path)}: it was taken back; undo brings it back")
                open_hunks = [n for n in range(1, len(file.hunks) + 1) if n not in file.reverted]
                review.keep(path, hunks or (open_hunks if file.reverted else ()))
            case "unkeep":
                review.unkeep(path, hunks)
            case "revert":
                outcome = review.revert(path, hunks)
                for failure in outcome.failed:
                    raise ReviewRefused(f"{shown_path(failure.path)}: {failure.reason}")
                if not outcome.number:
                    raise ReviewRefused(f"{shown_path(path)}: it was left as it is")
            case _:
                self._undo(review, file, hunks)

    def _undo(self, review: Review, file: ReviewedFile, hunks: Sequence[int]) -> None:
        path, back = file.change.path, _back(file)
        rewinds = {back[number] for number in hunks if number in back} if hunks else set(back.values())
        if not hunks and file.reverted_by:
            rewinds.add(file.reverted_by)
        for number in sorted(rewinds, reverse=True):  # the last one first: the earlier ones are below it
            if number in self._rewinds_of_turn(review):
                raise ReviewRefused("the whole turn was rewound; redo brings it back")
            review.undo(number)
        if not rewinds:
            is_kept = file.is_kept or (set(hunks) & file.kept if hunks else file.kept)
            if not is_kept:
                raise ReviewRefused("there is nothing to undo here")
            review.unkeep(path, hunks or sorted(file.kept))

    def mark(self, turn: int | str, path: str, mark: ReviewMark | None) -> None:
        """Note that a user has seen a file, or has not. Raises: ReviewRefused, OSError."""
        found = self._find(turn, path)
        if mark is not None and mark.digest != change_digest(found.file.change):
            raise ReviewChanged
        for record in _naming(found)[-1:]:
            Review(found.rewinder, record).mark(found.file.change.path, mark, of_session=found.is_joined)

    # Finding

    def _select(self, turn: int | str) -> Iterator[ReviewedChange]:
        return self._files_of(turn) if isinstance(turn, int) else self._joined()

    def _find(self, turn: int | str, path: str) -> ReviewedChange:
        same = [found for found in self._select(turn) if path in self._names(found)]
        if not same:
            raise ReviewRefused(f"{path} was not changed in this turn")
        if len(same) > 1:
            raise ReviewRefused(f"{path} stands for {len(same)} files whose names are not UTF-8")
        return same[0]

    def _names(self, found: ReviewedChange) -> tuple[str, str]:
        path = found.file.change.path
        return self._shown(found.rewinder.root, path), shown_path(os.path.join(found.rewinder.root, path))

    def _shown(self, root: str, path: str) -> str:
        return shown_path(path if root == self._cwd else os.path.join(root, path))

    def _files_of(self, turn: int) -> Iterator[ReviewedChange]:
        for record in self._turns.turns[turn - 1]:
            yield from self._files_in(record, turn)

    def _files_in(self, record: TurnChanges, turn: int) -> Iterator[ReviewedChange]:
        rewinder = self._turns.rewinder(record)
        shown = {change.path for change in without_parents(record.changes)}
        for file in Review(rewinder, record).files():
            if file.change.path in shown:
                yield ReviewedChange(rewinder, (record,), file, turn)

    def _joined(self) -> Iterator[ReviewedChange]:
        """Yield what all turns together changed, as far as they are not rewound."""
        active = self._turns.active()
        for rewinder in self._turns.rewinders:
            chains: dict[str, list[tuple[int, TurnChanges, TreeChange]]] = {}
            for number, records in enumerate(self._turns.turns, 1):
                for record in records:
                    if record.folder == rewinder.root and record.uid in active:
                        for change in expanded(record.changes):
                            chains.setdefault(change.path, []).append((number, record, change))
            with Contents(rewinder.root, rewinder.store.packs) as contents:
                joined = [_joined_change([change for _, _, change in chains[path]]) for path in sorted(chains)]
                joined = with_renames([change for change in joined if not _is_same(change, contents)], contents)
                for change in without_parents(joined):
                    chain = chains[change.path]
                    file = ReviewedFile(change=change, hunks=change_hunks(change, contents))
                    records = tuple(record for _, record, _ in chain)
                    yield ReviewedChange(rewinder, records, file, chain[-1][0], is_joined=True)

    def _of_record(self, found: ReviewedChange, record: TurnChanges) -> ReviewedChange:
        file = Review(found.rewinder, record).file(found.file.change.path)
        return found._replace(records=(record,), file=file, is_joined=False)

    def _parts(self, found: ReviewedChange) -> list[ReviewedFile]:
        """Return a file in each of its turns; a rename has its new name alone."""
        return [Review(found.rewinder, record).file(found.file.change.path) for record in _naming(found)]

    def _open(self, found: ReviewedChange) -> int:
        return sum(part.open for part in self._parts(found)) if found.is_joined else found.file.open

    def _mark_of(self, found: ReviewedChange) -> ReviewMark | None:
        if not found.is_joined:
            return found.file.mark
        marks = [part.session_mark for part in self._parts(found) if part.session_mark is not None]
        return max(marks, key=lambda mark: mark.at, default=None)

    def _can_redo(self) -> bool:
        """Whether the last rewind of the session can be taken back."""
        return any(
            record.is_done and record.steps and not record.redoes and not record.is_redone
            for rewinder in self._turns.rewinders
            for record in rewinder.store.rewinds()
            if record.session_id == self._turns.session_id
        )

    def _rewinds_of_turn(self, review: Review) -> set[int]:
        store = self._turns.rewinder(review.turn).store
        return {rewind.number for rewind in store.rewinds() if review.turn.number in rewind.turns}

    def _sides(self, found: ReviewedChange) -> tuple[bytes | None, bytes | None]:
        return Review(found.rewinder, found.records[0]).sides(found.file)

    # One file

    def _document(self, found: ReviewedChange, room: _Room) -> dict[str, Any]:
        file, change, root = found.file, found.file.change, found.rewinder.root
        before, after = self._sides(found)
        is_binary = any(side is not None and b"\0" in side for side in (before, after))
        counts = _line_counts([file])
        is_stale, now = _is_stale(root, file, after)
        parts = self._parts(found) if found.is_joined else [file]
        mark = self._mark_of(found)
        document: dict[str, Any] = {
            "path": self._shown(root, change.path),
            "folder": shown_path(root),
            "change": change.kind,
            "by": _by(found),
            **counts,
            "isBinary": is_binary,
            "isTooLong": False,
            "digest": change_digest(change),
            "reviewed": None if mark is None else {"at": mark.at, "who": mark.who, "digest": mark.digest},
            "isStale": is_stale,
            "isReverted": bool(parts) and all(part.is_reverted for part in parts),
            "open": self._open(found),
            "turn": found.turn,
        }
        if change.origin is not None:
            document["oldPath"] = self._shown(root, change.old_path)
        problem = change.problem or _not_shown(change)
        if problem:
            document["problem"] = problem
        if not file.hunks:
            document["state"] = _state_of(parts)
            if file.reverted_by:
                document["rewind"] = file.reverted_by
        is_shown = room.take(counts["added"] + counts["removed"], file.hunks)
        document["isTooLong"] = bool(file.hunks) and not is_shown
        document["hunks"] = list(_hunk_documents(found, parts, after, now if is_stale else None, is_shown=is_shown))
        return document


class _Counts(NamedTuple):
    files: int
    added: int
    removed: int
    open: int


_counted: dict[tuple[object, ...], _Counts] = {}
_MOST_COUNTED: Final = 2_000


class ReviewChanged(Exception):
    """What a client saw is not what is there now."""


class _Room:
    """How much of files is shown in one answer: lines of one file, and characters of one and of all."""

    def __init__(self, lines: int, chars: int) -> None:
        self._lines = lines
        self._chars = chars
        self._left = _ANSWER_CHARS

    def take(self, lines: int, hunks: Sequence[Hunk]) -> bool:
        chars = sum(len(line) for hunk in hunks for side in (hunk.before, hunk.after) for line in side)
        if lines > self._lines or chars > min(self._chars, self._left):
            return False
        self._left -= chars
        return True


def _hunk_documents(
    found: ReviewedChange, parts: Sequence[ReviewedFile], after: bytes | None, now: bytes | None, *, is_shown: bool
) -> Iterator[dict[str, Any]]:
    file, lines = found.file, _lines(after)
    for number, hunk in enumerate(file.hunks, 1):
        end = hunk.after_line - 1 + len(hunk.after)
        document: dict[str, Any] = {
            "n": number,
            "beforeLine": hunk.before_line,
            "before": [_shown(line) for line in hunk.before] if is_shown else [],
            "afterLine": hunk.after_line,
            "after": [_shown(line) for line in hunk.after] if is_shown else [],
            "above": [_shown(line) for line in lines[max(0, hunk.after_line - 1 - _AROUND) : hunk.after_line - 1]],
            "below": [_shown(line) for line in lines[end : end + _AROUND]],
            "added": len(hunk.after),
            "removed": len(hunk.before),
        }
        sides = (("before", hunk.before), ("after", hunk.after))
        open_ended = [side for side, part in sides if part and not part[-1].endswith("\n")]
        if open_ended:
            document["noNewline"] = open_ended
        document["state"] = _state_of(parts) if found.is_joined else _hunk_state(file, number)
        rewind = None if found.is_joined else _back(file).get(number)
        if rewind:
            document["rewind"] = rewind
        if document["state"] == "open" and now is not None and not found.is_joined and number <= _TRIED_HUNKS:
            why = _why_not(file, number, now, after or b"")
            if why:
                document |= {"state": "refused", "why": why}
        yield document


def _hunk_state(file: ReviewedFile, number: int) -> str:
    if file.reverted_by or number in file.reverted:
        return "reverted"
    return "kept" if file.is_kept or number in file.kept else "open"


def _state_of(parts: Sequence[ReviewedFile]) -> str:
    """Return the decision about whole files: what was decided in every turn."""
    if parts and all(part.is_reverted for part in parts):
        return "reverted"
    return "open" if not parts or any(part.open for part in parts) else "kept"


def _why_not(file: ReviewedFile, number: int, now: bytes, after: bytes) -> str:
    """Return why a hunk could not be taken back in the file as it is now; empty if it could."""
    try:
        if file.reverted:  # what others have moved is decided when it is tried
            return ""
        take_back(now, after, [file.hunks[number - 1]])
    except ReviewRefused as refused:
        return str(refused)
    return ""


def _back(file: ReviewedFile) -> dict[int, int]:
    """Return the hunks that were taken back, each with its rewind."""
    if file.reverted_by:
        return dict.fromkeys(range(1, len(file.hunks) + 1), file.reverted_by)
    return file.reverted


def _is_stale(root: str, file: ReviewedFile, after: bytes | None) -> tuple[bool, bytes | None]:
    """Return whether a path holds something else than the turn, and what was decided about it, left there.

    The bytes that it holds now are returned too, if they had to be read.
    """
    change = file.change
    expected = change.before if file.is_reverted else change.after
    place = os.path.join(root, change.old_path if file.is_reverted else change.path)
    try:
        status = os.lstat(place)
    except OSError:
        return expected is not None, None
    if expected is None:
        return True, None
    if stat.S_IFMT(status.st_mode) != stat.S_IFMT(expected.mode):
        return True, None
    if not expected.is_file:
        return False, None
    is_partly_back = bool(file.reverted) and not file.is_reverted
    if not expected.is_kept or after is None or file.is_reverted:
        return not is_partly_back and status.st_size != expected.size, None
    wanted = revert_hunks(after, [file.hunks[number - 1] for number in file.reverted]) if is_partly_back else after
    try:
        with open(os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as opened:
            now = opened.read(max(4 * len(wanted), 1024 * 1024))
    except OSError:
        return True, None
    return now != wanted, now


def _is_same(change: TreeChange, contents: Contents) -> bool:
    one, other = change.before, change.after
    if one is None or other is None:
        return one is other
    return one.mode == other.mode and contents.is_same(change.path, one, other)


def _joined_change(changes: Sequence[TreeChange]) -> TreeChange:
    """Return what several turns made of one path."""
    by: ChangedBy = "agent" if all(change.by == "agent" for change in changes) else "turn"
    first = changes[0]
    return TreeChange(name=first.name, before=first.before, after=changes[-1].after, by=by, is_sure=first.is_sure)


def _naming(found: ReviewedChange) -> list[TurnChanges]:
    """Return the turns that have a change of this very name; one may have it as the old name of a file it renamed."""
    path = found.file.change.path
    return [record for record in found.records if any(change.path == path for change in record.changes)]


def _by(found: ReviewedChange) -> str:
    """Return who made a change; unclear if other sessions ran in the folder at the same time."""
    if found.file.change.by != "agent" and any(record.overlaps for record in found.records):
        return "unclear"
    return found.file.change.by


def _not_shown(change: TreeChange) -> str:
    """Return why the lines of a change cannot be shown."""
    missing: list[FileState] = [
        state for state in (change.before, change.after) if state is not None and state.is_file and not state.is_kept
    ]
    return not_kept(missing[0]) if missing else ""


def _line_counts(files: Collection[ReviewedFile] | Iterator[ReviewedFile]) -> dict[str, int]:
    hunks = [hunk for file in files for hunk in file.hunks]
    return {"added": sum(len(hunk.after) for hunk in hunks), "removed": sum(len(hunk.before) for hunk in hunks)}


def _notes(records: Sequence[TurnChanges]) -> list[str]:
    return [shown_path(note) for note in notes_of(records) if "nothing changed" not in note]


def _lines(content: bytes | None) -> list[str]:
    text = (content or b"").decode("utf-8", "surrogateescape")
    return text.split("\n")[: -1 if text.endswith("\n") or not text else None]


def _shown(line: str) -> str:
    return line.removesuffix("\n").encode("utf-8", "surrogateescape").decode("utf-8", "replace")
