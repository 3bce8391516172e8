"""The way from a session's state to blocks.

Owns which part of an item is shown. A command, an output and an exit code are read from where real agents put them;
what cannot be read is left out. Costs as much as the state is long: programs that draw often keep blocks by `position`.
"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from dragoman.schema import UNSET, Unknown, v1
from dragoman.state import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SubagentState,
    ToolCallState,
)
from dragoman.view.blocks import (
    Block,
    DiffPiece,
    LinkPiece,
    MediaPiece,
    MessageBlock,
    NoteBlock,
    OtherPiece,
    PlanBlock,
    ResourcePiece,
    ShownStep,
    ShownTerminal,
    TextPiece,
    ToolBlock,
    TurnBlock,
)
from dragoman.view.diffs import diff_piece
from dragoman.view.image_size import image_size
from dragoman.view.watched import WatchedSession

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from dragoman.state import SessionState, TimelineItem, TurnState
    from dragoman.view.blocks import ContentPiece, ToolPiece

OUTPUT_CHARS: Final = 20_000  # of a raw output or a terminal: its end says how it went
_OUTPUT_MEMBERS: Final = ("output", "stdout", "formatted_output", "aggregated_output", "result", "content", "error")


def blocks_of(
    state: SessionState,
    terminals: Mapping[str, ShownTerminal] | None = None,
    watched: WatchedSession | None = None,
    first: int = 0,
) -> list[Block]:
    """Return the session as blocks, in the order of its timeline, with the end of each turn.

    Args:
        state: the session.
        terminals: what is known about the terminals that tool calls show, by id; the state has only their ids.
        watched: durations, if they were seen.
        first: the position of the first item that is wanted.
    """
    if watched is None:
        watched = WatchedSession()
        watched.adopt(state)
    ends: dict[int, list[TurnState]] = {}
    for turn in state.turns:
        if turn.end is not None:
            ends.setdefault(turn.end, []).append(turn)
    blocks: list[Block] = []
    shown = {**watched.terminals, **agent_terminals(state), **(terminals or {})}
    for position, item in enumerate(state.timeline[first:], first):
        blocks += (turn_end(turn, watched) for turn in ends.get(position, ()))
        blocks += block_of(item, position, shown, watched)
    blocks += (turn_end(turn, watched) for turn in ends.get(len(state.timeline), ()))
    return blocks


def agent_terminals(state: SessionState) -> dict[str, ShownTerminal]:
    """Return the terminals that an agent of version 2 reports itself."""
    made = {}
    for terminal in state.terminals.values():
        output, is_cut = tail(terminal.text)
        status = terminal.exit_status
        made[terminal.id] = ShownTerminal(
            terminal.id,
            terminal.command,
            output,
            terminal.exit_code,
            (status.signal or None) if status is not None else None,
            is_cut or bool(terminal.lost_bytes),
        )
    return made


def block_of(
    item: TimelineItem, position: int, terminals: Mapping[str, ShownTerminal], watched: WatchedSession | None = None
) -> Iterable[Block]:
    """Return the block of one item; none for a message without content."""
    match item:
        case Message():
            content = tuple(map(piece_of, item.blocks))
            if any(not isinstance(piece, TextPiece) or piece.text.strip() for piece in content):
                depth = 0 if watched is None or not item.meta else watched.depth_in(item.meta)
                yield MessageBlock(position, item.turn, item.role, content, depth)
        case ToolCallState():
            yield _tool(item, position, terminals, watched)
        case PlanState():
            yield _plan(item, position)
        case CompactionState():
            text = "\n".join(part for part in (item.text, item.error or "") if part)
            yield NoteBlock(position, item.turn, "compaction", "The context was shortened", text, item.status)
        case SubagentState():
            title = item.title or item.session_id
            yield NoteBlock(position, item.turn, "subagent", title, item.description or "", _child_state(item.state))
        case SessionMessageState():
            between = " to ".join(part or "?" for part in (item.sender_session_id, item.recipient_session_id))
            yield NoteBlock(position, item.turn, "session_message", f"Message from {between}", item.text)
        case v1.Notice():
            text = item.description if isinstance(item.description, str) else ""
            yield NoteBlock(position, None, "notice", item.title, text, str(item.severity))
        case Unknown():
            yield NoteBlock(position, None, "unknown", f"Update of the unknown kind {item.tag or '(none)'}")


def piece_of(block: v1.ContentBlock) -> ContentPiece:
    """Return a content block as it is shown: text as it is, media without their data."""
    match block:
        case v1.TextContent():
            return TextPiece(block.text)
        case v1.ImageContent():
            pixels = image_size(block.data) or (None, None)
            return MediaPiece(block.mime_type, len(block.data) * 3 // 4, block.uri or None, *pixels)
        case v1.AudioContent():
            return MediaPiece(block.mime_type, len(block.data) * 3 // 4)
        case v1.ResourceLink():
            return LinkPiece(block.name, block.uri)
        case v1.EmbeddedResource(resource=v1.TextResourceContents() as resource):
            return ResourcePiece(resource.uri, resource.text)
        case v1.EmbeddedResource(resource=v1.BlobResourceContents() as resource):
            kind = resource.mime_type or "application/octet-stream"
            pixels = (image_size(resource.blob) if kind.startswith("image/") else None) or (None, None)
            return MediaPiece(kind, len(resource.blob) * 3 // 4, resource.uri, *pixels)
        case Unknown():
            return OtherPiece(block.tag or "")
    return OtherPiece("resource")


def tail(text: str, characters: int = OUTPUT_CHARS) -> tuple[str, bool]:
    """Return the end of a text, from the beginning of a line if possible, and whether something was cut."""
    if len(text) <= characters:
        return text, False
    kept = text[-characters:]
    return kept[kept.find("\n", 0, 1000) + 1 :], True


def turn_end(turn: TurnState, watched: WatchedSession | None = None) -> TurnBlock:
    """Return the block of a turn that ended."""
    tokens = turn.usage
    return TurnBlock(
        turn.end or 0,
        turn.index,
        turn.stop_reason,
        turn.is_lost,
        None if tokens is None else _number(tokens.input_tokens),
        None if tokens is None else _number(tokens.output_tokens),
        None if watched is None else watched.turn_seconds(turn.index),
    )


def _child_state(state: v1.StateUpdate | None) -> str:
    match state:
        case v1.RunningStateUpdate():
            return "running"
        case v1.RequiresActionStateUpdate():
            return "needs an answer"
        case v1.IdleStateUpdate(stop_reason=str() as reason) if reason != "end_turn":
            return reason
        case v1.IdleStateUpdate():
            return "done"
        case Unknown():
            return state.tag or ""
    return ""


def _tool(
    call: ToolCallState, position: int, terminals: Mapping[str, ShownTerminal], watched: WatchedSession | None
) -> ToolBlock:
    content = tuple(_tool_piece(item, terminals) for item in call.content)
    if watched is not None and call.id in watched.elsewhere:
        content = tuple(
            replace(piece, hunks=(), left_out=0)
            if isinstance(item, v1.Diff) and isinstance(piece, DiffPiece) and watched.is_elsewhere(call.id, item)
            else piece
            for item, piece in zip(call.content, content, strict=True)
        )
    has_text = any(not isinstance(piece, TextPiece) or piece.text.strip() for piece in content)
    return ToolBlock(
        position,
        call.turn,
        call.id,
        call.title or call.name or call.id,
        str(call.kind),
        "cancelled" if call.is_cancelled else str(call.status),
        command_of(call.raw_input),
        tuple(f"{place.path}:{place.line}" if place.line else place.path for place in call.locations),
        content,
        None if has_text else _output(call.raw_output),
        _exit_code(call),
        None if watched is None else watched.seconds(call.id),
        0 if watched is None else watched.depth(call.id),
    )


def _tool_piece(item: v1.ToolCallContent, terminals: Mapping[str, ShownTerminal]) -> ToolPiece:
    match item:
        case v1.Content():
            return piece_of(item.content)
        case v1.Diff():
            return diff_piece(item.path, item.old_text if isinstance(item.old_text, str) else None, item.new_text)
        case v1.Terminal():
            return terminals.get(item.terminal_id) or ShownTerminal(item.terminal_id)
    return OtherPiece(item.tag or "")


def _plan(plan: PlanState, position: int) -> PlanBlock:
    steps = tuple(ShownStep(entry.content, str(entry.status), str(entry.priority)) for entry in plan.entries)
    body = plan.body
    text = body.content if isinstance(body, v1.PlanMarkdown) else ""
    uri = body.uri if isinstance(body, v1.PlanFile) else None
    return PlanBlock(position, plan.turn, steps, text, uri, plan.is_removed)


def command_of(raw_input: Any) -> str | None:
    """Return the command line in the raw input of a tool call, where agents put it; None if there is none."""
    if not isinstance(raw_input, dict):
        return None
    for name in ("command", "cmd"):
        value = raw_input.get(name)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
            return shlex.join(value)
    return None


def _output(raw: Any) -> str | None:
    if raw is UNSET or raw is None:
        return None
    if isinstance(raw, dict):
        texts = [raw[name] for name in _OUTPUT_MEMBERS if isinstance(raw.get(name), str) and raw[name].strip()]
        raw = texts[0] if texts else None
    return tail(raw)[0] if isinstance(raw, str) and raw.strip() else None


def _exit_code(call: ToolCallState) -> int | None:
    meta = call.meta or {}
    places = [call.raw_output, meta.get("terminal_exit"), meta.get("dragoman")]
    for place in places:
        if isinstance(place, dict):
            for name in ("exit_code", "exitCode"):
                code = _number(place.get(name))
                if code is not None:
                    return code
    return None


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
