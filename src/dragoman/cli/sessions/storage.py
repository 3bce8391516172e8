"""`dragoman sessions storage`: the room that snapshots take, and freeing it.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from dragoman.cli import console, exits
from dragoman.runs.changes import snapshots_folder
from dragoman.snapshots.limits import SNAPSHOT_LIMITS
from dragoman.snapshots.overlap import stored_folders
from dragoman.snapshots.session_turns import shown_path
from dragoman.snapshots.storage import StoredFolder, free, stored

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall


def show_storage(call: CliCall) -> int:
    base = snapshots_folder()
    if call.given.free is not None:
        return _free(base, call.given.free, call.given.keep_turns)
    if call.given.keep_turns is not None:
        raise exits.CliError("--keep-turns goes with --free", hint="dragoman sessions storage --free . --keep-turns 5")
    found = stored(base, SNAPSHOT_LIMITS)
    if call.given.json:
        console.write_json({"folder": shown_path(base), "limits": SNAPSHOT_LIMITS, "stored": [_data(e) for e in found]})
        return exits.OK
    if not found:
        console.write_note(f"there are no snapshots in {base}")
        return exits.OK
    rows = [
        (_size(entry.size_bytes), str(entry.turns), _when(entry), entry.folder + ("" if entry.exists else " (gone)"))
        for entry in found
    ]
    console.write_table(("SIZE", "TURNS", "LAST USED", "FOLDER"), rows)
    total = sum(entry.size_bytes for entry in found)
    limits = SNAPSHOT_LIMITS
    console.write_note(
        f"{_size(total)} of at most {_size(limits.total_bytes)}, {_size(limits.folder_bytes)} for one folder; "
        "--free FOLDER makes room"
    )
    return exits.OK


def _free(base: str, word: str, keep: str | None) -> int:
    if keep is not None and not keep.isdigit():
        raise exits.CliError(f"--keep-turns {keep}: write a number", hint="--keep-turns 5")
    roots = stored_folders(base)
    wanted = roots if word == "all" else [root for root in roots if root in (word, os.path.realpath(word))]
    if not wanted:
        raise exits.CliError(f"--free {word}: there are no snapshots of it", hint="dragoman sessions storage")
    failures = 0
    for root in wanted:
        try:
            freed = free(base, root, SNAPSHOT_LIMITS, keep_turns=int(keep or 0))
        except OSError as error:
            failures += 1
            console.write_note(f"not freed: {error}")
        else:
            console.write_note(f"{_size(max(0, freed))} freed: {root}")
    return exits.CHECK_FAILED if failures else exits.OK


def _data(entry: StoredFolder) -> dict[str, Any]:
    return {
        "folder": shown_path(entry.folder),
        "size_bytes": entry.size_bytes,
        "contents": entry.contents,
        "turns": entry.turns,
        "rewinds": entry.rewinds,
        "last_used_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(entry.last_used_at)),
        "exists": entry.exists,
    }


def _when(entry: StoredFolder) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(entry.last_used_at))


def _size(size: int) -> str:
    if size < 1024 * 1024:
        return f"{(size + 1023) // 1024} KiB"
    return f"{size / 1024 / 1024:.1f} MiB" if size < 1024**3 else f"{size / 1024**3:.2f} GiB"
