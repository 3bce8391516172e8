"""A recording played as a fake agent or as a fake client.

Owns the options of a replay: which recording, how fast, what may differ. `player.py` plays it, `script.py` reads the
recording as a script.
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Final, Literal

from dragoman.trace.entry import Exit
from dragoman.trace.reader import Trace, open_trace
from dragoman.trace.replay.difference import IGNORED, Comparison, Difference
from dragoman.trace.replay.ids import IdMap
from dragoman.trace.replay.matching import Matcher
from dragoman.trace.replay.player import Player
from dragoman.trace.replay.script import read_script

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.rpc import Transport
    from dragoman.trace.entry import Direction

__all__ = ["Difference", "Replay"]

# A client of a fake agent sends its part at once or, in a test, not at all. A real agent with a fake client may have to
# wait for a model.
_PATIENCE_SECONDS: Final[dict[Direction, float]] = {"a2c": 5.0, "c2a": 30.0}
_ANSWER_SECONDS: Final = 300.0


class Replay:
    """A recording to replay; each call of `serve` or `drive` is a run of its own.

    Args:
        trace: The recording, or the path of one.
        timing: "none" (as fast as possible), "recorded", or a factor: 0.5 takes half the recorded time.
        ignore: Patterns of `method path` that may differ, such as `session/new params.cwd`, with `*` for anything.
            Members that differ in every run, such as version and time, are always ignored.
        patience_seconds: How long to wait for a recorded line that does not come, while the other side waits as well.

    Raises:
        TraceError: the file is not a recording.
        OSError: it cannot be read.
    """

    def __init__(
        self,
        trace: Trace | str | os.PathLike[str],
        *,
        timing: Literal["none", "recorded"] | float = "none",
        ignore: Sequence[str] = (),
        patience_seconds: float | None = None,
    ) -> None:
        self.trace = trace if isinstance(trace, Trace) else open_trace(trace)
        self.exit_code: int | None = None
        """The exit code of the recorded agent, once a run came to the point where it ended by itself."""
        self._pace = _pace(timing)
        self._ignore = (*IGNORED, *ignore)
        self._patience_seconds = patience_seconds
        self._players: set[Player] = set()

    async def serve(self, transport: Transport) -> list[Difference]:
        """Play the agent until the client ends the connection, or the recorded agent did."""
        player = self._player(transport, "a2c")
        differences = await self._run(player)
        if player.has_ended_itself:
            exits = [entry for entry in self.trace.entries if isinstance(entry, Exit)]
            self.exit_code = _code(exits[0])
        return differences

    async def drive(self, transport: Transport) -> list[Difference]:
        """Play the client until the end of the recording or of the agent; then close the connection."""
        return await self._run(self._player(transport, "c2a"))

    def stop(self) -> None:
        """End all runs, as if the other side had ended the connection."""
        for player in self._players:
            player.stop()

    async def _run(self, player: Player) -> list[Difference]:
        self._players.add(player)
        try:
            return await player.run()
        finally:
            self._players.discard(player)

    def _player(self, transport: Transport, ours: Direction) -> Player:
        patience = _PATIENCE_SECONDS[ours] if self._patience_seconds is None else self._patience_seconds
        names = IdMap()
        comparison = Comparison(names, self._ignore, only_shapes=self.trace.header.redacted)
        steps = read_script(self.trace.entries, ours)
        matcher = Matcher(steps, "c2a" if ours == "a2c" else "a2c", names, comparison)
        return Player(
            steps,
            transport,
            matcher,
            names,
            is_client=ours == "c2a",
            pace=self._pace,
            patience=patience,
            # Responses do come, but a user or a model may have to write them; a limit that was given counts for them.
            answer_patience=_ANSWER_SECONDS if self._patience_seconds is None else self._patience_seconds,
        )


def _pace(timing: str | float) -> float:
    known = {"none": 0.0, "recorded": 1.0}
    pace = known.get(timing, -1.0) if isinstance(timing, str) else timing
    if not pace >= 0:
        raise ValueError(f"timing must be 'none', 'recorded' or a factor, not {timing!r}")
    return pace


def _code(exit: Exit) -> int | None:
    """Return the exit code as in a shell: 128 + n for signal n."""
    if exit.signal is None:
        return exit.code
    number = signal.Signals.__members__.get(exit.signal)
    return None if number is None else 128 + number
