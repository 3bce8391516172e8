"""What an agent wants to do, in the words of rules: everything that a verdict is made from.

A request is read once (`client/reading.py` for what other programs send, `builtin/tools` for the built-in agent), its
paths are settled by `workspace/folders.py`, what only the disk knows is added by `workspace/judging.py`, and
`verdict.py` judges it. Programs that only follow tool calls load this module too: it loads the grammar of shell lines
when the first line is read.
"""

from __future__ import annotations

import shlex
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from dragoman.policy import paths as path_rules

if TYPE_CHECKING:
    from dragoman.policy.named_files import NamedFile
    from dragoman.policy.parts import Reading
    from dragoman.policy.shell import Line, Unreadable


PATH_KINDS: Final = frozenset({"read", "edit", "delete", "move", "search"})
"""The kinds of request that are about files."""


class Command(Struct, frozen=True, dict=True):
    """A command as it was sent: its words, or a line for a shell.

    What it runs is read once and kept, for the requests too that are made from its request. `cwd` is the folder that
    was named for it; empty is the project.
    """

    argv: tuple[str, ...] | None = None
    line: str | None = None
    cwd: str = ""

    @property
    def text(self) -> str:
        """The command as a user would type it."""
        return shlex.join(self.argv or ()) if self.line is None else self.line

    @cached_property
    def runs(self) -> Line | str:
        """What runs behind shells, to compare two commands: the line, or its text if that cannot be read.

        Two equal values run the same: the same words, joined and redirected in the same way.
        """
        from dragoman.policy.parts import what_runs

        return what_runs(self.argv, self.line, self._read)

    def reading(self, folder: str, home: str) -> Reading:
        """Return the parts of the command, if it starts in this folder; or the reason why it cannot be read."""
        from dragoman.policy.parts import read_parts

        found: Reading | None = self._kept.get((folder, home))
        if found is None:
            found = self._kept[folder, home] = read_parts(self.argv, self.line, folder, home, self._read)
        return found

    def named_files(self, folder: str, home: str, roots: tuple[str, ...]) -> tuple[tuple[NamedFile, ...], ...]:
        """Return what each part of the command may name, if it starts in this folder."""
        from dragoman.policy.named_files import named_files

        key = ("files", folder, home, roots)
        found: tuple[tuple[NamedFile, ...], ...] | None = self._kept.get(key)
        if found is None:
            parts = self.reading(folder, home).parts
            found = self._kept[key] = tuple(named_files(part, roots) for part in parts)
        return found

    def moved(self, cwd: str) -> Command:
        """Return the same command in another folder; a line that was read is not read again."""
        if cwd == self.cwd:
            return self
        made = replace(self, cwd=cwd)
        # Both keep what they read in the same place: it depends on the folder in no way, or has it in its key.
        made.__dict__["_kept"] = self._kept
        return made

    @cached_property
    def _kept(self) -> dict[object, Any]:
        """What was read: by its text the line that was sent and those inside of shells, by its folder a `Reading`."""
        return {}

    def _read(self, text: str) -> Line | Unreadable:
        from dragoman.policy.shell import read_line

        found: Line | Unreadable | None = self._kept.get(text)
        if found is None:
            found = self._kept[text] = read_line(text)
        return found


class Request(Struct, frozen=True, dict=True):
    """What an agent wants to do, as far as it could be read. None or empty is "not known": no pattern matches that."""

    agent: str
    kind: str
    title: str = ""
    paths: tuple[str, ...] = ()
    command: Command | None = None
    host: str | None = None
    mcp: tuple[str, str] | None = None  # server, tool
    tool: str = ""  # the name that the agent states for the tool; what the tool does is not known from it
    root: str = "/"  # the project; relative paths start here
    added: tuple[str, ...] = ()  # further folders of the session, in which relative rules hold too
    home: str = ""
    caution: str = ""  # why the user must be asked whatever the rules allow; set by the caller
    guarded: str = ""  # why only a rule that names the host may allow this; set by the caller
    closed: str = ""  # why nothing may allow this: a worktree is a boundary; set by the caller
    is_apart: bool = False  # it reads what a worktree is a copy of: only a rule that names it allows that
    unreadable: str = ""  # why it could not be read what this is about; set by the caller
    is_inside: bool = False  # all paths are below the roots, links resolved; set by the caller
    ignores_case: bool = False  # the file system of the project takes upper and lower case for the same
    globs: tuple[tuple[str, tuple[str, ...]], ...] = ()  # other forms of the globs of rules; set by the caller
    leads: tuple[tuple[str, tuple[str, ...]], ...] = ()  # where paths of the command lead; set by the caller
    safe_parts: tuple[int, ...] = ()  # which parts of the command are safe, from `safe.safe_parts`; set by the caller

    @cached_property
    def reading(self) -> Reading:
        """The parts of the command, or why it cannot be read."""
        command = Command() if self.command is None else self.command
        return command.reading(self._folder, self.home)

    @cached_property
    def named_files(self) -> tuple[tuple[NamedFile, ...], ...]:
        """What each part of the command may name."""
        command = Command() if self.command is None else self.command
        return command.named_files(self._folder, self.home, self.roots)

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders in which relative rules hold: the project and the further folders of the session."""
        return (self.root, *self.added)

    def settled(self, path: str) -> tuple[str, ...]:
        """Return where a path of the command leads, under each name that counts; itself if nothing is known."""
        return self._leads.get(path) or (path,)

    def forms_of(self, glob: str, *, is_deny: bool) -> tuple[str, ...]:
        """Return the forms of a rule's glob: the folder it starts in may have other names.

        A deny holds wherever its folder leads; an allow only under the real name of a folder of the session.
        """
        forms = self._globs.get(glob)
        if forms is None:
            return (glob,)
        return (glob, *forms) if is_deny else (glob, forms[0])

    @cached_property
    def _globs(self) -> dict[str, tuple[str, ...]]:
        return dict(self.globs)

    @cached_property
    def _leads(self) -> dict[str, tuple[str, ...]]:
        return dict(self.leads)

    @property
    def _folder(self) -> str:
        cwd = "" if self.command is None else self.command.cwd
        return path_rules.normalise(cwd or self.root, self.root, self.home)

    @property
    def command_line(self) -> str | None:
        """The command as a user would type it; None if the request is not about one."""
        return None if self.command is None else self.command.text
