"""Diffs of the two versions: whole texts (version 1), changes with a git patch (version 2).

A patch that was made here from two texts is recognised by making it again, so texts that came along are believed only
if they say what the patch says.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.text.patches import PatchHunk, git_patch, read_patch
from dragoman.versions.frames import Frame, members, objects, own_meta, text, with_own

if TYPE_CHECKING:
    from dragoman.versions.losses import Losses


def to_v2(diff: Frame) -> Frame:
    """Translate a diff of version 1 to version 2; the two texts are kept in `_meta.dragoman`."""
    path, old, new = text(diff.get("path")), diff.get("oldText"), text(diff.get("newText"))
    before = old if isinstance(old, str) else None
    made = {
        "type": "diff",
        "changes": [{"operation": "add" if before is None else "modify", "path": path, "fileType": "text"}],
        "patch": {"format": "git_patch", "text": git_patch(path, before, new)},
    }
    if isinstance(diff.get("_meta"), dict):
        made["_meta"] = diff["_meta"]
    return with_own(made, oldText=before, newText=new)


def to_v1(diff: Frame, losses: Losses) -> list[Frame]:
    """Translate a diff of version 2 to content of version 1: the texts that came along, else one diff for each hunk."""
    changes = objects(diff.get("changes"))
    patch = members(diff.get("patch"))
    patch_text = text(patch.get("text")) if patch.get("format") == "git_patch" else ""
    whole = _whole_texts(diff, changes, patch_text)
    if whole is not None:
        return [whole]
    made: list[Frame] = []
    by_path: dict[str, list[PatchHunk]] = {}
    for hunk in read_patch(patch_text):
        by_path.setdefault(hunk.path, []).append(hunk)
    for change in changes:
        hunks = by_path.pop(text(change.get("path")), [])
        if hunks:
            losses.add("diff-hunks")
            made += [_diff(hunk, change) for hunk in hunks]
        if not hunks or change.get("operation") in ("move", "copy"):
            losses.add("diff-without-text")
            made.append({"type": "content", "content": {"type": "text", "text": _sentence(change)}})
    for hunks in by_path.values():  # a file of the patch that the list of changes does not name
        losses.add("diff-hunks")
        made += [_diff(hunk, {}) for hunk in hunks]
    return made


def _whole_texts(diff: Frame, changes: list[Frame], patch_text: str) -> Frame | None:
    kept = own_meta(diff)
    old, new = kept.get("oldText"), kept.get("newText")
    if len(changes) != 1 or not isinstance(new, str) or not (old is None or isinstance(old, str)):
        return None
    path = text(changes[0].get("path"))
    if git_patch(path, old, new) != patch_text:
        return None
    made: Frame = {"type": "diff", "path": path, "oldText": old, "newText": new}
    meta = dict(members(diff.get("_meta")))
    rest = {name: value for name, value in kept.items() if name not in ("oldText", "newText")}
    meta.pop("dragoman", None)
    if rest:
        meta["dragoman"] = rest
    return {**made, "_meta": meta} if meta else made


def _diff(hunk: PatchHunk, change: Frame) -> Frame:
    is_new = change.get("operation") == "add" or hunk.old is None
    new = "" if change.get("operation") == "delete" else hunk.new
    return {"type": "diff", "path": hunk.path, "oldText": None if is_new else hunk.old, "newText": new}


def _sentence(change: Frame) -> str:
    operation, path = text(change.get("operation"), "change"), text(change.get("path"))
    if operation in ("move", "copy"):
        return f"{operation} {text(change.get('oldPath'))} to {path}"
    return f"{operation} {path}"
