"""Pieces of one message that follow each other, joined. Pure.

Two pieces belong together if they differ in nothing but their text: what an agent wrote next to it (`_meta`,
annotations, members of the future) stays as it is, and a piece that has other words there begins a new update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.host.history.frames import is_wrapped, stored_update, update_frame

if TYPE_CHECKING:
    from dragoman.store.event_log import LogEvent

JOINED_BYTES: Final = 64 * 1024
"""The size of what is joined, as it is written: a message of a size that every peer and every page takes at once."""
_ENVELOPE_BYTES: Final = 512  # around the text: names, numbers, and the ids of session and message
CHUNKS: Final = frozenset(("agent_message_chunk", "agent_thought_chunk", "user_message_chunk"))
_LIVE: Final = frozenset(("agent_message_chunk", "agent_thought_chunk"))
TEXT_STARTS: Final = tuple(b'{"sessionUpdate":"%b"' % variant.encode() for variant in sorted(_LIVE))
"""How nearly all agents begin such a piece, for a quick look: one that begins otherwise is joined all the same."""
_TEXT: Final = frozenset(("type", "text"))
_PLAIN: Final = {"type": "text"}
_encode: Final = msgspec.json.Encoder().encode


class TextChunk(msgspec.Struct, gc=False):
    """A piece of a message that is text."""

    text: str
    rest: dict[str, Any]
    """The update without the text; its `content` is None if nothing else stands in it."""


def read_text(update: bytes) -> TextChunk | None:
    """Return a piece of text; None for any other update."""
    try:
        found: Any = msgspec.json.decode(update)
    except msgspec.DecodeError:  # half of a character, as an agent cut it: only what is not touched stays right
        return None
    content = found.get("content") if isinstance(found, dict) else None
    if not isinstance(content, dict) or content.get("type") != "text" or found.get("sessionUpdate") not in CHUNKS:
        return None
    text = content.get("text")
    if not isinstance(text, str):
        return None
    if content.keys() == _TEXT:
        found["content"] = None
    else:
        found["content"] = {name: value for name, value in content.items() if name != "text"}
    return TextChunk(text, found)


def with_text(rest: dict[str, Any], text: bytes) -> bytes:
    """Return an update from what `read_text` left of it, and a text as JSON."""
    return _encode({**rest, "content": {**(rest["content"] or _PLAIN), "text": msgspec.Raw(text)}})


class TextJoiner:
    """The last pieces of a message on their way to clients that take them joined."""

    def __init__(self, session: bytes) -> None:
        """Take the id of the session as JSON, as clients know it."""
        self._session = session
        self._rest: dict[str, Any] = {}
        self._meta: dict[str, Any] = {}
        self._texts: list[bytes] = []
        self._size = 0
        self._first = 0
        self._last = 0
        self._at = 0.0

    @property
    def is_open(self) -> bool:
        """Whether it holds text that was not taken out."""
        return bool(self._texts)

    def take(self, event: LogEvent, frames: list[bytes]) -> bool:
        """Take a piece; False if the event is something else, and then nothing is held any more.

        Args:
            event: The next event.
            frames: Gets the message that is complete by this event, if there is one.
        """
        chunk, meta = None, {}
        if event.kind == "update":
            if not is_wrapped(event.body):
                chunk = read_text(event.body)
            elif (stored := stored_update(event.body)).child is None:
                chunk, meta = read_text(stored.update), stored.meta
        if chunk is None or chunk.rest["sessionUpdate"] not in _LIVE:
            self.flush(frames)
            return False
        text = _encode(chunk.text)[1:-1]
        is_same = self._texts and self._rest == chunk.rest and self._meta == meta
        if not is_same or self._size + len(text) > JOINED_BYTES:
            self.flush(frames)
            self._rest, self._meta = chunk.rest, meta
            self._first = event.number
            self._size = len(event.body) - len(text) + _ENVELOPE_BYTES
        self._texts.append(text)
        self._size += len(text)
        self._last, self._at = event.number, event.at
        return True

    def flush(self, frames: list[bytes]) -> None:
        """Add the message for what is held."""
        if self._texts:
            update = with_text(self._rest, b'"%b"' % b"".join(self._texts))
            frames.append(update_frame(self._session, update, self._meta, self._last, self._at, first=self._first))
            self._texts = []
