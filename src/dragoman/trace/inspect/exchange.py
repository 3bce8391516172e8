"""Recorded frames, each decoded once, and requests paired with their responses.

Owns the `DecodedFrame`: the message, its method, its typed and its plain form, the request it answers, its session.
The timeline, the checks and the folded sessions use decoded frames and never decode a line again.
Does not judge: what does not fit the schema is kept with the frame, as `fault` and `losses`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET

from dragoman.errors import PARSE_ERROR, RemoteProtocolError
from dragoman.schema import AGENT_METHODS, CLIENT_METHODS, PROTOCOL_METHODS, Loss, decode
from dragoman.schema.methods import method_tables
from dragoman.wire import Malformed, Notification, Request, Response, read_message

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal, TypeAlias

    from dragoman.schema import Method
    from dragoman.trace.entry import Direction, Frame
    from dragoman.wire import Id, Message

    Kind: TypeAlias = Literal["request", "notification", "response", "malformed", "blank"]
    Part: TypeAlias = Literal["params", "result", "error", ""]
    Key: TypeAlias = tuple[type, Id]

OTHER: Final[dict[Direction, Direction]] = {"c2a": "a2c", "a2c": "c2a"}
SERVED: Final[dict[Direction, Mapping[str, Method]]] = {
    "c2a": {**AGENT_METHODS, **PROTOCOL_METHODS},
    "a2c": {**CLIENT_METHODS, **PROTOCOL_METHODS},
}
_EMPTY: Final = b"{}"
_SERVED_2: Final[dict[Direction, Mapping[str, Method]]] = {}
_decode_plain: Final = msgspec.json.Decoder().decode


class DecodedFrame:
    """One decoded frame. `value` is its params or result, decoded by the method table; None if that is not possible."""

    __slots__ = (
        "dir",
        "fault",
        "id",
        "kind",
        "losses",
        "message",
        "method",
        "number",
        "part",
        "plain",
        "repeats",
        "request",
        "row",
        "session_id",
        "size_bytes",
        "t",
        "value",
    )

    def __init__(self, number: int, t: float, dir: Direction, size_bytes: int) -> None:
        self.number = number
        self.t = t
        self.dir = dir
        self.size_bytes = size_bytes
        self.kind: Kind = "blank"
        self.part: Part = ""
        self.message: Message | None = None
        self.method = ""
        """Of a response: the method of its request; empty if there was no request."""
        self.id: Id = None
        self.row: Method | None = None
        self.value: Any = None
        self.plain: Any = None
        """Params, result or error object as Python builtins."""
        self.losses: list[Loss] = []
        self.fault: RemoteProtocolError | None = None
        self.session_id: str | None = None
        self.request: DecodedFrame | None = None
        """Of a response: its request."""
        self.repeats = False
        """Of a request: another request with this id is open. Of a response: its request was answered before."""

    @property
    def update(self) -> str:
        """The kind of a session/update, else an empty string."""
        if self.method == "session/update" and type(self.plain) is dict:
            update = self.plain.get("update")
            kind = update.get("sessionUpdate") if type(update) is dict else None
            return kind if type(kind) is str else ""
        return ""

    @property
    def error_code(self) -> int | None:
        """Of an error response: its code."""
        return self.plain["code"] if self.part == "error" else None


class Exchange:
    """Both directions of one connection, in the order of the recording."""

    def __init__(self) -> None:
        # The two directions number their requests independently (rule 27), and 1 is not "1" (rule 20).
        self.open: dict[Direction, dict[Key, DecodedFrame]] = {"c2a": {}, "a2c": {}}
        self.answered: dict[Direction, set[Key]] = {"c2a": set(), "a2c": set()}
        self.version = 1
        """The version of the protocol that the two sides have agreed on."""

    def read(self, number: int, entry: Frame) -> DecodedFrame:
        """Decode the frame that has this number in the recording."""
        frame = DecodedFrame(number, entry.t, entry.dir, len(entry.data) + len(entry.eol))
        if not entry.data.strip():
            return frame
        message = frame.message = read_message(entry.data)
        if type(message) is Notification:
            frame.kind = "notification"
            self._read_call(frame, message)
        elif type(message) is Request:
            frame.kind = "request"
            frame.id = message.id
            self._read_call(frame, message)
            key = _key(message.id)
            frame.repeats = key in self.open[entry.dir]
            self.open[entry.dir][key] = frame
        elif type(message) is Response:
            frame.kind = "response"
            frame.id = message.id
            self._read_answer(frame, message)
        else:
            assert isinstance(message, Malformed)
            frame.kind = "malformed"
            self._read_malformed(frame, message)
        return frame

    def _read_answer(self, frame: DecodedFrame, message: Response) -> None:
        asked = OTHER[frame.dir]
        key = _key(message.id)
        request = frame.request = self.open[asked].pop(key, None)
        if request is None:
            frame.repeats = key in self.answered[asked]
        else:
            self.answered[asked].add(key)
            frame.method, frame.row, frame.session_id = request.method, request.row, request.session_id
        if message.error is not None:
            frame.part = "error"
            frame.plain = msgspec.to_builtins(message.error, enc_hook=_plain_raw)
            return
        frame.part = "result"
        assert message.result is not None
        if _read_plain(frame, message.result) and frame.row is not None:
            if frame.method == "initialize" and frame.dir == "a2c":
                self.version = 2 if _version_of(frame.plain) == 2 else 1
                frame.row = served("c2a", self.version)["initialize"]
            _read_value(frame, frame.row.result, message.result)
            if frame.session_id is None:
                frame.session_id = _session_of(frame.plain)

    def _read_call(self, frame: DecodedFrame, message: Request | Notification) -> None:
        frame.method = message.method
        frame.part = "params"
        raw = _EMPTY if message.params is None else message.params
        is_read = _read_plain(frame, raw)
        version = self.version
        if is_read and message.method == "initialize" and frame.dir == "c2a":
            # What is asked for may have the form of either version, or of both.
            is_new_form = _version_of(frame.plain) > 1 and "info" in frame.plain and "clientInfo" not in frame.plain
            version = 2 if is_new_form else 1
        row = frame.row = served(frame.dir, version).get(message.method)
        if is_read:
            frame.session_id = _session_of(frame.plain)
            if row is not None:
                _read_value(frame, row.params, raw)

    def _read_malformed(self, frame: DecodedFrame, message: Malformed) -> None:
        """Pair a malformed line: a broken response still ends its request, and a broken request may be answered."""
        if message.id is UNSET or message.id is None:
            return
        frame.id = message.id
        key = _key(message.id)
        if message.kind == "request":
            self.open[frame.dir][key] = frame
        elif message.kind == "response":
            request = frame.request = self.open[OTHER[frame.dir]].pop(key, None)
            if request is not None:
                self.answered[OTHER[frame.dir]].add(key)
                frame.method, frame.session_id = request.method, request.session_id


def served(direction: Direction, version: int) -> Mapping[str, Method]:
    """Return the methods that may be called in this direction; those of version 2 are loaded when first asked for."""
    if version == 1:
        return SERVED[direction]
    if not _SERVED_2:
        agent, client, protocol = method_tables(2)
        _SERVED_2.update({"c2a": {**agent, **protocol}, "a2c": {**client, **protocol}})
    return _SERVED_2[direction]


def _version_of(plain: Any) -> int:
    found = plain.get("protocolVersion") if type(plain) is dict else None
    return found if type(found) is int else 0


def _read_plain(frame: DecodedFrame, raw: bytes | msgspec.Raw) -> bool:
    """Decode to builtins. Numbers out of range and lone surrogates fail here: the envelope does not decode them."""
    try:
        frame.plain = _decode_plain(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        frame.fault = RemoteProtocolError("holds text or a number that cannot be decoded", code=PARSE_ERROR)
        return False
    return True


def _read_value(frame: DecodedFrame, kind: Any, raw: Any) -> None:
    if kind is None:
        return
    try:
        frame.value = decode(kind, raw, frame.losses.append)
    except RemoteProtocolError as error:
        frame.fault = error


def _session_of(plain: Any) -> str | None:
    found = plain.get("sessionId") if type(plain) is dict else None
    return found if type(found) is str else None


def _key(id: Id) -> Key:
    return (type(id), id)


def _plain_raw(value: Any) -> Any:
    try:
        return _decode_plain(value)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
