"""The conversation as the model is given it: a part of what is stored.

Leaves out everything before the last `/clear`, and commands that the agent answered by itself; a command that has a
template is replaced by its text. Stored facts apply: what was summarised is replaced by its summary, outputs that were
left out by a note; what was taken back is left out. Nothing stored changes: a client that loads the session sees all of
it. Pure.

A message that nothing was done to is passed on as the same object, and a changed one is made once: wire forms keep the
encoded bytes of each message object.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec
from msgspec import UNSET, Struct

from dragoman.builtin.context.rewound import rewound
from dragoman.builtin.context.window.facts import COMPACTION, PRUNING, Compaction, Cut, Pruning, read_fact
from dragoman.uistream.messages import DataPart, TextPart, ToolPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class ModelView(Struct, frozen=True):
    """The conversation at one time."""

    entries: tuple[Entry, ...]
    summary: UIMessage | None = None
    compaction: Compaction | None = None
    last_fact: str = ""
    """The id of the newest fact that applies, the same in every process and in a fork."""

    @property
    def messages(self) -> tuple[UIMessage, ...]:
        """The messages for the model, oldest first."""
        messages = tuple(entry.message for entry in self.entries)
        return messages if self.summary is None else (self.summary, *messages)

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
        self._length = len(history)
        self._made: dict[Any, tuple[UIMessage, UIMessage]] = {} if made is None else made
        self._past = _Folding()
        gone = rewound(history)
        for index, message in enumerate(history):
            if index not in gone:
                self._past.add(index, message, self._made)
        if gone:
            # What the provider counted with them does not count any more.
            self._past.last_fact = f"{self._past.last_fact} without {len(gone)}"
        self._facts_of_turn = 0
        self._past_entries = self._past.entries_before(self._length, self._made)
        # The same with the facts that the running turn has stored.
        self._folding, self._entries = self._past, self._past_entries

    def view(self, running: UIMessage | None = None) -> ModelView:
        """Return the conversation, with the running assistant's message last."""
        if running is None:
            return self._view(self._past, self._past_entries)
        facts = sum(isinstance(part, DataPart) and part.name in (COMPACTION, PRUNING) for part in running.parts)
        if facts != self._facts_of_turn:
            self._facts_of_turn = facts
            self._folding = self._past.copy()
            self._folding.add(self._length, running, self._made)
            self._entries = self._folding.entries_before(self._length, self._made)
        start = self._folding.start_of(self._length) if facts else 0
        message = self._folding.made_of(self._length, running, start, None)
        return self._view(self._folding, (*self._entries, Entry(self._length, running, start, message)))

    def _view(self, folding: _Folding, entries: Sequence[Entry]) -> ModelView:
        return ModelView(tuple(entries), folding.summary, folding.compaction, folding.last_fact)


def model_view(history: Sequence[UIMessage]) -> tuple[UIMessage, ...]:
    """Return the messages for the model, oldest first."""
    return ModelConversation(history).view().messages


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
        self._places: list[tuple[int, UIMessage, int]] = []
        # With the place of the fact, since a server may use the id again after it.
        self._calls: dict[str, tuple[Cut, _Place]] = {}
        self._users: dict[int, int] = {}
        self._cut_parts: dict[int, tuple[ToolPart, Cut, Part]] = {}
        self._is_for_agent = False

    def copy(self) -> _Folding:
        copied = _Folding()
        copied.__dict__.update(self.__dict__)
        copied._places, copied._calls, copied._users = self._places[:], dict(self._calls), dict(self._users)
        copied._cut_parts = dict(self._cut_parts)
        return copied

    def add(self, index: int, message: UIMessage, made: dict[Any, tuple[UIMessage, UIMessage]]) -> None:
        if message.role == "user":
            command = message.metadata.get(COMMAND, {})
            self._is_for_agent = "name" in command and "prompt" not in command
            if self._is_for_agent and command["name"] == CLEAR:
                self._places.clear()
                self.summary = self.compaction = None
                self.last_fact = CLEAR
            elif "prompt" in command:
                message = _once(made, (id(message), "prompt"), message, lambda: _expanded(message, command["prompt"]))
        if not self._is_for_agent:
            self._places.append((index, message, 0))
        for number, part in enumerate(message.parts) if message.role == "assistant" else ():
            if isinstance(part, DataPart) and part.name in (COMPACTION, PRUNING):
                self._apply(_Place(index, number), part, made)

    def _apply(self, at: _Place, part: DataPart, made: dict[Any, tuple[UIMessage, UIMessage]]) -> None:
        index = at.message
        if part.name == PRUNING:
            pruning = read_fact(part.data, Pruning)
            if pruning is not None:
                self.last_fact = str(part.id)
                self._calls |= {call: (cut, at) for call, cut in pruning.calls.items()}
                self._users |= {index - back: keep for back, keep in pruning.users.items()}
            return
        compaction = read_fact(part.data, Compaction)
        if compaction is None:
            return
        self.last_fact = compaction.id
        first, user = index - compaction.tail.back, -1 if compaction.user is None else index - compaction.user
        kept = [place for place in self._places if place[0] > first or place[0] == user]
        kept += [(at, message, compaction.tail.part) for at, message, _ in self._places if at == first]
        self._places = sorted(kept, key=lambda place: place[0])
        self.compaction = compaction
        made_summary = UIMessage(compaction.id, "user", [TextPart(compaction.summary)])
        key = ("summary", compaction.id)
        self.summary = _once(made, key, made_summary, lambda: made_summary) if compaction.summary else None

    def start_of(self, index: int) -> int:
        return next((start for at, _, start in self._places if at == index), 0)

    def entries_before(self, index: int, made: dict[Any, tuple[UIMessage, UIMessage]]) -> tuple[Entry, ...]:
        return tuple(
            Entry(at, message, start, self.made_of(at, message, start, made))
            for at, message, start in self._places
            if at < index
        )

    def made_of(
        self, index: int, message: UIMessage, start: int, made: dict[Any, tuple[UIMessage, UIMessage]] | None
    ) -> UIMessage:
        """The message from a part on, with what was left out of it. `made` is None for a message that still grows."""
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
        """The cuts that apply to a message, by the numbers of its parts."""
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
    """The parts of a user's message with texts cut so that about `keep` characters remain."""
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
    """The message made before, if it was. The source is kept too, so that its id is not used again."""
    found = made.get(key)
    if found is None:
        found = made[key] = (source, make())
    return found[1]


def _expanded(message: UIMessage, text: str) -> UIMessage:
    """The message with the expanded text of its command in place of the command."""
    parts = list(message.parts)
    # What the agent added may stand before it.
    at = next((number for number, part in enumerate(parts) if isinstance(part, TextPart)), None)
    parts[slice(0, 0) if at is None else slice(at, at + 1)] = [TextPart(str(text))]
    return msgspec.structs.replace(message, parts=parts)
