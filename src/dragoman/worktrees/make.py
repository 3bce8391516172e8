"""How a worktree is made: the commit with git, then everything the user has changed since; or a copy of the folder."""

from __future__ import annotations

import os
import shutil
import stat
from contextlib import suppress
from datetime import UTC, datetime
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Final, Literal

from msgspec.structs import replace

from dragoman.process.sandbox.policy import linked_git
from dragoman.workspace.ignore import RULES_FILE, read_plain
from dragoman.worktrees.base import (
    GIT,
    MOST_RULES_BYTES,
    Base,
    base_of,
    files_in,
    is_in_git,
    keep_base,
)
from dragoman.worktrees.git import WorktreeError, names_in, run_git, top_folder
from dragoman.worktrees.worktree import (
    Worktree,
    check_name,
    content_of,
    find_worktree,
    keep_record,
    mode_of,
    project_of,
    remove_place,
    worktree_at,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MOST_FILES: Final = 200_000
MOST_BYTES: Final = 4 * 1024**3
_MOST_KEPT_BYTES: Final = 64 << 20  # of one file that filters of git made; of a larger one the project's own is used


def make_worktree(folder: str, name: str, note: Callable[[str], None] = lambda text: None) -> Worktree:
    """Return the worktree of this name for the project of a folder; a new one is made if there is none.

    Args:
        folder: A folder of the project.
        name: Up to 64 letters, digits, dots, dashes and underscores.
        note: Called with a sentence about what the copy does not have.

    Raises:
        WorktreeError: it cannot be made; nothing is left of it then.
    """
    check_name(name)
    project = project_of(folder)
    if project in ("/", os.path.realpath(os.path.expanduser("~"))):
        raise WorktreeError(f"{project} is not copied: name the folder of a project")
    known = find_worktree(project, name)
    if known is not None and os.path.isdir(known.folder):
        return known
    outer = worktree_at(project)
    git_folder = _git_folder(folder) if outer is None else outer.git_folder
    remove_place(project, name, git_folder)  # what an interrupted run left
    made = Worktree(
        name=name,
        project=project,
        kind="copy" if git_folder is None else "git",
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        git_folder=git_folder,
    )
    os.makedirs(os.path.dirname(made.folder), mode=0o700)
    try:
        made = _copied(made) if git_folder is None else _from_commit(made, git_folder, outer, note)
        keep_record(made)
    except BaseException:
        with suppress(WorktreeError):
            remove_place(project, name, git_folder)
        raise
    return made


def _git_folder(folder: str) -> str | None:
    """Return the folder of git's files that the work trees of a repository share; None without git or a commit."""
    if top_folder(folder) is None:
        return None
    found = run_git(folder, ["rev-parse", "--path-format=absolute", "--git-common-dir"])
    return os.path.realpath(os.fsdecode(found.removesuffix(b"\n")))


def _from_commit(made: Worktree, git_folder: str, outer: Worktree | None, note: Callable[[str], None]) -> Worktree:
    project = made.project
    if outer is None or outer.commit is None:
        commit = run_git(project, ["rev-parse", "--verify", "HEAD^{commit}"]).decode().strip()
    else:
        # The worktree's own HEAD, index and settings are an agent's to write.
        commit = outer.commit
    run_git(
        git_folder,
        ["worktree", "add", "--quiet", "--force", "--detach", made.folder, commit],
        git_folder=git_folder,
    )
    git = linked_git(os.path.realpath(made.folder))
    if git is not None:
        # Settings of its own that git may read. Without the file nothing could be mounted over it.
        with open(os.path.join(git.own, "config.worktree"), "ab"):
            pass
    if os.path.isfile(os.path.join(made.folder, ".gitmodules")):
        note("submodules of the project are empty folders in the worktree; git submodule update fills them")
    changed = _changed(project) if outer is None else list(_changed_in(outer, made))
    for path in changed:  # all of them before the first copy, which may be a link that leads elsewhere
        if _has_own_folder(made.folder, path):
            with suppress(FileNotFoundError, IsADirectoryError):
                os.unlink(os.path.join(made.folder, path))
    for path in changed:
        source = os.path.join(project, path)
        if _has_own_folder(project, path) and mode_of(source) is not None:
            _copy(source, os.path.join(made.folder, path))
            _copy(source, str(made.place / "base" / path))
    made = replace(made, commit=commit)
    base = _base_of_commit(made, git_folder, commit)
    if outer is not None:  # rules that an agent made there do not decide what counts here
        above = base_of(outer)
        base = replace(base, rules=above.rules, folder_rules=above.folder_rules)
    keep_base(made, base)
    return made


def _changed(project: str) -> list[str]:
    """Return the paths whose content differs from the commit, those that git does not know included."""
    own = run_git(project, ["rev-parse", "--path-format=absolute", "--git-path", "index"])
    words = ["diff", "--name-only", "--no-renames", "--ignore-submodules", "-z", "HEAD"]
    with TemporaryDirectory(prefix="dragoman-index-") as place:
        # Git notes what it compared in the index, and the user's is not touched.
        index = os.path.join(place, "index")
        with suppress(FileNotFoundError):
            shutil.copy2(os.fsdecode(own.removesuffix(b"\n")), index)
        listed = names_in(run_git(project, words, index=index))
    unknown = names_in(run_git(project, ["ls-files", "--others", "--exclude-standard", "-z"]))
    # A nested repository is listed as a folder; its files are not the project's.
    return [path for path in dict.fromkeys([*listed, *unknown]) if not path.endswith("/")]


def _changed_in(outer: Worktree, made: Worktree) -> Iterator[str]:
    """Yield the paths of a worktree that differ from the commit that a copy of it begins with."""
    base = base_of(outer)
    there = {found.path for found in files_in(outer, base) if not is_in_git(found.path)}
    checked_out = {path for path, is_folder in walk(made.folder) if not is_folder and path != GIT}
    for path in sorted(there | checked_out):
        places = (os.path.join(outer.folder, path), os.path.join(made.folder, path))
        if path not in there or base.look(places[0]) != base.look(places[1]):
            yield path


def _base_of_commit(made: Worktree, git_folder: str, commit: str) -> Base:
    """Note every file of a new worktree, and keep those that no object of git has as they are: filters made them."""
    listed = run_git(git_folder, ["ls-tree", "-r", "-z", commit], git_folder=git_folder).split(b"\0")
    committed: dict[bytes, bytes] = {}
    submodules = []
    for entry in filter(None, listed):
        facts, _, name = entry.partition(b"\t")
        mode, _, id = facts.split()
        if mode == b"160000":
            submodules.append(name)
        else:
            committed[name] = bytes.fromhex(id.decode())
    algorithm: Literal["sha1", "sha256"] = "sha1" if len(commit) == 40 else "sha256"
    base = Base(
        files={},
        algorithm=algorithm,
        submodules=submodules,
        rules=_rules(git_folder),
        folder_rules={},
        link=content_of(os.path.join(made.folder, GIT)) or b"",
    )
    for path, is_folder in walk(made.folder):
        found = None if is_folder or path == GIT else base.look(os.path.join(made.folder, path))
        if found is None:
            continue
        name = os.fsencode(path)
        base.files[name] = found
        if os.path.basename(path) == RULES_FILE:
            rules = read_plain(os.path.join(made.folder, path), MOST_RULES_BYTES)
            base.folder_rules.update({} if rules is None else {os.path.dirname(name): rules})
        kept = str(made.place / "base" / path)
        if committed.get(name) != found.id and found.size <= _MOST_KEPT_BYTES and not os.path.lexists(kept):
            _copy(os.path.join(made.folder, path), kept)
    return base


def _rules(git_folder: str) -> list[bytes]:
    """Return what git ignores by files outside of a work tree: those of the user, then those of the repository."""
    named = run_git(
        git_folder, ["config", "--type=path", "--get", "core.excludesFile"], codes=(0, 1), git_folder=git_folder
    )
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    users = os.fsdecode(named.removesuffix(b"\n")) or os.path.join(folder, "git", "ignore")
    places = (users, os.path.join(git_folder, "info", "exclude"))
    return [text for place in places if (text := read_plain(os.path.realpath(place), MOST_RULES_BYTES))]


def _copied(made: Worktree) -> Worktree:
    base = Base(files={})
    size_bytes = 0
    os.mkdir(made.folder)
    for path, is_folder in walk(made.project):
        source, target = os.path.join(made.project, path), os.path.join(made.folder, path)
        if is_folder:
            os.makedirs(target, exist_ok=True)
            continue
        size_bytes += os.lstat(source).st_size
        if len(base.files) >= MOST_FILES or size_bytes > MOST_BYTES:
            raise WorktreeError(
                f"{made.project} has more than {MOST_FILES:,} files or {MOST_BYTES >> 30} GiB and is not copied; make "
                "it a git repository, or work in a smaller folder"
            )
        if mode_of(source) is not None:
            _copy(source, target)
            found = base.look(target)
            assert found is not None  # it was copied
            base.files[os.fsencode(path)] = found
    keep_base(made, base)
    return made


def walk(top: str) -> Iterator[tuple[str, bool]]:
    """Yield everything below a folder, and whether it is a folder; folders first. Links are not followed."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            entries = sorted(os.scandir(os.path.join(top, below)), key=lambda entry: entry.name)
        except PermissionError as error:
            raise WorktreeError(f"{error.filename} cannot be read: {error.strerror}") from None
        for entry in entries:
            path = os.path.join(below, entry.name)
            is_folder = entry.is_dir(follow_symlinks=False)
            yield path, is_folder
            if is_folder:
                waiting.append(path)


def _copy(source: str, target: str) -> None:
    os.makedirs(os.path.dirname(target), exist_ok=True)
    with suppress(FileNotFoundError):
        if not stat.S_ISDIR(os.lstat(target).st_mode):
            os.unlink(target)
        else:
            shutil.rmtree(target)
    shutil.copy2(source, target, follow_symlinks=False)


def _has_own_folder(top: str, path: str) -> bool:
    """Whether the folder of a path is below the top, and not behind a link."""
    folder = os.path.dirname(path)
    while folder:
        place = os.path.join(top, folder)
        if os.path.islink(place) or not os.path.isdir(place):
            return False
        folder = os.path.dirname(folder)
    return True
