"""What was seen of an agent's conduct: what it asks about, what it has its client do, what it does itself unasked.

Rules bind what is asked or done through the guard. Which of an agent's actions that are is known for few agents, so it
is noted here, for each kind of tool call, and kept between runs. Does not judge; `grades.py` does.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from dragoman.workspace.private import make_private_folder, write_private

if TYPE_CHECKING:
    from pathlib import Path

_MOST_AGENTS: Final = 1_000
_KINDS: Final = frozenset({"read", "search", "edit", "delete", "move", "execute", "fetch", "other"})


class SeenConduct(msgspec.Struct):
    """The kinds of tool calls of one agent, by how it carried them out."""

    asked: set[str] = set()
    delegated: set[str] = set()
    unasked: set[str] = set()


class Conduct:
    """The conduct of one agent.

    Args:
        agent: its name.
        folder: where conduct is kept; None for this run alone.
    """

    def __init__(self, agent: str, folder: Path | None = None) -> None:
        self._agent = agent
        self._path = None if folder is None else folder / "conduct.json"
        self.seen = self._read().get(agent, SeenConduct())

    def note(self, way: Literal["asked", "delegated", "unasked"], kind: str) -> None:
        """Note that the agent asked about a tool call, had it done by its client, or did it without having asked.

        Two guards that write at once may lose a note, which is seen again the next time.
        """
        kind = kind if kind in _KINDS else "other"
        kinds: set[str] = getattr(self.seen, way)
        if kind in kinds:
            return
        kinds.add(kind)
        if self._path is None:
            return
        seen = {**self._read(), self._agent: self.seen}
        if len(seen) > _MOST_AGENTS:
            return
        with suppress(OSError):
            make_private_folder(self._path.parent)
            # On the loop, but once for each kind and way of an agent, over all runs.
            write_private(self._path, msgspec.json.encode(seen, order="deterministic"), is_synced=True)

    def _read(self) -> dict[str, SeenConduct]:
        if self._path is None:
            return {}
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=dict[str, SeenConduct])
        except (OSError, msgspec.MsgspecError):
            return {}
