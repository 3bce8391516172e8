"""The option `--worktree NAME` of `exec` and of the terminal client: a run works in a copy of the project.

`commands/worktrees.py` merges and discards it.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from dragoman.cli.console import write_note
from dragoman.cli.exits import CliError

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.worktrees import Worktree


def enter_worktree(call: CliCall) -> Worktree:
    """Make the worktree that the call names, or find it, and put its folders in the place of the project's.

    Raises:
        CliError: it cannot be made, or the folder to work in is not in it.
    """
    from dragoman.worktrees import WorktreeError, make_worktree

    given = call.given
    if getattr(given, "url", None) is not None:
        raise CliError("--worktree is for agents on this machine", hint="leave out --url, or --worktree")
    folder = os.path.abspath(given.cwd or ".")
    if not os.path.isdir(folder):
        raise CliError(f"--cwd {folder}: not a folder", hint="name a folder that exists")
    try:
        worktree = make_worktree(folder, given.worktree, write_note)
    except (WorktreeError, OSError) as error:
        raise CliError(f"--worktree {given.worktree}: {error}", hint="see docs/worktrees.md") from None
    inside = worktree.inside(folder)
    if not os.path.isdir(inside):
        raise CliError(
            f"--worktree {worktree.name} has no folder {os.path.relpath(inside, worktree.folder)}: git ignores it or "
            "does not know it",
            hint="--cwd with a folder that has files of the project",
        )
    given.cwd = inside
    if hasattr(given, "add_dir"):
        given.add_dir = [_inside(worktree, os.path.abspath(path)) for path in given.add_dir]
    return worktree


def note_worktree(worktree: Worktree) -> None:
    """Show what the run left in the worktree, and what can be done with it."""
    from dragoman.worktrees import WorktreeError, changes_of

    try:
        changes = changes_of(worktree)
    except (WorktreeError, OSError) as error:
        write_note(f"worktree {worktree.name}: {error}")
        return
    what = "1 file differs" if len(changes) == 1 else f"{len(changes)} files differ"
    aside = sum(change.aside is not None for change in changes)
    sys.stdout.flush()
    if aside:
        write_note(
            f"worktree {worktree.name}: {aside} of the {len(changes)} are files of git, or ignored only by rules that "
            "were changed in the worktree, or too large; a merge leaves them"
        )
    write_note(
        f"worktree {worktree.name}: {what} from the project's; look: dragoman worktrees diff {worktree.name}; "
        f"take over: dragoman worktrees merge {worktree.name}; throw away: dragoman worktrees discard {worktree.name}"
    )


def _inside(worktree: Worktree, folder: str) -> str:
    from dragoman.policy.paths import is_below

    real = os.path.realpath(folder)
    if is_below(worktree.project, real) and real != worktree.project:
        raise CliError(
            f"--add-dir {folder}: it contains the project, which is closed to the worktree {worktree.name}",
            hint="name a folder next to the project",
        )
    return worktree.inside(real) if is_below(real, worktree.project) else folder
