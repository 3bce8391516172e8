"""The review of a turn as a user walks through it: files, hunks, decisions, search.

Blocks where it reads or writes; the screen calls those methods in a thread, one at a time. Does not draw.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.snapshots.review import Review, ReviewedFile, ReviewRefused
from dragoman.snapshots.session_turns import notes_of, shown_path, without_parents

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dragoman.snapshots.session_turns import SessionTurns
    from dragoman.workspace import Hunk

CONTEXT: Final = 3
MOST_LINES: Final = 5_000
"""Lines of one file that are drawn; a longer change is opened in an editor."""
_MOST_FILES: Final = 5_000
_QUOTED: Final = 40  # lines in a comment to the agent, which can read the file itself


class DiffRow(NamedTuple):
    """One row of a file's change: the line on the left, the line on the right, and the hunk it belongs to.

    `old` and `new` are None where a side has no line. A head has neither, and its text in `head`.
    """

    hunk: int
    """Counted from 0."""
    old: tuple[int, str] | None = None
    new: tuple[int, str] | None = None
    head: str = ""
    is_same: bool = False


class ReviewRow:
    """A changed file, the folder it is in, and what is known of its lines."""

    def __init__(self, review: Review, file: ReviewedFile) -> None:
        self.review = review
        self.file = file
        self.rows: list[DiffRow] | None = None
        """Read when the file is first chosen."""

    @property
    def name(self) -> str:
        """Its path, and the one it had before if it was renamed; as text, not made safe."""
        change = self.file.change
        return shown_path(change.path if change.origin is None else f"{change.old_path} -> {change.path}")

    @property
    def place(self) -> str:
        """Where it is on the disk."""
        return os.path.join(self.review.turn.folder, self.file.change.path)

    @property
    def counts(self) -> str:
        """How many lines came and went, or what kind of change it is."""
        file = self.file
        if file.hunks:
            added = sum(len(hunk.after) for hunk in file.hunks)
            return f"+{added} -{sum(len(hunk.before) for hunk in file.hunks)}"
        change = file.change
        states = [state for state in (change.before, change.after) if state is not None]
        if any(not state.is_file for state in states):
            return "folder" if all(state.is_folder for state in states) else "link"
        return "mode" if change.kind == "mode" else "moved" if change.kind == "renamed" else "binary"

    @property
    def state(self) -> str:
        """The decision in a word or two."""
        file = self.file
        if file.is_reverted:
            return "reverted"
        if file.is_kept:
            return "kept"
        if not file.open:
            return "decided"
        return f"{file.open} open" if len(file.hunks) > 1 else "open"

    def hunk_state(self, hunk: int) -> str:
        """Return the decision about one hunk, counted from 0."""
        file, number = self.file, hunk + 1
        if file.reverted_by or number in file.reverted:
            return "reverted"
        return "kept" if file.is_kept or number in file.kept else "open"


class ReviewModel:
    """A review that a user walks through. `at` and `hunk` are what is chosen, both counted from 0."""

    def __init__(self, session_turns: SessionTurns, turn: int) -> None:
        self.session_turns = session_turns
        self.turn = turn
        """Counted from 1."""
        self.files: list[ReviewRow] = []
        self.left_out = 0
        self.notes: list[str] = []
        self.at = 0
        self.hunk = 0
        self._done: list[tuple[ReviewRow, int, int]] = []
        """What can be undone: the file, the hunk (0 for all), and the rewind, or 0 for what was kept."""

    # Reading

    @property
    def row(self) -> ReviewRow | None:
        """The chosen file."""
        return self.files[self.at] if self.files else None

    @property
    def counts(self) -> dict[str, int]:
        """How many hunks there are, and how many of them are kept, reverted and open; a file without hunks is one."""
        counts = {"hunks": 0, "kept": 0, "reverted": 0, "open": 0}
        for row in self.files:
            for hunk in range(max(1, len(row.file.hunks))):
                counts["hunks"] += 1
                counts[row.hunk_state(hunk)] += 1
        return counts

    def load(self, turn: int | None = None) -> None:
        """Read the files of a turn, or of the same one again. Blocks."""
        chosen = self.row.place if self.row is not None and turn in (None, self.turn) else ""
        if turn is not None and turn != self.turn:
            self._done.clear()
        self.turn = self.turn if turn is None else turn
        records = self.session_turns.turns[self.turn - 1]
        self.notes = [note for note in notes_of(records) if "nothing changed" not in note]
        rows: list[ReviewRow] = []
        for record in records:
            review = Review(self.session_turns.rewinder(record), record)
            shown = {change.path for change in without_parents(record.changes)}
            rows += [ReviewRow(review, file) for file in review.files() if file.change.path in shown]
        self.files, self.left_out = rows[:_MOST_FILES], max(0, len(rows) - _MOST_FILES)
        self.at = next((at for at, row in enumerate(self.files) if row.place == chosen), 0)
        self.hunk = self.hunk if chosen else 0
        self.read_rows()

    def read_rows(self) -> None:
        """Read the lines of the chosen file, if they were not read yet. Blocks."""
        row = self.row
        if row is not None and row.rows is None:
            row.rows = list(_rows(row))[: MOST_LINES + 1] if row.file.hunks else [DiffRow(0, head=_described(row))]

    # Walking

    def move_hunk(self, step: int) -> None:
        """Go to the next or previous hunk; past the end of a file to the next file."""
        row = self.row
        if row is None:
            return
        if 0 <= self.hunk + step < max(1, len(row.file.hunks)):
            self.hunk += step
        elif 0 <= self.at + step < len(self.files):
            self.at += step
            self.hunk = 0 if step > 0 else max(0, len(self.files[self.at].file.hunks) - 1)

    def move_file(self, step: int) -> None:
        """Go to the next or previous file."""
        if self.files:
            self.at, self.hunk = min(max(0, self.at + step), len(self.files) - 1), 0

    def search(self, text: str, step: int = 1) -> bool:
        """Choose the next hunk that contains a text, or whose file does in its name; whether there is one."""
        wanted = text.casefold()
        places = [(at, hunk) for at, row in enumerate(self.files) for hunk in range(max(1, len(row.file.hunks)))]
        if not wanted or not places:
            return False
        start = places.index((self.at, self.hunk)) if (self.at, self.hunk) in places else 0
        for offset in range(1, len(places) + 1):
            at, hunk = places[(start + step * offset) % len(places)]
            row = self.files[at]
            lines = (*row.file.hunks[hunk].before, *row.file.hunks[hunk].after) if row.file.hunks else ()
            if wanted in row.name.casefold() or any(wanted in line.casefold() for line in lines):
                self.at, self.hunk = at, hunk
                return True
        return False

    # Deciding; each returns a sentence for the user and blocks

    def keep(self) -> str:
        """Keep the chosen hunk, or the file if it has none."""
        row = self._chosen()
        if row.hunk_state(self.hunk) == "reverted":
            raise ReviewRefused("it was taken back; u brings it back")
        number = self.hunk + 1 if row.file.hunks else 0
        row.review.keep(row.file.change.path, [number] if number else [])
        self._done.append((row, number, 0))
        self._refresh(row)
        if row.file.hunks:
            self.move_hunk(1)
        return f"kept: {row.name}{f', hunk {number}' if number else ''}"

    def keep_all(self) -> str:
        """Keep everything that is not decided."""
        count = self.counts["open"]
        for review in {id(row.review): row.review for row in self.files}.values():
            review.keep_all()
        for row in self.files:
            self._refresh(row)
        return f"kept: {count} open" if count else "everything was decided already"

    def revert(self, *, is_file: bool = False) -> str:
        """Take back the chosen hunk, or the whole file. Raises: ReviewRefused, OSError."""
        row = self._chosen()
        number = 0 if is_file or not row.file.hunks else self.hunk + 1
        outcome = row.review.revert(row.file.change.path, [number] if number else [])
        for failure in outcome.failed:
            raise ReviewRefused(f"{shown_path(failure.path)}: {failure.reason}")
        if not outcome.number:
            raise ReviewRefused(f"{row.name}: it was left as it is")
        self._done.append((row, number, outcome.number))
        self._refresh(row)
        return f"taken back: {row.name}{f', hunk {number}' if number else ''}; u brings it back"

    def undo(self) -> str:
        """Undo the last decision of this review, else that about the chosen hunk. Raises: ReviewRefused, OSError."""
        row, number, rewind = self._done[-1] if self._done else self._decided()
        if rewind:
            row.review.undo(rewind)
        else:
            row.review.unkeep(row.file.change.path, [number] if number else [])
        if self._done:
            self._done.pop()
        self._refresh(row)
        if row in self.files:
            self.at, self.hunk = self.files.index(row), max(0, number - 1)
        where = f"{row.name}{f', hunk {number}' if number else ''}"
        return f"brought back: {where}" if rewind else f"open again: {where}"

    def comment(self) -> str:
        """Return the chosen hunk as a quotation for a prompt: its place, its lines, and room for words."""
        row = self._chosen()
        if not row.file.hunks:
            return f"{row.name}\n\n"
        hunk = row.file.hunks[self.hunk]
        lines = [f"> -{_text(line)}" for line in hunk.before] + [f"> +{_text(line)}" for line in hunk.after]
        if len(lines) > _QUOTED:
            lines = [*lines[:_QUOTED], f"> ... {len(lines) - _QUOTED} more lines"]
        return "\n".join([f"{row.name}:{hunk.after_line}", *lines, "", ""])

    def _chosen(self) -> ReviewRow:
        if self.row is None:
            raise ReviewRefused("nothing changed in this turn")
        return self.row

    def _decided(self) -> tuple[ReviewRow, int, int]:
        row = self._chosen()
        number = self.hunk + 1 if row.file.hunks else 0
        state = row.hunk_state(self.hunk)
        if state == "open":
            raise ReviewRefused("there is nothing to undo here")
        rewind = row.file.reverted.get(number) or row.file.reverted_by
        if state == "reverted" and rewind in self._rewinds_of_turn(row):
            raise ReviewRefused("the whole turn was rewound; /redo brings it back")
        return row, number, rewind if state == "reverted" else 0

    def _rewinds_of_turn(self, row: ReviewRow) -> set[int]:
        store = self.session_turns.rewinder(row.review.turn).store
        return {rewind.number for rewind in store.rewinds() if row.review.turn.number in rewind.turns}

    def _refresh(self, row: ReviewRow) -> None:
        row.file = row.review.file(row.file.change.path)


def _text(line: str) -> str:
    return line.encode("utf-8", "surrogateescape").decode("utf-8", "replace").rstrip("\n")


def _described(row: ReviewRow) -> str:
    """Return a change without lines, in words."""
    change = row.file.change
    sizes = [f"{state.size:,} bytes" for state in (change.before, change.after) if state is not None and state.is_file]
    what = {"created": "a new", "deleted": "a deleted", "renamed": "a renamed"}.get(change.kind, "a changed")
    kind = "folder" if row.counts == "folder" else "link" if row.counts == "link" else "file"
    words = [f"{what} {'binary ' if row.counts == 'binary' else ''}{kind}"]
    if change.kind == "mode" and change.before is not None and change.after is not None:
        words = [f"its permissions changed: {change.before.mode & 0o7777:o} -> {change.after.mode & 0o7777:o}"]
    elif sizes:
        words.append(" -> ".join(sizes))
    if change.problem:
        words.append(f"cannot be restored: {change.problem}")
    return ", ".join(words)


def _rows(row: ReviewRow) -> Iterator[DiffRow]:
    """Yield the hunks of a file with lines around them, in pairs for a view of both sides."""
    _, after = row.review.sides(row.file)
    lines = (after or b"").decode("utf-8", "surrogateescape").split("\n")
    hunks = row.file.hunks
    for index, hunk in enumerate(hunks):
        start, stop = _around(hunks, index, len(lines))
        shift = hunk.before_line - hunk.after_line
        yield DiffRow(index, head=f"{hunk.after_line},{len(hunk.after)}")
        yield from _same(lines, start, hunk.after_line - 1, index, shift)
        for at in range(max(len(hunk.before), len(hunk.after))):
            old = (hunk.before_line + at, _text(hunk.before[at])) if at < len(hunk.before) else None
            new = (hunk.after_line + at, _text(hunk.after[at])) if at < len(hunk.after) else None
            yield DiffRow(index, old, new)
        end = hunk.after_line - 1 + len(hunk.after)
        yield from _same(lines, end, stop, index, shift + len(hunk.before) - len(hunk.after))


def _around(hunks: Sequence[Hunk], index: int, count: int) -> tuple[int, int]:
    """Return from which line to which one a hunk is shown, counted from 0; two hunks share the lines between them."""
    hunk = hunks[index]
    first, last = hunk.after_line - 1, hunk.after_line - 1 + len(hunk.after)
    earliest = 0 if index == 0 else hunks[index - 1].after_line - 1 + len(hunks[index - 1].after)
    latest = count if index + 1 == len(hunks) else hunks[index + 1].after_line - 1
    before = max(earliest if index == 0 else min(first, earliest + CONTEXT), first - CONTEXT)
    return before, min(latest, last + CONTEXT)


def _same(lines: Sequence[str], start: int, stop: int, hunk: int, shift: int) -> Iterator[DiffRow]:
    for at in range(start, stop):
        if at == len(lines) - 1 and not lines[at]:
            return  # what follows the last newline is not a line
        text = _text(lines[at])
        yield DiffRow(hunk, (at + 1 + shift, text), (at + 1, text), is_same=True)


def unified(rows: Sequence[DiffRow]) -> list[DiffRow]:
    """Return rows with one side each: of every hunk first what went, then what came."""
    one_sided: list[DiffRow] = []
    gone: list[DiffRow] = []
    came: list[DiffRow] = []
    for row in rows:
        if row.head or row.is_same:
            one_sided += [*gone, *came]
            gone, came = [], []
            one_sided.append(row)
            continue
        if row.old is not None:
            gone.append(row._replace(new=None))
        if row.new is not None:
            came.append(row._replace(old=None))
    return [*one_sided, *gone, *came]
