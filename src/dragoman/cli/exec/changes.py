"""The changes of a run in the folders of its session: followed while it runs, reported when it has ended.

The look at the folders begins while the agent starts and is over before the prompt is sent. A folder that cannot be
followed costs a note, never the run.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dragoman.cli.exec.ledger import ledger_name
from dragoman.cli.exec.tree_result import TreeChangeResult, TreeChanges

if TYPE_CHECKING:
    from dragoman.cli.exec.output import Output
    from dragoman.cli.exec.request import RunRequest
    from dragoman.cli.exec.result import FileChange, LeftOut
    from dragoman.client import Session
    from dragoman.scripting.changes import SessionChanges
    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.records import TreeChange, TurnChanges

_MOST_CONTENT_BYTES: Final = 1024 * 1024  # of a file whose changed lines are counted
_MOST_COUNTED: Final = 1000  # a checkout of another branch changes more; counting its lines would take seconds
_MOST_EARLIER: Final = 100
_PATIENCE_SECONDS: Final = 3.0  # before the user is shown what the prompt waits for


class RunChanges:
    """Follows one run; does nothing with `--no-snapshots`."""

    def __init__(self, request: RunRequest, output: Output) -> None:
        self._request = request
        self._output = output
        self._service: SessionChanges | None = None
        self._records: list[TurnChanges] | None = None
        self._problems: list[str] = []

    @property
    def service(self) -> SessionChanges | None:
        """What the client calls around each turn."""
        return self._service

    @property
    def has_changes(self) -> bool:
        """Whether something changed in the folders, as far as that is known by now."""
        return any(record.changes for record in self._records or ())

    def start(self) -> None:
        """Begin the look at the folders, in a thread."""
        if not self._request.options.follows_changes:
            return
        from dragoman.scripting.changes import SessionChanges

        try:
            self._service = SessionChanges(
                agent=ledger_name(self._request.entry), on_problem=self._note, left_out=self._own_files()
            )
            self._service.prepare(self._request.options.roots)
        except OSError as error:
            self._service = None
            self._note(f"changes are not tracked: {error}")

    def _own_files(self) -> list[str]:
        """The files that the run itself writes: the patch, a recording for each try, and redirected output."""
        options = self._request.options
        found = [] if options.patch is None else [options.patch]
        for descriptor in (1, 2):
            with suppress(OSError):  # closed, or there is no such way to learn its name
                if stat.S_ISREG(os.fstat(descriptor).st_mode):
                    found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        if options.recording is not None:
            tries = range(1, options.retries + 1)
            found += [options.recording, *(f"{options.recording}.retry-{number}" for number in tries)]
        return found

    async def ready(self) -> None:
        """Return when the prompt may be sent."""
        if self._service is None:
            return
        import asyncio

        looking = asyncio.ensure_future(self._service.prepared())
        await asyncio.wait({looking}, timeout=_PATIENCE_SECONDS)
        if not looking.done():
            self._output.note("looking at the folder before the prompt is sent; --no-snapshots leaves that out")
        await looking

    async def finish(self, session: Session) -> None:
        """Wait for the look after the turn."""
        if self._service is not None and self._service.followed(session) is not None:
            self._records = await self._service.records(session)

    def end_now(self, session: Session | None) -> None:
        """The same for a run that was interrupted; blocks."""
        if self._service is None or self._records is not None:
            return
        turn = None if session is None else self._service.followed(session)
        if turn is None or session is None:
            self._service.close()
            return
        try:
            self._records = turn.end_now(session.state)
        except OSError as error:
            self._note(f"the changes of this run are not known: {error}")

    def result(self) -> TreeChanges | None:
        """What changed; None if it was not followed."""
        return None if self._records is None else _joined(self._records, self._problems)

    def patch(self) -> tuple[bytes, list[str], list[LeftOut]] | None:
        """The patch of everything that changed; None if that is not known."""
        records = self._records
        if not records or any(record.reason or record.notes for record in records):
            return None
        from dragoman.cli.exec.result import LeftOut
        from dragoman.scripting.changes import snapshots_folder
        from dragoman.snapshots.contents import Contents
        from dragoman.snapshots.folder_store import FolderStore
        from dragoman.snapshots.limits import SNAPSHOT_LIMITS
        from dragoman.snapshots.patch import build_patch

        start = os.path.realpath(self._request.options.cwd)
        data, files, left_out = b"", list[str](), list[LeftOut]()
        for record in records:
            if record.folder != start:
                reason = "it is outside the folder of the run"
                left_out += [LeftOut(_shown(record.folder, each.path), reason) for each in record.changes]
                continue
            packs = FolderStore(snapshots_folder(), record.folder, SNAPSHOT_LIMITS).packs
            with Contents(record.folder, packs) as contents:
                piece, names, missing = build_patch(record.changes, contents)
            data += piece
            files += [_shown(record.folder, name) for name in names]
            left_out += [LeftOut(_shown(record.folder, name), reason) for name, reason in missing.items()]
        return data, files, left_out

    def _note(self, sentence: str) -> None:
        self._problems.append(sentence)
        self._output.note(sentence)


def hosted_changes(followed: object) -> TreeChanges | None:
    """What a turn in the local host changed, from its report; None if that is not known."""
    from dragoman.scripting.changes import snapshots_folder
    from dragoman.snapshots.folder_store import FolderStore
    from dragoman.snapshots.limits import SNAPSHOT_LIMITS

    records: list[TurnChanges] = []
    for each in followed if isinstance(followed, list) else ():
        store = FolderStore(snapshots_folder(), os.fsdecode(bytes.fromhex(each["folder"])), SNAPSHOT_LIMITS)
        records += [record for record in store.turns() if record.number == each["number"]]
    return _joined(records, []) if records else None


def _joined(records: list[TurnChanges], problems: list[str]) -> TreeChanges:
    reasons = [*problems, *(f"{record.folder}: {record.reason}" for record in records if record.reason)]
    reasons += [note for record in records for note in record.notes]
    paths: list[TreeChangeResult] = []
    for record in records:
        paths += _described(record)
    return TreeChanges(
        is_complete=bool(records) and not any(record.reason for record in records),
        reasons=list(dict.fromkeys(reasons)),
        paths=paths,
        overlaps=list(dict.fromkeys(name for record in records for name in record.overlaps)),
        changed_before=[
            _shown(record.folder, change.path) for record in records for change in record.earlier[:_MOST_EARLIER]
        ],
    )


def with_seen(known: list[FileChange], changes: TreeChanges | None) -> list[FileChange]:
    """The changed files with those that only the folders show, sorted by path."""
    if changes is None:
        return known
    from dragoman.cli.exec.result import FileChange

    found = {each.path: each for each in known}
    names = {os.path.realpath(path) for path in found}
    for change in changes.paths:
        if change.is_folder:
            continue
        pairs = [(change.path, _kind(change.kind))]
        if change.old_path is not None:
            pairs = [(change.path, "created"), (change.old_path, "deleted")]
        for path, kind in pairs:
            if path not in found and path not in names:
                found[path] = FileChange(path=path, change=kind, seen_by=["snapshot"])  # type: ignore[arg-type]
    return [found[path] for path in sorted(found)]


def summary(changes: TreeChanges | None) -> str:
    """One line about what changed; empty if nothing did."""
    if changes is None or not changes.paths:
        return ""
    files = [each for each in changes.paths if not each.is_folder]
    if not files:
        return ""
    added, removed = sum(each.lines_added or 0 for each in files), sum(each.lines_removed or 0 for each in files)
    what = "1 file" if len(files) == 1 else f"{len(files)} files"
    return f"changed {what} (+{added} -{removed}); dragoman sessions diff shows it, sessions rewind takes it back"


def _kind(kind: str) -> str:
    return kind if kind in ("created", "deleted") else "modified"


def _described(record: TurnChanges) -> list[TreeChangeResult]:
    from dragoman.scripting.changes import snapshots_folder
    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.folder_store import FolderStore
    from dragoman.snapshots.limits import SNAPSHOT_LIMITS

    if not record.changes:
        return []
    packs = FolderStore(snapshots_folder(), record.folder, SNAPSHOT_LIMITS).packs
    with Contents(record.folder, packs) as contents:
        return [
            _path(record, change, _counts(change, contents) if at < _MOST_COUNTED else (None, None))
            for at, change in enumerate(record.changes)
        ]


def _path(record: TurnChanges, change: TreeChange, counts: tuple[int | None, int | None]) -> TreeChangeResult:
    states = [state for state in (change.before, change.after) if state is not None]
    return TreeChangeResult(
        path=_shown(record.folder, change.path),
        kind=change.kind,
        by="agent" if change.by == "agent" else "turn",
        old_path=None if change.origin is None else _shown(record.folder, change.old_path),
        is_folder=all(state.is_folder for state in states),
        lines_added=counts[0],
        lines_removed=counts[1],
        problem=change.problem or None,
    )


def _shown(folder: str, path: str) -> str:
    """An absolute path as text; what is not UTF-8 is replaced, because JSON cannot hold it."""
    return os.fsencode(os.path.join(folder, path)).decode("utf-8", "replace")


def _counts(change: TreeChange, contents: Contents) -> tuple[int | None, int | None]:
    from dragoman.snapshots.line_counts import line_counts

    found = line_counts(change, contents, _MOST_CONTENT_BYTES)
    return (None, None) if found is None else found
