"""What turns change in the folders of a session: for `session.changes()`, `session.rewind()`, and the result of a run.

Joins `dragoman.snapshots`, which blocks and does not know the protocol, with `dragoman.client`, which does not know
snapshots: scans run in threads, and what tool calls show becomes the claims of the agent. A failure costs the changes,
never the turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary

from dragoman.client.requests import named_paths
from dragoman.errors import LocalProtocolError
from dragoman.runs.result import LeftOut, TreeChangeResult, TreeChanges
from dragoman.schema import v1
from dragoman.snapshots.attribution import AgentClaims
from dragoman.snapshots.limits import SNAPSHOT_LIMITS, SnapshotLimits
from dragoman.snapshots.tracking import TurnTracker
from dragoman.state.tools import ToolCallState
from dragoman.text.secrets import Secrets
from dragoman.workspace.ignore import read_plain

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from dragoman.client import Session
    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.records import TreeChange, TurnChanges
    from dragoman.snapshots.rewind import Choice, RewindOutcome
    from dragoman.state import SessionState

_log = logging.getLogger("dragoman.snapshots")
_MOST_CONTENT_BYTES: Final = 1024 * 1024  # of a file whose changed lines are counted
_MOST_COUNTED: Final = 1000  # a checkout of another branch changes more; counting its lines would take seconds
_MOST_EARLIER: Final = 100
_PATIENCE_SECONDS: Final = 3.0  # before the user is shown what the prompt waits for


class FollowedTurn:
    """One turn that is followed: its look at the folders, what the agent wrote, and the result."""

    def __init__(self, tracker: TurnTracker) -> None:
        self.tracker = tracker
        self.beginning: asyncio.Future[None] | None = None
        self.ending: asyncio.Task[None] | None = None
        self.records: list[TurnChanges] | None = None
        self.written: dict[str, bytes | None] = {}
        self.named: set[str] = set()
        self.prompt_id = ""
        self._lock = Lock()

    def end_now(self, state: SessionState | None) -> list[TurnChanges]:
        """Look at the folders after the turn. Blocks; the second call returns what the first found."""
        with self._lock:
            if self.records is None:
                self.records = self.tracker.end(claims_of(state, self.written), _prompt_of(state), self.prompt_id)
            return self.records


class SessionChanges:
    """The changes of the sessions of a connection; pass it as `changes` to `spawn` and `connect`.

    Args:
        base: the folder of the store; None for that of the user.
        agent: the name of the agent, under which turns are recorded.
        on_problem: called with a sentence if a folder is not followed, or not as a whole.
        on_end: called with the records of each turn, when they are written.
        left_out: paths that are not followed, such as files that the program itself writes.
    """

    def __init__(
        self,
        *,
        base: str | None = None,
        agent: str = "",
        limits: SnapshotLimits = SNAPSHOT_LIMITS,
        on_problem: Callable[[str], object] | None = None,
        on_end: Callable[[Sequence[TurnChanges]], object] | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        self._base = base if base is not None else snapshots_folder()
        self._agent = agent
        self._limits = limits
        self._on_problem = on_problem or (lambda sentence: _log.warning("%s", sentence))
        self._on_end = on_end
        self._left_out = tuple(left_out)
        self._turns: WeakKeyDictionary[Session, FollowedTurn] = WeakKeyDictionary()
        self._prepared: FollowedTurn | None = None
        self.prompt_id = ""
        """Of the next turn, by which a host knows its prompt."""
        self._tasks: set[asyncio.Task[Any]] = set()

    # Called by the client

    def prepare(self, roots: Sequence[str]) -> None:
        """Begin the look at the folders now, while the agent starts; the first turn uses it."""
        self._prepared = self._begin(roots)

    async def prepared(self) -> None:
        """Return when the look that `prepare` began is over."""
        if self._prepared is not None and self._prepared.beginning is not None:
            await asyncio.shield(self._prepared.beginning)

    async def begin_turn(self, session: Session) -> None:
        """Look at the folders before the prompt is sent."""
        earlier = self._turns.get(session)
        if earlier is not None and earlier.ending is not None:
            await asyncio.shield(earlier.ending)
        turn, self._prepared = self._prepared, None
        if turn is None:
            turn = self._begin((session.cwd, *session.additional_directories))
        self._turns[session] = turn
        turn.prompt_id = self.prompt_id
        assert turn.beginning is not None
        try:
            await asyncio.shield(turn.beginning)
        except asyncio.CancelledError:
            turn.tracker.stop()
            raise
        turn.tracker.name_session(session.id)

    def updated(self, session: Session, updates: Sequence[v1.SessionUpdate]) -> None:
        """Save the files that a new tool call names, as far as the look at the folders did not."""
        paths: dict[str, None] = {}
        for update in updates:
            if isinstance(update, v1.ToolCall | v1.ToolCallUpdate):
                call = session.state.tool_calls.get(update.tool_call_id)
                if call is not None and call.status not in ("completed", "failed"):
                    paths.update(dict.fromkeys(named_paths(call, session.cwd)))
        turn = self._turns.get(session)
        if turn is None or turn.ending is not None:
            return
        fresh = [path for path in paths if path not in turn.named]
        if fresh:
            turn.named.update(fresh)
            self._tasks.add(self._start(asyncio.to_thread(turn.tracker.save, fresh)))

    async def before_write(self, session: Session, paths: Sequence[str]) -> None:
        """Save files before they are written."""
        turn = self._turns.get(session)
        if turn is not None and turn.ending is None and paths:
            await asyncio.to_thread(turn.tracker.save, list(paths))

    async def after_write(self, session: Session, path: str) -> None:
        """Note what went through the client."""
        turn = self._turns.get(session)
        if turn is not None:
            turn.written[path] = await asyncio.to_thread(_content, path, self._limits.largest_kept_bytes)

    def end_turn(self, session: Session) -> None:
        """Look at the folders after the turn, in a task."""
        turn = self._turns.get(session)
        if turn is not None and turn.ending is None:
            turn.ending = self._start(self._end(turn, session))

    async def end_session(self, session: Session) -> None:
        """Wait for the look after the last turn."""
        turn = self._turns.get(session)
        if turn is not None and turn.ending is not None:
            await asyncio.shield(turn.ending)

    # For programs

    async def changes(self, session: Session) -> list[TreeChange]:
        """Return what the last turn changed, sorted by path. Waits for the look after the turn."""
        return [change for record in await self.records(session) for change in record.changes]

    async def records(self, session: Session) -> list[TurnChanges]:
        """Return the records of the last turn, one for each folder."""
        turn = self._turns.get(session)
        if turn is None:
            raise LocalProtocolError(f"session {session.id} had no turn on this connection yet; send a prompt first")
        if turn.ending is None:
            raise LocalProtocolError(f"a turn runs in session {session.id}; its changes are known when it has ended")
        await asyncio.shield(turn.ending)
        return turn.records or []

    async def rewind(self, session: Session, turns: int, choices: Mapping[str, str]) -> RewindOutcome:
        """Take back the last turns in all folders of the session."""
        if turns < 1:
            raise LocalProtocolError(f"turns must be 1 or more, not {turns}")
        await self.end_session(session)
        roots = [folder.root for folder in self._tracker((session.cwd, *session.additional_directories)).folders]
        return await asyncio.to_thread(self._rewind, session.id, roots, turns, choices)

    def followed(self, session: Session) -> FollowedTurn | None:
        """Return the last turn of a session."""
        return self._turns.get(session)

    def close(self) -> None:
        """Forget a look at the folders that no turn has used."""
        turn, self._prepared = self._prepared, None
        if turn is not None:
            turn.tracker.close()

    # Inside

    def _tracker(self, roots: Sequence[str]) -> TurnTracker:
        return TurnTracker(self._base, roots, limits=self._limits, left_out=self._left_out)

    def _begin(self, roots: Sequence[str]) -> FollowedTurn:
        turn = FollowedTurn(self._tracker(roots))
        turn.beginning = asyncio.ensure_future(self._look(turn))
        return turn

    async def _look(self, turn: FollowedTurn) -> None:
        try:
            await asyncio.to_thread(turn.tracker.begin, agent=self._agent)
        except asyncio.CancelledError:
            turn.tracker.stop()
            raise
        except Exception as error:
            _log.debug("the look at the folders failed", exc_info=True)
            turn.tracker.problems.append(f"changes are not tracked: {error}")
        for problem in turn.tracker.problems:
            self._on_problem(problem)
        turn.tracker.problems.clear()

    async def _end(self, turn: FollowedTurn, session: Session) -> None:
        waiting = [task for task in self._tasks if task is not asyncio.current_task() and task is not turn.ending]
        if waiting:
            await asyncio.wait(waiting)
        try:
            await asyncio.to_thread(turn.end_now, session.state)
        except Exception as error:
            _log.debug("the look at the folders after the turn failed", exc_info=True)
            turn.records = []
            turn.tracker.problems.append(f"changes are not known: {error}")
        for problem in turn.tracker.problems:
            self._on_problem(problem)
        if self._on_end is not None:
            self._on_end(turn.records or ())

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _rewind(self, session_id: str, roots: Sequence[str], turns: int, choices: Mapping[str, str]) -> RewindOutcome:
        from dragoman.snapshots.rewind import Rewinder, RewindOutcome

        outcomes = []
        for root in roots:
            rewinder = Rewinder(self._base, root, self._limits)
            rewinder.complete()
            last = rewinder.active_turns(session_id)
            if len(last) < turns:
                raise LocalProtocolError(f"session {session_id} has {len(last)} turns that can be taken back in {root}")
            plan = rewinder.plan(last[-turns:])
            outcomes.append(rewinder.apply(plan, cast("Mapping[str, Choice]", choices), what=f"rewound {turns} turns"))
        return RewindOutcome(
            number=outcomes[0].number if outcomes else 0,
            changed=tuple(path for outcome in outcomes for path in outcome.changed),
            failed=tuple(path for outcome in outcomes for path in outcome.failed),
            kept=tuple(path for outcome in outcomes for path in outcome.kept),
        )


def follow_changes(*, base: str | None = None, agent: str = "", limits: SnapshotLimits | None = None) -> SessionChanges:
    """Follow what turns change in the folders of their sessions, so that it can be reviewed and taken back.

    Args:
        base: the folder in which former contents are kept; None for that of the user, which `dragoman sessions` reads.
        agent: the name under which the turns are recorded.
        limits: how much is read and kept.
    """
    return SessionChanges(base=base, agent=agent, limits=limits or SNAPSHOT_LIMITS)


def snapshots_folder() -> str:
    """Return the folder of the user's snapshots."""
    from dragoman.settings.places import folder_name

    return os.path.join(folder_name("data", os.environ), "snapshots")


def _content(path: str, largest_bytes: int) -> bytes | None:
    return read_plain(os.path.realpath(path), largest_bytes)


def _prompt_of(state: SessionState | None) -> str:
    """Return the text of the last prompt."""
    if state is None or not state.turns:
        return ""
    text = "\n".join(block.text for block in state.turns[-1].prompt if isinstance(block, v1.TextContent))
    return Secrets(os.environ).mask(text)  # a key that was pasted into a prompt is not kept with the changes


def claims_of(state: SessionState | None, written: Mapping[str, bytes | None]) -> AgentClaims:
    """Return what the agent is known to have done in the last turn."""
    claims = AgentClaims()
    for path, content in written.items():
        claims.add_write(path, content)
    if state is None or not state.turns:
        return claims
    turn = state.turns[-1]
    for call in state.timeline[turn.start : turn.end]:
        if not isinstance(call, ToolCallState) or call.status == "failed":
            continue
        for item in call.content:
            if isinstance(item, v1.Diff) and os.path.isabs(item.path):
                old = item.old_text if isinstance(item.old_text, str) else None
                claims.add_diff(item.path, old, item.new_text)
        if call.kind in ("delete", "move"):
            for place in call.locations:
                if os.path.isabs(place.path):
                    claims.add_name(place.path)
    return claims


class RunChanges:
    """The changes of one run: followed while it runs, reported when it has ended.

    The look at the folders begins while the agent starts and is over before the prompt is sent. A folder that cannot be
    followed costs a note, never the run.

    Args:
        agent: the name of the agent, under which turns are recorded.
        roots: the folders of the session, its own first.
        note: called with sentences for the user.
        left_out: paths that are not followed.
    """

    def __init__(
        self,
        agent: str,
        roots: Sequence[str],
        note: Callable[[str], object],
        *,
        left_out: Sequence[str] = (),
    ) -> None:
        self._agent = agent
        self._roots = roots
        self._note_user = note
        self._left_out = left_out
        self.service: SessionChanges | None = None
        """What the client calls around each turn."""
        self._records: list[TurnChanges] | None = None
        self._problems: list[str] = []

    def start(self, *, looks_now: bool = True) -> None:
        """Follow the session; `looks_now` begins the look at the folders for the first prompt, in a thread."""
        try:
            self.service = SessionChanges(
                agent=self._agent, on_problem=self._note, on_end=self._ended, left_out=self._left_out
            )
            if looks_now:
                self.service.prepare(self._roots)
        except OSError as error:
            self.service = None
            self._note(f"changes are not tracked: {error}")

    async def ready(self) -> None:
        """Return when the prompt may be sent."""
        if self.service is None:
            return
        looking = asyncio.ensure_future(self.service.prepared())
        await asyncio.wait({looking}, timeout=_PATIENCE_SECONDS)
        if not looking.done():
            self._note_user("looking at the folder before the prompt is sent; --no-snapshots leaves that out")
        await looking

    def next_turn(self) -> None:
        """Forget what the last turn changed."""
        self._records = None
        self._problems.clear()

    def _ended(self, records: Sequence[TurnChanges]) -> None:
        self._records = list(records)

    async def finish(self, session: Session) -> None:
        """Wait for the look after the turn; a prompt that was never sent has none."""
        if self.service is not None:
            await self.service.end_session(session)

    def end_now(self, session: Session | None) -> None:
        """Look after the turn of a run that was interrupted, as `finish` does; blocks."""
        if self.service is None or self._records is not None:
            return
        turn = None if session is None else self.service.followed(session)
        if turn is None or session is None:
            self.service.close()
            return
        try:
            self._records = turn.end_now(session.state)
        except OSError as error:
            self._note(f"the changes of this run are not known: {error}")

    def result(self) -> TreeChanges | None:
        """Return what changed; None if it was not followed."""
        return None if self._records is None else _joined(self._records, self._problems)

    def patch(self) -> tuple[bytes, list[str], list[LeftOut]] | None:
        """Return the patch of everything that changed; None if that is not known."""
        return patch_of(self._records or (), self._roots[0])

    def _note(self, sentence: str) -> None:
        self._problems.append(sentence)
        self._note_user(sentence)


def patch_of(records: Sequence[TurnChanges], folder: str) -> tuple[bytes, list[str], list[LeftOut]] | None:
    """Return the patch of all that a turn changed, with paths below a folder; None if that is not known."""
    if not records or any(record.reason or record.notes for record in records):
        return None
    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.folder_store import FolderStore
    from dragoman.snapshots.limits import SNAPSHOT_LIMITS
    from dragoman.snapshots.patch import build_patch

    start = os.path.realpath(folder)
    data, files, left_out = b"", list[str](), list[LeftOut]()
    for record in records:
        if record.folder != start:
            reason = "it is outside the folder of the run"
            left_out += [LeftOut(_shown(record.folder, change.path), reason) for change in record.changes]
            continue
        packs = FolderStore(snapshots_folder(), record.folder, SNAPSHOT_LIMITS).packs
        with Contents(record.folder, packs) as contents:
            piece, names, missing = build_patch(record.changes, contents)
        data += piece
        files += [_shown(record.folder, name) for name in names]
        left_out += [LeftOut(_shown(record.folder, name), reason) for name, reason in missing.items()]
    return data, files, left_out


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


def summary(changes: TreeChanges | None) -> str:
    """Return one line about what changed; empty if nothing did."""
    if changes is None or not changes.paths:
        return ""
    files = [file for file in changes.paths if not file.is_folder]
    if not files:
        return ""
    added, removed = sum(file.lines_added or 0 for file in files), sum(file.lines_removed or 0 for file in files)
    what = "1 file" if len(files) == 1 else f"{len(files)} files"
    return f"changed {what} (+{added} -{removed}); dragoman sessions diff shows it, sessions rewind takes it back"


def _described(record: TurnChanges) -> list[TreeChangeResult]:
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
    """Return an absolute path as text; what is not UTF-8 is replaced, because JSON cannot hold it."""
    return os.fsencode(os.path.join(folder, path)).decode("utf-8", "replace")


def _counts(change: TreeChange, contents: Contents) -> tuple[int | None, int | None]:
    from dragoman.snapshots.line_counts import line_counts

    found = line_counts(change, contents, _MOST_CONTENT_BYTES)
    return (None, None) if found is None else found
