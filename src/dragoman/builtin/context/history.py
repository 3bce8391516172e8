"""The conversation as the model is given it: a part of what is stored.

Leaves out everything before the last `/clear`, and commands that the agent answered by itself; a command that has a
template is replaced by its text. Stored facts apply: what was summarised is replaced by its summary, outputs that were
left out by a note; what was taken back is left out. Nothing stored changes: a client that loads the session sees all of
it. Pure.

A message that nothing was done to is passed on as the same object, and a changed one is made once: wire forms keep the
encoded bytes of each message object. Each stored message is looked at once, too: an open session keeps its conversation
from turn to turn, and a turn adds what is new, so a prompt costs the same behind a hundred messages and behind ten
thousand.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.context.rewound import facts_of, rewound
from dragoman.builtin.context.window.facts import COMPACTION, CONTEXT, PRUNING, Compaction, Cut, Pruning, read_fact
from dragoman.uistream.messages import DataPart, TextPart, ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Sequence

    from dragoman.uistream.messages import Part

COMMAND: Final = "command"
"""Key in the metadata of a user message: `{"name", "prompt"?}`. Without a prompt the agent answered by itself."""
CLEAR: Final = "clear"
# The end of an output has the error and the result; the beginning says what it is.
_HEAD_SHARE: Final = 0.2


class Entry(Struct, frozen=True):
    """A message of the conversation, and its position in what is stored."""

    index: int
    source: UIMessage
    """The stored message."""
    start: int
    """The number of its first part that the model is given."""
    message: UIMessage
    """The message for the model: the stored one, or one made of it."""


class ModelView:
    """The conversation at one time."""

    def __init__(self, shown: _Shown, running: tuple[Entry, ...], folding: _Folding, last_fact: str) -> None:
        self.running = running
        self.summary = folding.summary
        self.compaction = folding.compaction
        self.last_fact = last_fact
        """The id of the newest fact that applies, the same in every process and in a fork."""
        # The lists may grow meanwhile, but what is in them stays.
        self._shown = shown
        self._length = len(shown.entries)
        self._noted = len(shown.noted)

    @property
    def entries(self) -> list[Entry]:
        """The messages with their positions, oldest first."""
        return self.since(0)

    def since(self, number: int) -> list[Entry]:
        """Return the entries from this number on."""
        return [*self._shown.entries[number : self._length], *self.running[max(number - self._length, 0) :]]

    @cached_property
    def messages(self) -> tuple[UIMessage, ...]:
        """The messages for the model, oldest first: the summary, if there is one, and those of the entries."""
        first = () if self.summary is None else (self.summary,)
        return (*first, *self._shown.messages[: self._length], *(entry.message for entry in self.running))

    @property
    def counted(self) -> Iterator[int]:
        """The numbers of the entries for which a provider stated its count, the newest first."""
        for number, entry in enumerate(self.running, self._length):
            if _is_counted(entry.source):
                yield number
        yield from (number for number in reversed(self._shown.counted) if number < self._length)

    @property
    def noted(self) -> list[UIMessage]:
        """The messages of the user among them to which the agent added something, such as the day."""
        return self._shown.noted[: self._noted]

    @property
    def stable_until(self) -> int:
        """How many messages at the beginning stay the same until the next compaction."""
        return 0 if self.summary is None else 1


class ModelConversation:
    """The stored messages of a session before the running turn, and how the model is given them.

    Args:
        made: the messages made so far, which a session keeps from turn to turn.
    """

    def __init__(
        self, history: Sequence[UIMessage], made: dict[Any, tuple[UIMessage, UIMessage]] | None = None
    ) -> None:
        self._made: dict[Any, tuple[UIMessage, UIMessage]] = {} if made is None else made
        self.length = 0
        self._first: UIMessage | None = None
        self._last: UIMessage | None = None
        self._past = _Folding()
        self._shown = _Shown()
        gone = rewound(history)
        # What the provider counted with them does not count any more.
        self._without = f" without {len(gone)}" if gone else ""
        self._add(history, gone)

    def extend(self, history: Sequence[UIMessage]) -> bool:
        """Add what is new in a history; False if it does not continue the one before, and nothing is changed then.

        The messages in the middle are not compared: a history only grows at its end, or is another one from its first
        message on.
        """
        length = self.length
        if len(history) < length:
            return False
        if length and not (history[0] is self._first and history[length - 1] is self._last):
            return False
        added = history[length:]
        if any(map(facts_of, added)):
            return False  # what was taken back stands before it
        self._add(added)
        return True

    def _add(self, messages: Sequence[UIMessage], gone: Container[int] = ()) -> None:
        facts = self._past.facts
        for index, message in enumerate(messages, self.length):
            if index not in gone:
                self._past.add(index, message, self._made)
        if messages:
            self._first, self._last = self._first or messages[0], messages[-1]
        self.length += len(messages)
        if self._past.facts != facts:  # a fact changes what stands before it
            self._shown = _Shown()
        self._shown.add(self._past, self.length, self._made)
        # The same with the facts that the running turn has stored.
        self._facts_of_turn = 0
        self._folding, self._shown_in_turn = self._past, self._shown
        self._last_view: ModelView | None = None

    def view(self, running: UIMessage | None = None) -> ModelView:
        """Return the conversation, with the running assistant's message last."""
        if running is None:
            return self._view(self._past, self._shown)
        facts = sum(isinstance(part, DataPart) and part.name in (COMPACTION, PRUNING) for part in running.parts)
        if facts != self._facts_of_turn:
            self._facts_of_turn = facts
            self._folding = self._past.copy()
            self._folding.add(self.length, running, self._made)
            self._shown_in_turn = _Shown()
            self._shown_in_turn.add(self._folding, self.length, self._made)
            self._last_view = None
        start = self._folding.start_of(self.length) if facts else 0
        message = self._folding.made_of(self.length, running, start, None)
        # The message grows in place: while it is given as it is, the view of the step before is that of this one.
        if self._last_view is None or self._last_view.running[0].message is not message:
            entry = Entry(self.length, running, start, message)
            self._last_view = self._view(self._folding, self._shown_in_turn, entry)
        return self._last_view

    def _view(self, folding: _Folding, shown: _Shown, *running: Entry) -> ModelView:
        # A fact of the running turn is newer than what was taken back.
        last_fact = folding.last_fact + (self._without if folding.facts == self._past.facts else "")
        return ModelView(shown, running, folding, last_fact)


class KeptConversation:
    """The conversation of an open session, kept from turn to turn."""

    def __init__(self) -> None:
        self._made: dict[Any, tuple[UIMessage, UIMessage]] = {}
        self._last: ModelConversation | None = None

    @property
    def length(self) -> int:
        """How many messages the last conversation has."""
        return 0 if self._last is None else self._last.length

    def of(self, history: Sequence[UIMessage]) -> ModelConversation:
        """Return the conversation of these messages: the one before with what is new, or another one.

        A turn must not use the one that it got after the next turn has asked for its own.
        """
        if self._last is None or not self._last.extend(history):
            self._last = ModelConversation(history, self._made)
        return self._last


class _Shown:
    """What the model is given of a history, in the forms that views need. It grows, until a fact changes it."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.messages: list[UIMessage] = []
        self.noted: list[UIMessage] = []
        self.counted: list[int] = []
        """Numbers of entries."""
        self._places = 0

    def add(self, folding: _Folding, before: int, made: dict[Any, tuple[UIMessage, UIMessage]]) -> None:
        """Add the messages before this position that are new in a walk."""
        for index, source, start in folding.places[self._places :]:
            if index >= before:
                break
            message = folding.made_of(index, source, start, made)
            self._places += 1
            self.entries.append(Entry(index, source, start, message))
            self.messages.append(message)
            if message.role == "user" and any(isinstance(part, DataPart) for part in message.parts):
                self.noted.append(message)
            elif _is_counted(source):
                self.counted.append(len(self.entries) - 1)


def _is_counted(message: UIMessage) -> bool:
    return message.role == "assistant" and CONTEXT in message.metadata


class _Place(NamedTuple):
    """Which message, and which part of it."""

    message: int
    part: int


class _Folding:
    """The state of the walk over the stored messages."""

    def __init__(self) -> None:
        self.summary: UIMessage | None = None
        self.compaction: Compaction | None = None
        self.last_fact = ""
        self.places: list[tuple[int, UIMessage, int]] = []
        """Position, message and first part of what the model is given."""
        self.facts = 0
        """How many facts changed what stands before them."""
        # With the place of the fact, since a server may use the id again after it.
        self._calls: dict[str, tuple[Cut, _Place]] = {}
        self._users: dict[int, int] = {}
        self._cut_parts: dict[int, tuple[ToolPart, Cut, Part]] = {}
        self._is_for_agent = False

    def copy(self) -> _Folding:
        copied = _Folding()
        copied.__dict__.update(self.__dict__)
        copied.places, copied._calls, copied._users = self.places[:], dict(self._calls), dict(self._users)
        copied._cut_parts = dict(self._cut_parts)
        return copied

    def add(self, index: int, message: UIMessage, made: dict[Any, tuple[UIMessage, UIMessage]]) -> None:
        if message.role == "user":
            command = message.metadata.get(COMMAND, {})
            self._is_for_agent = "name" in command and "prompt" not in command
            if self._is_for_agent and command["name"] == CLEAR:
                self.places.clear()
                self.facts += 1
                self.summary = self.compaction = None
                self.last_fact = CLEAR
            elif "prompt" in command:
                message = _once(made, (id(message), "prompt"), message, lambda: _expanded(message, command["prompt"]))
        if not self._is_for_agent:
            self.places.append((index, message, 0))
        for number, part in enumerate(message.parts) if message.role == "assistant" else ():
            if isinstance(part, DataPart) and part.name in (COMPACTION, PRUNING):
                self._apply(_Place(index, number), part, made)

    def _apply(self, at: _Place, part: DataPart, made: dict[Any, tuple[UIMessage, UIMessage]]) -> None:
        index = at.message
        if part.name == PRUNING:
            pruning = read_fact(part.data, Pruning)
            if pruning is not None:
                self.facts += 1
                self.last_fact = str(part.id)
                self._calls |= {call: (cut, at) for call, cut in pruning.calls.items()}
                self._users |= {index - back: keep for back, keep in pruning.users.items()}
            return
        compaction = read_fact(part.data, Compaction)
        if compaction is None:
            return
        self.facts += 1
        self.last_fact = compaction.id
        first, user = index - compaction.tail.back, -1 if compaction.user is None else index - compaction.user
        kept = [place for place in self.places if place[0] > first or place[0] == user]
        kept += [(at, message, compaction.tail.part) for at, message, _ in self.places if at == first]
        self.places = sorted(kept, key=lambda place: place[0])
        self.compaction = compaction
        made_summary = UIMessage(compaction.id, "user", [TextPart(compaction.summary)])
        key = ("summary", compaction.id)
        self.summary = _once(made, key, made_summary, lambda: made_summary) if compaction.summary else None

    def start_of(self, index: int) -> int:
        return next((start for at, _, start in self.places if at == index), 0)

    def made_of(
        self, index: int, message: UIMessage, start: int, made: dict[Any, tuple[UIMessage, UIMessage]] | None
    ) -> UIMessage:
        """Return the message from a part on, with what was left out of it.

        `made` is None for a message that still grows.
        """
        keep = self._users.get(index) if message.role == "user" else None
        cuts = self._cuts_of(index, message.parts) if self._calls and message.role == "assistant" else {}
        if not start and keep is None and not cuts:
            return message

        def make() -> UIMessage:
            parts = [self._cut(part, cuts.get(number)) for number, part in enumerate(message.parts[start:], start)]
            if keep is not None:
                parts = _shortened(parts, keep)
            return msgspec.structs.replace(message, parts=parts)

        if made is None:
            return make()
        key = (id(message), start, keep, tuple((number, cut.keep) for number, cut in cuts.items()))
        return _once(made, key, message, make)

    def _cuts_of(self, index: int, parts: Sequence[Part]) -> dict[int, Cut]:
        """Return the cuts that apply to a message, by the numbers of its parts."""
        cuts = {}
        for number, part in enumerate(parts):
            found = self._calls.get(part.tool_call_id) if isinstance(part, ToolPart) else None
            if found is not None and (index, number) < found[1]:
                cuts[number] = found[0]
        return cuts

    def _cut(self, part: Part, cut: Cut | None) -> Part:
        if cut is None or not isinstance(part, ToolPart):
            return part
        # The same object each time, so that what was made of it in the step before holds.
        found = self._cut_parts.get(id(part))
        if found is None or found[0] is not part or found[1] is not cut:
            found = self._cut_parts[id(part)] = part, cut, _cut_part(part, cut)
        return found[2]


def _cut_part(part: ToolPart, cut: Cut) -> ToolPart:
    text = cut_text(output_text(part), cut)
    if part.state == "output-error":
        return msgspec.structs.replace(part, error_text=text)
    is_error = isinstance(part.output, dict) and bool(part.output.get("is_error"))
    return msgspec.structs.replace(part, output={"text": text, **({"is_error": True} if is_error else {})})


def output_text(part: ToolPart) -> str:
    """Return the text of a call's outcome that the model reads, empty if there is none."""
    if part.state == "output-error":
        return part.error_text or ""
    if part.output is UNSET or part.output is None:
        return ""
    if isinstance(part.output, dict) and isinstance(part.output.get("text"), str):
        text: str = part.output["text"]
        return text
    return part.output if isinstance(part.output, str) else msgspec.json.encode(part.output).decode()


def cut_text(text: str, cut: Cut) -> str:
    """Return what is left of an output. The same arguments always give the same text."""
    where = f"all of it is in {cut.path}, read it there" if cut.path else "run the call again if you need it"
    if not cut.keep:
        return f"[the output of {len(text)} characters was left out to save room; {where}]"
    return ends_of(text, cut.keep, where)


def ends_of(text: str, keep: int, where: str) -> str:
    """Return the beginning and the end of a text that is longer than `keep` characters."""
    if len(text) <= keep:
        return text
    head = int(keep * _HEAD_SHARE)
    left_out = len(text) - keep
    note = f"[... {left_out} characters left out to save room; {where} ...]"
    return f"{text[:head]}\n{note}\n{text[len(text) - keep + head :]}"


def _shortened(parts: list[Part], keep: int) -> list[Part]:
    """Return the parts of a user's message with texts cut so that about `keep` characters remain."""
    whole = sum(len(part.text) for part in parts if isinstance(part, TextPart)) or 1
    shortened: list[Part] = []
    for part in parts:
        if isinstance(part, TextPart):
            room = max(int(keep * len(part.text) / whole), 1)
            text = ends_of(part.text, room, "it was too long for the model's context window")
            part = msgspec.structs.replace(part, text=text)
        elif isinstance(part, DataPart) and isinstance(part.data, dict) and isinstance(part.data.get("text"), str):
            text = ends_of(part.data["text"], keep, "it was too long for the model's context window")
            part = msgspec.structs.replace(part, data={**part.data, "text": text})
        shortened.append(part)
    return shortened


def _once(made: dict[Any, tuple[UIMessage, UIMessage]], key: Any, source: UIMessage, make: Any) -> UIMessage:
    """Return the message made before, if it was. The source is kept too, so that its id is not used again."""
    found = made.get(key)
    if found is None:
        found = made[key] = (source, make())
    return found[1]


def _expanded(message: UIMessage, text: str) -> UIMessage:
    """Return the message with the expanded text of its command in place of the command."""
    parts = list(message.parts)
    # What the agent added may stand before it.
    at = next((number for number, part in enumerate(parts) if isinstance(part, TextPart)), None)
    parts[slice(0, 0) if at is None else slice(at, at + 1)] = [TextPart(str(text))]
    return msgspec.structs.replace(message, parts=parts)
