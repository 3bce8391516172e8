"""The blocks of a conversation: plain values that every writer reads, and that can be written as JSON.

A block is one item of the session's timeline, or the end of a turn. `position` is the item's place in the timeline, so
that a program which knows what changed finds the block to draw again. Texts are as the peer sent them.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from msgspec import Struct

Role: TypeAlias = Literal["user", "agent", "thought"]


class TextPiece(Struct, frozen=True, tag="text"):
    """Text; of the agent it is Markdown."""

    text: str


class MediaPiece(Struct, frozen=True, tag="media"):
    """An image, a sound or a binary file, without its data."""

    media_type: str
    size_bytes: int
    uri: str | None = None
    width: int | None = None
    """In pixels, of an image whose data says so."""
    height: int | None = None


class LinkPiece(Struct, frozen=True, tag="link"):
    """A link to a resource."""

    name: str
    uri: str


class ResourcePiece(Struct, frozen=True, tag="resource"):
    """The text of a file that was sent along."""

    uri: str
    text: str


class OtherPiece(Struct, frozen=True, tag="other"):
    """Content of a kind that this version does not know."""

    kind: str


class DiffLine(Struct, frozen=True, array_like=True):
    """One line of a change; `sign` is `+`, `-` or a space."""

    sign: str
    text: str


class DiffHunk(Struct, frozen=True):
    """Changed lines with some unchanged ones around them; both numbers count from 1."""

    old_line: int
    new_line: int
    lines: tuple[DiffLine, ...]


class DiffPiece(Struct, frozen=True, tag="diff"):
    """The change of one file."""

    path: str
    is_new: bool
    added: int
    removed: int
    hunks: tuple[DiffHunk, ...]
    left_out: int = 0
    """Lines of a very long change that are not in `hunks`."""


class ShownTerminal(Struct, frozen=True, tag="terminal"):
    """A terminal: its command, its output, and how it ended, as far as they are known."""

    terminal_id: str
    command: str | None = None
    output: str | None = None
    """None: not known. The end of the output if it was too long."""
    exit_code: int | None = None
    signal: str | None = None
    is_cut: bool = False
    """The beginning of the output is missing."""
    total: int = 0
    """How many characters there were so far, where that is counted."""


ContentPiece: TypeAlias = TextPiece | MediaPiece | LinkPiece | ResourcePiece | OtherPiece
ToolPiece: TypeAlias = ContentPiece | DiffPiece | ShownTerminal


class ShownStep(Struct, frozen=True):
    """One step of a plan."""

    text: str
    status: str
    priority: str


class MessageBlock(Struct, frozen=True, tag="message"):
    """A message of the user or the agent, or a thought of the agent."""

    position: int
    turn: int | None
    role: Role
    content: tuple[ContentPiece, ...]
    depth: int = 0
    """How many calls of subagents it is inside of."""


class ToolBlock(Struct, frozen=True, tag="tool_call"):
    """A tool call with everything it shows."""

    position: int
    turn: int | None
    id: str
    title: str
    kind: str
    status: str
    """As reported, or `cancelled` for a call that a cancelled turn ended."""
    command: str | None = None
    locations: tuple[str, ...] = ()
    """Paths, with `:line` where the agent reports one."""
    content: tuple[ToolPiece, ...] = ()
    output: str | None = None
    """The raw output, of a call that shows no content."""
    exit_code: int | None = None
    seconds: float | None = None
    """How long it took, or has taken so far, where that is known."""
    depth: int = 0
    """How many calls of subagents it is inside of."""


class PlanBlock(Struct, frozen=True, tag="plan"):
    """A plan: its steps, or its text, or the address of its file."""

    position: int
    turn: int | None
    steps: tuple[ShownStep, ...] = ()
    text: str = ""
    uri: str | None = None
    is_removed: bool = False


class NoteBlock(Struct, frozen=True, tag="note"):
    """Anything else that the agent reports: a notice, a compaction, a child session, an update of an unknown kind."""

    position: int
    turn: int | None
    kind: Literal["notice", "compaction", "subagent", "session_message", "unknown"]
    title: str
    text: str = ""
    status: str = ""


class TurnBlock(Struct, frozen=True, tag="turn_end"):
    """The end of a turn."""

    position: int
    """Of the item that follows the turn."""
    turn: int | None
    stop_reason: str | None
    """None for a turn that ended without a response."""
    is_lost: bool = False
    """The agent ended during the turn."""
    input_tokens: int | None = None
    output_tokens: int | None = None
    seconds: float | None = None


Block: TypeAlias = MessageBlock | ToolBlock | PlanBlock | NoteBlock | TurnBlock
