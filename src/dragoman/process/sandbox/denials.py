"""What a command wanted and did not get because of the sandbox: sockets exactly, files by comparison.

A file counts only if its path stands next to an error of the kind the sandbox causes, the policy forbids it, and this
program itself could do it. Text alone does not distinguish a sandbox from an ordinary mistake. Exit codes do not
count: `command || true` hides them.

The output is the command's, so this is a report and never decides anything: a path in it that cannot be looked at is
left out, and callers enforce before they report.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Final, Literal

import msgspec

from dragoman.policy.paths import MAX_PATH, is_below
from dragoman.process.sandbox.listener import SocketAttempt
from dragoman.process.sandbox.policy import SandboxPolicy

_LAST_BYTES: Final = 64_000  # of the output; an error that stopped a command stands at its end
_MOST_PATHS: Final = 50
_WRITE_ERRORS: Final = (
    "permission denied|read-only file system|device or resource busy|invalid cross-device link|operation not permitted"
    "|EACCES|EROFS|EBUSY|EXDEV|EPERM"
)
_READ_ERRORS: Final = "permission denied|no such file or directory|EACCES|ENOENT"
# Patterns are texts here, which `re` compiles with the first denial and keeps: every agent imports this at its start.
_WRITING: Final = f"(?i){_WRITE_ERRORS}"
_READING: Final = f"(?i){_READ_ERRORS}"
# Something in quotes, something with a slash, or a bare name directly in front of the error. Another bare word is
# usually the program's own name. Each starts where a word starts, so that a long word is read once.
_PATH: Final = (
    r"(?i)'([^'\n]+)'|\"([^\"\n]+)\"|`([^`\n]+)`|(?<![^\s'\"`:;,()])([^\s'\"`:;,()]*/[^\s'\"`:;,()]+)"
    rf"|(?<![\w.~-])([\w.~-]+)(?=: (?:{_WRITE_ERRORS}|{_READ_ERRORS}))"
)


class Denial(msgspec.Struct, frozen=True):
    """One thing that the sandbox kept from a command."""

    kind: Literal["network", "socket", "write", "read"]
    subject: str
    """The path, or the program with the family of its socket or the address."""

    def describe(self) -> str:
        match self.kind:
            case "network":
                return f"the network ({self.subject})"
            case "socket":
                return f"a local socket ({self.subject})"
            case "write":
                return f"to change {self.subject}"
            case "read":
                return f"to read {self.subject}"


def socket_denials(attempts: Iterable[SocketAttempt]) -> list[Denial]:
    return [
        Denial("network" if attempt.is_network else "socket", f"{attempt.program}, {attempt.wanted}")
        for attempt in attempts
    ]


def file_denials(policy: SandboxPolicy, protected: Iterable[str], output: str, cwd: str) -> list[Denial]:
    """Return the paths in `output` that the sandbox closed; `protected` are those it kept read-only."""
    closed = set(protected)
    found: dict[Denial, None] = {}
    for word, line in _words(output[-_LAST_BYTES:]):
        # Links of other users' processes in /proc raise errors, as do names that no file system has.
        with suppress(OSError, ValueError):
            path = _resolved(word, cwd)
            is_closed = not policy.may_write(path) or any(is_below(path, place) for place in closed)
            if not policy.may_read(path) and re.search(_READING, line) and _could(path, os.R_OK):
                found[Denial("read", path)] = None
            elif is_closed and re.search(_WRITING, line) and _could_write(path):
                found[Denial("write", path)] = None
    return list(found)


def _words(output: str) -> Iterator[tuple[str, str]]:
    """Yield what may be a path, with its line."""
    left = _MOST_PATHS
    for line in output.splitlines():
        if not (re.search(_WRITING, line) or re.search(_READING, line)):
            continue
        for match in re.finditer(_PATH, line):
            word = next(group for group in match.groups() if group)
            if left == 0:
                return
            left -= 1
            if len(word) <= MAX_PATH:
                yield word, line


def _resolved(word: str, cwd: str) -> str:
    """Return the path without links. Raises: OSError, ValueError if it cannot be looked at."""
    folder, name = os.path.split(os.path.normpath(os.path.join(cwd, os.path.expanduser(word))))
    return os.path.join(os.path.realpath(folder), name)


def _could(path: str, mode: int) -> bool:
    return os.access(path, mode)


def _could_write(path: str) -> bool:
    """Whether this program could change the path, or make it."""
    return os.access(path if os.path.lexists(path) else os.path.dirname(path), os.W_OK)
