"""What was agreed to in a turn, so that the same thing is not asked about twice.

Agents ask for permission first and then have their client write the file or run the command. Owns what such a
permission covers: the same files while the turn lasts, the same command once. Nothing outlives its turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from dragoman.policy.commands import effective

if TYPE_CHECKING:
    from dragoman.client.session import Session
    from dragoman.policy import Request

_WRITING: Final = frozenset({"edit", "delete", "move"})


class _Permitted:
    __slots__ = ("commands", "paths", "turn", "unread_commands")

    def __init__(self, turn: tuple[int, bool]) -> None:
        self.turn = turn
        self.paths: set[str] = set()
        self.commands: list[object] = []
        self.unread_commands = 0  # agreed to by somebody who saw what the agent showed, which we could not read


class TurnPermissions:
    """The grants of all sessions, each for its running turn."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Session, _Permitted] = WeakKeyDictionary()

    def add(self, request: Request, session: Session) -> None:
        """This request was agreed to."""
        grants = self._of(session)
        if request.kind in _WRITING:
            grants.paths.update(request.paths)
        elif request.kind == "execute":
            command = effective(request.command, request.shell)
            if command == (None, None):
                grants.unread_commands += 1
            else:
                grants.commands.append(command)

    def cover(self, request: Request, session: Session) -> bool:
        """Whether this was agreed to before; a command's grant is used up by it."""
        grants = self._of(session)
        if request.kind in _WRITING:
            return bool(request.paths) and grants.paths.issuperset(request.paths)
        if request.kind != "execute":
            return False
        command = effective(request.command, request.shell)
        if command in grants.commands:
            grants.commands.remove(command)
            return True
        if grants.unread_commands:
            grants.unread_commands -= 1
            return True
        return False

    def _of(self, session: Session) -> _Permitted:
        turn = (len(session.state.turns), session.state.is_running)
        found = self._sessions.get(session)
        if found is None or found.turn != turn:
            found = self._sessions[session] = _Permitted(turn)
        return found
