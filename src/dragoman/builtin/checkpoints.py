"""Checkpoints: what each turn of a session changed in its folders, and taking turns back, with their conversation.

Owns which turns there are and what a rewind does with them. The look at the folders is `dragoman.snapshots`, which
blocks, so it runs in threads. A turn is followed from its first call that may change something: a turn that only reads
costs nothing. A failure costs the checkpoint, never the turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from dragoman.builtin.context.history import COMMAND
from dragoman.builtin.context.rewound import REDO, facts_of, rewound
from dragoman.uistream.messages import TextPart

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dragoman.builtin.context.rewound import RewindFact
    from dragoman.builtin.tools.tool import Kind
    from dragoman.snapshots.records import RewindRecord
    from dragoman.snapshots.rewind import Rewinder, RewindOutcome
    from dragoman.snapshots.tracking import TurnTracker
    from dragoman.uistream.messages import UIMessage

_log = logging.getLogger("dragoman.builtin")

KEY: Final = "checkpoint"
"""In the metadata of a user's message: the id under which its turn was followed."""
AGENT: Final = "dragoman"
_READS: Final[frozenset[Kind]] = frozenset({"read", "search", "fetch", "think"})


class TurnCheckpoint:
    """The running turn, followed from its first call that may change something.

    Args:
        base: the folder that keeps the checkpoints of all sessions.
    """

    def __init__(self, base: Path, session_id: str, roots: Sequence[str]) -> None:
        self.uid = os.urandom(8).hex()
        self._base = base
        self._session_id = session_id
        self._roots = tuple(roots)
        self._tracker: TurnTracker | None = None
        self._beginning: asyncio.Future[TurnTracker] | None = None

    async def before(self, kind: Kind, paths: Sequence[str]) -> None:
        """Look at the folders, if this call is the first that may change something, and save the files it names."""
        if kind in _READS:
            return
        if self._beginning is None:
            self._beginning = asyncio.ensure_future(asyncio.to_thread(self._begin))
        try:
            self._tracker = await asyncio.shield(self._beginning)
            if paths:
                await asyncio.to_thread(self._tracker.save, list(paths))
        except Exception:  # whatever is wrong with the folders or the disk, the call is worth more than its checkpoint
            _log.warning("the turn has no checkpoint", exc_info=True)

    async def end(self) -> None:
        """Look at the folders again. Never raises."""
        try:
            if self._beginning is not None:
                self._tracker = await self._beginning
            if self._tracker is not None:
                await asyncio.to_thread(self._tracker.end)
        except Exception:  # as above: the turn itself is over and stays as it is
            _log.warning("the turn has no checkpoint", exc_info=True)

    def _begin(self) -> TurnTracker:
        from dragoman.snapshots.tracking import TurnTracker

        tracker = TurnTracker(str(self._base), self._roots, left_out=(str(self._base.parent),))
        tracker.uid = self.uid
        tracker.begin(session_id=self._session_id, agent=AGENT)
        return tracker


class PastTurn(Struct, frozen=True):
    """A turn that can be taken back."""

    number: int
    """Counted from 1; the same until a turn is taken back."""
    position: int
    """Of its prompt in the history."""
    prompt: str
    uid: str


class FileReport(Struct, frozen=True):
    """What a rewind did with files."""

    changed: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    """Files that others changed since, which stay as they are."""
    failed: tuple[str, ...] = ()
    rewinds: dict[str, int] = {}
    """The number of the rewind in each folder, by which it is brought back."""


def past_turns(history: Sequence[UIMessage]) -> list[PastTurn]:
    """Return the turns of a conversation, oldest first, without what was taken back and the agent's own answers."""
    gone = rewound(history)
    found: list[PastTurn] = []
    for position, message in enumerate(history):
        command = message.metadata.get(COMMAND, {})
        is_own = "name" in command and "prompt" not in command
        if message.role == "user" and position not in gone and not is_own:
            text = " ".join(part.text for part in message.parts if isinstance(part, TextPart))
            found.append(PastTurn(len(found) + 1, position, text, str(message.metadata.get(KEY, ""))))
    return found


def last_rewind(history: Sequence[UIMessage]) -> RewindFact | None:
    """Return the rewind that `/redo` would take back; None if there is none, or a prompt has followed it."""
    redone = 0
    for message in reversed(history):
        for fact in reversed(facts_of(message)):
            if fact.name == REDO:
                redone += 1
            elif redone:
                redone -= 1
            else:
                return fact
        command = message.metadata.get(COMMAND, {})
        if message.role == "user" and not ("name" in command and "prompt" not in command):
            return None
    return None


class Checkpoints:
    """The files of turns that ended, in the folders of one session."""

    def __init__(self, base: Path, session_id: str, roots: Sequence[str]) -> None:
        self._base = base
        self._session_id = session_id
        self._roots = tuple(roots)

    def begin_turn(self) -> TurnCheckpoint:
        """Return the checkpoint of a turn that begins."""
        return TurnCheckpoint(self._base, self._session_id, self._roots)

    async def changed_files(self, uids: Sequence[str]) -> dict[str, int]:
        """Return how many files each of these turns changed."""
        return await asyncio.to_thread(self._changed_files, frozenset(uids))

    async def take_back(self, uids: Sequence[str]) -> FileReport:
        """Give the files that these turns changed the content they had before. What others changed since stays."""
        return await asyncio.to_thread(self._take_back, frozenset(uids))

    async def bring_back(self, rewinds: Mapping[str, int] | None) -> FileReport:
        """Undo a `take_back` by the numbers that it reported; the last one of this session if they are not known."""
        return await asyncio.to_thread(self._bring_back, rewinds)

    # In a thread

    def _rewinders(self) -> Any:
        from dragoman.snapshots.rewind import Rewinder

        for root in dict.fromkeys(map(os.path.realpath, self._roots)):
            rewinder = Rewinder(str(self._base), root)
            rewinder.complete()  # one that a crash interrupted is neither the one state nor the other
            yield rewinder

    def _changed_files(self, uids: frozenset[str]) -> dict[str, int]:
        counts: dict[str, int] = {}
        for rewinder in self._rewinders():
            for turn in rewinder.store.turns():
                if turn.uid in uids:
                    counts[turn.uid] = counts.get(turn.uid, 0) + len(turn.changes)
        return counts

    def _take_back(self, uids: frozenset[str]) -> FileReport:
        reports = []
        for rewinder in self._rewinders():
            turns = [turn for turn in rewinder.active_turns() if turn.uid in uids]
            if turns:
                plan = structs.replace(rewinder.plan(turns), session_id=self._session_id)  # a fork's is another
                reports.append(_report(rewinder.apply(plan, what="undo"), rewinder.root))
            elif record := self._cut_off(rewinder, uids):
                changed = tuple(step.path for step in record.steps)
                reports.append(FileReport(changed, rewinds={rewinder.root: record.number}))
        return _joined(reports)

    def _cut_off(self, rewinder: Rewinder, uids: frozenset[str]) -> RewindRecord | None:
        """Return the rewind of these very turns by a process that died before it took back the conversation as well."""
        numbers = {turn.number for turn in rewinder.store.turns() if turn.uid in uids and turn.changes}
        for record in reversed(rewinder.store.rewinds()):
            if record.session_id == self._session_id and not record.is_redone and not record.redoes:
                return record if numbers and set(record.turns) == numbers else None
        return None

    def _bring_back(self, rewinds: Mapping[str, int] | None) -> FileReport:
        reports = []
        for rewinder in self._rewinders():
            # In a folder that this rewind did not change, the last one may be of turns that are not to come back.
            number = None if rewinds is None else rewinds.get(rewinder.root, 0)
            plan = rewinder.plan_redo(self._session_id, number=number)
            if plan is not None:
                reports.append(_report(rewinder.apply(plan, what="redo"), rewinder.root))
        return _joined(reports)


def _report(outcome: RewindOutcome, root: str) -> FileReport:
    failed = tuple(f"{failure.path}: {failure.reason}" for failure in outcome.failed)
    return FileReport(outcome.changed, outcome.kept, failed, {root: outcome.number})


def _joined(reports: Sequence[FileReport]) -> FileReport:
    return FileReport(
        tuple(path for report in reports for path in report.changed),
        tuple(path for report in reports for path in report.kept),
        tuple(line for report in reports for line in report.failed),
        {root: number for report in reports for root, number in report.rewinds.items()},
    )
