"""`dragoman worktrees`: the copies that `exec --worktree` and `compare` work in."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.suggestions import worktree_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.worktrees import Worktree, WorktreeChange

# Action -> the options it takes.
ACTIONS: Final = {
    "list": ("json", "cwd"),
    "path": ("cwd",),
    "diff": ("json", "cwd"),
    "merge": ("keep", "json", "cwd", "dry_run"),
    "discard": ("yes", "cwd"),
}
_MARKS: Final = {"created": "A", "modified": "M", "deleted": "D"}
_LEFT_OUT: Final = {
    "git": "files of git",
    "generated": "installed and generated files that git ignores",
    "large": "files that are too large",
}
_SEE_HELP: Final = "see dragoman worktrees --help"


def run(call: CliCall) -> int:
    from dragoman.worktrees import WorktreeError, project_of

    given = call.given
    action = given.action or "list"
    for option in COMMAND.options:
        name = option.flag.lstrip("-").replace("-", "_")
        if getattr(given, name) not in (None, False) and name not in ACTIONS[action]:
            takers = [taker for taker, options in ACTIONS.items() if name in options]
            raise exits.CliError(f"{option.flag} goes with {' and '.join(takers)}", hint=_SEE_HELP)
    folder = given.cwd or "."
    if not os.path.isdir(folder):
        raise exits.CliError(f"--cwd {folder}: not a folder", hint="name a folder of the project")
    try:
        project = project_of(folder)
        if action == "list":
            if given.name is not None:
                raise exits.CliError("worktrees list takes no name", hint=f"dragoman worktrees diff {given.name}")
            return _list(project, as_json=given.json)
        return _act(action, _named(project, given.name), call)
    except (WorktreeError, OSError) as error:
        raise exits.CliError(str(error), hint="dragoman worktrees list") from None


def _act(action: str, worktree: Worktree, call: CliCall) -> int:
    given = call.given
    if action == "path":
        sys.stdout.write(f"{worktree.folder}\n")
        return exits.OK
    if action == "discard":
        if given.paths:
            raise exits.CliError("worktrees discard takes one name", hint="to keep some files, merge them first")
        return _discard(worktree, is_sure=given.yes)
    from dragoman.worktrees import changes_of
    from dragoman.worktrees.changes import select

    changes = changes_of(worktree)
    chosen = select(changes, given.paths) if given.paths else changes
    if action == "diff":
        return _diff(worktree, chosen, as_json=given.json)
    return _merge(worktree, chosen, call, is_all=len(chosen) == len(changes))


def _named(project: str, name: str | None) -> Worktree:
    from dragoman.worktrees import find_worktree, list_worktrees

    known = list_worktrees(project)
    if name is None:
        if len(known) == 1:
            return known[0]
        names = ", ".join(worktree.name for worktree in known)
        raise exits.CliError(
            f"which worktree? There are {names}" if known else f"{project} has no worktrees",
            hint=_SEE_HELP if known else "dragoman exec --worktree NAME 'PROMPT'",
        )
    found = find_worktree(project, name)
    if found is None:
        raise exits.CliError(f"{project} has no worktree {name}", hint="dragoman worktrees list")
    return found


def _list(project: str, *, as_json: bool) -> int:
    from time import time

    from dragoman.cli.times import ago
    from dragoman.worktrees import WorktreeError, changes_of, list_worktrees

    rows = []
    for worktree in list_worktrees(project):
        try:
            count: int | None = len(changes_of(worktree))
        except WorktreeError:
            count = None
        rows.append((worktree, count))
    if as_json:
        write_json(
            [
                {
                    "name": worktree.name,
                    "folder": worktree.folder,
                    "project": worktree.project,
                    "kind": worktree.kind,
                    "commit": worktree.commit,
                    "created_at": worktree.created_at,
                    "files_changed": count,
                }
                for worktree, count in rows
            ]
        )
        return exits.OK
    if not rows:
        write_note(f"{project} has no worktrees; dragoman exec --worktree NAME 'PROMPT' makes one")
        return exits.OK
    table = [
        (
            worktree.name,
            "?" if count is None else str(count),
            ago(worktree.created_at, time()),
            (worktree.commit or "")[:10],
            worktree.folder,
        )
        for worktree, count in rows
    ]
    write_table(("NAME", "FILES", "MADE", "COMMIT", "FOLDER"), table)
    return exits.OK


def _diff(worktree: Worktree, changes: Sequence[WorktreeChange], *, as_json: bool) -> int:
    from dragoman.worktrees import patch_of

    if as_json:
        write_json([{"path": change.path, "change": change.kind, "aside": change.aside} for change in changes])
        return exits.OK
    if not changes:
        write_note(f"worktree {worktree.name} is as it was made")
        return exits.OK
    for change in changes:
        what = _LEFT_OUT.get(change.aside or "")
        if what is not None:
            write_note(f"{_shown(change.path)} was {change.kind}; {what} are not in the patch")
    patch = patch_of(changes)
    if sys.stdout.isatty():
        from dragoman.text.terminal import plain

        sys.stdout.write(plain(patch.decode("utf-8", "replace")))
    else:
        sys.stdout.flush()
        sys.stdout.buffer.write(patch)
    return exits.OK


def _merge(worktree: Worktree, changes: Sequence[WorktreeChange], call: CliCall, *, is_all: bool) -> int:
    from dragoman.worktrees import apply_merge, discard_worktree, plan_merge

    given = call.given
    plan = plan_merge(worktree, changes, takes_ignored=bool(given.paths))
    is_planned_only = given.dry_run or bool(plan.conflicts)
    if given.json:
        write_json([{"path": file.path, "action": file.action, "reason": file.reason or None} for file in plan.paths])
    else:
        for file in plan.paths:
            sys.stdout.write(f"{file.action:8}  {_shown(file.path)}{f'  ({file.reason})' if file.reason else ''}\n")
    if plan.conflicts:
        count = len(plan.conflicts)
        raise exits.CliError(
            f"nothing was merged: {count} {'file is' if count == 1 else 'files are'} in conflict",
            hint=f"merge the others by name: dragoman worktrees merge {worktree.name} PATH..., or edit the file in "
            f"{worktree.folder}",
        )
    if is_planned_only:
        return exits.OK
    apply_merge(plan)
    is_done = is_all and not given.keep and not plan.left
    if is_done:
        discard_worktree(worktree)
    kept = "" if is_done else f"; the worktree is kept: dragoman worktrees discard {worktree.name}"
    write_note(f"{len(plan.writes)} of {len(plan.paths)} changed files written to {worktree.project}{kept}")
    return exits.OK


def _discard(worktree: Worktree, *, is_sure: bool) -> int:
    from dragoman.worktrees import WorktreeError, changes_of, discard_worktree

    lost = ""
    try:
        count = len(changes_of(worktree))
        if count:
            lost = f"{count} changed {'file' if count == 1 else 'files'} of the worktree {worktree.name}"
    except WorktreeError:
        if os.path.isdir(worktree.folder):
            lost = f"changes of the worktree {worktree.name} that cannot be read"
    if lost and not is_sure:
        if not sys.stdin.isatty():
            raise exits.CliError(f"{lost} would be lost", hint="add --yes to discard them")
        sys.stderr.write(f"Discard {lost}? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            write_note("nothing was discarded")
            return exits.OK
    discard_worktree(worktree)
    write_note(f"the worktree {worktree.name} is removed")
    return exits.OK


def _shown(path: str) -> str:
    from dragoman.text.visible import label

    return label(path, 4096)


COMMAND = CliCommand(
    run=run,
    description=(
        "Shows the copies of this project that dragoman exec --worktree and dragoman compare work in, and merges\n"
        "their changes into the project or throws them away. See docs/worktrees.md.\n"
        "  list     list the worktrees of the project, with the number of changed files\n"
        "  path     print the folder of a worktree\n"
        "  diff     print the changes as a patch\n"
        "  merge    write the changes into the project; with a conflict nothing is written\n"
        "  discard  remove a worktree with its changes"
    ),
    arguments=(
        Argument("action", "what to do (default: list)", choices=tuple(ACTIONS), is_optional=True),
        Argument("name", "the worktree (default: the only one)", is_optional=True, suggest=worktree_names),
        Argument("paths", "diff and merge: only these files and folders", is_optional=True, is_repeatable=True),
    ),
    options=(
        CliOption("--cwd", "a folder of the project (default: the current one)", value="FOLDER"),
        CliOption("--dry-run", "merge: only show what would be done"),
        CliOption("--keep", "merge: keep the worktree"),
        CliOption("--yes", "discard: do not ask"),
        JSON,
    ),
    examples=(
        "dragoman worktrees",
        "dragoman exec -a claude --worktree parser 'Rewrite the parser'",
        "dragoman worktrees diff parser",
        "dragoman worktrees merge parser --dry-run",
        "dragoman worktrees merge parser src/parser.py",
        "dragoman worktrees discard parser --yes",
    ),
)
