"""The changes of a turn as one patch that `git apply` accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.snapshots.packs import ContentMissing
from dragoman.snapshots.records import not_kept
from dragoman.workspace.patch_text import PatchSide, file_patch

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.snapshots.contents import Contents
    from dragoman.snapshots.entries import FileState
    from dragoman.snapshots.records import TreeChange


def build_patch(
    changes: Iterable[TreeChange], contents: Contents, prefix: str = ""
) -> tuple[bytes, list[str], dict[str, str]]:
    """Return the patch, the paths in it, and the paths that are not in it with the reason. Folders are not in patches.

    Args:
        prefix: what to put before the names, for a folder inside the one that the patch is for.
    """
    pieces, names, left_out = list[bytes](), list[str](), dict[str, str]()
    for change in changes:
        if not change.is_sure:
            left_out[change.path] = change.problem
            continue
        try:
            old = _side(change.old_path, change.before, contents, prefix)
            new = _side(change.path, change.after, contents, prefix)
        except ContentMissing as error:
            left_out[change.path] = str(error)
            continue
        piece = file_patch(old, new)
        if piece:
            pieces.append(piece)
            names.append(change.path)
        elif any(state is not None and not state.is_folder for state in (change.before, change.after)):
            left_out[change.path] = "only its permissions changed, in a way that git does not record"
    return b"".join(pieces), names, left_out


def _side(path: str, state: FileState | None, contents: Contents, prefix: str) -> PatchSide | None:
    if state is None or state.is_folder:
        return None
    if not state.is_kept:
        raise ContentMissing(not_kept(state))
    mode = "120000" if state.is_link else "100755" if state.mode & 0o111 else "100644"
    return PatchSide(prefix + path, mode, contents.read(path, state))
