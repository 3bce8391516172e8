"""What differs between two trees: per path, with renames found by content.

Pure but for the bytes of contents, which are asked for where a rename or a converted id makes that necessary. A path
that the rules left out in the first tree is not a new one in the second: it was there before.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Final

from dragoman.snapshots.entries import stored_id
from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.records import TreeChange

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.entries import FileState
    from dragoman.snapshots.records import ChangedBy
    from dragoman.snapshots.tree import Tree

# Pairs of a deleted and a new file that are compared line by line, and how large such a file may be.
_MOST_PAIRS: Final = 400
_LARGEST_BYTES: Final = 512 * 1024
_SIMILAR: Final = 0.6


def differences(old: Tree, new: Tree, contents: Contents, by: ChangedBy = "turn") -> list[TreeChange]:
    """Return the changes from one tree to another, sorted by path, without renames."""
    if old is new:
        return []
    found: dict[str, TreeChange] = {}
    for path, before, after in _differing(old, new):
        if before is None and old.is_left_out(path):
            continue
        is_kept = before is not None and after is not None and before.mode == after.mode
        if is_kept and contents.is_same(path, before, after):  # type: ignore[arg-type]  # neither is None
            continue
        found[path] = TreeChange(name=os.fsencode(path), before=before, after=after, by=by)
    return [found[path] for path in sorted(found)]


def _differing(old: Tree, new: Tree) -> Iterator[tuple[str, FileState | None, FileState | None]]:
    before, after = old.places, new.places
    for path, at in after.items():
        was = before.get(path)
        if was is None or old.ids[was] != new.ids[at] or old.modes[was] != new.modes[at]:
            yield path, old.state(path), new.state(path)
    for path in before.keys() - after.keys():
        if path not in new.folder_places:  # a file that became a folder is found below
            yield path, old.state(path), None
    folders = old.folder_places
    for path, at in new.folder_places.items():
        was = folders.get(path)
        if was is None or old.rows[was].mode != new.rows[at].mode:
            yield path, old.state(path), new.state(path)
    for path in folders.keys() - new.folder_places.keys():
        if path not in after:
            yield path, old.state(path), None


def expanded(changes: Iterable[TreeChange]) -> list[TreeChange]:
    """Return the same changes with every rename as two: the old path is gone, and the new one is new."""
    found = []
    for change in changes:
        if change.origin is None:
            found.append(change)
            continue
        gone = TreeChange(name=change.origin, before=change.before, after=None, by=change.by, is_sure=change.is_sure)
        made = TreeChange(name=change.name, before=None, after=change.after, by=change.by, is_sure=change.is_sure)
        found += [gone, made]
    return found


def with_renames(changes: Sequence[TreeChange], contents: Contents) -> list[TreeChange]:
    """Join a deleted and a new file that have the same content, or nearly the same lines."""
    deleted = [change for change in changes if change.after is None and _is_file(change.before)]
    created = [change for change in changes if change.before is None and _is_file(change.after)]
    if not deleted or not created:
        return list(changes)
    pairs: dict[bytes, TreeChange] = {}  # the name of the new file -> the deleted one
    by_content: dict[bytes, list[TreeChange]] = {}
    for change in deleted:
        by_content.setdefault(_comparable(change.path, change.before, contents), []).append(change)
    for change in created:
        same = by_content.get(_comparable(change.path, change.after, contents))
        if same:
            best = next((old for old in same if _last(old) == _last(change)), same[0])
            same.remove(best)
            pairs[change.name] = best
    paired = {pair.name for pair in pairs.values()}
    rest = [change for change in deleted if change.name not in paired]
    unpaired = [change for change in created if change.name not in pairs]
    if rest and unpaired and len(rest) * len(unpaired) <= _MOST_PAIRS:
        _pair_similar(rest, unpaired, contents, pairs)
    joined = {pair.name for pair in pairs.values()}
    found = []
    for change in changes:
        origin = pairs.get(change.name)
        if origin is not None and change.before is None:
            sure = change.is_sure and origin.is_sure
            by: ChangedBy = "agent" if change.by == origin.by == "agent" else change.by
            found.append(
                TreeChange(
                    name=change.name,
                    before=origin.before,
                    after=change.after,
                    by=by,
                    origin=origin.name,
                    is_sure=sure,
                )
            )
        elif not (change.name in joined and change.after is None):
            found.append(change)
    return found


def _pair_similar(
    deleted: Sequence[TreeChange], created: Sequence[TreeChange], contents: Contents, pairs: dict[bytes, TreeChange]
) -> None:
    lines = {
        id(change): _lines(change.path, change.before or change.after, contents) for change in (*deleted, *created)
    }
    scores = []
    for old in deleted:
        for new in created:
            one, other = lines[id(old)], lines[id(new)]
            if one and other:
                score = 2 * (one & other).total() / (one.total() + other.total())
                if score >= _SIMILAR:
                    scores.append((score, _last(old) == _last(new), old, new))
    used: set[int] = set()
    for _, _, old, new in sorted(scores, key=lambda score: score[:2], reverse=True):
        if id(old) not in used and id(new) not in used:
            used |= {id(old), id(new)}
            pairs[new.name] = old


def _lines(path: str, state: FileState | None, contents: Contents) -> Counter[bytes] | None:
    if state is None or state.size > _LARGEST_BYTES:
        return None
    try:
        data = contents.read(path, state)
    except ContentMissing:
        return None
    return None if b"\0" in data else Counter(data.splitlines())


def _comparable(path: str, state: FileState | None, contents: Contents) -> bytes:
    assert state is not None
    if state.id[:1] == b"g" and state.size <= _LARGEST_BYTES:
        try:
            return stored_id(contents.read(path, state))
        except ContentMissing:
            return state.id
    return state.id


def _is_file(state: FileState | None) -> bool:
    return state is not None and state.is_file and state.size > 0


def _last(change: TreeChange) -> bytes:
    return os.path.basename(change.name)
