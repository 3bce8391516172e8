"""One turn in the form in which the ledger keeps it: the shortest updates that fold into the same items.

Owns both directions and the bounds. The form is the protocol's own, so that what is shown of an old turn gets better
with the program. Media are kept as a description; long texts lose their middle; a very long turn loses its middle
items. Known keys are masked by the caller, in the JSON.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from dragoman.errors import DragomanError, StoreError
from dragoman.schema import UNSET, Unknown, decode, encode, v1
from dragoman.state import (
    CompactionState,
    Message,
    PlanState,
    SessionMessageState,
    SessionState,
    SubagentState,
    ToolCallState,
    fold,
)
from dragoman.view.blocks import ShownTerminal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from dragoman.state import TurnState

TEXT_CHARS: Final = 64 * 1024  # of one text; a larger one is a file or a log, whose ends say most
SHORT_CHARS: Final = 4 * 1024  # of one text in a record that would be too large
RECORD_BYTES: Final = 2 * 1024 * 1024  # before it is compressed
_FIRST_ITEMS: Final = 100  # of a turn that is too large even so
_LAST_ITEMS: Final = 300
_CHUNKS: Final[dict[str, Callable[..., v1.SessionUpdate]]] = {
    "user": v1.UserMessageChunk,
    "agent": v1.AgentMessageChunk,
    "thought": v1.AgentThoughtChunk,
}


class TurnRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One turn. `prompt` are content blocks and `updates` session updates, both as JSON values of the protocol."""

    prompt: list[Any]
    updates: list[Any] = []
    terminals: list[ShownTerminal] = []
    stop_reason: str | None = None
    is_running: bool = False
    """The turn had not ended when this was written."""
    is_lost: bool = False
    usage: Any = None
    left_out: int = 0
    """Items in the middle of a very long turn that are missing."""


def record_turn(state: SessionState, turn: TurnState, terminals: Iterable[ShownTerminal] = ()) -> TurnRecord:
    """Return a turn of a session, finished or not."""
    for limit in (TEXT_CHARS, SHORT_CHARS):
        record = TurnRecord(
            prompt=[_slim(_builtins(block), limit) for block in turn.prompt],
            updates=[_slim(_builtins(update), limit) for update in _updates(state, turn)],
            terminals=[_slim_terminal(terminal, limit) for terminal in terminals],
            stop_reason=turn.stop_reason,
            is_running=turn.is_running,
            is_lost=turn.is_lost,
            usage=None if turn.usage is None else _builtins(turn.usage),
        )
        if len(msgspec.json.encode(record)) <= RECORD_BYTES:
            return record
    if len(record.updates) <= _FIRST_ITEMS + _LAST_ITEMS:
        return record
    return msgspec.structs.replace(
        record,
        updates=record.updates[:_FIRST_ITEMS] + record.updates[-_LAST_ITEMS:],
        terminals=record.terminals[-_LAST_ITEMS:],
        left_out=len(record.updates) - _FIRST_ITEMS - _LAST_ITEMS,
    )


def record_prompt(prompt: Iterable[v1.ContentBlock]) -> TurnRecord:
    """Return a turn that has just begun."""
    return TurnRecord(prompt=[_slim(_builtins(block), TEXT_CHARS) for block in prompt], is_running=True)


def pack(record: TurnRecord, mask: Callable[[bytes], bytes] | None = None) -> bytes:
    """Return the record as it is stored; `mask` removes known keys from its JSON."""
    data = msgspec.json.encode(record)
    return zlib.compress(data if mask is None else mask(data), 3)


def unpack(data: bytes) -> TurnRecord:
    """Undo `pack`. Raises: StoreError."""
    try:
        return msgspec.json.decode(zlib.decompress(data), type=TurnRecord)
    except (zlib.error, msgspec.MsgspecError, UnicodeError) as error:
        raise StoreError(f"a turn in the ledger cannot be read: {error}") from None


def replay_turns(records: Iterable[TurnRecord]) -> tuple[SessionState, dict[str, ShownTerminal]]:
    """Return the session that these turns make, and its terminals."""
    state, terminals = SessionState(), dict[str, ShownTerminal]()
    for record in records:
        state.begin_turn([block for raw in record.prompt if (block := _read(v1.ContentBlock, raw)) is not None])
        middle = _FIRST_ITEMS if record.left_out else -1
        for number, raw in enumerate(record.updates):
            if number == middle:
                fold(state, v1.Notice("info", f"{record.left_out} items of this turn were not kept"))
            update = _read(v1.SessionUpdate, raw)
            if update is not None:
                fold(state, update)
        terminals |= {terminal.terminal_id: terminal for terminal in record.terminals}
        if record.is_lost or record.is_running:
            state.lose_agent()
        else:
            state.end_turn(record.stop_reason, _read(v1.Usage, record.usage) if record.usage else None)
    return state, terminals


def texts_of(record: TurnRecord) -> Iterator[str]:
    """Yield what is searched: the prompt, messages, titles, commands, paths and outputs."""
    yield from strings_of(record.prompt)
    for update in record.updates:
        yield from strings_of({key: value for key, value in update.items() if key not in _UNSEARCHED})
    for terminal in record.terminals:
        yield from filter(None, (terminal.command, terminal.output))


_UNSEARCHED: Final = frozenset({"sessionUpdate", "messageId", "toolCallId", "kind", "status", "_meta"})


def strings_of(value: Any) -> Iterator[str]:
    """Yield every string in a JSON value, without the tags of its variants."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from strings_of(item)
    elif isinstance(value, dict):
        for key, member in value.items():
            if key != "type":
                yield from strings_of(member)


def _updates(state: SessionState, turn: TurnState) -> Iterator[v1.SessionUpdate]:
    items = state.timeline[turn.start : turn.end]
    here = {id(item) for item in items}
    # A message may continue one of an earlier turn: some agents restart their numbering in each process.
    for message, text in zip(turn.messages, turn.texts, strict=True):
        if id(message) not in here and text:
            yield v1.AgentMessageChunk(v1.TextContent(text), f"before-{message.message_id}")
    for number, item in enumerate(items):
        if number or not isinstance(item, Message):  # the first one is the prompt
            yield from _updates_of(item, number)


def _updates_of(item: Any, number: int) -> Iterator[v1.SessionUpdate]:
    match item:
        case Message():
            yield from _chunks(item, number)
        case ToolCallState():
            yield _tool_call(item)
        case PlanState():
            body = item.body
            if isinstance(body, v1.Plan):
                yield body
            elif not isinstance(body, Unknown):
                yield v1.PlanUpdate(body)
                if item.is_removed and item.id is not None:
                    yield v1.PlanRemoved(item.id)
        case CompactionState():
            error = UNSET if item.error is None else item.error
            yield v1.CompactionUpdate(item.id, item.status, summary=list(item.blocks), error=error)
        case SubagentState():
            yield v1.SubagentUpdate(item.session_id, title=item.title, description=item.description)
        case SessionMessageState():
            yield v1.SessionMessage(
                item.message_id,
                content=list(item.blocks),
                sender_session_id=item.sender_session_id,
                recipient_session_id=item.recipient_session_id,
            )
        case v1.Notice() | Unknown():
            yield item


def _chunks(message: Message, number: int) -> Iterator[v1.SessionUpdate]:
    """Yield a message in pieces. With an id of its own each message stays one, whatever came between."""
    for block in message.blocks:
        if isinstance(block, v1.TextContent) and len(block.text) > TEXT_CHARS:
            block = v1.TextContent(_cut(block.text, TEXT_CHARS))  # before it is copied: it may be very long
        yield _CHUNKS[message.role](block, message.message_id or f"item-{number}")


def _tool_call(call: ToolCallState) -> v1.ToolCall:
    ended = {"terminal_exit": call.meta["terminal_exit"]} if call.meta and "terminal_exit" in call.meta else UNSET
    return v1.ToolCall(
        call.id,
        call.title,
        kind=call.kind,
        status=call.status,
        content=list(call.content),
        locations=list(call.locations),
        raw_input=call.raw_input,
        raw_output=call.raw_output,
        name=call.name or UNSET,
        meta=ended,
    )


def _builtins(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


def _read(kind: Any, raw: Any) -> Any:
    try:
        return decode(kind, msgspec.json.encode(raw))
    except DragomanError:  # written by another version
        return None


def _slim(value: Any, limit: int) -> Any:
    """Return a JSON value with long texts cut and media replaced by a description."""
    if isinstance(value, str):
        return _cut(value, limit)
    if isinstance(value, list):
        return [_slim(item, limit) for item in value]
    if isinstance(value, dict):
        data = value.get("data") if value.get("type") in ("image", "audio") else None
        if isinstance(data, str):
            return _described(value.get("mimeType"), data, value.get("uri"))
        resource = value.get("resource")
        if isinstance(resource, dict) and isinstance(resource.get("blob"), str):
            return _described(resource.get("mimeType"), resource["blob"], resource.get("uri"))
        return {key: _slim(member, limit) for key, member in value.items()}
    return value


def _described(kind: Any, data: str, uri: Any) -> dict[str, str]:
    words = [str(kind or "data"), f"{len(data) * 3 // 4} bytes", *([uri] if isinstance(uri, str) else [])]
    return {"type": "text", "text": f"[{', '.join(words)}]"}


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n… {len(text) - 2 * half} characters were not kept …\n{text[-half:]}"


def _slim_terminal(terminal: ShownTerminal, limit: int) -> ShownTerminal:
    from dragoman.view.build import tail

    if terminal.output is None or len(terminal.output) <= limit:
        return terminal
    return msgspec.structs.replace(terminal, output=tail(terminal.output, limit)[0], is_cut=True)
