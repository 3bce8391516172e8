"""`dragoman sessions diff`: what a turn changed, as a patch, a list or JSON.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import console, exits
from dragoman.cli.sessions.turns import chosen_turn, find_turns
from dragoman.snapshots.contents import Contents
from dragoman.snapshots.line_counts import line_counts
from dragoman.snapshots.patch import build_patch
from dragoman.snapshots.session_turns import BY, notes_of, shown_path, without_parents
from dragoman.text.colour import BOLD, CYAN, GREEN, RED, Painter

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.cli.command import CliCall
    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.session_turns import SessionTurns

_COUNTED_BYTES: Final = 1024 * 1024


def diff_session(call: CliCall) -> int:
    found = find_turns(call)
    number, records = chosen_turn(found, call.given.turn)
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
            for change in without_parents(record.changes):
                counts = line_counts(change, contents, _COUNTED_BYTES)
                lines = "" if counts is None else f"+{counts[0]} -{counts[1]}"
                name = change.path if change.origin is None else f"{change.old_path} -> {change.path}"
                rows.append((change.kind, BY[change.by], lines, shown_path(os.path.join(folder, name))))
        rows += [
            (change.kind, BY["you"], "", shown_path(os.path.join(folder, change.path))) for change in record.earlier
        ]
    if rows:
        console.write_table(("CHANGE", "BY", "LINES", "PATH"), rows)


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
    """Return a change as plain data."""
    return {
        "path": shown_path(change.path),
        "old_path": None if change.origin is None else shown_path(change.old_path),
        "kind": change.kind,
        "by": change.by,
        "lines_added": None if counts is None else counts[0],
        "lines_removed": None if counts is None else counts[1],
        "problem": change.problem or None,
    }
