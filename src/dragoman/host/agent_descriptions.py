"""What each agent answered to `initialize`, kept so that a client's `initialize` starts no process.

Owns the file next to the event log. An answer belongs to a command and a version; when the real answer differs later,
the next client gets the new one.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec.structs import replace

from dragoman.host.agents import DescribedSource
from dragoman.schema import encode
from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

    from dragoman.client import RemoteAgent
    from dragoman.host.agents import AgentSource

_log = logging.getLogger("dragoman.host")
FILE_NAME: Final = "agent-capabilities.json"


class AgentDescription(msgspec.Struct, frozen=True):
    """How an agent introduces itself."""

    capabilities: dict[str, Any] = {}
    info: dict[str, Any] | None = None
    auth_methods: list[dict[str, Any]] = []
    forgets: bool = False
    """A process of it did not know a session of an earlier one, whatever it announces."""

    def can(self, gate: str) -> bool:
        """Whether a capability is on; `gate` is a dotted path such as `promptCapabilities.image`."""
        found: Any = self.capabilities
        for name in gate.split("."):
            found = found.get(name) if isinstance(found, dict) else None
            if found is None or found is False:
                return False
        return True


class AgentDescriptions:
    """The descriptions of the agents that a host can run."""

    def __init__(self, folder: Path | None) -> None:
        """Read what is known.

        Args:
            folder: Where the file is; None keeps nothing.
        """
        self._path = None if folder is None else folder / FILE_NAME
        self._known: dict[str, AgentDescription] = {}
        if self._path is not None and self._path.exists():
            try:
                self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, AgentDescription])
            except (OSError, msgspec.MsgspecError, UnicodeDecodeError) as error:
                _log.warning("%s cannot be read and is written again: %s", self._path, error)

    def find(self, source: AgentSource) -> AgentDescription | None:
        return self._known.get(_key(source))

    def learn(self, source: AgentSource, agent: RemoteAgent) -> AgentDescription:
        """Take over what a running agent answered."""
        found = AgentDescription(
            capabilities=_plain(agent.capabilities),
            info=None if agent.info is None else _plain(agent.info),
            auth_methods=[_plain(method) for method in agent.auth_methods],
            forgets=self._known.get(_key(source), AgentDescription()).forgets,
        )
        self._keep(source, found)
        return found

    def note_memory(self, source: AgentSource, *, forgets: bool) -> None:
        """Note whether a process of an agent knew a session of an earlier one."""
        found = self._known.get(_key(source))
        if found is not None:
            self._keep(source, replace(found, forgets=forgets))

    def _keep(self, source: AgentSource, found: AgentDescription) -> None:
        key = _key(source)
        if self._known.get(key) != found:
            self._known[key] = found
            self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        try:
            make_private_folder(self._path.parent)
            # Not synced, as it is on the loop: an agent that is not known is asked again.
            write_private(self._path, msgspec.json.encode(self._known), is_synced=False)
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._path, error)


def _key(source: AgentSource) -> str:
    if isinstance(source, DescribedSource):
        return msgspec.json.encode([source.name, *source.command, source.version]).decode()
    return msgspec.json.encode([source.name]).decode()


def _plain(value: object) -> Any:
    return msgspec.json.decode(encode(value))
