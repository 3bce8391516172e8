"""The permission decisions of a run, made when the agent first needs one.

A turn without a tool call needs none, and what judges a request takes a tenth of the time of a short run to load.
Before a decision the run shows what the agent sent earlier, so that a reader sees both in the order of events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from dragoman.client.permission import ClientPermissions
    from dragoman.client.session import Session
    from dragoman.policy import Request
    from dragoman.policy.decide import Decision
    from dragoman.policy.permitted import Permitted
    from dragoman.schema import v1
    from dragoman.workspace import Change


class LatePermissions:
    """Answers permission requests, and checks what the services of files and terminals do."""

    def __init__(self, make: Callable[[], ClientPermissions], catch_up: Callable[[], Awaitable[None]]) -> None:
        self._make = make
        self._catch_up = catch_up
        self._made: ClientPermissions | None = None

    def get(self) -> ClientPermissions:
        """Return what decides."""
        if self._made is None:
            self._made = self._make()
        return self._made

    @property
    def decisions(self) -> Sequence[Decision]:
        """Every decision so far."""
        return () if self._made is None else self._made.decisions

    async def permission(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer `session/request_permission`."""
        await self._catch_up()
        return await self.get().permission(request, session)

    async def check(
        self, request: Request, session: Session, *, change: Change | None = None, env: Mapping[str, str] | None = None
    ) -> None:
        """Return if the request is permitted.

        Raises:
            RequestError: it is not permitted.
        """
        await self._catch_up()
        await self.get().check(request, session, change=change, env=env)

    async def check_confined(self, request: Request, session: Session, *, env: Mapping[str, str] | None = None) -> bool:
        """Return whether the user permitted this very command; False if it is acceptable in the sandbox only.

        Raises:
            RequestError: it is not permitted, not even in the sandbox.
        """
        await self._catch_up()
        return await self.get().check_confined(request, session, env=env)

    @property
    def permitted(self) -> Permitted:
        """Which protected files may change in this run."""
        return self.get().permitted
