"""Agents that a host starts as programs."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.boundary import boundary_of
from dragoman.host.entry_source import EntrySource

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.registry.agents import AgentEntry
    from dragoman.rpc import Transport

WITHHELD: Final = ("DRAGOMAN_TOKEN", "NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES")
"""What is meant for the host itself: its secret, and its way to the service manager."""


class ProgramAgent(EntrySource):
    """An agent of the settings, the registry or the command line, started once for each session."""

    def __init__(self, entry: AgentEntry, name: str | None = None) -> None:
        self.name = name or entry.name
        self._entry = entry

    @property
    def entry(self) -> AgentEntry:
        return self._entry

    async def start(self, cwd: str, env: Mapping[str, str] | None) -> Transport:
        """Start it for a session in this folder.

        Raises:
            DragomanError: it cannot be started.
        """
        from dragoman.transports.process import ProcessTransport

        given = os.environ if env is None else env
        whole = self.environment({name: value for name, value in given.items() if name not in WITHHELD})
        command: Sequence[str] = self._entry.command
        starter = None
        if boundary_of(cwd) is not None:
            import asyncio

            from dragoman.process.sandbox.apart import keep_apart

            apart = await asyncio.to_thread(keep_apart, command, cwd, cwd=cwd, env=whole)
            command, starter = apart.argv, apart.starter
        return await ProcessTransport.spawn(
            command, cwd=cwd, env=whole, inherit_env=False, spare=self._entry.quirks.spare, starter=starter
        )
