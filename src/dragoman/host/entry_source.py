"""What a host knows about an agent of the settings, the registry or the command line without starting it."""

from __future__ import annotations

import os
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.registry.agents import AgentEntry


class EntrySource:
    """The part of an agent's source that comes from its entry; nothing is known if there is none."""

    @property
    def entry(self) -> AgentEntry | None:
        """What its name stands for."""
        raise NotImplementedError

    @property
    def command(self) -> tuple[str, ...]:
        return () if self.entry is None else self.entry.command

    @property
    def version(self) -> str | None:
        return None if self.entry is None else self.entry.version or None

    @property
    def ledger_name(self) -> str | None:
        """The name that `exec` gives to the agent in the ledger: for a command, the command line."""
        entry = self.entry
        if entry is None:
            return None
        return shlex.join(entry.command) if entry.source == "command" else entry.name

    def environment(self, env: Mapping[str, str] | None) -> dict[str, str]:
        """Return what it is started with for a client with this environment; None for that of the host."""
        whole = dict(os.environ if env is None else env)
        for name, value in ({} if self.entry is None else self.entry.changed_env(whole)).items():
            if value is None:
                whole.pop(name, None)
            else:
                whole[name] = value
        return whole

    @property
    def is_scripted(self) -> bool:
        return self.entry is not None and self.entry.is_scripted
