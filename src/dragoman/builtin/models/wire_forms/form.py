"""What a wire form is: it turns a model request into one HTTP request, and the events of the response into chunks.

Owns the interface and the cache of encoded messages. A form object belongs to one model object and keeps the encoded
JSON of every finished message, and of the finished steps of the message that still grows, so that a step of a long
conversation encodes only what the step before it has added.
"""

from __future__ import annotations

from operator import is_
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

from dragoman.builtin.growing import GrowingParts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from dragoman.builtin.models.catalogue import ModelFacts
    from dragoman.builtin.models.model import ModelError, ModelRequest, StepEnd
    from dragoman.builtin.models.providers import Provider
    from dragoman.uistream.chunks import Chunk
    from dragoman.uistream.messages import UIMessage

# Entries of messages that left the conversation (compaction, undo, fork) are dropped when they outnumber the others.
_SPARE_PIECES: Final = 64
EFFORT_LEVELS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
encode: Final = msgspec.json.Encoder().encode


class Target(Struct, frozen=True):
    """The model that a form addresses."""

    provider: Provider
    model: str
    """The name that the server knows, without our `provider:`."""
    facts: ModelFacts | None = None
    """What the catalogue knows about the model; None for a model that it does not list."""

    @property
    def name(self) -> str:
        return f"{self.provider.id}:{self.model}"

    @property
    def sees_images(self) -> bool:
        """Whether images are sent: they are to a model unless it is known that it does not accept them."""
        return self.facts is None or self.facts.sees_images is not False

    @property
    def reads_documents(self) -> bool:
        return self.facts is None or self.facts.reads_documents is not False

    def effort(self, wanted: str, accepted: Sequence[str] = ()) -> str:
        """Return the level of thinking effort that the model accepts and that is nearest to the wanted one.

        "none" is chosen by its own name only: a low effort does not turn thinking off.

        Args:
            accepted: the levels that the server itself has named.
        """
        levels = accepted or (self.facts.efforts if self.facts is not None else ())
        if not levels or wanted in levels or wanted not in EFFORT_LEVELS:
            return wanted
        place = EFFORT_LEVELS.index(wanted)
        known = [level for level in levels if level in EFFORT_LEVELS[1:]]
        return min(known, key=lambda level: abs(EFFORT_LEVELS.index(level) - place), default=wanted)


class HttpRequest(Struct, frozen=True):
    """A POST. `path` is appended to the base URL of the server, and may carry a query."""

    path: str
    body: bytes
    headers: dict[str, str] = {}


class StreamReader(Protocol):
    """A reader of the events of one answer. Implementations inherit from this class, so that they have its defaults."""

    def feed(self, event: str, data: bytes) -> Iterable[Chunk | StepEnd]:
        """Return the chunks of one server-sent event; `event` is its type, "" if the server gave none. The last item
        of a complete answer is a StepEnd. Events of unknown types give nothing.

        Raises: ModelError for an error that the server sent as an event, and for an event that cannot be read.
        """
        ...

    def end(self) -> Iterable[Chunk | StepEnd]:
        """Return what is left when the response has ended without a StepEnd. Without a StepEnd here too, the answer
        goes on in another response, to the same request with the members of `continuation`.

        Raises: ModelError (retryable) if the answer is not complete.
        """
        ...

    def continuation(self) -> dict[str, Any]:
        """Return what the next request of this answer has in its body, next to the usual. By default nothing."""
        return {}


class WireForm(Protocol):
    """One wire form, for one model. Implementations inherit from this class, so that they have its defaults."""

    def headers(self, key: str) -> dict[str, str]:
        """Return the headers of every request; `key` is "" for a server without one."""
        ...

    def request(self, request: ModelRequest) -> HttpRequest: ...

    def reader(self, request: ModelRequest) -> StreamReader: ...

    def recovers_from(self, error: ModelError) -> bool:
        """Whether the next request avoids this error, so that it is sent at once. By default none does."""
        return False


class Pieces:
    """The JSON of the conversation, with a cache of what does not change."""

    def __init__(self, items_of: Callable[[UIMessage], Iterable[Any]], between: Any = None) -> None:
        """Args:
        items_of: returns the wire items of one of our messages: none, one, or several. Those of a step must not
            depend on the steps before it.
        between: an item between two messages of the user that follow each other; None for nothing.
        """
        self._items_of = items_of
        self._between = b"" if between is None else encode(between)
        # The message itself is kept, so that its id cannot be used again by another object.
        self._kept: dict[int, tuple[UIMessage, bytes]] = {}
        self._before: tuple[Sequence[UIMessage], dict[int, bytes], bytes] = ((), {}, b"")
        self._growing = GrowingParts()
        self._ended = b""

    def join(
        self, messages: Sequence[UIMessage], replaced: dict[int, Any] | None = None, first: Sequence[Any] = ()
    ) -> msgspec.Raw:
        """Return the JSON list of all items. Only the running step of the last message is encoded again.

        Args:
            replaced: items to use for the message at an index instead of its own, such as those with a cache mark.
            first: items in front of those of the messages, such as the system prompt.
        """
        marked = {} if replaced is None else {index: _encoded(items) for index, items in replaced.items()}
        pieces = [_encoded(first), self._join_before(messages[:-1], marked)]
        if messages:
            pieces.append(marked.get(len(messages) - 1) or self._grown(messages[-1]))
        return msgspec.Raw(b"[" + _joined(pieces) + b"]")

    def _join_before(self, messages: Sequence[UIMessage], marked: dict[int, bytes]) -> bytes:
        """Return the items of the messages that do not grow any more."""
        joined, marked_before, found = self._before
        if len(joined) == len(messages) and all(map(is_, joined, messages)) and marked == marked_before:
            return found
        kept = self._kept
        pieces: list[bytes] = []
        is_after_user = False
        for index, message in enumerate(messages):
            piece = marked.get(index)
            if piece is None:
                if id(message) not in kept:
                    kept[id(message)] = message, self._grown(message)
                piece = kept[id(message)][1]
            if piece:
                pieces += [self._between, piece] if is_after_user and message.role == "user" else [piece]
                is_after_user = message.role == "user"
        if len(kept) > 2 * len(messages) + _SPARE_PIECES:
            current = {id(message) for message in messages}
            self._kept = {key: value for key, value in kept.items() if key in current}
        self._before = messages, marked, _joined(pieces)
        return self._before[2]

    def _grown(self, message: UIMessage) -> bytes:
        """Return the items of a message that grew since the last call.

        Its steps that are over are not encoded again.
        """
        goes_on, ended, running = self._growing.divide(message.parts)
        pieces = [self._ended] if goes_on else []
        if ended:
            pieces.append(_encoded(self._items_of(msgspec.structs.replace(message, parts=ended))))
        self._ended = _joined(pieces)
        return _joined([self._ended, _encoded(self._items_of(msgspec.structs.replace(message, parts=running)))])


def _joined(pieces: Iterable[bytes]) -> bytes:
    return b",".join(filter(None, pieces))


def _encoded(items: Iterable[Any]) -> bytes:
    """Return the items separated by commas."""
    return encode(list(items))[1:-1]
