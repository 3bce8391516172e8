"""Git for worktrees: without hooks, without the variables of another repository, without questions."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.text.visible import label

if TYPE_CHECKING:
    from collections.abc import Sequence

# A hook or a monitor of the repository would run for a copy that the user did not make by hand.
_SETTINGS: Final = ("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "gc.auto=0")
_SECONDS: Final = 600


class WorktreeError(DragomanError):
    """A worktree cannot be made, read, merged or discarded; the text says why, and what to do."""


def run_git(
    folder: str,
    words: Sequence[str],
    *,
    feed: bytes | None = None,
    codes: Sequence[int] = (0,),
    git_folder: str | None = None,
    index: str | None = None,
) -> bytes:
    """Run git in a folder and return what it prints.

    Args:
        feed: what git reads from its standard input.
        codes: the exit codes of a success.
        git_folder: the folder of git's files; None leaves it to git, which looks for it from the folder upwards.
        index: a file in the place of the repository's own index.

    Raises:
        WorktreeError: git is not installed, failed, or took too long.
    """
    try:
        done = subprocess.run(
            ["git", *_SETTINGS, *words],
            cwd=folder,
            input=feed,
            stdin=subprocess.DEVNULL if feed is None else None,
            capture_output=True,
            timeout=_SECONDS,
            env=_environment(git_folder, index),
            check=False,
        )
    except FileNotFoundError:
        raise WorktreeError("git is not installed, and this worktree needs it") from None
    except subprocess.TimeoutExpired:
        raise WorktreeError(f"git {words[0]} took longer than {_SECONDS} seconds in {folder}") from None
    if done.returncode not in codes:
        lines = done.stderr.decode("utf-8", "replace").strip().splitlines()
        raise WorktreeError(
            f"git {words[0]} failed in {folder}: {label(lines[-1] if lines else 'no reason given', 300)}"
        )
    return done.stdout


def top_folder(folder: str) -> str | None:
    """Return the folder of the git work tree that a folder is in, if it has a commit; None without git."""
    try:
        top = run_git(folder, ["rev-parse", "--show-toplevel"])
        run_git(folder, ["rev-parse", "--verify", "--quiet", "HEAD^{commit}"])
    except WorktreeError:
        return None
    return os.fsdecode(top.rstrip(b"\n"))


def names_in(output: bytes) -> list[str]:
    """Return the names in a list that ends each with a zero byte."""
    return [os.fsdecode(name) for name in output.split(b"\0") if name]


def _environment(git_folder: str | None, index: str | None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}
    given = {"GIT_DIR": git_folder, "GIT_INDEX_FILE": index}
    return kept | {name: value for name, value in given.items() if value is not None}
