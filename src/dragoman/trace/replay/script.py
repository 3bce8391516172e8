"""A recording as a script: who says what, in answer to what, in which lane.

Owns reading frames as steps and sorting them into lanes, the conversations that went on side by side. Pure: it knows
neither time nor transports; `replay.py` plays it.
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


class _Head(msgspec.Struct, gc=False, rename="camel"):
    """What the lane of a message depends on; the rest of it is skipped."""

    session_id: Any = None


_decode_head = msgspec.json.Decoder(_Head).decode


class Said:
    """A line read as far as a replay needs it."""

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
        """What is compared: the members of the message without its envelope. Decoded when first needed."""
        if self._body is None:
            self._body = {} if self._params is None else {"params": _plain(self._params)}
        return self._body

    @body.setter
    def body(self, value: dict[str, Any]) -> None:
        self._body = value

    def param(self, name: str) -> Any:
        """One of its parameters, None if there is no such thing."""
        params = self.body.get("params")
        return params.get(name) if isinstance(params, dict) else None

    @property
    def is_complaint(self) -> bool:
        """An error that answers nothing: how often a peer says that it cannot read something is its own affair."""
        return self.kind == "response" and self.id is None

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
        """What two lines have in common that may stand for each other."""
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
    """As values; as its text where it holds a number that no value can be."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return bytes(text).decode(errors="replace")


class Step:
    """One line of the script, and what became of it in this performance."""

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
        "said",
        "t",
    )

    def __init__(self, number: int, t: float, said: Said, eol: bytes, *, is_ours: bool) -> None:
        self.number = number
        """Its place among the entries of the recording, from 1: the number `dragoman inspect` shows."""
        self.t = t
        self.said = said
        self.eol = eol
        self.is_ours = is_ours
        self.lane = ""
        self.answers: Step | None = None
        self.answer: Step | None = None
        self.came: Said | None = None
        self.is_exact = False
        self.is_late = False
        self.is_sent = False

    @property
    def method(self) -> str:
        """Its method; of an answer, the method of the question."""
        return self.answers.said.method if self.answers is not None else self.said.method

    def __repr__(self) -> str:
        return f"Step({self.number}, {self.said.kind} {self.method}, {'ours' if self.is_ours else 'theirs'})"


def read_script(entries: Sequence[Entry], ours: Direction) -> list[Step]:
    """The steps of a recording for the side that sends `ours`, in recorded order; blank lines are left out."""
    steps: list[Step] = []
    asked: dict[tuple[bool, Id], Step] = {}
    ended: set[Direction] = set()
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, Frame):
            if entry.data and not entry.data.isspace():
                said = Said(entry.data)
                step = Step(number, entry.t, said, entry.eol, is_ours=entry.dir == ours)
                _link(step, asked)
                if step.is_ours or not said.is_complaint:
                    steps.append(step)
        elif isinstance(entry, End):
            ended.add(entry.dir)
        elif isinstance(entry, Exit) and ours == "a2c" and "c2a" not in ended:
            # The agent went first. One whose client went first has only done what it should.
            end = Step(number, entry.t, Said(b""), b"", is_ours=True)
            end.said.kind = "end"
            steps.append(end)
    _sort_into_lanes(steps, ours)
    return steps


def _link(step: Step, asked: dict[tuple[bool, Id], Step]) -> None:
    """Joins an answer to its question; ids of the two directions are apart."""
    if step.said.kind == "request":
        asked[step.is_ours, step.said.id] = step
    elif step.said.kind == "response":
        question = asked.pop((not step.is_ours, step.said.id), None)
        if question is not None:
            step.answers = question
            question.answer = step


def _sort_into_lanes(steps: Sequence[Step], ours: Direction) -> None:
    """A lane is a session the client has spoken in; the first one, without a name, is everything else.

    What an agent says about a session the client has not spoken in yet follows from what went on just before (the
    request that made it, the turn of its parent), so it stays in that lane.
    """
    opened: set[str] = set()
    before = ""
    by_id: dict[tuple[bool, Id], Step] = {}
    for step in steps:
        said = step.said
        is_client = step.is_ours == (ours == "c2a")
        session = said.session
        if step.answers is not None:
            step.lane = step.answers.lane
        elif said.method == CANCEL_REQUEST:
            question = by_id.get((step.is_ours, said.param("requestId")))
            step.lane = question.lane if question is not None else before
        elif session is not None and (is_client or session in opened):
            opened.add(session)
            step.lane = session
        elif not is_client or said.kind == "raw":
            step.lane = before
        if said.kind == "request":
            by_id[step.is_ours, said.id] = step
        before = step.lane
