"""A folder, its snapshots, and turns that are functions."""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path

from dragoman.snapshots.attribution import AgentClaims
from dragoman.snapshots.limits import SNAPSHOT_LIMITS, SnapshotLimits
from dragoman.snapshots.records import TurnChanges
from dragoman.snapshots.rewind import Choice, Rewinder, RewindOutcome, RewindPlan
from dragoman.snapshots.tracking import TurnTracker

GIT_ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example",
}


class Folder:
    """A project folder whose turns are followed."""

    def __init__(self, place: Path, limits: SnapshotLimits = SNAPSHOT_LIMITS) -> None:
        self.root = place / "project"
        self.root.mkdir(exist_ok=True)
        self.base = str(place / "snapshots")
        self.home = str(place / "home")
        self.limits = limits

    def write(self, path: str, content: str | bytes = "text\n", mode: int | None = None) -> Path:
        place = self.root / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            place.chmod(mode)
        return place

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def tracker(self) -> TurnTracker:
        return TurnTracker(self.base, [str(self.root)], limits=self.limits, home=self.home)

    def turn(
        self,
        work: Callable[[], object] = lambda: None,
        *,
        session: str = "s1",
        saves: Iterable[str] = (),
        claims: AgentClaims | None = None,
    ) -> TurnChanges:
        tracker = self.tracker()
        tracker.begin(session_id=session, agent="an-agent")
        tracker.save([str(self.root / path) for path in saves])
        work()
        records = tracker.end(claims)
        assert len(records) == 1, tracker.problems
        return records[0]

    @property
    def rewinder(self) -> Rewinder:
        return Rewinder(self.base, str(self.root), self.limits)

    def plan(self, last: int = 1, session: str = "s1") -> RewindPlan:
        rewinder = self.rewinder
        return rewinder.plan(rewinder.active_turns(session)[-last:])

    def rewind(self, last: int = 1, choices: dict[str, Choice] | None = None) -> RewindOutcome:
        return self.rewinder.apply(self.plan(last), choices)

    def redo(self) -> RewindOutcome:
        plan = self.rewinder.plan_redo()
        assert plan is not None
        return self.rewinder.apply(plan)

    def git(self, *words: str) -> str:
        environment = {**os.environ, **GIT_ENVIRONMENT}
        done = subprocess.run(
            ["git", *words], check=False, cwd=self.root, env=environment, capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def commit(self, message: str = "a commit") -> None:
        if not (self.root / ".git").exists():
            self.git("init", "-q", "-b", "main", ".")
        self.git("add", "-A")
        self.git("commit", "-q", "-m", message)
        self.age()

    def age(self) -> None:
        """Make git take its index for later than the files, as it is for any checkout that is a moment old."""
        index = self.root / ".git" / "index"
        status = index.stat()
        os.utime(index, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def kinds(record: TurnChanges) -> dict[str, str]:
    """Path -> kind of its change."""
    return {change.path: change.kind for change in record.changes}


def contents(root: Path) -> dict[str, object]:
    """Everything below a folder but `.git`: kind, mode and content of each path."""
    found: dict[str, object] = {}
    for place, folders, files in os.walk(os.fsencode(root)):
        folders[:] = [name for name in folders if name != b".git"]
        for name in (*folders, *files):
            path = os.path.join(place, name)
            status = os.lstat(path)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(root)))
            if stat.S_ISLNK(status.st_mode):
                found[key] = ("link", os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                found[key] = (stat.S_IMODE(status.st_mode), Path(os.fsdecode(path)).read_bytes())
            else:
                found[key] = stat.S_IFMT(status.st_mode), stat.S_IMODE(status.st_mode)
    return found
