"""A good client behind a transport that misbehaves in its name: one switch, one broken rule.

Owns the client that runs inside the tests' process, and the ways to bend what it sends and receives. Which bend belongs
to which case is in `client_mutants.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgspec

from dragoman import connect
from dragoman.conformance.client.in_process import ClientInProcess
from dragoman.errors import ConnectionClosed
from dragoman.rpc import Receiver, Transport
from dragoman.testing import RealTerminals
from tests.conformance.clients.our_client import converse, converse_plainly, options

Frame: TypeAlias = dict[str, Any]
Out: TypeAlias = Callable[["Bent", Frame], Iterable[Frame | bytes]]
"""What is sent in place of a frame of the client."""
Into: TypeAlias = Callable[["Bent", bytes], Iterable[bytes]]
"""What the client receives in place of a line of its agent."""
UNSET = msgspec.UNSET


class Mutant(NamedTuple):
    """A client that is wrong in one thing."""

    out: Out | None = None
    into: Into | None = None
    is_bare: bool = False
    """It is the client that offers nothing."""
    takes_pieces: bool = True
    """A line may arrive in pieces."""
    takes_rest: bool = True
    """A last line needs no newline."""


class Bent:
    """The client's end of a connection, with a mutant in between."""

    def __init__(self, inner: Transport, mutant: Mutant) -> None:
        self._inner = inner
        self._mutant = mutant
        self._receiver: Receiver | None = None
        self._received = bytearray()
        self.asked: dict[str, Frame] = {}
        """Requests of the agent, by id."""
        self.mine: dict[str, str] = {}
        """Methods of the client's own requests, by id."""
        self.renamed: dict[str, Any] = {}
        """Ids the client's requests had before they were changed."""
        self.is_deaf = False
        self.has_switched = False
        """For mutants that change their mind."""
        self.tasks: set[asyncio.Task[Any]] = set()
        self.pause_reading = inner.pause_reading
        self.resume_reading = inner.resume_reading
        self.close = inner.close
        self.wait_closed = inner.wait_closed

    @property
    def unsent_bytes(self) -> int:
        return self._inner.unsent_bytes

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._inner.start(self)

    # What the client sends

    def write(self, data: bytes) -> None:
        for line in data.splitlines():
            frame = msgspec.json.decode(line)
            if "method" in frame and "id" in frame:
                self.mine[key(frame["id"])] = frame["method"]
            for each in self._mutant.out(self, frame) if self._mutant.out else (frame,):
                self.send(each)

    def send(self, frame: Frame | bytes) -> None:
        self._inner.write(frame if isinstance(frame, bytes) else msgspec.json.encode(frame) + b"\n")

    def request_of(self, frame: Frame) -> Frame:
        """The agent's request that this frame answers; empty if it is none."""
        return {} if "method" in frame else self.asked.get(key(frame["id"]), {})

    # What the client receives

    def feed(self, data: bytes) -> None:
        if not self._mutant.takes_pieces and not data.endswith(b"\n"):
            self.die()
        *lines, rest = (bytes(self._received) + data).split(b"\n")
        self._received = bytearray(rest)
        for line in lines:
            self._receive(line, b"\n")

    def end(self, reason: ConnectionClosed) -> None:
        if self._received and self._mutant.takes_rest:
            self._receive(bytes(self._received), b"")
        assert self._receiver is not None
        self._receiver.end(reason)

    def drained(self) -> None:
        assert self._receiver is not None
        self._receiver.drained()

    def die(self) -> None:
        """The client falls over."""
        self.is_deaf = True
        self._inner.close()
        assert self._receiver is not None
        asyncio.get_running_loop().call_soon(self._receiver.end, ConnectionClosed("the client fell over"))

    def _receive(self, line: bytes, eol: bytes) -> None:
        frame = read(line)
        if "method" in frame and "id" in frame:
            self.asked[key(frame["id"])] = frame
        elif key(frame.get("id")) in self.renamed:
            frame["id"] = self.renamed[key(frame["id"])]
            line = msgspec.json.encode(frame)
        for each in self._mutant.into(self, line) if self._mutant.into else (line,):
            if not self.is_deaf:
                assert self._receiver is not None
                self._receiver.feed(each + eol)


def bent(mutant: Mutant) -> ClientInProcess:
    """The mutant as a target of a judgement; `Mutant()` is the good client."""

    async def client(transport: Transport, folder: Path, interrupted: asyncio.Event) -> None:
        terminals = RealTerminals()
        wire = Bent(transport, mutant)
        try:
            async with connect(wire, **({} if mutant.is_bare else options(terminals))) as agent:
                await (converse_plainly if mutant.is_bare else converse)(agent, folder, interrupted)
        finally:
            for task in wire.tasks:
                task.cancel()
            await terminals.close()

    return ClientInProcess(client)


def key(id: object) -> str:
    return msgspec.json.encode(id).decode()


def read(line: bytes) -> Frame:
    """The line as an object; empty if it is none."""
    try:
        frame = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return {}
    return frame if isinstance(frame, dict) else {}


# Bending what the client sends


def asks(method: str, **changes: Any) -> Mutant:
    """Changes params of a request; UNSET removes one, a function makes the new value from the old one."""

    def out(bent: Bent, frame: Frame) -> list[Frame]:
        if frame.get("method") == method:
            params = frame["params"]
            for name, change in changes.items():
                value = change(params.get(name)) if callable(change) else change
                params[name] = value
                if value is UNSET:
                    del params[name]
        return [frame]

    return Mutant(out=out)


def answers(method: str, change: Callable[[Frame, Frame], Frame | None], *, is_bare: bool = False) -> Mutant:
    """Changes the answer to a method: `change(answer, request)` gives another one, or None for none."""

    def out(bent: Bent, frame: Frame) -> list[Frame]:
        request = bent.request_of(frame)
        changed = change(frame, request) if request.get("method") == method else frame
        return [] if changed is None else [changed]

    return Mutant(out=out, is_bare=is_bare)


def sends(change: Callable[[Frame], Frame | None]) -> Mutant:
    """Changes whatever the client sends."""

    def out(bent: Bent, frame: Frame) -> list[Frame]:
        changed = change(frame)
        return [] if changed is None else [changed]

    return Mutant(out=out)


def also(at: str, *more: Frame | bytes, is_after: bool = False, is_bare: bool = False) -> Mutant:
    """Sends more when the client calls `at`."""

    def out(bent: Bent, frame: Frame) -> list[Frame | bytes]:
        if frame.get("method") != at:
            return [frame]
        return [frame, *more] if is_after else [*more, frame]

    return Mutant(out=out, is_bare=is_bare)


def result(frame: Frame, value: Any) -> Frame:
    """The answer as a success."""
    return {"jsonrpc": "2.0", "id": frame["id"], "result": value}


def error(frame: Frame, code: Any, message: str = "Wrong on purpose") -> Frame:
    """The answer as a failure."""
    return {"jsonrpc": "2.0", "id": frame["id"], "error": {"code": code, "message": message}}


# Bending what the client receives


def dies_on(text: str | bytes) -> Mutant:
    """Falls over when a line holds this."""
    needle = text.encode() if isinstance(text, str) else text
    return dies_when(lambda bent, line: needle in line)


def dies_when(test: Callable[[Bent, bytes], bool]) -> Mutant:
    def into(bent: Bent, line: bytes) -> list[bytes]:
        if test(bent, line):
            bent.die()
        return [line]

    return Mutant(into=into)


def deaf_after(text: str | bytes) -> Mutant:
    """Receives this line and nothing after it."""
    needle = text.encode() if isinstance(text, str) else text

    def into(bent: Bent, line: bytes) -> list[bytes]:
        bent.is_deaf = bent.is_deaf or needle in line
        return [line]

    return Mutant(into=into)


def receives(change: Callable[[Bent, Frame], Frame | None]) -> Mutant:
    """Changes frames on their way to the client; None drops one."""

    def into(bent: Bent, line: bytes) -> list[bytes]:
        frame = read(line)
        if not frame:
            return [line]
        changed = change(bent, frame)
        return [] if changed is None else [msgspec.json.encode(changed)]

    return Mutant(into=into)


def serves(method: str, serve: Callable[[Bent, Frame], Any]) -> Mutant:
    """Answers a method itself, and the client never receives it; UNSET leaves the request to the client."""

    def change(bent: Bent, frame: Frame) -> Frame | None:
        if frame.get("method") != method:
            return frame
        value = serve(bent, frame["params"])
        if value is UNSET:
            return frame
        bent.send(result(frame, value))
        return None

    return receives(change)
