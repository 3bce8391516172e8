"""The mode of a session, as far as a tool may have it changed: by the user's answer, never by the model alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.builtin.session import OpenSession
    from dragoman.policy.modes import Mode

PLAN: Final = "plan"
# The narrowest first: a client that answers by itself mostly takes the first answer that allows. `full` is only chosen
# by the user's own hand, like by the command /mode.
_AFTER_A_PLAN: Final = ("ask", "edit", "auto")


class ModeSwitch(Protocol):
    """What a tool sees of the session's mode."""

    @property
    def current(self) -> str:
        """The id of the mode that applies."""
        ...

    @property
    def after_plan(self) -> Sequence[Mode]:
        """The modes in which the user can let the work on a plan begin."""
        ...

    async def choose(self, mode_id: str) -> None:
        """Change the mode, for all clients. Raises: StoreError."""
        ...

    async def chosen_by_user(self) -> str:
        """Wait until the user changes the mode, and return its id."""
        ...


class SessionModeSwitch:
    """The mode of an open session."""

    def __init__(self, session: OpenSession) -> None:
        self._session = session

    @property
    def current(self) -> str:
        return self._session.mode.id

    @property
    def after_plan(self) -> Sequence[Mode]:
        modes = {mode.id: mode for mode in self._session.modes}
        return [modes[id] for id in _AFTER_A_PLAN if id in modes]

    async def choose(self, mode_id: str) -> None:
        await self._session.choose(mode=mode_id)

    async def chosen_by_user(self) -> str:
        before = self.current
        while self.current == before:
            await self._session.mode_changed.wait()
        return self.current
