"""The terminals of a recording: what the client reported about each of them.

Owns reading `terminal/*` requests and their responses. A terminal that the agent never asked about has no output here.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from msgspec.structs import replace

from dragoman.schema import v1
from dragoman.view.blocks import ShownTerminal
from dragoman.view.build import tail

if TYPE_CHECKING:
    from dragoman.trace.inspect.exchange import DecodedFrame


class SeenTerminals:
    """Terminal id -> what is known about it, for each session."""

    def __init__(self) -> None:
        self.by_session: dict[str, dict[str, ShownTerminal]] = {}

    def feed(self, frame: DecodedFrame) -> None:
        """Take one frame; others than responses to `terminal/*` change nothing."""
        asked = None if frame.request is None else frame.request.value
        if frame.part != "result" or asked is None or frame.session_id is None:
            return
        known = self.by_session.setdefault(frame.session_id, {})
        value = frame.value
        if isinstance(value, v1.CreateTerminalResponse) and isinstance(asked, v1.CreateTerminalRequest):
            words = list(asked.args) if isinstance(asked.args, (list, tuple)) else []
            command = shlex.join([asked.command, *words]) if words else asked.command
            known[value.terminal_id] = ShownTerminal(value.terminal_id, command)
        elif isinstance(value, v1.TerminalOutputResponse) and isinstance(asked, v1.TerminalOutputRequest):
            output, is_cut = tail(value.output)
            before = known.get(asked.terminal_id, ShownTerminal(asked.terminal_id))
            seen = replace(before, output=output, is_cut=is_cut or value.truncated)
            known[asked.terminal_id] = _ended(seen, value.exit_status or None)
        elif isinstance(value, v1.WaitForTerminalExitResponse) and isinstance(asked, v1.WaitForTerminalExitRequest):
            before = known.get(asked.terminal_id, ShownTerminal(asked.terminal_id))
            known[asked.terminal_id] = _ended(before, value)


def _ended(
    terminal: ShownTerminal, status: v1.TerminalExitStatus | v1.WaitForTerminalExitResponse | None
) -> ShownTerminal:
    if status is None:
        return terminal
    code, signal = status.exit_code, status.signal
    return replace(
        terminal,
        exit_code=code if isinstance(code, int) else terminal.exit_code,
        signal=signal if isinstance(signal, str) else terminal.signal,
    )
