"""Changes of git's configuration that git makes by itself in ordinary work: which branch follows which.

`git push -u` and `git switch` write such lines. Everything else in that file can name a program, a server or a hook,
and counts. Every doubt counts as well.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

_BRANCH: Final = re.compile(r'\[branch "[^"\\]+"\]')
_REMOTE: Final = re.compile(r'\[remote "([^"\\]+)"\]')
_SECTION: Final = re.compile(r'\[[\w.-]+(?: "[^"\\]*")?\]')
_FOLLOWS: Final = re.compile(r"merge = refs/heads/[\w./+@-]+|rebase = (?:true|false)")
_FROM: Final = re.compile(r"remote = (\S+)")


def is_harmless_change(before: bytes, after: bytes) -> bool:
    """Whether two versions differ only in which branch follows which branch of a server that was known before."""
    try:
        old, new = before.decode(), after.decode()
    except UnicodeDecodeError:
        return False
    known = {".", *(match[1] for line in old.splitlines() if (match := _REMOTE.fullmatch(line.strip())))}
    left, right = _other_lines(old, known), _other_lines(new, known)
    return left is not None and left == right


def _other_lines(text: str, remotes: set[str]) -> Counter[tuple[str, str]] | None:
    """Return every line that is not harmless, with its section; None if the text is not plain enough to be sure."""
    found: Counter[tuple[str, str]] = Counter()
    section = ""
    for raw in text.splitlines():
        line = raw.strip()
        if line.endswith("\\"):  # the value goes on in the next line
            return None
        if line.startswith("["):
            if not _SECTION.fullmatch(line):
                return None
            section = line
        elif line and not (_BRANCH.fullmatch(section) and _is_harmless(line, remotes)):
            found[section, line] += 1
    return found


def _is_harmless(line: str, remotes: set[str]) -> bool:
    origin = _FROM.fullmatch(line)
    return _FOLLOWS.fullmatch(line) is not None or (origin is not None and origin[1] in remotes)
