"""`dragoman sessions diff`: what a turn changed, as a patch, a list or JSON."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import console, exits
from dragoman.cli.sessions.turns import SessionTurns, find_turns, shown_path
from dragoman.snapshots.contents import Contents
from dragoman.snapshots.line_counts import line_counts
from dragoman.snapshots.patch import build_patch
from dragoman.text.colour import BOLD, CYAN, GREEN, RED, Painter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.cli.command import CliCall
    from dragoman.snapshots.records import TreeChange, TurnChanges

BY: Final = {"agent": "the agent", "turn": "during the turn", "you": "you"}
_COUNTED_BYTES: Final = 1024 * 1024


def diff_session(call: CliCall) -> int:
    found = find_turns(call)
    number, records = found.chosen(call.given.turn)
    if call.given.json:
        console.write_json(_document(found, number, records))
        return exits.OK
    for note in notes_of(records):
        console.write_note(note)
    if call.given.stat:
        _write_list(records, found)
    else:
        _write_patch(records, found)
    return exits.OK


def notes_of(records: Iterable[TurnChanges]) -> list[str]:
    """What a reader has to know before the changes are trusted."""
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


def _write_patch(records: Iterable[TurnChanges], found: SessionTurns) -> None:
    for record in records:
        with Contents(record.folder, found.rewinder(record).store.packs) as contents:
            data, _, left_out = build_patch(record.changes, contents)
        for path, reason in left_out.items():
            console.write_note(f"not shown: {path}: {reason}")
        if not sys.stdout.isatty():
            sys.stdout.flush()
            sys.stdout.buffer.write(data)
            sys.stdout.buffer.flush()
            continue
        from dragoman.text.terminal import plain

        painter = Painter(console.uses_colour(sys.stdout))
        for line in data.decode("utf-8", "replace").splitlines():
            sys.stdout.write(painter(plain(line), *_style(line)) + "\n")


def _style(line: str) -> tuple[str, ...]:
    if line.startswith(("diff ", "--- ", "+++ ", "rename ", "new ", "old ", "deleted ", "index ")):
        return (BOLD,)
    if line.startswith("@@"):
        return (CYAN,)
    return (GREEN,) if line.startswith("+") else (RED,) if line.startswith("-") else ()


def _write_list(records: Sequence[TurnChanges], found: SessionTurns) -> None:
    rows = []
    for record in records:
        folder = record.folder if len(records) > 1 else ""
        with Contents(record.folder, found.rewinder(record).store.packs) as contents:
            for change in _shown(record.changes):
                counts = line_counts(change, contents, _COUNTED_BYTES)
                lines = "" if counts is None else f"+{counts[0]} -{counts[1]}"
                name = change.path if change.origin is None else f"{change.old_path} -> {change.path}"
                rows.append((change.kind, BY[change.by], lines, shown_path(os.path.join(folder, name))))
        rows += [
            (change.kind, BY["you"], "", shown_path(os.path.join(folder, change.path))) for change in record.earlier
        ]
    if rows:
        console.write_table(("CHANGE", "BY", "LINES", "PATH"), rows)


def _shown(changes: Iterable[TreeChange]) -> list[TreeChange]:
    """The changes without folders that are new or gone together with what is in them."""
    found = list(changes)
    parents = {os.path.dirname(change.path) for change in found}
    return [
        change
        for change in found
        if change.path not in parents or not all(s.is_folder for s in (change.before, change.after) if s is not None)
    ]


def _document(found: SessionTurns, number: int, records: Iterable[TurnChanges]) -> dict[str, Any]:
    folders = []
    for record in records:
        with Contents(record.folder, found.rewinder(record).store.packs) as contents:
            changes = [describe(change, line_counts(change, contents, _COUNTED_BYTES)) for change in record.changes]
        folders.append(
            {
                "folder": shown_path(record.folder),
                "is_complete": not record.reason,
                "reason": record.reason or None,
                "changes": changes,
                "changed_before": [describe(change, None) for change in record.earlier],
                "overlaps": list(record.overlaps),
                "head_before": record.head_before or None,
                "head_after": record.head_after or None,
                "is_interrupted": record.is_interrupted,
                "notes": list(record.notes),
            }
        )
    return {
        "session_id": found.session_id,
        "agent": found.agent,
        "turn": number,
        "turns": len(found.turns),
        "folders": folders,
    }


def describe(change: TreeChange, counts: tuple[int, int] | None) -> dict[str, Any]:
    """A change as plain data."""
    return {
        "path": shown_path(change.path),
        "old_path": None if change.origin is None else shown_path(change.old_path),
        "kind": change.kind,
        "by": change.by,
        "lines_added": None if counts is None else counts[0],
        "lines_removed": None if counts is None else counts[1],
        "problem": change.problem or None,
    }
