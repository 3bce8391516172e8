"""Turn permissions: a permission also covers the request that follows it, so that the user is not asked twice.

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
    """What the user permitted in one turn of one session."""

    __slots__ = ("commands", "paths", "turn", "unread_commands")

    def __init__(self, turn: tuple[int, bool]) -> None:
        self.turn = turn
        self.paths: set[str] = set()
        self.commands: list[object] = []
        self.unread_commands = 0  # permitted by the user, who saw them; their words could not be read here


class TurnPermissions:
    """The turn permissions of all sessions, each for its running turn."""

    def __init__(self) -> None:
        self._sessions: WeakKeyDictionary[Session, _Permitted] = WeakKeyDictionary()

    def add(self, request: Request, session: Session) -> None:
        """Note that this request was permitted."""
        permitted = self._of(session)
        if request.kind in _WRITING:
            permitted.paths.update(request.paths)
        elif request.kind == "execute":
            command = effective(request.command, request.shell)
            if command == (None, None):
                permitted.unread_commands += 1
            else:
                permitted.commands.append(command)

    def cover(self, request: Request, session: Session) -> bool:
        """Whether this was permitted before. A permission for a command covers one start and is used up by it."""
        permitted = self._of(session)
        if request.kind in _WRITING:
            return bool(request.paths) and permitted.paths.issuperset(request.paths)
        if request.kind != "execute":
            return False
        command = effective(request.command, request.shell)
        if command in permitted.commands:
            permitted.commands.remove(command)
            return True
        if permitted.unread_commands:
            permitted.unread_commands -= 1
            return True
        return False

    def _of(self, session: Session) -> _Permitted:
        turn = (len(session.state.turns), session.state.is_running)
        found = self._sessions.get(session)
        if found is None or found.turn != turn:
            found = self._sessions[session] = _Permitted(turn)
        return found
