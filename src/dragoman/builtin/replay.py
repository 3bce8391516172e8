"""A stored message as the updates that a client gets when it loads the session.

Used for an attached client (`viewer.py`), and where a session is shown without one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from dragoman.builtin.tools.foreign_names import our_tool_name
from dragoman.schema import v1
from dragoman.text.terminal import plain
from dragoman.uistream.chunks import ToolOutputAvailable
from dragoman.uistream.unfold import replay
from dragoman.uistream.updates import Projector

if TYPE_CHECKING:
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import UIMessage

_SHOWN_AS_PLAN: Final = frozenset({"todo"})


def new_projector(*, starts_on_input: bool, shows_compactions: bool) -> Projector:
    """Return a projector for the built-in agent's tools."""
    return Projector(
        starts_on_input=starts_on_input,
        shows_compactions=shows_compactions,
        is_hidden=lambda name: our_tool_name(name) in _SHOWN_AS_PLAN,
    )


def stored_updates(message: UIMessage, *, shows_compactions: bool) -> list[v1.SessionUpdate]:
    """Return the updates of one message (rule 107)."""
    if message.role == "user":
        return Projector.user_message(message)
    projector = new_projector(starts_on_input=True, shows_compactions=shows_compactions)
    updates = [update for chunk in replay(message) for update in projector.project(without_terminal(chunk))]
    updates += projector.calls.end_all("interrupted")
    if projector.error is not None:
        # Live, this is the error response to the prompt.
        failed = v1.TextContent(f"\n\n[The turn failed: {plain(projector.error)}]\n\n")
        updates.append(v1.AgentMessageChunk(failed, f"{message.id}.error"))
    return updates


def without_terminal(chunk: Chunk) -> Chunk:
    """Return the chunk without a terminal that this client does not have; the text has its output."""
    if isinstance(chunk, ToolOutputAvailable) and isinstance(chunk.output, dict) and "terminal" in chunk.output:
        return replace(chunk, output={name: value for name, value in chunk.output.items() if name != "terminal"})
    return chunk
