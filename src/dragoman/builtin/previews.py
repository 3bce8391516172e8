"""When incomplete arguments of a tool call are shown, while the model still writes them.

Owns the pieces so far and the two bounds: not more often than can be seen, and only after the text has grown by a part
of its length. Each preview parses the text from its beginning, so the second bound keeps the work for arguments of any
length in proportion to their length. Only values that are complete count: half of a path is the name of another file.
Does not know tools or clients.
"""

from __future__ import annotations

from time import monotonic
from typing import Any, Final

from dragoman.uistream.partial_json import parse_partial

# A model writes up to a hundred pieces a second; more than ten redraws a second cannot be seen.
SECONDS: Final = 0.1
# The text grows by an eighth from one preview to the next, so all previews together parse nine times its length.
GROWTH: Final = 8
# The title of a call with longer arguments is known long before, or only with the last of them.
CHARACTERS: Final = 64 * 1024


class Previews:
    """The arguments of one turn's calls that are still being written."""

    def __init__(self) -> None:
        self._inputs: dict[str, _Input] = {}
        self.parsed_characters = 0
        """How much was parsed so far, all calls together."""

    def begin(self, tool_call_id: str, tool_name: str) -> None:
        self._inputs[tool_call_id] = _Input(tool_name)

    def end(self, tool_call_id: str) -> None:
        self._inputs.pop(tool_call_id, None)

    def add(self, tool_call_id: str, piece: str) -> tuple[str, dict[str, Any]] | None:
        """Add a piece. Return the tool's name and the complete arguments so far, if it is time to show them."""
        given = self._inputs.get(tool_call_id)
        if given is None:
            return None
        given.pieces.append(piece)
        given.length += len(piece)
        if given.length > CHARACTERS or given.length < given.next_length:
            return None
        now = monotonic()
        if now < given.next_time:
            return None
        text = "".join(given.pieces)
        given.pieces = [text]
        given.next_length = given.length + given.length // GROWTH
        self.parsed_characters += given.length
        arguments = parse_partial(text, is_strict=True)
        if not arguments:
            return None
        given.next_time = now + SECONDS
        return given.tool_name, arguments


class _Input:
    __slots__ = ("length", "next_length", "next_time", "pieces", "tool_name")

    def __init__(self, tool_name: str) -> None:
        self.tool_name = tool_name
        self.pieces: list[str] = []
        self.length = 0
        self.next_length = 0
        self.next_time = float("-inf")
