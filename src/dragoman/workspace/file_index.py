"""The files of a project for completion, without what git ignores, and which of them match what was typed.

Walks a folder on a thread, bounded in count and time. Used by the terminal client and by the host, for its clients.
"""

from __future__ import annotations

import asyncio
import os
import re
from time import monotonic
from typing import TYPE_CHECKING, Final, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dragoman.workspace.ignore import IgnoreStack

T = TypeVar("T")
MOST_SHOWN: Final = 50
MOST_FILES: Final = 50_000  # more than most projects have; about 5 MB of names
WALK_SECONDS: Final = 3.0
FRESH_SECONDS: Final = 15.0
"""A list of files that is older is made again when it is needed; until it is there the old one is used."""
_GIT: Final = ".git"
_RULES: Final = ".gitignore"
_BOUNDARIES: Final = frozenset("/_-. ")
_LONGEST_QUERY: Final = 200
_MOST_SCORED: Final = 5_000  # the nearest of the names that match


def ranked(query: str, rows: Iterable[tuple[str, T]]) -> list[T]:
    """Return what matches a query, the best first; equal ones in the order in which they came."""
    wanted = query[:_LONGEST_QUERY]
    if not wanted:
        return [row for _, row in _first(rows)]
    named = list(rows)
    scored: list[tuple[int, int, T]] = []
    for number in _matching(wanted, [name for name, _ in named]):
        name, row = named[number]
        score = match_score(wanted, name)
        if score is not None:
            scored.append((-score, number, row))
    scored.sort(key=lambda item: item[:2])
    return [row for _, _, row in scored[:MOST_SHOWN]]


def _matching(query: str, names: Sequence[str]) -> list[int]:
    """Return which names are worth a score. A key waits while this runs, over 50,000 names: one look at each."""
    folded = names if any(letter.isupper() for letter in query) else list(map(str.lower, names))
    whole = [number for number, name in enumerate(folded) if query in name]
    if len(whole) >= MOST_SHOWN:  # every one of them scores more than any other name
        return whole[:_MOST_SCORED]
    # Atomic: without that, a letter that is missing at the end is looked for in every way to match those before it.
    in_order = re.compile("".join(f"(?>.*?{re.escape(letter)})" for letter in query), re.DOTALL).match
    others = [number for number, name in enumerate(folded) if in_order(name)][:_MOST_SCORED]
    return [*dict.fromkeys([*whole, *others])]


def _first(rows: Iterable[T]) -> Iterator[T]:
    for number, row in enumerate(rows):
        if number >= MOST_SHOWN:
            return
        yield row


def match_score(query: str, name: str) -> int | None:
    """Return how well a name matches: every letter of the query occurs in its order. None if it does not match.

    Letters in a row, at the start of a part of the name, and in its last part count more; a long name counts less.
    Small letters match large ones, a large one only itself.
    """
    folded = name if any(letter.isupper() for letter in query) else name.lower()
    base = folded.rstrip("/").rfind("/") + 1
    whole = folded.find(query)
    if whole >= 0:
        at = folded.find(query, base)
        place = at if at >= 0 else whole
        starts = place == 0 or folded[place - 1] in _BOUNDARIES
        return 10_000 + (2_000 if at >= 0 else 0) + (1_000 if starts else 0) - min(len(name), 900)
    score, position, row = 0, 0, 0
    for letter in query:
        next_place = folded.find(letter, position)
        if next_place < 0:
            return None
        row = row + 1 if next_place == position else 0
        score += (
            5 * row
            + (10 if next_place == 0 or folded[next_place - 1] in _BOUNDARIES else 0)
            + (4 if next_place >= base else 0)
        )
        position = next_place + 1
    return score * 10 - min(len(name), 900)


class FileIndex:
    """The files and folders of a project, without what git ignores. Made on a thread, bounded in count and time."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.paths: Sequence[str] = ()
        self.is_cut = False
        """There are more files than are listed, or the walk took too long."""
        self._made_at: float | None = None
        self._making: asyncio.Task[None] | None = None
        self._is_over = False

    def refresh(self, done: Callable[[], None] | None = None) -> None:
        """Make the list again if it is old; `done` is called on the loop when a new one is there."""
        is_fresh = self._made_at is not None and monotonic() - self._made_at < FRESH_SECONDS
        if is_fresh or (self._making is not None and not self._making.done()):
            return
        self._making = asyncio.ensure_future(self._make(done))

    async def made(self) -> Sequence[str]:
        """Return the list; one that was never made is waited for, an old one is made again meanwhile."""
        self.refresh()
        if self._made_at is None and self._making is not None:
            await asyncio.wait([self._making])
        return self.paths

    @property
    def is_made_now(self) -> bool:
        """Whether a walk is under way."""
        return self._making is not None and not self._making.done()

    def close(self) -> None:
        """Stop a walk that is under way."""
        self._is_over = True
        if self._making is not None:
            self._making.cancel()

    async def _make(self, done: Callable[[], None] | None) -> None:
        self.paths, self.is_cut = await asyncio.to_thread(list_files, self.folder, lambda: self._is_over)
        self._made_at = monotonic()
        if done is not None:
            done()


def list_files(
    folder: str, is_over: Callable[[], bool] = lambda: False, *, most: int = MOST_FILES, seconds: float = WALK_SECONDS
) -> tuple[list[str], bool]:
    """Return the paths below a folder, the nearest first; folders end with a slash. Also whether some were left out.

    What git ignores and names that begin with a dot are left out, links are listed and not followed.
    """
    from dragoman.workspace.ignore import IgnoreStack

    end = monotonic() + seconds
    paths: list[str] = []
    waiting: list[tuple[str, IgnoreStack]] = [("", IgnoreStack.above(folder))]
    while waiting:
        deeper: list[tuple[str, IgnoreStack]] = []
        for before, rules in waiting:
            if is_over() or monotonic() > end:
                return paths, True
            for path, inner in _entries(folder, before, rules):
                if len(paths) >= most:
                    return paths, True
                paths.append(path)
                if inner is not None:
                    deeper.append((path, inner))
        waiting = deeper
    return paths, False


def _entries(start: str, before: str, rules: IgnoreStack) -> Iterator[tuple[str, IgnoreStack | None]]:
    """Yield the entries of one folder by name, each folder with the rules that hold there."""
    folder = os.path.join(start, before)
    try:
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except OSError:
        return  # not readable, or deleted in the meantime
    if before:
        names = {entry.name for entry in entries if entry.name in (_GIT, _RULES)}
        rules = rules.inside(folder, before[:-1], has_rules=_RULES in names, is_repository=_GIT in names)
    for entry in entries:
        name = entry.name
        try:
            name.encode()
            is_folder = entry.is_dir(follow_symlinks=False)
        except (UnicodeEncodeError, OSError):
            continue  # a name that is not UTF-8 cannot be put into a prompt
        decision = rules.decide(before + name, name, is_folder)
        is_written = name.isprintable() and '"' not in name  # a mention in quotes ends with the next one
        if name == _GIT or decision or (decision is None and name.startswith(".")) or not is_written:
            continue
        yield (f"{before}{name}/", rules) if is_folder else (before + name, None)
