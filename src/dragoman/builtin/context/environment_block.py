"""The environment block: the day, the branch and the changed files, as a part of a user's message.

Owns what is in it and when it is added: with the first message that the model is given, and again when the day or the
branch has changed. It stands in a message and not in the system prompt, because it would make the provider's cache of
everything behind it useless each time it changes. It is stored with the message and not shown to clients.

git is asked for the changed files only where it runs no program that the repository names, without its locks, and for a
bounded time. Whatever fails is left out: a prompt never fails because of this.
"""

from __future__ import annotations

import logging
import os
import signal
import subprocess
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from dragoman.uistream.messages import DataPart
from dragoman.workspace.git_config import git_runs_no_program

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.uistream.messages import UIMessage

_log = logging.getLogger("dragoman.builtin")

NAME: Final = "environment"
"""Name of the data part: `{"text", "date", "branch"}`. Models read the text."""
# A prompt waits this long at most. A large repository whose files are not cached may need more, and goes without.
SECONDS: Final = 1.0
_MOST_FILES: Final = 20
_LONGEST_LINE: Final = 300
_LARGEST_HEAD_BYTES: Final = 4096
_LARGEST_STATUS_BYTES: Final = 256 * 1024
_HARDENED: Final = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-optional-locks")
_STATUS: Final = ("status", "--porcelain=v1", "-z", "--ignore-submodules=all", "--no-renames")


class EnvironmentFacts(Struct, frozen=True):
    """What a block states. `changed` is None if the changed files are not known."""

    date: str
    branch: str = ""
    changed: tuple[str, ...] | None = None

    def part(self) -> DataPart:
        """Return the part to store in the user's message."""
        return DataPart(NAME, {"text": self._text(), "date": self.date, "branch": self.branch})

    def _text(self) -> str:
        lines = [f"Date: {self.date}"]
        if self.branch:
            lines.append(f"Git branch: {self.branch}")
        if self.changed is not None:
            lines += self._changes()
        # Names of branches and files come from others: they must not end the block.
        body = "\n".join(line[:_LONGEST_LINE] for line in lines).replace("<", "&lt;")
        return f"<environment>\n{body}\n</environment>"

    def _changes(self) -> list[str]:
        if not self.changed:
            return ["Changed files: none"]
        shown = [f"  {line}" for line in self.changed[:_MOST_FILES]]
        more = len(self.changed) - len(shown)
        return [
            "Files that were changed before this message, and are not your work (git status):",
            *shown,
            *([f"  and {more} more"] if more else []),
        ]


def add_environment(message: UIMessage, cwd: str, view: Sequence[UIMessage]) -> None:
    """Add to a new user's message what the model has to know of the day and the repository. Blocks, never raises."""
    try:
        part = environment_part(cwd, view)
    except Exception:
        _log.warning("the model is not given the day and the repository's state", exc_info=True)
        return
    if part is not None:
        message.parts = [*message.parts, part]


def add_line(message: UIMessage, text: str) -> None:
    """Add a line for the model to the start of a new user's message, such as that a job has ended."""
    message.parts = [DataPart(NAME, {"text": text}), *message.parts]


def environment_part(cwd: str, view: Sequence[UIMessage], *, now: datetime | None = None) -> DataPart | None:
    """Return the part that the next user's message needs, or None if the model knows it already. Blocks.

    Args:
        view: the messages of the user that the model is given, at least those to which something was added.
    """
    today = (now or datetime.now().astimezone()).strftime("%Y-%m-%d (%A)")
    branch = read_branch(cwd)
    known = _last_known(view)
    if known is not None and (known.get("date"), known.get("branch", "")) == (today, branch):
        return None
    changed = read_changes(cwd) if branch else None
    return EnvironmentFacts(today, branch, changed).part()


def _last_known(view: Sequence[UIMessage]) -> dict[str, Any] | None:
    for message in reversed(view):
        for part in message.parts if message.role == "user" else ():
            if isinstance(part, DataPart) and part.name == NAME and isinstance(part.data, dict) and "date" in part.data:
                return part.data
    return None


def read_branch(cwd: str) -> str:
    """Return the branch of the repository that a folder is in, a short commit id if there is none, or empty."""
    folder = _git_folder(cwd)
    try:
        if folder is None:
            return ""
        with open(os.path.join(folder, "HEAD"), "rb") as file:
            head = file.read(_LARGEST_HEAD_BYTES).decode(errors="replace").strip()
    except OSError:
        return ""
    name = head.removeprefix("ref: refs/heads/") if head.startswith("ref: ") else f"none, at commit {head[:12]}"
    # The text goes to a model: a name that is not one line of printable characters is none of git's.
    return name if name.isprintable() else ""


def _git_folder(cwd: str) -> str | None:
    """Return the `.git` folder of the repository that a folder is in; for a linked worktree the one its file names."""
    folder = os.path.realpath(cwd)
    while True:
        place = os.path.join(folder, ".git")
        if os.path.isdir(place):
            return place
        if os.path.isfile(place):
            with open(place, "rb") as file:
                line = file.read(_LARGEST_HEAD_BYTES).decode(errors="replace").strip()
            return os.path.join(folder, line.removeprefix("gitdir: ")) if line.startswith("gitdir: ") else None
        parent = os.path.dirname(folder)
        if parent == folder:
            return None
        folder = parent


def read_changes(cwd: str, *, seconds: float = SECONDS) -> tuple[str, ...] | None:
    """Return the changed files as `git status` lists them; None if git cannot be asked safely or in time."""
    import shutil

    program = shutil.which("git")
    if program is None or not git_runs_no_program(cwd):
        return None
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    env |= {"GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        process = subprocess.Popen(
            [program, *_HARDENED, *_STATUS],
            cwd=cwd,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return None
    with process:
        try:
            output, _ = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            return None
    if process.returncode != 0:
        return None
    lines = output[:_LARGEST_STATUS_BYTES].decode(errors="replace").split("\0")
    return tuple(line if line.isprintable() else ascii(line) for line in lines if line)
