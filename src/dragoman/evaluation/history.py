"""The git repository that a run starts with: commits with fixed dates, so that every run sees the same ids.

Owns how the files of a task are spread over its commits. The last commit has the start state;
`environment/history/NN/` has what files looked like in an earlier one.
"""

from __future__ import annotations

import os
import subprocess
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from dragoman.errors import ConfigError
from dragoman.evaluation.task import Commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_FIRST_SECOND: Final = 1_750_000_000  # June 2025; each commit is a day later
_DAY: Final = 86_400
AUTHOR: Final = "Ada Example <ada@example.org>"
# In the repository itself, because an agent may give its commands other variables than it was started with: Gemini CLI
# sets GIT_CONFIG_GLOBAL to /dev/null. Without a name git makes no commit; hooks and signatures of the user are not part
# of the task.
_SETTINGS: Final = """\
[user]
\tname = Ada Example
\temail = ada@example.org
[core]
\thooksPath = .git/hooks
[commit]
\tgpgSign = false
[tag]
\tgpgSign = false
"""
_GIT_SECONDS: Final = 60.0


def git_environment(home: Path) -> dict[str, str]:
    """Return variables with which git reads no configuration but that of the repository and of `home`."""
    return {"HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}


def bare_environment(home: Path) -> dict[str, str]:
    """Return the environment of a program of a task that runs before the agent: nothing of the user but the PATH."""
    return {"PATH": os.environ.get("PATH", os.defpath), **git_environment(home)}


def make_repository(
    work: Path,
    home: Path,
    files: Mapping[str, bytes],
    commits: Sequence[Commit],
    older: Mapping[int, Mapping[str, bytes]],
) -> None:
    """Make a repository in the empty folder `work` and check out its last commit.

    Args:
        files: the start state, by path.
        commits: at least one; the last takes all files that no other names.
        older: what files contain in the commit with this number, which begins at 1.

    Raises:
        ConfigError: git is missing or fails.
    """
    run_git(["init", "--quiet", "--initial-branch=main", "--template=", "."], work, home)
    with (work / ".git" / "config").open("a") as config:
        config.write(_SETTINGS)
    run_git(
        ["fast-import", "--quiet", "--date-format=raw"], work, home, _stream(files, commits or [Commit("Start")], older)
    )
    run_git(["reset", "--quiet", "--hard", "main"], work, home)


def _stream(files: Mapping[str, bytes], commits: Sequence[Commit], older: Mapping[int, Mapping[str, bytes]]) -> bytes:
    pieces: list[bytes] = []
    last = len(commits)
    written: dict[str, bytes] = {}
    for number, commit in enumerate(commits, 1):
        chosen = {path: data for path, data in files.items() if number == last or _is_named(path, commit.paths)}
        chosen = {path: data for path, data in chosen.items() if written.get(path) != data}
        chosen |= older.get(number, {})
        written |= chosen
        when = f"{AUTHOR} {_FIRST_SECOND + number * _DAY} +0000\n"
        pieces += [
            b"commit refs/heads/main\n",
            f"author {when}committer {when}".encode(),
            _data(commit.message.encode()),
        ]
        for path in sorted(chosen):
            pieces += [f"M 100644 inline {path}\n".encode(), _data(chosen[path])]
    return b"".join(pieces)


def _is_named(path: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(path, pattern) for pattern in patterns)


def _data(content: bytes) -> bytes:
    return b"data %d\n%s\n" % (len(content), content)


def run_git(words: Sequence[str], folder: Path, home: Path, stdin: bytes = b"") -> bytes:
    """Run git in a folder. Raises: ConfigError if git is missing or fails."""
    try:
        done = subprocess.run(
            ["git", *words],
            cwd=folder,
            env=bare_environment(home),
            input=stdin,
            capture_output=True,
            timeout=_GIT_SECONDS,
            check=False,
        )
    except FileNotFoundError:
        raise ConfigError("git is not on the PATH; the tasks are git repositories: install git") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"git {words[0]} did not end within {_GIT_SECONDS:g} s in {folder}") from None
    if done.returncode:
        raise ConfigError(f"git {words[0]} failed in {folder}: {done.stderr.decode(errors='replace').strip()}")
    return done.stdout
