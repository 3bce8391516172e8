"""Turn permissions: a permission also covers the request that follows it, so that the user is not asked twice.

Agents ask for permission first and then have their client write the file or run the command. Owns what such a
permission covers, which is exactly what was shown: a command once, in its folder; a file with the text that was shown,
while the turn lasts; a piece of a file replaced once. What could not be read, and tools of MCP servers, permit nothing.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from dragoman.client.reading import is_same_text
from dragoman.policy.parts import unwrapped, what_runs
from dragoman.policy.paths import is_protected
from dragoman.policy.shell import Line, read_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.client.reading import Evidence, ShownChange
    from dragoman.client.session import Session
    from dragoman.policy import Command, Request
    from dragoman.workspace import Change
    from dragoman.workspace.folders import SessionFolders

# `cd FOLDER && REST` in a line that cannot be read, with a folder that every shell reads as these letters.
_LEADING_CD: Final = re.compile(r"\s*(?P<move>cd\s+(?:'[^']*'|\"[^\"]*\"|[^\s'\"&;|<>])+)\s*&&(?P<rest>.+)", re.DOTALL)
_MOST_UNWRAPPED: Final = 4  # agents seen use one


class _Permitted:
    """What was permitted in one turn of one session. The changes of one permission stay together."""

    __slots__ = ("changes", "commands", "turn")

    def __init__(self, turn: tuple[int, bool]) -> None:
        self.turn = turn
        self.changes: list[list[ShownChange]] = []
        self.commands: list[Command] = []


class TurnPermissions:
    """The turn permissions of all sessions, each for its running turn."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Session, _Permitted] = WeakKeyDictionary()

    def add(self, evidence: Evidence, session: Session) -> None:
        """Note that this was permitted. The paths of changes are real paths."""
        # A tool of an MCP server runs in the server and not in the client.
        if evidence.problem or evidence.requests[0].mcp is not None:
            return
        permitted = self._of(session)
        permitted.commands += evidence.commands
        permitted.changes.append(list(evidence.changes))

    def cover(self, request: Request, session: Session, folders: SessionFolders, change: Change | None) -> bool:
        """Whether exactly this was permitted before. A command, or a piece of a file, is used up by one use."""
        permitted = self._of(session)
        if request.command is not None:
            for shown in permitted.commands:
                if same_command(shown, request.command, folders):
                    permitted.commands.remove(shown)
                    return True
        if request.kind != "edit" or change is None:
            return False
        # Another program acts on a protected file: the user sees each change of it.
        if any(is_protected(path, request.root, request.home) for path in request.paths):
            return False
        path = folders.resolve(change.path)
        return any(_cover_change(shown, change, path) for shown in permitted.changes)

    def _of(self, session: Session) -> _Permitted:
        turn = (session.state.turn_count, session.state.is_running)
        found = self._sessions.get(session)
        if found is None or found.turn != turn:
            found = self._sessions[session] = _Permitted(turn)
        return found


def same_command(shown: Command, run: Command, folders: SessionFolders) -> bool:
    """Whether two commands run the same in the same folder; those that name none run in the session's."""
    return _reduced(shown, folders) == _reduced(run, folders)


def _reduced(command: Command, folders: SessionFolders) -> tuple[Line | str, str]:
    """Return what runs and its folder, behind shells and changes of the folder."""
    place, runs = folders.enter(folders.given[0], command.cwd), command.runs
    for _ in range(_MOST_UNWRAPPED):
        moved = _without_cd(runs)
        if moved is None:
            break
        target, runs = moved
        place = folders.enter(place, target, knows_home=True)
    return runs, place


def _without_cd(runs: Line | str) -> tuple[str, Line | str] | None:
    """Return the folder of a leading `cd FOLDER &&` and what follows it; None if there is none."""
    if isinstance(runs, str):
        leading = _LEADING_CD.fullmatch(runs)
        move = read_line(leading["move"]) if leading is not None else None
        if leading is None or not isinstance(move, Line) or (target := _target(move)) is None:
            return None
        return target, what_runs(None, leading["rest"])
    if not runs.joins or runs.joins[0] != "and" or (target := _target(runs)) is None:
        return None
    return target, unwrapped(Line(runs.commands[1:], runs.joins[1:]))


def _target(line: Line) -> str | None:
    """Return the folder of the `cd` that a line begins with."""
    first = line.commands[0]
    if first.argv[0] != "cd" or len(first.words) != 2 or first.assignments or first.redirections:
        return None
    word = first.words[1]
    return None if word.fixed is not None or word.text.startswith("-") or not word.text else word.path


def _cover_change(permitted: list[ShownChange], change: Change, path: str) -> bool:
    """Whether a change was shown: one of those permitted together, or all pieces of this file one after another."""
    before = None if change.before is None else _text(change.before)
    after = _text(change.after or b"")
    shown = [piece for piece in permitted if piece.path == path]
    for piece in shown:
        if piece.old is None or _is_whole(piece, before, after):
            if is_same_text(after, _plain(piece.new)):
                return True
        elif before is not None and _replaced([piece], before) == after:
            permitted.remove(piece)
            return True
    if before is not None and len(shown) > 1 and _replaced(shown, before) == after:
        permitted[:] = [piece for piece in permitted if piece.path != path]
        return True
    return False


def _is_whole(shown: ShownChange, before: str | None, after: str) -> bool:
    """Whether the shown text is the whole file, which may have been written already."""
    if before is None or shown.old is None:
        return False
    return is_same_text(before, _plain(shown.old)) or before == after


def _replaced(pieces: Sequence[ShownChange], text: str) -> str | None:
    """Return the text with each piece replaced; None if a piece does not occur, or it is unclear which one is meant."""
    for piece in pieces:
        old = _plain(piece.old or "")
        count = text.count(old) if old else 0
        if not count or (count > 1 and not piece.is_everywhere):
            return None
        text = text.replace(old, _plain(piece.new))
    return text


def _text(content: bytes) -> str:
    return _plain(content.decode(errors="surrogateescape")).removeprefix("\ufeff")


def _plain(text: str) -> str:
    """Return a text with plain line endings: the workspace keeps a file's, so they do not count."""
    return text.replace("\r\n", "\n")
