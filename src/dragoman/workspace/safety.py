"""Facts about the disk that decide whether a command is safe: links, programs on the PATH, git's configuration.

`policy/safe.py` knows which commands only read; this module adds what it cannot know. Every doubt counts as not safe.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.policy.lines import reading_of
from dragoman.policy.paths import is_below
from dragoman.policy.rule import SAFE, Request
from dragoman.policy.safe import SafetyFacts, safe_parts
from dragoman.policy.verdict import judge

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.policy.rule import Rule

# A program elsewhere on the PATH, such as in `node_modules/.bin`, may have been written by the project.
_SYSTEM_FOLDERS: Final = ("/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin")
# Words of keys in a repository's configuration that let git run a program. More files than needed are refused this way.
_GIT_KEYS: Final = (
    *("fsmonitor", "external", "textconv", "filter", "pager", "sshcommand", "hookspath", "attributesfile", "gpg"),
    *("include", "command"),
)
_LARGEST_CONFIG_BYTES: Final = 1024 * 1024


def with_safe_parts(rules: Sequence[Rule], request: Request, roots: Sequence[str]) -> Request:
    """Return the request with its safe parts filled in, if a rule `safe` may use them.

    Args:
        roots: the session's folders.
    """
    if request.kind != "execute" or all(rule.text.rpartition("@")[2] != SAFE for rule in rules):
        return request
    real_roots = [os.path.realpath(root) for root in roots]

    def is_inside(path: str, folder: str) -> bool:
        real = os.path.realpath(os.path.join(folder, os.path.expanduser(path)))
        if not any(is_below(real, root) for root in real_roots):
            return False
        read = Request(request.agent, "read", paths=(real,), root=request.root, home=request.home)
        return judge(rules, read).action != "deny"

    def is_system(name: str) -> bool:
        import shutil  # it loads every compression module, and few commands get here

        found = shutil.which(name)
        folder = os.path.dirname(found) if found else ""
        return folder in _SYSTEM_FOLDERS and not any(is_below(os.path.realpath(folder), root) for root in real_roots)

    facts = SafetyFacts(is_inside, is_system, git_is_harmless=_is_git_harmless(request.cwd or request.root))
    return replace(request, safe_parts=safe_parts(reading_of(request), facts))


def _is_git_harmless(folder: str) -> bool:
    """Whether the repository of a folder has a plain configuration that names no program."""
    folder = os.path.realpath(folder)
    while not os.path.lexists(os.path.join(folder, ".git")):
        if folder == os.path.dirname(folder):
            return False
        folder = os.path.dirname(folder)
    git = os.path.join(folder, ".git")
    if os.path.lexists(os.path.join(git, "config.worktree")):
        return False
    try:
        # A linked worktree has a file here, whose repository lies elsewhere: not read, so not harmless.
        with open(os.path.join(git, "config"), "rb") as file:
            text = file.read(_LARGEST_CONFIG_BYTES + 1).lower()
    except OSError:
        return False
    return len(text) <= _LARGEST_CONFIG_BYTES and not any(key.encode() in text for key in _GIT_KEYS)
