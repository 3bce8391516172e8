"""Records a connection of this library from the inside.

Owns the step from what a peer sends and receives to the two directions of a recording. It gets what the peer gets:
lines without their ends, and no blank ones. `dragoman record` records the exact bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from dragoman.rpc.observer import Observer
from dragoman.trace.writer import TraceWriter

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence
    from typing import BinaryIO

    from dragoman.trace.entry import Direction


class Recorder(Observer):
    """An observer that writes a recording; one for each connection.

    `spawn(..., observers=[Recorder(path)])` records as a client,
    `agent.serve(transport, observers=[Recorder(path, role="agent")])` as an agent.

    Args:
        file: A path, replaced if it exists, or a binary file opened for writing.
        role: The side that the observer is given to.
        redact: Write redacted entries, and neither command nor folder.
        command: The agent's command, for the header.
        cwd: The folder it was started in, for the header.

    Raises:
        OSError: the path cannot be opened. A later failure is logged and ends the recording alone.
    """

    def __init__(
        self,
        file: str | os.PathLike[str] | BinaryIO,
        *,
        role: Literal["client", "agent"] = "client",
        redact: bool = False,
        command: Sequence[str] = (),
        cwd: str | None = None,
    ) -> None:
        self._writer = TraceWriter(file, redact=redact, command=command, cwd=cwd)
        self._sent: Direction = "c2a" if role == "client" else "a2c"
        self._received: Direction = "a2c" if role == "client" else "c2a"

    def received(self, line: bytes) -> None:
        self._writer.frame(self._received, line)

    def sent(self, line: bytes) -> None:
        self._writer.frame(self._sent, line)

    def ended(self, reason: str) -> None:
        self._writer.end(self._received)
        self._writer.end(self._sent)
        self._writer.close()
