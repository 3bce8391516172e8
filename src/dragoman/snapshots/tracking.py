"""The turns of a session in its folders: a look before the prompt, one after the turn, and what differs.

Owns the order of these steps, the refusal of folders that are too large or too private, and the fall-back: then only
files that the agent names are followed, each saved before it is written. Every method blocks; asynchronous callers use
a thread. Does not know the protocol. Never writes below the folders it follows.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import partial
from threading import RLock
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.policy.paths import is_below, is_strictly_below
from dragoman.snapshots.attribution import AgentClaims, attribute
from dragoman.snapshots.contents import Contents
from dragoman.snapshots.differences import differences, with_renames
from dragoman.snapshots.entries import FileState, folder_state
from dragoman.snapshots.folder_store import FolderStore
from dragoman.snapshots.git_files import find_repository, head_of
from dragoman.snapshots.limits import RACY_NS, SNAPSHOT_LIMITS, SnapshotLimits
from dragoman.snapshots.overlap import overlapping_sessions
from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.reading import Reader
from dragoman.snapshots.records import LiveTurn, TreeChange, TurnChanges
from dragoman.snapshots.scan import Scanner, ScanRefused, ScanStopped
from dragoman.snapshots.storage import make_room
from dragoman.workspace.ignore import GENERATED, read_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.snapshots.keeper import Keeper
    from dragoman.snapshots.tree import Tree
    from dragoman.workspace.ignore import RuleReader

NAMED_ONLY: Final = "changes are tracked only for files the agent names"
# A tree that was too large is not looked at again for this long: every turn would begin with the same wait.
_REFUSAL_SECONDS: Final = 3600.0
_MOST_EARLIER: Final = 1000
_MOST_PINNED: Final = 5000
_PROMPT_CHARS: Final = 500
_MOST_RULES_BYTES: Final = 1 << 20
_CLOCK_NS: Final = 20_000_000  # file systems take their times from a coarser clock


class _Named:
    """A path that the rules leave out, saved because the agent names it."""

    __slots__ = ("is_sure", "state")

    def __init__(self, state: FileState | None, *, is_sure: bool) -> None:
        self.state = state
        self.is_sure = is_sure


class FolderTracker:
    """The running turn of a session in one folder.

    Args:
        base: the folder of all stores.
        root: the folder that is followed.
        home: the home folder of the user, which is never followed as a whole.
        left_out: paths that are not followed, such as files that the program itself writes.
    """

    def __init__(
        self,
        base: str,
        root: str,
        *,
        limits: SnapshotLimits = SNAPSHOT_LIMITS,
        home: str | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        self.root = os.path.realpath(root)
        self._base = base
        self._limits = limits
        self._left_out = frozenset(map(os.path.realpath, (base, *left_out)))
        self._home = os.path.realpath(home if home is not None else os.path.expanduser("~"))
        self._store = FolderStore(base, self.root, limits)
        self._scanner: Scanner | None = None
        self._tree: Tree | None = None
        self._live: LiveTurn | None = None
        self._lock_fd = -1
        self._started_ns = 0
        self._excludes: tuple[str, bytes | None] = ("", None)
        self._named: dict[str, _Named] = {}
        self._notes: list[str] = []
        self.reason = ""
        """Why only files that the agent names are followed; empty if everything is."""

    def stop(self) -> None:
        """Make a scan that runs in another thread end soon."""
        if self._scanner is not None:
            self._scanner.is_stopped = True

    def begin(self, *, session_id: str, agent: str, uid: str) -> None:
        """Look at the folder before the prompt is sent.

        Raises:
            OSError: the store or the folder cannot be used. Nothing is followed then.
            ScanStopped: `stop` was called.
        """
        self._store.make()
        make_room(self._base, self._store, self._limits)
        self.reason = self._refusal()
        self._started_ns = time.time_ns()
        repository = find_repository(self.root)
        if repository is not None:
            place = os.path.join(repository.worktree, ".git", "info", "exclude")
            self._excludes = place, read_plain(place, _MOST_RULES_BYTES)
        keeper = self._store.keeper()
        earlier: list[TreeChange] = []
        number = 0
        if not self.reason:
            known = self._store.load_tree()
            try:
                self._tree = self._scan(known, keeper)
            except ScanRefused as error:
                self.reason = str(error)
                self._note_refusal()
            finally:
                keeper.finish()
        if self._tree is not None:
            keeper.correct(self._tree)
            if keeper.problem:
                self._notes.append(f"some contents were not kept: {keeper.problem}")
            is_after_crash = any(not is_alive for _, is_alive in self._store.live_turns())
            if known is not None and self._tree is not known and not is_after_crash:
                with Contents(self.root, self._store.packs) as contents:
                    earlier = differences(known, self._tree, contents, by="you")
            number = self._store.newest_tree() if self._tree is known else self._store.save_tree(self._tree)
            self._finish_dead(self._tree)
        self._live, self._lock_fd = self._store.begin_turn(
            LiveTurn(
                number=0,
                uid=uid,
                session_id=session_id,
                agent=agent,
                root=os.fsencode(self.root),
                started_at=time.time(),
                tree=number,
                head=head_of(find_repository(self.root)),
                reason=self.reason,
                earlier=tuple(earlier[:_MOST_EARLIER]),
            )
        )

    def name_session(self, session_id: str) -> None:
        """Set the session, if it was not known when the turn began."""
        if self._live is not None:
            self._live = replace(self._live, session_id=session_id)

    def save(self, paths: Iterable[str]) -> None:
        """Save files before they are written, as far as the look at the folder did not. Raises: OSError."""
        if self._live is None:
            return
        keeper = self._store.keeper()
        try:
            for path in paths:
                inner = self._inner(path)
                if inner is not None and inner not in self._named and not self._is_known(inner):
                    self._named[inner] = self._look(inner, keeper)
        finally:
            keeper.finish()

    def end(self, claims: AgentClaims, prompt: str = "", prompt_id: str = "") -> TurnChanges | None:
        """Look at the folder after the turn; return what changed. None if it was not followed.

        Raises:
            OSError: the store cannot be written.
        """
        live = self._live
        if live is None:
            return None
        keeper = self._store.keeper()
        try:
            changes, tree = self._changes(keeper)
            with Contents(self.root, self._store.packs) as contents:
                changes = attribute(changes, claims, self.root, contents)
                changes = with_renames([self._pinned(change, contents, keeper) for change in changes], contents)
        finally:
            keeper.finish(syncs=True)
        if keeper.problem:
            self._notes.append(f"some contents were not kept: {keeper.problem}")
        if tree is not None:
            keeper.correct(tree)
            for change in changes:
                at = tree.places.get(change.path)
                if at is not None:  # a program that has it mapped may still write it, without a new time
                    tree.ctimes[at] = -1
            if tree is not self._tree:
                self._store.save_tree(tree)
        record = TurnChanges(
            number=live.number,
            uid=live.uid,
            session_id=live.session_id,
            agent=live.agent,
            root=live.root,
            started_at=live.started_at,
            ended_at=time.time(),
            ended=0,
            changes=tuple(changes),
            earlier=live.earlier,
            head_before=live.head,
            head_after=head_of(find_repository(self.root)),
            reason=self.reason,
            overlaps=overlapping_sessions(self._base, self._store, live),
            notes=tuple(self._notes),
            prompt=prompt[:_PROMPT_CHARS],
            prompt_id=prompt_id,
        )
        record = self._store.end_turn(record)
        self.close()
        return record

    def close(self) -> None:
        """Forget a turn that is not followed any more."""
        live, self._live = self._live, None
        if live is not None:
            self._store.drop_live(live.number)
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
            self._lock_fd = -1

    # Inside

    def _refusal(self) -> str:
        if self.root == "/":
            return "it is the root of the file system"
        if self.root == self._home:
            return "it is your home folder"
        if is_strictly_below(self._home, self.root):
            return "your home folder is in it"
        try:
            path = os.path.join(self._store.folder, "refused")
            if time.time() - os.stat(path).st_mtime < _REFUSAL_SECONDS:
                with open(path, encoding="utf-8") as file:
                    return file.read(500)
        except (OSError, ValueError):
            pass
        return ""

    def _note_refusal(self) -> None:
        with suppress(OSError), open(os.path.join(self._store.folder, "refused"), "w", encoding="utf-8") as file:
            file.write(self.reason)

    def _scan(self, last_tree: Tree | None, keeper: Keeper, read: RuleReader | None = None) -> Tree:
        self._scanner = Scanner(self.root, self._limits, keeper, left_out=self._left_out, read=read)
        tree = self._scanner.scan(last_tree)
        for path in self._scanner.unstable:
            self._notes.append(f"{path} was being written all the time; its last whole content is used")
        return tree

    def _changes(self, keeper: Keeper) -> tuple[list[TreeChange], Tree | None]:
        tree: Tree | None = None
        changes: list[TreeChange] = []
        if self._tree is not None:
            try:
                with Contents(self.root, self._store.packs) as contents:
                    tree = self._scan(self._tree, keeper, partial(self._rules_before, contents))
            except ScanRefused as error:
                self._notes.append(f"the folder grew too large while the turn ran: {error}; {NAMED_ONLY}")
                self.reason = str(error)
                self._note_refusal()
            except OSError as error:
                self._notes.append(f"the folder cannot be read any more: {error.strerror or error}")
            else:
                with Contents(self.root, self._store.packs) as contents:
                    changes = differences(self._tree, tree, contents)
                # One that was an ordinary file at an earlier turn is still known.
                changes = [change for change in changes if os.path.join(self.root, change.path) not in self._left_out]
        seen = {change.path for change in changes}
        for path, named in self._named.items():
            if path in seen or (tree is not None and tree.state(path) is not None):
                continue
            now = self._look(path, keeper).state
            if now != named.state:
                changes.append(TreeChange(name=os.fsencode(path), before=named.state, after=now, is_sure=named.is_sure))
        return sorted(changes, key=lambda change: change.name), tree

    def _rules_before(self, contents: Contents, path: str, largest_bytes: int) -> bytes | None:
        """Read an ignore file as it was before the turn: an agent must not decide what is seen of its work."""
        inner = os.path.relpath(path, self.root)
        try:
            is_changed = os.lstat(path).st_ctime_ns >= self._started_ns - _CLOCK_NS
        except OSError:
            is_changed = True
        if not is_changed or not GENERATED.isdisjoint(inner.split("/")):
            return read_plain(path, largest_bytes)
        if path == self._excludes[0]:
            return self._excludes[1]
        state = None if self._tree is None else self._tree.state(inner)
        if state is None or not state.is_file:
            return None
        try:
            return contents.read(inner, state)
        except ContentMissing:
            return None  # what it excluded is seen then

    def _is_known(self, path: str) -> bool:
        """Whether the first look has saved a path already, or would have if it had been there."""
        tree = self._tree
        if tree is None:
            return False
        if tree.state(path) is not None:
            return True
        return os.path.dirname(path) in tree.folder_places and not tree.is_left_out(path) and not self._exists(path)

    def _exists(self, path: str) -> bool:
        return os.path.lexists(os.path.join(self.root, path))

    def _inner(self, path: str) -> str | None:
        """Return a path relative to the root; None if it is not below it."""
        folder, name = os.path.split(os.path.normpath(os.path.join(self.root, path)))
        place = os.path.join(os.path.realpath(folder), name)
        inner = os.path.relpath(place, self.root)
        is_git = inner == ".git" or inner.startswith(".git/") or "/.git/" in inner or inner.endswith("/.git")
        return None if inner == "." or inner.startswith("../") or inner == ".." or is_git else inner

    def _look(self, path: str, keeper: Keeper) -> _Named:
        place = os.path.join(self.root, path)
        reader = Reader(self._limits, keeper, time.time_ns() - RACY_NS)
        try:
            status = os.lstat(place)
        except OSError:
            return _Named(None, is_sure=self._was_missing(place))
        is_sure = status.st_ctime_ns < self._started_ns - RACY_NS
        if os.path.isdir(place) and not os.path.islink(place):
            return _Named(folder_state(status.st_mode), is_sure=is_sure)
        entry = reader.look(place, status, None)
        return _Named(None if entry is None else entry.state, is_sure=is_sure)

    def _was_missing(self, place: str) -> bool:
        """Whether a file that is not there now was not there when the turn began either."""
        folder = os.path.dirname(place)
        while folder != "/":
            try:
                status = os.stat(folder)
            except OSError:
                folder = os.path.dirname(folder)
                continue
            return max(status.st_ctime_ns, status.st_mtime_ns) < self._started_ns - RACY_NS
        return False

    def _pinned(self, change: TreeChange, contents: Contents, keeper: Keeper) -> TreeChange:
        """Keep contents of our own for the change: git may drop a blob once no commit and no index names it."""
        for side in ("before", "after"):
            state: FileState | None = getattr(change, side)
            if state is None or state.id[:1] != b"g" or state.size > self._limits.largest_kept_bytes:
                continue
            if keeper.kept_bytes > self._limits.folder_bytes // 4:
                continue
            try:
                content = contents.read(change.path, state)
            except ContentMissing as error:
                self._notes.append(f"{change.path}: {error}")
                continue
            id = keeper.keep(content)
            if id[:1] == b"s":
                change = replace(change, **{side: FileState(state.mode, state.size, id)})
        return change

    def _finish_dead(self, tree: Tree) -> None:
        """Complete the turns of programs that were killed: what changed since belongs to them, as far as known."""
        for live, is_alive in self._store.live_turns():
            if is_alive:
                continue
            start = self._store.tree(live.tree) if live.tree else None
            changes: list[TreeChange] = []
            if start is not None:
                with Contents(self.root, self._store.packs) as contents:
                    changes = with_renames(differences(start, tree, contents), contents)
            with suppress(OSError):
                self._store.end_turn(
                    TurnChanges(
                        number=live.number,
                        uid=live.uid,
                        session_id=live.session_id,
                        agent=live.agent,
                        root=live.root,
                        started_at=live.started_at,
                        ended_at=time.time(),
                        ended=0,
                        changes=tuple(changes),
                        earlier=live.earlier,
                        head_before=live.head,
                        head_after=head_of(find_repository(self.root)),
                        reason=live.reason,
                        is_interrupted=True,
                    )
                )


class TurnTracker:
    """The running turn of a session in all its folders; a folder inside another one is a part of it."""

    def __init__(
        self,
        base: str,
        roots: Sequence[str],
        *,
        limits: SnapshotLimits = SNAPSHOT_LIMITS,
        home: str | None = None,
        left_out: Sequence[str] = (),
    ) -> None:
        found: list[str] = []
        for root in sorted({os.path.realpath(root) for root in roots}):
            if not any(is_below(root, around) for around in found):
                found.append(root)
        self.folders = [FolderTracker(base, root, limits=limits, home=home, left_out=left_out) for root in found]
        self.problems: list[str] = []
        """Folders that are not followed, or not as a whole, each with the reason, for the user."""
        self.uid = os.urandom(8).hex()
        self._followed: list[FolderTracker] = []
        self._guard = RLock()  # files may be saved by several threads

    def begin(self, *, session_id: str = "", agent: str = "") -> None:
        """Look at the folders before the prompt is sent. One that cannot be followed is a problem, not an error."""
        with self._guard:
            for folder in self.folders:
                try:
                    folder.begin(session_id=session_id, agent=agent, uid=self.uid)
                except ScanStopped:
                    return
                except OSError as error:
                    self.problems.append(f"{folder.root}: changes are not tracked: {error.strerror or error}")
                    continue
                self._followed.append(folder)
                if folder.reason:
                    self.problems.append(f"{folder.root}: {NAMED_ONLY}: {folder.reason}")

    def name_session(self, session_id: str) -> None:
        """Set the session, if it was not known when the turn began."""
        for folder in self._followed:
            folder.name_session(session_id)

    def save(self, paths: Iterable[str]) -> None:
        """Save files that the agent is going to write, as far as the look at the folders did not."""
        paths = list(paths)
        with self._guard:
            for folder in self._followed:
                with suppress(OSError):
                    folder.save(paths)

    def end(self, claims: AgentClaims | None = None, prompt: str = "", prompt_id: str = "") -> list[TurnChanges]:
        """Look at the folders after the turn; return what changed in each."""
        records = []
        with self._guard:
            for folder in self._followed:
                try:
                    record = folder.end(claims or AgentClaims(), prompt, prompt_id)
                except (OSError, ScanStopped) as error:
                    self.problems.append(f"{folder.root}: changes are not known: {error}")
                    folder.close()
                    continue
                if record is not None:
                    records.append(record)
            self._followed = []
        return records

    def stop(self) -> None:
        """Make scans in other threads end soon."""
        for folder in self.folders:
            folder.stop()

    def close(self) -> None:
        """Forget a turn that did not happen."""
        self.stop()
        with self._guard:
            for folder in self._followed:
                folder.close()
            self._followed = []
