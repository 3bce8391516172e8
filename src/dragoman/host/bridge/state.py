"""What the bridge remembers of requests, questions and sessions while there is no line. Pure."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

if TYPE_CHECKING:
    from dragoman.wire.ids import Id


class OpenRequest:
    """A request of the editor that has no answer yet."""

    def __init__(self, editor_id: Any, method: str, params: Any, session: str | None) -> None:
        self.editor_id = editor_id
        self.method = method
        self.params = params
        self.session = session
        self.prompt_id: str | None = None
        self.is_sent = False
        """On the line that is open now."""
        self.was_sent = False
        """On any line."""
        self.is_cancelled = False


class OpenQuestion:
    """A request of the host that the editor has not answered yet."""

    def __init__(self, host_id: Any, session: str | None, question_id: str | None) -> None:
        self.editor_id: Id = None
        """Set when it is opened towards the editor."""
        self.host_id = host_id
        """Of the line that is open now; None without one."""
        self.session = session
        self.question_id = question_id
        self.answer: dict[str, Any] | None = None
        """What the editor answered while there was no line."""


class _Frame(NamedTuple):
    """An update that was passed on during a load."""

    digest: bytes
    length: int
    """Of its text, if it is a piece of a message."""


class LoadedHistory:
    """The updates of a `session/load` that were passed on, to skip them when the load is repeated after a cut.

    A turn may run meanwhile, so that a message has grown and a tool call has moved on when its update comes again.
    """

    def __init__(self) -> None:
        self._passed: list[_Frame] = []
        self._position = 0

    def start_again(self) -> None:
        """Begin with the first update again, because the load was sent again."""
        self._position = 0

    def take(self, update: Any) -> Any | None:
        """Return what of an update the editor does not have yet; None if it has all of it."""
        position, self._position = self._position, self._position + 1
        frame = _Frame(_digest(update), len(_text(update) or ""))
        if position >= len(self._passed):
            self._passed.append(frame)
            return update
        before, self._passed[position] = self._passed[position], frame
        if before.digest == frame.digest:
            return None
        text = _text(update)
        if text is not None and len(text) > before.length:
            return {**update, "content": {**update["content"], "text": text[before.length :]}}
        if isinstance(update, dict) and update.get("sessionUpdate") == "tool_call":
            return {**update, "sessionUpdate": "tool_call_update"}
        return update


class BridgedSession:
    """A session that the editor has open."""

    def __init__(self, id: str, cwd: str, servers: Any) -> None:
        self.id = id
        self.cwd = cwd
        self.servers = servers
        self.state: Literal["opening", "attached", "away", "resuming"] = "opening"
        self.replay: LoadedHistory | None = None
        self._number = 0
        self._passed = 0
        """How many messages of the event `_number` were seen; one event may be several."""
        self._skipping = 0

    def join(self, head: int) -> None:
        """Note the answer to `session/new`, `load` or `resume`: what follows it is behind `head`."""
        self._number, self._passed, self._skipping = head, 0, 0
        self.replay = None
        self.state = "attached"

    def after(self) -> int:
        """Return where to go on after a cut. The last event may have come in part, so it is asked for once more."""
        self._skipping = self._passed
        return self._number - 1 if self._passed else self._number

    def is_new(self, number: int) -> bool:
        """Whether a message of this event was not seen before; counts it."""
        if number == self._number and self._skipping > 0:
            self._skipping -= 1
            return False
        if number < self._number:
            return False
        if number > self._number:
            self._number, self._passed, self._skipping = number, 0, 0
        self._passed += 1
        return True


def _digest(update: Any) -> bytes:
    return hashlib.blake2b(msgspec.json.encode(update), digest_size=16).digest()


def _text(update: Any) -> str | None:
    """Return the text of a piece of a message."""
    content = update.get("content") if isinstance(update, dict) else None
    text = content.get("text") if isinstance(content, dict) else None
    return text if isinstance(text, str) else None
