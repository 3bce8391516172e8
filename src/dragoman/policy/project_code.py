"""Code of the project that a command runs: rules about commands cannot see what it does.

`./build.sh`, `npx tsc` and `npm test` run what is written in the project. A deny of `rm -rf *` does not concern them,
whatever they do: that is a limit of rules. A user is asked about each such file or tool once in a session; without a
user it follows the allow rules, and is listed. An allow that names it is an answer in advance. `identify.py` finds such
code, `verdict.py` notes it with the verdict. Pure.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy import commands, paths

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from dragoman.policy.commands import CommandPattern
    from dragoman.policy.request import Request
    from dragoman.policy.rule import Rule
    from dragoman.policy.verdict import Verdict

_FOLDER: Final = " (in "


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
    return f"{name}{_FOLDER}{', '.join(posixpath.relpath(place, root) for place in others)})" if others else name


def rule_for(code: ProjectCode, request: Request) -> tuple[str, ...]:
    """Return the rule that an "always" writes for this code, with any arguments; none if no rule expresses it."""
    if len(code.names) != 1:
        return ()
    words = tuple(code.names[0].partition(_FOLDER)[0].split(" "))
    text = commands.quote(words)
    # A name with blanks in it, or one that leaves out options of its launcher, is not what such a rule covers.
    if text is None or not any(part.argv[: len(words)] == words for part in request.reading.parts):
        return ()
    try:
        commands.check_allow(commands.read_command_pattern(f"{text} *"))
    except ValueError:
        return ()
    return (f"execute:{text} *",)


class AnsweredCode:
    """The code of the project that the user permitted in one session: about that, no one is asked again."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def ask_about(self, verdict: Verdict, *, has_user: bool) -> Verdict:
        """Return the verdict with the code that the user has not answered; an allow becomes a question to a user."""
        code = verdict.project
        if code is None:
            return verdict
        names = tuple(name for name in code.names if name not in self._names)
        left = replace(verdict, project=replace(code, names=names) if names else None)
        if not names or verdict.action != "allow" or not has_user:
            return left
        rule = code.unseen_by
        shown = ", ".join(f"`{name}`" for name in names)
        why = (
            f"it runs {shown}, code of the project, and rule {rule.text} ({rule.source or rule.scope}) cannot see what"
        )
        return replace(left, action="ask", rule=None, why=f"{why} that does; a yes holds for it in this session")

    def note(self, verdict: Verdict) -> None:
        """Note that the user permitted what the verdict asked about."""
        if verdict.project is not None:
            self._names.update(verdict.project.names)
