"""What a wire form is: it turns a model request into one HTTP request, and the events of the response into chunks.

Owns the interface and the cache of encoded messages. A form object belongs to one model object and keeps the encoded
JSON of every finished message, so that a step of a long conversation encodes only the message that is still growing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec
from msgspec import Struct

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
        """Images are sent to a model unless it is known that it does not accept them."""
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
    """Reads the events of one answer. Implementations inherit from this class, so that they have its defaults."""

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

    def __init__(self, items_of: Callable[[UIMessage], Iterable[Any]]) -> None:
        """Args:
        items_of: returns the wire items of one of our messages: none, one, or several.
        """
        self._items_of = items_of
        # The message itself is kept, so that its id cannot be used again by another object.
        self._kept: dict[int, tuple[UIMessage, bytes]] = {}

    def join(
        self, messages: Sequence[UIMessage], replaced: dict[int, Any] | None = None, first: Sequence[Any] = ()
    ) -> msgspec.Raw:
        """Return the JSON list of all items. Only the last message is encoded again; it may still grow.

        Args:
            replaced: items to use for the message at an index instead of its own, such as those with a cache mark.
            first: items in front of those of the messages, such as the system prompt.
        """
        pieces = [_encoded(first)] if first else []
        kept = self._kept
        for index, message in enumerate(messages[:-1]):
            if replaced is not None and index in replaced:
                pieces.append(_encoded(replaced[index]))
                continue
            found = kept.get(id(message))
            if found is None:
                found = kept[id(message)] = message, _encoded(self._items_of(message))
            pieces.append(found[1])
        if messages:
            last = len(messages) - 1
            items = replaced[last] if replaced is not None and last in replaced else self._items_of(messages[-1])
            pieces.append(_encoded(items))
        if len(kept) > 2 * len(messages) + _SPARE_PIECES:
            current = {id(message) for message in messages}
            self._kept = {key: value for key, value in kept.items() if key in current}
        return msgspec.Raw(b"[" + b",".join(piece for piece in pieces if piece) + b"]")


def _encoded(items: Iterable[Any]) -> bytes:
    """Return the items separated by commas."""
    return encode(list(items))[1:-1]
