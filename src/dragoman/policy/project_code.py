"""Code of the project that a command runs: rules about commands cannot see what it does.

`./build.sh`, `npx tsc` and `npm test` run what is written in the project. A deny of `rm -rf *` does not concern them,
whatever they do: that is a limit of rules. A user is asked about each such file or tool once in a session; without a
user it follows the allow rules, and is listed. An allow that names it is an answer in advance. `identify.py` finds such
code, `verdict.py` notes it with the verdict. Pure.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from msgspec import Struct

from dragoman.policy import paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.policy.commands import CommandPattern
    from dragoman.policy.rule import Rule


class ProjectCode(Struct, frozen=True):
    """Code of the project that a command runs, and that no allow rule names.

    Attributes:
        names: the files and tools, as a user would name them.
        unseen_by: the deny or ask rule that may be about what they do.
    """

    names: tuple[str, ...]
    unseen_by: Rule


def unite(found: Iterable[ProjectCode | None]) -> ProjectCode | None:
    """Return all the code that several requests run; None for none."""
    known = [code for code in found if code is not None]
    names = dict.fromkeys(name for code in known for name in code.names)
    return ProjectCode(tuple(names), known[0].unseen_by) if known else None


def listed(names: Iterable[str]) -> str:
    """Return the line of a result that lists what ran without a question; empty for nothing."""
    found = ", ".join(names)
    return f"ran code of the project, which deny rules do not see: {found}" if found else ""


def is_named(name: str, command: CommandPattern) -> bool:
    """Whether the words of an allow rule start with this code."""
    return f"{' '.join(command.words)} ".startswith(f"{name} ")


def in_folder(name: str, folders: Sequence[str], root: str, home: str) -> str:
    """Return the name of code with the folder that it is run in: there the same name may be another file."""
    root = paths.normalise(root, "/", home)
    others = [place for folder in folders if (place := paths.normalise(folder, root, home)) != root]
    return f"{name} (in {', '.join(posixpath.relpath(place, root) for place in others)})" if others else name
