"""`--patch FILE`: the changes of a run as one patch that `git apply` accepts.

Two sources are joined. What dragoman wrote for the agent is known exactly (`workspace/journal.py`). What the agent
wrote itself is known from its tool calls, which show whole texts or only the pieces that were replaced: the old content
is found by taking the shown changes back from the file as it is at the end, or by the copy that was made when the call
was announced, before the agent acted. A change that cannot be found like this is left out and named: a patch is never a
guess.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from dragoman.runs import result as results
from dragoman.schema import v1
from dragoman.state.tools import ToolCallState
from dragoman.workspace.patch_text import PatchSide, file_patch

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.state import SessionState
    from dragoman.state.turns import TurnState
    from dragoman.workspace import Change

_MOST_BYTES: Final = 4 * 1024 * 1024  # of one file
_CHANGING: Final = frozenset({"edit", "delete", "move"})


class Version(NamedTuple):
    """A file before and after; None for no file."""

    before: bytes | None
    after: bytes | None


class PatchWatch:
    """Copies files before an agent changes them, as far as it announces that, and makes the patch at the end.

    Args:
        root: the folder of the run; the paths of the patch start there.
    """

    def __init__(self, root: str) -> None:
        self._root = os.path.realpath(root)
        self._copies: dict[str, bytes | None] = {}

    def note(self, call: ToolCallState) -> None:
        """Copy the files of a call that is going to change them."""
        if call.status not in ("completed", "failed"):
            paths = [place.path for place in call.locations] if call.kind in _CHANGING else []
            self.copy([*paths, *(item.path for item in call.content if isinstance(item, v1.Diff))])

    def copy(self, paths: Iterable[str]) -> None:
        """Copy files, unless they were copied before."""
        for path in paths:
            place = self._place(path)
            if place not in self._copies:
                try:
                    self._copies[place] = _read(place)
                except OSError:
                    continue

    def build(
        self, changes: Iterable[Change], state: SessionState | None, turn: TurnState | None
    ) -> tuple[bytes, list[str], list[results.LeftOut]]:
        """Return the patch, the files in it, and what is not in it."""
        versions, left_out = self._versions(changes, state, turn)
        pieces, files = [], []
        for place in sorted(versions):
            before, after = versions[place]
            name = os.path.relpath(place, self._root)
            if before == after:
                continue
            if name.startswith(".."):
                left_out[place] = "it is outside the folder of the run"
            elif any(content is not None and b"\0" in content for content in (before, after)):
                left_out[place] = "it is not text"
            else:
                mode = _mode(place)
                old = None if before is None else PatchSide(name, "100644" if after is None else mode, before)
                pieces.append(file_patch(old, None if after is None else PatchSide(name, mode, after)))
                files.append(place)
        return b"".join(pieces), files, [results.LeftOut(path, reason) for path, reason in sorted(left_out.items())]

    def _versions(
        self, changes: Iterable[Change], state: SessionState | None, turn: TurnState | None
    ) -> tuple[dict[str, Version], dict[str, str]]:
        versions: dict[str, Version] = {}
        for change in changes:
            place = self._place(change.path)
            known = versions.get(place)
            versions[place] = Version(change.before if known is None else known.before, change.after)
        left_out: dict[str, str] = {}
        for place, diffs in self._shown(state, turn).items():
            if place in versions:
                continue
            try:
                after = _read(place)
            except OSError as error:
                left_out[place] = f"it cannot be read: {error.strerror or error}"
                continue
            found = self._before(place, after, diffs)
            if isinstance(found, str):
                left_out[place] = found
            else:
                versions[place] = Version(found[0], after)
        return versions, left_out

    def _shown(self, state: SessionState | None, turn: TurnState | None) -> dict[str, list[v1.Diff]]:
        """Return the changes that completed calls show, by file; without a change for a file that was deleted."""
        shown: dict[str, list[v1.Diff]] = {}
        items: Sequence[object] = () if state is None or turn is None else state.timeline[turn.start : turn.end]
        for call in items:
            if isinstance(call, ToolCallState) and call.status == "completed":
                if call.kind in ("delete", "move"):
                    for location in call.locations:
                        shown.setdefault(self._place(location.path), [])
                for item in call.content:
                    if isinstance(item, v1.Diff):
                        shown.setdefault(self._place(item.path), []).append(item)
        return shown

    def _before(self, place: str, after: bytes | None, diffs: Sequence[v1.Diff]) -> tuple[bytes | None] | str:
        """Return the content before the changes, or why it is not known."""
        copied = self._copies.get(place)
        has_copy = place in self._copies and copied != after  # otherwise it was made too late
        if has_copy and _replay(copied, diffs) == _comparable(after):
            return (copied,)
        found = _take_back(after, diffs) if diffs else None
        if found is not None:
            return found
        if has_copy:
            return (copied,)
        return "its content before the change is not known: the tool call shows only a piece of it"

    def _place(self, path: str) -> str:
        """Return the file itself: its folder without links, so that one file has one name."""
        joined = os.path.normpath(os.path.join(self._root, path))
        folder, name = os.path.split(joined)
        return os.path.join(os.path.realpath(folder), name)


def write_patch(path: str, data: bytes, files: list[str], left_out: list[results.LeftOut]) -> results.RunPatch:
    """Write a patch; an empty file if nothing changed.

    Raises:
        OSError: the file cannot be written.
    """
    with open(path, "wb") as file:
        file.write(data)
    return results.RunPatch(os.path.abspath(path), files, left_out)


def _read(place: str) -> bytes | None:
    """Return the content of a regular file, None if there is none.

    Raises:
        OSError: it is something else, too large, or cannot be read.
    """
    try:
        if not os.path.isfile(place) or os.path.islink(place):
            os.lstat(place)
            raise OSError(f"{place} is not a regular file")
        with open(place, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return None
    if len(data) > _MOST_BYTES:
        raise OSError(f"{place} is too large")
    return data


def _mode(place: str) -> str:
    return "100755" if os.access(place, os.X_OK) else "100644"


def _take_back(after: bytes | None, diffs: Sequence[v1.Diff]) -> tuple[bytes | None] | None:
    """Return the content without these changes, in a tuple because it may be no file; None if one does not fit."""
    text = None if after is None else after.decode("utf-8", "surrogateescape")
    for diff in reversed(diffs):
        old, new = diff.old_text if isinstance(diff.old_text, str) else None, diff.new_text
        if text is None or _is_same(text, new):
            if text is None and new:
                return None
            text = old or None  # some agents report a new file as one that was empty
        elif old is not None and new and text.count(new) == 1:
            text = text.replace(new, old, 1)
        else:
            return None
    return (None if text is None else text.encode("utf-8", "surrogateescape"),)


def _replay(before: bytes | None, diffs: Sequence[v1.Diff]) -> str | None:
    """Return the text after these changes, comparable; None for no file, or if a change does not fit."""
    text = None if before is None else before.decode("utf-8", "surrogateescape")
    for diff in diffs:
        old, new = diff.old_text if isinstance(diff.old_text, str) else None, diff.new_text
        if old is None or text is None or _is_same(text, old):
            text = new
        elif old and old in text:
            text = text.replace(old, new, 1)
        else:
            return None
    return None if text is None else text.rstrip("\n")


def _comparable(content: bytes | None) -> str | None:
    return None if content is None else content.decode("utf-8", "surrogateescape").rstrip("\n")


def _is_same(text: str, other: str) -> bool:
    """Whether both are the same up to one newline at the end."""
    return text.removesuffix("\n") == other.removesuffix("\n")
