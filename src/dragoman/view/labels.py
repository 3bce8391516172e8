"""Short words about blocks that all writers share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from dragoman.text.terminal import size
from dragoman.text.visible import label
from dragoman.view.blocks import LinkPiece, MediaPiece, OtherPiece, ResourcePiece, ShownTerminal

if TYPE_CHECKING:
    from dragoman.view.blocks import ToolBlock, ToolPiece, TurnBlock

_KINDS: Final = {"execute": "run", "switch_mode": "mode"}
STEP_SIGNS: Final = {"completed": "☑", "in_progress": "◐"}
_ENDINGS: Final = {
    "end_turn": "Done",
    "cancelled": "Cancelled",
    "refusal": "The agent refused to continue",
    "max_tokens": "Stopped at the limit of tokens",
    "max_turn_requests": "Stopped at the limit of requests",
}


def ending(block: TurnBlock) -> str:
    """Return how a turn ended, in a few words."""
    if block.is_lost:
        return "The agent ended during the turn"
    if block.stop_reason is None:
        return "Ended without an answer"
    return _ENDINGS.get(block.stop_reason, f"Stopped: {block.stop_reason}")


def tokens(block: TurnBlock) -> str:
    """Return the tokens of a turn; empty if the agent did not report them."""
    if block.input_tokens is None or block.output_tokens is None:
        return ""
    return f"{size(block.input_tokens)} tokens in, {size(block.output_tokens)} out"


def outcome(block: ToolBlock) -> str:
    """Return how a tool call ended: a command that failed counts as failed, whatever status the agent reports."""
    for piece in block.content:
        if isinstance(piece, ShownTerminal):
            if piece.signal:
                return f"killed by {piece.signal}"
            if piece.exit_code:
                return f"exit {piece.exit_code}"
    return f"exit {block.exit_code}" if block.exit_code else block.status


def kind_word(kind: str) -> str:
    """Return the kind of a tool call in a word of everyday."""
    return _KINDS.get(kind, kind)


def age_text(seconds: float) -> str:
    """Return how long ago something was, in words: `just now`, `3 h`, `yesterday`."""
    if seconds < 60:
        return "just now"
    if seconds < 3600:
        return f"{int(seconds // 60)} min"
    if seconds < 86400:
        return f"{int(seconds // 3600)} h"
    days = int(seconds // 86400)
    return "yesterday" if days == 1 else f"{days} days"


def seconds_text(seconds: float | None) -> str:
    """Write a duration as it is read: `0.2 s`, `4 min 12 s`, whole seconds as `3 s`; empty if it is not known."""
    if seconds is None or seconds < 0:
        return ""
    if isinstance(seconds, int) and seconds < 100:
        return f"{seconds} s"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {rest:02} s"


def described(piece: ToolPiece) -> str:
    """Describe content that is not text in a few words: `[image 640x480 png, 84 KB]`."""
    match piece:
        case MediaPiece():
            kind, _, form = label(piece.media_type, 60).partition("/")
            pixels = f" {piece.width}x{piece.height}" if piece.width and piece.height else ""
            name = f"{kind}{pixels} {form}".rstrip() if kind in ("image", "audio", "video") else f"{kind}/{form}"
            return f"[{name}, {size_text(piece.size_bytes)}]"
        case LinkPiece():
            return f"[{label(piece.name, 60)}: {label(piece.uri, 200)}]"
        case ResourcePiece():
            return f"[{label(piece.uri, 200)}, {size(len(piece.text))} letters]"
        case OtherPiece():
            return f"[{label(piece.kind, 60, 'content of an unknown kind')}]"
    return ""


def size_text(size_bytes: int) -> str:
    """Write a size as it is read: `84 KB`."""
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    return f"{size_bytes / 1000:.0f} KB" if size_bytes < 999_500 else f"{size_bytes / 1_000_000:.1f} MB"
