"""Lines about what only agents of version 2 report: messages that are replaced, and terminals of the agent.

Loaded with the first update of version 2.
"""

from __future__ import annotations

from base64 import b64decode
from binascii import Error as NotBase64
from typing import TYPE_CHECKING, Any, Final

from dragoman.schema import v2

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.cli.prompt.progress import Progress
    from dragoman.state import SessionState


def _show_replaced(progress: Progress, update: v2.AgentMessage, state: SessionState) -> None:
    message = state.find_message("agent", update.message_id)
    if message is not None and update.content:
        # What is written cannot be taken back, so the new text follows as another message.
        progress.write_message(f"{update.message_id} {message.revision}", message.text)


def _show_output(progress: Progress, update: v2.TerminalOutputChunk, state: SessionState) -> None:
    progress.terminal_output(update.terminal_id, _bytes(update.data))


def _show_terminal(progress: Progress, update: v2.TerminalUpdate, state: SessionState) -> None:
    if update.output and not progress.has_output(update.terminal_id):
        progress.terminal_output(update.terminal_id, _bytes(update.output.data))
    if update.exit_status:
        status = update.exit_status
        progress.terminal_exit(update.terminal_id, status.exit_code or None, status.signal or None)


def _bytes(data: str) -> bytes:
    try:
        return b64decode(data)
    except (NotBase64, ValueError):
        return b""


STEPS: Final[dict[type, Callable[[Progress, Any, SessionState], None]]] = {
    v2.AgentMessage: _show_replaced,
    v2.TerminalOutputChunk: _show_output,
    v2.TerminalUpdate: _show_terminal,
}
