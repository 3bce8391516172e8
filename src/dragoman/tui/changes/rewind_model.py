"""The turns of a session to rewind to, and the plan of a rewind before it happens.

Nothing changes before `apply`: a place is chosen, its plan is read, paths are decided, and then the user says yes.
Blocks where it reads or writes; the screen calls those methods in a thread. Does not draw.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.errors import DragomanError
from dragoman.snapshots.session_turns import shown_path

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dragoman.snapshots.rewind import Choice, PlannedPath, Rewinder, RewindPlan
    from dragoman.snapshots.session_turns import SessionTurns

WORDS: Final = {
    "write": "restore",
    "delete": "delete",
    "done": "as before",
    "conflict": "keep",
    "impossible": "keep",
    "offered": "keep",
}
"""What a rewind does with a path by itself, in a word."""
_CHOSEN: Final = {"take": "restore", "merge": "merge", "keep": "keep"}


class RewindRefused(DragomanError):
    """A rewind is not possible; the text says why."""


class TurnRow(NamedTuple):
    """A turn in the list."""

    number: int
    prompt: str
    age_seconds: float
    files: int
    is_active: bool
    """It changed something that is not taken back."""


class PlanRow(NamedTuple):
    """One path of a plan."""

    rewinder: Rewinder
    planned: PlannedPath

    @property
    def path(self) -> str:
        """The path as text, not made safe."""
        return shown_path(self.planned.path)


class RewindModel:
    """Where to rewind to, and what that would do."""

    def __init__(
        self, session_turns: SessionTurns, *, only: int | None = None, clock: Callable[[], float] = time.time
    ) -> None:
        """Make a model.

        Args:
            only: take back this turn alone, instead of everything since a turn.
            clock: the time, in seconds since 1970.
        """
        self.session_turns = session_turns
        self.only = only
        self.rows: list[TurnRow] = []
        self.at: int | None = None
        """The chosen turn, counted from 0; None for now, where nothing is taken back."""
        self.plans: list[tuple[Rewinder, RewindPlan]] = []
        self.is_redo = False
        self._choices: dict[tuple[str, str], Choice] = {}
        self._clock = clock

    def load(self) -> None:
        """Read the turns, and the plan of the chosen one. Blocks."""
        active, now = self.session_turns.active(), self._clock()
        self.rows = [
            TurnRow(
                number,
                records[0].prompt,
                max(0.0, now - records[0].started_at),
                sum(len(record.changes) for record in records),
                records[0].uid in active,
            )
            for number, records in enumerate(self.session_turns.turns, 1)
        ]
        if self.only is not None:
            self.at = self.only - 1
        self.read_plan()

    def read_plan(self) -> None:
        """Plan what the chosen place would change. Blocks."""
        self.is_redo = False
        self._choices.clear()
        if self.at is None:
            self.plans = []
        elif self.only is not None:
            self.plans = self.session_turns.plan_of({self.session_turns.turns[self.at][0].uid})
        else:
            self.plans = self.session_turns.plan(self.at + 1)

    def read_redo(self) -> None:
        """Plan what bringing back the last rewind would change. Blocks. Raises: RewindRefused."""
        plans = self.session_turns.plan_redo()
        if not plans:
            raise RewindRefused("there is no rewind to take back")
        self.plans, self.is_redo = plans, True
        self._choices.clear()

    @property
    def paths(self) -> list[PlanRow]:
        """The paths of the plan that are not as they should be already."""
        return [
            PlanRow(rewinder, path) for rewinder, plan in self.plans for path in plan.paths if path.action != "done"
        ]

    @property
    def notes(self) -> list[str]:
        """What the user should know before a yes."""
        return list(dict.fromkeys(note for _, plan in self.plans for note in plan.notes))

    @property
    def count(self) -> int:
        """How many paths would change."""
        return sum(self.word(row) not in ("keep", "as before") for row in self.paths)

    def word(self, row: PlanRow) -> str:
        """Return what happens with a path, with the user's choice."""
        chosen = self._choices.get((row.rewinder.root, row.planned.path))
        if chosen is None or row.planned.action == "impossible":
            return WORDS[row.planned.action]
        if chosen == "take" and row.planned.target is None:
            return "delete"
        return _CHOSEN[chosen]

    def choose(self, row: PlanRow, choice: Choice) -> str:
        """Decide about one path; returns a sentence if that is not possible."""
        action = row.planned.action
        if action == "impossible":
            return f"{row.path}: {row.planned.reason}"
        if choice == "merge" and action != "conflict":
            return f"{row.path}: there is nothing to merge"
        self._choices[row.rewinder.root, row.planned.path] = choice
        return ""

    def apply(self) -> str:
        """Do it. Blocks. Raises: RewindRefused, OSError."""
        if not self.count and not any(plan.turns for _, plan in self.plans):
            raise RewindRefused("there is nothing to change")
        what = "redo" if self.is_redo else "rewind"
        changed, kept = 0, 0
        failed: list[str] = []
        for rewinder, plan in self.plans:
            rewinder.complete()
            mine = {path: choice for (root, path), choice in self._choices.items() if root == rewinder.root}
            outcome = rewinder.apply(plan, mine, what=what)
            changed, kept = changed + len(outcome.changed), kept + len(outcome.kept)
            failed += [f"{shown_path(failure.path)}: {failure.reason}" for failure in outcome.failed]
        words = f"{changed} path{'s' if changed != 1 else ''} changed"
        words += f", {kept} kept as they are" if kept else ""
        words += "; /rewind takes that back" if self.is_redo else "; /redo brings it back"
        self.at, self.only = None, None
        self.load()
        return "; ".join([words, *(f"not changed: {failure}" for failure in failed)])


def rewind_title(model: RewindModel) -> str:
    """Return what the plan is about, in words."""
    if model.is_redo:
        return "redo: bringing back the last rewind would"
    if model.at is None:
        return "now: nothing is taken back"
    if model.only is not None:
        return f"taking back turn {model.at + 1} would"
    last = len(model.rows)
    return (
        f"taking back turn {last} would" if model.at + 1 == last else f"taking back turns {model.at + 1}-{last} would"
    )


def plan_lines(model: RewindModel) -> Sequence[tuple[str, str, str]]:
    """Return the plan as rows: what happens, the path, and why not."""
    return [(model.word(row), row.path, row.planned.reason) for row in model.paths]
