"""What `session/load` sends of a log: a conversation that reads as if it had just happened, in fewer messages. Pure.

Prompts become messages of the user, neighbouring pieces of one message are joined, a tool call is sent once in its last
state at its first place, and of plan, title, commands and usage only the last remains. Notices, modes and options are
left out: the answer to `session/load` has the latter. Events that are lost are a line of text in their place. Of a turn
only what follows its first tool call is held in memory, because the call may still change.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.host.history.frames import store_update, stored_update, user_chunk
from dragoman.host.history.joined_text import CHUNKS, JOINED_BYTES, TextChunk, read_text, with_text
from dragoman.host.history.terminal_items import ShownTerminals, terminals_in
from dragoman.store.event_log import is_hole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from dragoman.store.event_log import LogEvent

_LAST: Final = ("plan", "session_info_update", "available_commands_update", "usage_update")
_LEFT_OUT: Final = frozenset(("notice", "current_mode_update", "config_option_update"))


_TERMINALS: Final = frozenset(("terminal_info", "terminal_output", "terminal_output_delta", "terminal_exit"))


class Replayed(NamedTuple):
    """An update to send."""

    update: bytes
    number: int
    """Of the last event that is part of it."""
    at: float = 0.0
    """When that event happened."""
    child: str | None = None
    """The session of a subagent that it belongs to."""
    first: int | None = None
    """The number of the first of several events that are part of it."""

    @property
    def stored(self) -> bytes:
        """The body of an event for it."""
        return store_update(self.update, None, self.child)


class HistoryReplay:
    """A fold of events into updates, turn by turn."""

    def __init__(self, *, with_prompts: bool = True, with_facts: bool = False) -> None:
        """Begin with nothing.

        Args:
            with_prompts: prompts become messages of the user.
            with_facts: tool calls have in `_meta` how long they took and how their command ended.
        """
        self._with_prompts = with_prompts
        self._with_facts = with_facts
        self._times: dict[str, tuple[float, float]] = {}
        self._shown = ShownTerminals()
        self._items: deque[Replayed | str] = deque()
        self._tools: dict[str, tuple[dict[str, Any], int, tuple[int, float]]] = {}
        self._chunk: TextChunk | None = None
        self._texts: list[str] = []
        self._chunk_bytes = 0
        self._chunk_first = 0
        self._chunk_place = (0, 0.0)
        self._last: dict[str, Replayed] = {}
        self._begun: LogEvent | None = None
        self.ended: list[dict[str, Any]] = []
        """How the turns ended whose end was fed: `promptId`, `messageId`, `result` or `error`, and `seconds`."""
        self._prompts: dict[str, LogEvent] = {}

    def feed(self, events: Iterable[LogEvent]) -> Iterator[Replayed]:
        """Yield what is complete after these events."""
        for event in events:
            if event.kind == "start":
                yield from self._end_turn()
                self._prompt(event)
                self._begun = event
            elif event.kind == "end":
                yield from self._end_turn()
                self._note_end(event)
            else:
                self.take(event)
                yield from self._ready()

    def _ready(self) -> Iterator[Replayed]:
        """Yield what stands before the first tool call of the turn: it does not change any more."""
        while self._items and isinstance(item := self._items[0], Replayed):
            self._items.popleft()
            yield item

    def take(self, event: LogEvent) -> None:
        """Take an event inside a turn."""
        if event.kind == "prompt":
            self._prompts[_prompt_id(event.body)] = event
        elif event.kind == "update":
            self._update(event)
        elif event.kind == "terminal":
            self._shown.note_event(event.body)
        elif is_hole(event):
            self._end_chunk()
            self._items.append(Replayed(_hole_update(event), event.number, event.at))

    def skim(self, events: Iterable[LogEvent]) -> None:
        """Pass over events that are not sent: only what is sent at the end is kept of them, and prompts that wait."""
        for event in events:
            if event.kind == "prompt":
                self.take(event)
            elif event.kind == "start":
                self._prompts.pop(_prompt_id(event.body), None)
                self._begun = event
            elif event.kind == "update":
                update, _, child, variant = stored_update(event.body)
                if child is None and variant in _LAST:
                    self._keep_last(variant, update, event)

    @property
    def begun(self) -> str | None:
        """The id of the last prompt's message, if its turn has no end."""
        return None if self._begun is None else message_id_of(self._begun.body)

    def turns(self) -> dict[str, Any]:
        """Return what was fed of turns, for a client that shows how they ended."""
        return {"ended": self.ended, "begun": self.begun}

    def turns_until_now(self, outcomes: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
        """Return what was fed of turns, and the end of the last one if it came afterwards.

        Args:
            outcomes: What became of the last prompts, by their ids: bodies of events, with `at`.
        """
        begun = self._begun
        outcome = None if begun is None else outcomes.get(_prompt_id(begun.body))
        if begun is None or outcome is None:
            return self.turns()
        body = {name: value for name, value in outcome.items() if name not in ("seq", "at")}
        return {"ended": [*self.ended, ended_turn(begun, body, outcome["at"] / 1000)], "begun": None}

    def end_part(self) -> Iterator[Replayed]:
        """Yield what a part of the history has at its end."""
        yield from self._end_turn()

    def finish(self) -> Iterator[Replayed]:
        """Yield what a turn that still runs has so far, and the last plan, title, commands and usage."""
        yield from self._end_turn()
        for variant in _LAST:
            if variant in self._last:
                yield self._last.pop(variant)

    def _prompt(self, event: LogEvent) -> None:
        found = self._prompts.pop(_prompt_id(event.body), None)
        if found is None or not self._with_prompts:
            return
        for block in blocks_of(found.body):
            self._items.append(Replayed(user_chunk(block, message_id_of(event.body)), event.number, event.at))

    def _note_end(self, event: LogEvent) -> None:
        begun, self._begun = self._begun, None
        if begun is not None and self._with_facts:
            self.ended.append(ended_turn(begun, msgspec.json.decode(event.body), event.at))

    def _update(self, event: LogEvent) -> None:
        update, _, child, variant = stored_update(event.body)
        if variant in _LEFT_OUT:
            return
        if child is not None:
            self._end_chunk()
            self._items.append(Replayed(update, event.number, event.at, child))
            return
        if variant in CHUNKS and self._join(update, event):
            return
        self._end_chunk()
        if variant in _LAST:
            self._keep_last(variant, update, event)
        elif variant in ("tool_call", "tool_call_update"):
            self._tool(update, event)
        else:
            self._items.append(Replayed(update, event.number, event.at))

    def _keep_last(self, variant: str, update: bytes, event: LogEvent) -> None:
        self._last[variant] = Replayed(_merged_info(self._last.get(variant), update), event.number, event.at)

    def _join(self, update: bytes, event: LogEvent) -> bool:
        """Whether the piece was joined to the message before it, or starts one that may be joined."""
        found, held = read_text(update), self._chunk
        if found is None:
            return False
        if held is None or held.rest != found.rest or self._chunk_bytes >= JOINED_BYTES:
            self._end_chunk()
            self._chunk, self._texts, self._chunk_bytes = found, [], 0
            self._chunk_first = event.number
        self._texts.append(found.text)
        self._chunk_bytes += len(found.text)
        self._chunk_place = (event.number, event.at)
        return True

    def _end_chunk(self) -> None:
        held, self._chunk = self._chunk, None
        if held is not None:
            update = with_text(held.rest, msgspec.json.encode("".join(self._texts)))
            first = self._chunk_first if len(self._texts) > 1 else None
            self._items.append(Replayed(update, *self._chunk_place, first=first))

    def _tool(self, update: bytes, event: LogEvent) -> None:
        place = (event.number, event.at)
        found: dict[str, Any] = msgspec.json.decode(update)
        id = str(found.get("toolCallId"))
        if id not in self._tools:
            self._items.append(id)
            self._tools[id] = ({}, event.number, place)
            self._times[id] = (event.at, event.at)
        elif found.get("status") in ("completed", "failed"):
            self._times[id] = (self._times[id][0], event.at)
        known, first, _ = self._tools[id]
        self._shown.note_update(found)
        known.update({name: value for name, value in found.items() if value is not None})
        self._tools[id] = (known, first, place)

    def _end_turn(self) -> Iterator[Replayed]:
        self._end_chunk()
        items, self._items = self._items, deque()
        for item in items:
            if isinstance(item, Replayed):
                yield item
            else:
                call, first, place = self._tools.pop(item)
                if self._with_facts:
                    self._add_facts(call, *self._times.pop(item))
                joined = first if first < place[0] else None
                yield Replayed(msgspec.json.encode(self._last_state(call)), *place, first=joined)

    def _add_facts(self, call: dict[str, Any], begun: float, ended: float) -> None:
        """Add how long a call took, and how its command ended, for clients that show it."""
        meta = call.get("_meta")
        kept = {name: value for name, value in meta.items() if name not in _TERMINALS} if isinstance(meta, dict) else {}
        own = kept.get("dragoman")
        facts = dict(own) if isinstance(own, dict) else {}
        if ended > begun:
            facts.setdefault("seconds", round(ended - begun, 3))
        ids = terminals_in(call.get("content"))
        code = next((code for id in ids if (code := self._shown.exit_code(id)) is not None), None)
        if code is None and isinstance(meta, dict) and isinstance(meta.get("terminal_exit"), dict):
            code = meta["terminal_exit"].get("exit_code")
        if isinstance(code, int):
            facts["exitCode"] = code
        if facts:
            call["_meta"] = {**kept, "dragoman": facts}

    def _last_state(self, call: dict[str, Any]) -> dict[str, Any]:
        """Return a tool call as one update, with text in the place of terminals, which are gone."""
        call = {**call, "sessionUpdate": "tool_call"}
        if terminals_in(call.get("content")):
            call["content"] = self._shown.as_text(call["content"])
        meta = call.get("_meta")
        if isinstance(meta, dict) and not _TERMINALS.isdisjoint(meta):
            call["_meta"] = {name: value for name, value in meta.items() if name not in _TERMINALS}
        return call


def ended_turn(begun: LogEvent, outcome: dict[str, Any], at: float) -> dict[str, Any]:
    """Return how a turn ended, for clients that show it: the outcome, the message of its prompt, and its time."""
    ended = {"messageId": message_id_of(begun.body), **outcome}
    error = outcome.get("error")
    data = error.get("data") if isinstance(error, dict) else None
    if not isinstance(data, dict) or data.get("reason") != "interrupted":  # logged when the next host began
        ended["seconds"] = round(max(0.0, at - begun.at), 3)
    return ended


def _hole_update(event: LogEvent) -> bytes:
    """Return what stands in a history for events that are lost: text of a message of its own, for every client."""
    text = f"[{msgspec.json.decode(event.body)['text']}]"
    content = {"type": "text", "text": text}
    return msgspec.json.encode(
        {
            "sessionUpdate": "agent_message_chunk",
            "messageId": f"lost-{event.number}",
            "content": content,
            "_meta": {"dragoman": {"kind": "hole"}},
        }
    )


def blocks_of(body: bytes) -> list[bytes]:
    """Return the blocks of a prompt that was logged."""
    return [bytes(block) for block in msgspec.json.decode(body, type=_Prompt).prompt]


class _Prompt(msgspec.Struct):
    prompt: list[msgspec.Raw]


class _PromptId(msgspec.Struct):
    promptId: str = ""  # noqa: N815
    messageId: str = ""  # noqa: N815


def _prompt_id(body: bytes) -> str:
    return msgspec.json.decode(body, type=_PromptId).promptId


def message_id_of(body: bytes) -> str:
    """Return the id that the host gave to the message of a prompt."""
    return msgspec.json.decode(body, type=_PromptId).messageId


def _merged_info(before: Replayed | None, update: bytes) -> bytes:
    """Return an update with the title from before, if it does not name one again."""
    if before is None or b'"session_info_update"' not in update:
        return update
    return msgspec.json.encode({**msgspec.json.decode(before.update), **msgspec.json.decode(update)})
