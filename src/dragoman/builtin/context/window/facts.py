"""Stored facts about the context window: what was summarised, and which outputs were left out.

A fact is a data part of an assistant's message, its carrier, and applies to everything before it. `history.py` applies
facts whenever it makes the conversation for the model, so the same bytes are sent after a restart. Messages are named
by their distance from the carrier, not by id: a fork copies messages under new ids. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct

if TYPE_CHECKING:
    from dragoman.uistream.messages import UIMessage

COMPACTION: Final = "compaction"
PRUNING: Final = "pruning"
CONTEXT: Final = "context"
"""Key in the metadata of an assistant's message: a `Counted`."""


class InstructionNote(Struct, omit_defaults=True):
    """A change of an instruction file that was announced to the model; the digest is empty if the file is gone."""

    path: str
    text: str
    digest: str = ""


class Notes(Struct, omit_defaults=True):
    """What is carried over from one summary to the next without the model: none of it depends on how well it writes."""

    goal: str = ""
    """The first message of the user."""
    rules: list[str] = []
    """Sentences of the user that forbid or require something, word for word."""
    read: list[str] = []
    changed: list[str] = []
    todo: list[dict[str, str]] = []
    steered: list[str] = []
    """What the user added while the turn ran, the newest last."""
    jobs: list[str] = []
    """Where commands run, and the background jobs, at the time of the summary. The next one has its own list."""
    instructions: list[InstructionNote] = []
    """Instructions that changed during the session, the last announcement of each file."""
    skills: list[str] = []
    """Names of skills that were loaded."""


class TailStart(Struct):
    """A part of a message: so many messages before the carrier, and the number of the part in it."""

    back: int
    part: int = 0


class Compaction(Struct, omit_defaults=True):
    """The conversation before `tail` is replaced by `summary`."""

    id: str
    summary: str
    """The whole text of the message that replaces it."""
    tail: TailStart
    user: int | None = None
    """The user's last message if it is before the tail: so many messages before the carrier. It is kept whole."""
    tokens_before: int = 0
    tokens_after: int = 0
    made_by: str = "model"
    """`model`, `mechanical` (no model wrote it) or `dropped` (a part of the tail had to go, too)."""
    notes: Notes = msgspec.field(default_factory=Notes)
    status: str = "completed"


class Cut(Struct, omit_defaults=True):
    """An output of which the model is given only `keep` characters, its two ends; 0 is a note without any of it."""

    keep: int = 0
    path: str | None = None
    """A file with the whole output."""


class Pruning(Struct, omit_defaults=True):
    """Outputs of calls, by their ids, and messages of the user, by their distance, that are shortened."""

    calls: dict[str, Cut] = {}
    users: dict[int, int] = {}
    """How many characters are kept."""


class Counted(Struct, omit_defaults=True):
    """What a provider counted for one request and its answer."""

    tokens: int
    estimate: int
    """Our own estimate of the same, so that later estimates can be corrected by it."""
    step: int
    """The number of the part with which the step begins; outputs of its calls are not counted."""
    parts: int
    """The number of parts of the message that are counted."""
    last_fact: str = ""
    """The newest fact at that time. After another one the count does not help."""


_Fact = TypeVar("_Fact", Compaction, Pruning, Counted)


def read_fact(data: Any, kind: type[_Fact]) -> _Fact | None:
    """Return a stored fact; None if it is not one, such as data of another program under the same name."""
    try:
        return msgspec.convert(data, kind, strict=False)
    except (msgspec.ValidationError, TypeError):
        return None


def counted_in(message: UIMessage) -> Counted | None:
    """Return the last count of the message."""
    return read_fact(message.metadata.get(CONTEXT), Counted)
