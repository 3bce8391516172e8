"""A wrong agent: the scripted one, with one thing changed on its wire.

Owns standing between an agent and its transport, line by line, and the small vocabulary the mutations are written in.
`Mutation` sees every message in both directions and decides what is sent instead; None means: as it is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from dragoman.errors import ConnectionClosed
    from dragoman.rpc import Receiver, Transport

Body = dict[str, Any]
Step = Callable[["Wire", Body], "list[Body] | None"]


class Mutation:
    """What is changed. `sent` is for what the agent sends, `came` for what it is sent."""

    def __init__(
        self,
        *,
        sent: Step | None = None,
        came: Step | None = None,
        line: Callable[[Wire, bytes], list[bytes] | None] | None = None,
        chunk: Callable[[Wire, bytes], bytes] | None = None,
        at_end: Callable[[Wire], bool] | None = None,
    ) -> None:
        self.sent = sent
        self.came = came
        self.line = line
        """Sees a raw line before it is read."""
        self.chunk = chunk
        """Sees the bytes as they arrive."""
        self.at_end = at_end
        """False keeps the end of its input from the agent."""


class Wire:
    """The transport of an agent, with a mutation in it. `notes` is where a mutation remembers things."""

    def __init__(self, inner: Transport, mutation: Mutation) -> None:
        self.inner = inner
        self.notes: dict[str, Any] = {}
        self.asked: dict[Any, Body] = {}
        """Requests of the client by id, to know what a response answers."""
        self.asking: dict[Any, Body] = {}
        """Requests of the agent by id, as long as they are open."""
        self.turns: dict[str, Any] = {}
        """Session -> the id of its running prompt."""
        self._mutation = mutation
        self._receiver: Receiver | None = None
        self._out = bytearray()
        self.rest = bytearray()
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close
        self.wait_closed = inner.wait_closed

    @property
    def unsent_bytes(self) -> int:
        return self.inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self.inner.start(self)

    # From the agent to the client

    def write(self, data: bytes) -> None:
        self._out += data
        *lines, rest = bytes(self._out).split(b"\n")
        self._out = bytearray(rest)
        for line in lines:
            body = msgspec.json.decode(line)
            self._note_sent(body)
            given = None if self._mutation.sent is None else self._mutation.sent(self, body)
            if given is None:
                self.inner.write(line + b"\n")
            else:
                for each in given:
                    self.send(each)
            if "method" not in body:
                asked = self.asked.get(_key(body))
                if asked is not None and asked.get("method") == "session/prompt":
                    self.turns.pop(asked["params"].get("sessionId"), None)

    def send(self, body: Body | bytes) -> None:
        """Puts a message, or a raw line, in front of the client."""
        self.inner.write((body if isinstance(body, bytes) else msgspec.json.encode(body)) + b"\n")

    def request_of(self, body: Body) -> Body:
        """What a response of the agent answers; empty if there was no such request."""
        return {} if "method" in body else self.asked.get(_key(body), {})

    def crash(self) -> None:
        """Ends the agent."""
        self.inner.close()
        if self._receiver is not None:
            receiver, self._receiver = self._receiver, None
            from dragoman.errors import ConnectionClosed

            asyncio.get_running_loop().call_soon(receiver.end, ConnectionClosed("crashed on purpose"))

    # From the client to the agent

    def feed(self, data: bytes) -> None:
        if self._mutation.chunk is not None:
            data = self._mutation.chunk(self, data)
        self.rest += data
        *lines, rest = bytes(self.rest).split(b"\n")
        self.rest = bytearray(rest)
        for line in lines:
            raw = None if self._mutation.line is None else self._mutation.line(self, line)
            for each in [line] if raw is None else raw:
                self._take(each)

    def _take(self, line: bytes) -> None:
        try:
            body = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            body = None
        given: list[Body] | None = None
        if isinstance(body, dict):
            original = deepcopy(body)
            given = None if self._mutation.came is None else self._mutation.came(self, body)
            self._note_came(original)
        if given is None:
            self._give(line)
        else:
            for each in given:
                self.give(each)

    def give(self, body: Body) -> None:
        """Puts a message in front of the agent."""
        self._give(msgspec.json.encode(body))

    def _give(self, line: bytes) -> None:
        if self._receiver is not None:
            self._receiver.feed(line + b"\n")

    def end(self, reason: ConnectionClosed) -> None:
        if self._mutation.at_end is not None and not self._mutation.at_end(self):
            return
        if self._receiver is not None:
            if self.rest:
                self._receiver.feed(bytes(self.rest))
            self._receiver.end(reason)

    def drained(self) -> None:
        if self._receiver is not None:
            self._receiver.drained()

    def _note_came(self, body: Body) -> None:
        if "method" in body and "id" in body:
            self.asked[_key(body)] = body
            if body["method"] == "session/prompt" and isinstance(body.get("params"), dict):
                self.turns[body["params"].get("sessionId")] = body["id"]
        elif "method" not in body:
            self.asking.pop(_key(body), None)

    def _note_sent(self, body: Body) -> None:
        if "method" in body and "id" in body:
            self.asking[_key(body)] = body


def _key(body: Body) -> Any:
    return repr(body.get("id"))


# The vocabulary


def reply(request: Body, result: object) -> Body:
    return {"jsonrpc": "2.0", "id": request["id"], "result": result}


def refusal(request: Body, code: int = -32603, message: str = "Broken on purpose") -> Body:
    return {"jsonrpc": "2.0", "id": request.get("id"), "error": {"code": code, "message": message}}


def result(method: str, change: Callable[[Any], Any]) -> Mutation:
    """Changes every successful result of a method; `change` may edit in place or give another value."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") != method or "result" not in body:
            return None
        changed = change(body["result"])
        return [body if changed is None else {**body, "result": changed}]

    return Mutation(sent=sent)


def response(method: str, change: Callable[[Body], Body | list[Body] | None]) -> Mutation:
    """Changes every response to a method, success or error."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") != method:
            return None
        changed = change(body)
        return [body] if changed is None else changed if isinstance(changed, list) else [changed]

    return Mutation(sent=sent)


def code(old: int, new: Any) -> Mutation:
    """Answers with another error code."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("error", {}).get("code") != old:
            return None
        body["error"]["code"] = new
        return [body]

    return Mutation(sent=sent)


def asked(method: str, change: Callable[[Body], Any]) -> Mutation:
    """Changes the params of what the agent sends with this method; False leaves the message out."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != method:
            return None
        changed = change(body["params"])
        return [] if changed is False else [body]

    return Mutation(sent=sent)


def update(kind: str, change: Callable[[Body], Any]) -> Mutation:
    """Changes every session/update of a kind; False leaves it out."""
    return asked(
        "session/update", lambda params: change(params["update"]) if params["update"]["sessionUpdate"] == kind else None
    )


def answers(method: str, answer: Callable[[Body], Body | None], when: Callable[[Body], bool] | None = None) -> Mutation:
    """Answers a request in the agent's place, which never sees it; None leaves it without an answer."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if (
            body.get("method") != method
            or "id" not in body
            or (when is not None and not when(body.get("params") or {}))
        ):
            return None
        given = answer(body)
        if given is not None:
            wire.send(given)
        return []

    return Mutation(came=came)


def refuses(method: str, when: Callable[[Body], bool] | None = None, code: int = -32603) -> Mutation:
    """Answers a request with an error."""
    return answers(method, lambda request: refusal(request, code), when)


def received(method: str, change: Callable[[Body], Any]) -> Mutation:
    """Changes the params of what the client sends with this method, before the agent reads them."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if body.get("method") != method:
            return None
        changed = change(body["params"])
        return [] if changed is False else [body]

    return Mutation(came=came)


def replies(method: str, change: Callable[[Wire, Body], list[Body] | None]) -> Mutation:
    """Changes what the client answers to a request of the agent."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        request = wire.asking.get(_key(body))
        if "method" in body or request is None or request["method"] != method:
            return None
        return change(wire, body)

    return Mutation(came=came)


def crashes_on_reply(test: Callable[[Body], bool]) -> Mutation:
    """Ends the agent when the client answers something like that."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" in body or not test(body):
            return None
        wire.crash()
        return []

    return Mutation(came=came)


def fails_turn_on_reply(test: Callable[[Body], bool]) -> Mutation:
    """Ends the turn with an error when the client answers something like that."""

    def came(wire: Wire, body: Body) -> list[Body] | None:
        if "method" not in body and test(body):
            wire.notes["failed"] = True
        return None

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        if wire.request_of(body).get("method") == "session/prompt" and wire.notes.get("failed"):
            return [refusal(body)]
        return None

    return Mutation(came=came, sent=sent)


def unchanged() -> Mutation:
    """Changes nothing: the agent behind it is the scripted one."""
    return Mutation()


def both(one: Mutation, two: Mutation) -> Mutation:
    """Two mutations that do not touch the same message."""

    def sent(wire: Wire, body: Body) -> list[Body] | None:
        first = None if one.sent is None else one.sent(wire, body)
        return first if first is not None else None if two.sent is None else two.sent(wire, body)

    def came(wire: Wire, body: Body) -> list[Body] | None:
        first = None if one.came is None else one.came(wire, body)
        return first if first is not None else None if two.came is None else two.came(wire, body)

    return Mutation(sent=sent, came=came)
