"""A recording as a script: the steps of both sides, which request each response answers, and their lanes.

Owns reading frames as steps and sorting them into lanes, which are conversations that run in parallel. Pure: it does
not depend on time or transports; `player.py` plays it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from dragoman.trace.entry import End, Exit, Frame
from dragoman.wire import Malformed, Notification, Request, Response, read_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dragoman.trace.entry import Direction, Entry
    from dragoman.wire import Id, Message

Kind: TypeAlias = Literal["request", "notification", "response", "raw", "end"]

CANCEL_REQUEST = "$/cancel_request"
NO_ANSWER = "the recording has no answer to this"
"""How the message begins with which a replay answers a request that was never answered when it was recorded."""


class _Head(msgspec.Struct, gc=False, rename="camel"):
    """The member that decides the lane of a message; the others are skipped."""

    session_id: Any = None


_decode_head = msgspec.json.Decoder(_Head).decode


class ParsedLine:
    """A line, decoded as far as a replay needs it."""

    __slots__ = ("_body", "_params", "id", "kind", "line", "malformed", "method")

    def __init__(self, line: bytes) -> None:
        self.line = line
        self.kind: Kind = "raw"
        self.method = ""
        self.id: Id = None
        self.malformed: Malformed | None = None
        self._params: Raw | None = None
        self._body: dict[str, Any] | None = {}
        message: Message = read_message(line)
        match message:
            case Request():
                self.kind, self.method, self.id = "request", message.method, message.id
                self._params, self._body = message.params, None
            case Notification():
                self.kind, self.method = "notification", message.method
                self._params, self._body = message.params, None
            case Response():
                self.kind, self.id = "response", message.id
                self._body = _outcome(message)
            case Malformed():
                self.malformed = message

    @property
    def body(self) -> dict[str, Any]:
        """The members of the message that are compared, without its envelope. Decoded when first needed."""
        if self._body is None:
            self._body = {} if self._params is None else {"params": _plain(self._params)}
        return self._body

    @body.setter
    def body(self, value: dict[str, Any]) -> None:
        self._body = value

    def param(self, name: str) -> Any:
        """Return one of its parameters, None if it is absent."""
        params = self.body.get("params")
        return params.get(name) if isinstance(params, dict) else None

    @property
    def is_complaint(self) -> bool:
        """An error without an id. Peers differ in how often they report lines that they cannot read."""
        return self.kind == "response" and self.id is None

    @property
    def is_stand_in(self) -> bool:
        """The answer of a replay in place of one that was not recorded. It stands for none."""
        error = self.body.get("error") if self.kind == "response" else None
        return isinstance(error, dict) and str(error.get("message")).startswith(NO_ANSWER)

    @property
    def session(self) -> str | None:
        """The session it is about."""
        if self._params is None:
            return None
        try:
            found = _decode_head(self._params).session_id
        except (msgspec.MsgspecError, ValueError, RecursionError):
            return None
        return found if isinstance(found, str) else None

    @property
    def topic(self) -> tuple[Kind, str, str]:
        """What two lines that may stand for each other have in common."""
        update = self.param("update")
        tag = update.get("sessionUpdate") if isinstance(update, dict) else ""
        return self.kind, self.method, tag if isinstance(tag, str) else ""


def _outcome(message: Response) -> dict[str, Any]:
    if message.error is None:
        return {"result": None if message.result is None else _plain(message.result)}
    error: dict[str, Any] = {"code": message.error.code, "message": message.error.message}
    if message.error.data is not UNSET:
        error["data"] = _plain(message.error.data)
    return {"error": error}


def _plain(text: Raw) -> Any:
    """Decode to builtins; return the text if it has a number that cannot be decoded."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return bytes(text).decode(errors="replace")


class Step:
    """One line of the script, and the line that came for it in this run."""

    __slots__ = (
        "answer",
        "answers",
        "came",
        "eol",
        "is_exact",
        "is_late",
        "is_ours",
        "is_sent",
        "lane",
        "number",
        "parsed",
        "t",
    )

    def __init__(self, number: int, t: float, parsed: ParsedLine, eol: bytes, *, is_ours: bool) -> None:
        self.number = number
        """Its place among the entries of the recording, from 1, as `dragoman inspect` shows it."""
        self.t = t
        self.parsed = parsed
        self.eol = eol
        self.is_ours = is_ours
        self.lane = ""
        self.answers: Step | None = None
        self.answer: Step | None = None
        self.came: ParsedLine | None = None
        self.is_exact = False
        self.is_late = False
        self.is_sent = False

    @property
    def method(self) -> str:
        """Its method; of a response, the method of its request."""
        return self.answers.parsed.method if self.answers is not None else self.parsed.method

    def __repr__(self) -> str:
        return f"Step({self.number}, {self.parsed.kind} {self.method}, {'ours' if self.is_ours else 'theirs'})"


def read_script(entries: Sequence[Entry], ours: Direction) -> list[Step]:
    """Make the steps of a recording for the side that sends in direction `ours`, in recorded order, without blank
    lines.
    """
    steps: list[Step] = []
    asked: dict[tuple[bool, Id], Step] = {}
    ended: set[Direction] = set()
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Frame):
            if entry.data and not entry.data.isspace():
                parsed = ParsedLine(entry.data)
                step = Step(number, entry.t, parsed, entry.eol, is_ours=entry.dir == ours)
                _link(step, asked)
                if step.is_ours or not parsed.is_complaint:
                    steps.append(step)
        elif isinstance(entry, End):
            ended.add(entry.dir)
        elif isinstance(entry, Exit) and ours == "a2c" and "c2a" not in ended:
            # The agent ended first. An agent whose client ended first has only done what it should.
            end = Step(number, entry.t, ParsedLine(b""), b"", is_ours=True)
            end.parsed.kind = "end"
            steps.append(end)
    _sort_into_lanes(steps, ours)
    return steps


def _link(step: Step, asked: dict[tuple[bool, Id], Step]) -> None:
    """Join a response to its request; the two directions count their ids separately."""
    if step.parsed.kind == "request":
        asked[step.is_ours, step.parsed.id] = step
    elif step.parsed.kind == "response":
        question = asked.pop((not step.is_ours, step.parsed.id), None)
        if question is not None:
            step.answers = question
            question.answer = step


def _sort_into_lanes(steps: Sequence[Step], ours: Direction) -> None:
    """Set the lane of each step: a session in which the client has sent something, or the unnamed lane for the rest.

    What an agent sends about a session in which the client has not sent anything yet follows from what came just
    before (the request that made it, the turn of its parent), so it stays in that lane.
    """
    opened: set[str] = set()
    before = ""
    by_id: dict[tuple[bool, Id], Step] = {}
    for step in steps:
        parsed = step.parsed
        is_client = step.is_ours == (ours == "c2a")
        session = parsed.session
        if step.answers is not None:
            step.lane = step.answers.lane
        elif parsed.method == CANCEL_REQUEST:
            request_id = parsed.param("requestId")
            is_id = isinstance(request_id, (int, str))
            question = by_id.get((step.is_ours, request_id)) if is_id else None
            step.lane = question.lane if question is not None else before
        elif session is not None and (is_client or session in opened):
            opened.add(session)
            step.lane = session
        elif not is_client or parsed.kind == "raw":
            step.lane = before
        if parsed.kind == "request":
            by_id[step.is_ours, parsed.id] = step
        before = step.lane
