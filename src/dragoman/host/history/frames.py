"""Messages of a host to its clients, built from the content of the log. Pure.

An update is stored as the agent wrote it; the envelope around it names the session as this client knows it, and for
clients that know the host the number of the event.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from dragoman.text.terminal import shorten
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.store.event_log import LogEvent

_START: Final = b'{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%b,"update":%b'
_WRAPPED: Final = b'{"$update":'


class _Wrapped(msgspec.Struct, rename={"update": "$update", "meta": "_meta"}):
    update: msgspec.Raw
    meta: msgspec.Raw
    child: str | None = None


_NO_META: Final[dict[str, Any]] = {}
_read_wrapped: Final = msgspec.json.Decoder(_Wrapped).decode


class _Variant(msgspec.Struct, gc=False):
    sessionUpdate: str = ""  # noqa: N815 - the protocol's name


_variant: Final = msgspec.json.Decoder(_Variant).decode


def variant_of(update: bytes) -> str:
    """Return the kind of an update; empty if it has none."""
    try:
        return _variant(update).sessionUpdate
    except msgspec.DecodeError:
        return ""


class StoredUpdate(NamedTuple):
    """An update of the log."""

    update: bytes
    meta: dict[str, Any]
    """What stood next to it."""
    child: str | None
    """The session of a subagent that it belongs to, by the host's id."""
    variant: str


def store_update(update: bytes, meta: bytes | None, child: str | None = None) -> bytes:
    """Return the body of an event: the update, and the `_meta` next to it if there is one."""
    if b"\n" in update or (meta is not None and b"\n" in meta):
        update, meta = update.replace(b"\n", b" "), None if meta is None else meta.replace(b"\n", b" ")
    if meta is None and child is None:
        return update
    rest = b"" if child is None else b',"child":%b' % msgspec.json.encode(child)
    return b'%b%b,"_meta":%b%b}' % (_WRAPPED, update, meta or b"{}", rest)


def is_wrapped(body: bytes) -> bool:
    """Whether something stands next to an update of the log."""
    return body.startswith(_WRAPPED)


def stored_update(body: bytes) -> StoredUpdate:
    """Undo `store_update`."""
    if not body.startswith(_WRAPPED):
        return StoredUpdate(body, _NO_META, None, variant_of(body))
    found = _read_wrapped(body)
    meta, update = msgspec.json.decode(found.meta), bytes(found.update)
    return StoredUpdate(update, meta if isinstance(meta, dict) else _NO_META, found.child, variant_of(update))


def update_frame(
    session: bytes,
    update: bytes,
    meta: dict[str, Any],
    number: int | None,
    at: float = 0.0,
    *,
    first: int | None = None,
) -> bytes:
    """Return a `session/update` for one client.

    Args:
        session: Its id as JSON.
        update: The update.
        meta: What the agent wrote next to it.
        number: Of the last event that is part of it, for clients that know the host.
        at: When that happened; 0 if it is not known.
        first: The number of the first event of several that are joined.
    """
    if number is None:
        end = b',"_meta":%b}}\n' % msgspec.json.encode(meta) if meta else b"}}\n"
        return _START % (session, update) + end
    own = event_place(number, at, first)
    if meta:
        theirs = meta.get("dragoman")
        meta = {**meta, "dragoman": {**(theirs if isinstance(theirs, dict) else {}), **own}}
    else:
        meta = {"dragoman": own}
    return _START % (session, update) + b',"_meta":%b}}\n' % msgspec.json.encode(meta)


def event_place(number: int, at: float, first: int | None = None) -> dict[str, int]:
    """Return where an event stands in the log, as clients read it: its number, and its time in milliseconds."""
    place = {"seq": number} if first is None else {"from": first, "seq": number}
    if at:
        place["at"] = int(at * 1000)
    return place


_FOR_ALL: Final = frozenset(
    (
        "agent_message_chunk",
        "agent_thought_chunk",
        "plan",
        "available_commands_update",
        "usage_update",
        "session_info_update",
        "current_mode_update",
    )
)
# How such an update begins as nearly all agents write it, and how it is stored if nothing stands next to it: then its
# kind is known without decoding it. The two that make up most of a stream come first.
_FOR_ALL_STARTS: Final = tuple(
    b'{"sessionUpdate":"%b"' % variant.encode()
    for variant in sorted(_FOR_ALL, key=lambda name: (not name.endswith("_chunk"), name))
)


class UpdateFrames:
    """The messages that every client gets as they are, apart from the number of the event."""

    def __init__(self, session: bytes) -> None:
        """Take the id of the session as JSON, as clients know it."""
        self._session = session
        self._start = _START % (session, b"")

    def frame(self, event: LogEvent, *, with_number: bool) -> bytes | None:
        """Return the message for an update; None if it depends on what a client can take."""
        body = event.body
        if body.startswith(_FOR_ALL_STARTS):
            if not with_number:
                return self._start + body + b"}}\n"
            place = b',"_meta":{"dragoman":{"seq":%d,"at":%d}}}}\n' % (event.number, event.at * 1000)
            return self._start + body + place
        update, meta, child, variant = stored_update(body)
        if variant not in _FOR_ALL or child is not None:
            return None
        return update_frame(self._session, update, meta, event.number if with_number else None, event.at)


class SharedRun(NamedTuple):
    """Messages that several clients get: the same bytes for each, so that framing them is done once as well."""

    last: int
    """The number of the last event in it."""
    data: bytes


def notice_frame(session: str, text: str, kind: str | None = None) -> bytes:
    """Return a notice of the host, for clients that know it."""
    params = {"sessionId": session, "text": text} | ({} if kind is None else {"kind": kind})
    return write_notification("_dragoman/notice", msgspec.json.encode(params))


def user_chunk(block: msgspec.Raw | bytes, message_id: str) -> bytes:
    """Return an update that shows a block of another client's prompt."""
    return b'{"sessionUpdate":"user_message_chunk","messageId":%b,"content":%b}' % (
        msgspec.json.encode(message_id),
        bytes(block),
    )


_LAST_LINE: Final = 120
_LAST_EVENTS: Final = 400  # a line of more pieces than this is not looked for


def find_last_line(events: Sequence[LogEvent]) -> str:
    """Return the last line that an agent wrote in these events, or the title of a tool call behind it; else nothing."""
    pieces: list[str] = []
    for event in reversed(events[-_LAST_EVENTS:]):
        if event.kind != "update":
            if event.kind == "start":
                break
            continue
        stored = stored_update(event.body)
        if stored.child is not None:
            continue
        if stored.variant == "agent_message_chunk":
            content = msgspec.json.decode(stored.update).get("content")
            text = content.get("text") if isinstance(content, dict) else None
            if isinstance(text, str):
                pieces.append(text)
                if "\n" in text and "".join(reversed(pieces)).partition("\n")[2].strip():
                    break
        elif pieces and "".join(pieces).strip():
            break
        elif stored.variant in ("tool_call", "tool_call_update"):
            title = msgspec.json.decode(stored.update).get("title")
            if isinstance(title, str) and title.strip():
                return shorten(" ".join(title.split()), _LAST_LINE)
    lines = [line for line in "".join(reversed(pieces)).splitlines() if line.strip()]
    return shorten(lines[-1].strip()[: 10 * _LAST_LINE], _LAST_LINE) if lines else ""
