"""The session of a conversation as a document, and as a report for a bug: what the full screen and plain mode share.

The client may keep only the end of a long session, so that the history is loaded from the host, on a connection of its
own that is asked nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from dragoman.errors import DragomanError
from dragoman.text.visible import label
from dragoman.tui.reporting.private_file import file_place, write_private
from dragoman.tui.reporting.traffic import METHOD, TrafficModel
from dragoman.view import blocks_of
from dragoman.view.session_document import FORMS, form_of, session_document

if TYPE_CHECKING:
    from dragoman.state import SessionState
    from dragoman.trace.bug_report import ReportPart
    from dragoman.tui.conversation import HostedConversation


class ExportWish:
    """What `/export` was asked for: a form and a place."""

    def __init__(self, argument: str, conversation: HostedConversation) -> None:
        """Read the words behind the command.

        Raises:
            DragomanError: there is no such form.
        """
        first, _, rest = argument.strip().partition(" ")
        if first in FORMS:
            self.form, name = first, rest.strip()
        else:
            self.form, name = form_of(first), argument.strip()
            if first and "." not in first and "/" not in first:
                raise DragomanError(f"/export takes {', '.join(FORMS)} and the name of a file, not {first!r}")
        short = (conversation.session_id or "session")[:8]
        self.path = file_place(name or f"session-{short}.{self.form}", conversation.folder)


async def whole_state(conversation: HostedConversation) -> SessionState:
    """Return everything that was shown in a session, as the host has it. Raises: DragomanError."""
    from dragoman.client.connect import connect
    from dragoman.host.local.build import hello
    from dragoman.host.local.place import find_places
    from dragoman.host.local.start import find_host

    if conversation.session_id is None:
        raise DragomanError("there is no session yet")
    host = await asyncio.to_thread(find_host, find_places())
    if host is None:
        return conversation.state
    address = f"unix:{host.place.socket}"
    host.close()
    own = {"dragoman": {**hello(), "role": "observer"}}
    async with connect(address, name="dragoman-export", meta=own) as remote:
        session = await remote.load_session(conversation.session_id, conversation.folder)
        return session.state


async def export_session(conversation: HostedConversation, wish: ExportWish, *, replaces: bool = False) -> str:
    """Write the whole session to a file; returns a sentence. Raises: FileExists, DragomanError, OSError."""
    state = await whole_state(conversation)
    text = await asyncio.to_thread(_document, state, conversation, wish.form)
    await asyncio.to_thread(write_private, wish.path, text.encode(errors="replace"), replaces=replaces)
    return f"wrote {wish.path}"


def _document(state: SessionState, conversation: HostedConversation, form: str) -> str:
    title = state.title or label(_first_prompt(state), 100, "Session")
    facts = [("agent", conversation.agent), ("session", conversation.session_id or ""), ("folder", conversation.folder)]
    if state.usage is not None:
        facts.append(("context", f"{state.usage.used} of {state.usage.size} tokens"))
    if state.cost is not None:
        facts.append(("cost", f"{state.cost.amount:g} {state.cost.currency}"))
    about = {
        "session_id": conversation.session_id,
        "cwd": conversation.folder,
        "title": state.title or None,
        "agent": conversation.agent,
    }
    return session_document(form, blocks_of(state), title, facts, about)


def _first_prompt(state: SessionState) -> str:
    from dragoman.view.blocks import MessageBlock, TextPiece

    for block in blocks_of(state):
        if isinstance(block, MessageBlock) and block.role == "user":
            return " ".join(piece.text for piece in block.content if isinstance(piece, TextPiece))
    return ""


async def read_traffic(conversation: HostedConversation) -> TrafficModel:
    """Return the last lines between the host and the agent of a session. Raises: RequestError, ConnectionClosed."""
    model = TrafficModel()
    remote = conversation.remote
    while remote is not None and conversation.session_id is not None:
        answer: Any = await remote.request(METHOD, {"sessionId": conversation.session_id, **model.asked()})
        await asyncio.to_thread(model.feed, answer)
        if not answer.get("frames") or model.after >= answer.get("count", 0):
            break
    return model


async def report_parts(conversation: HostedConversation) -> list[ReportPart]:
    """Return the parts of a report about a session, each without private contents. Raises: DragomanError."""
    from dragoman.trace.bug_report import ReportSource, build_report, settings_files

    model, state = await read_traffic(conversation), await whole_state(conversation)
    source = ReportSource(
        session_id=conversation.session_id or "",
        agent=model.agent or conversation.agent,
        state=conversation.phase
        if conversation.phase != "ready"
        else "running"
        if conversation.is_running
        else "ready",
        frames=model.frames,
        is_whole=not model.missed,
        started_at=model.started_at,
        stderr=model.stderr,
        blocks=blocks_of(state),
        settings=await asyncio.to_thread(settings_files, conversation.folder),
    )
    return await asyncio.to_thread(build_report, source)
