"""The judged client as a program, started for each case with an agent that relays everything to the judge.

Owns starting it, waiting for the agent that it starts, and seeing how it ends that agent. Does not depend on what is
exchanged. The agent is `proxy_agent.py`, which reads and writes the other end of the records.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.conformance.client import proxy_agent as records
from dragoman.conformance.client.target import LEAVE_SECONDS, NoAgent
from dragoman.errors import ConnectionClosed, DragomanError
from dragoman.process import Child, Patience

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dragoman.conformance.client.target import AgentEnding, ClientLink, Output
    from dragoman.rpc import Receiver

AGENT: Final = "{agent}"
"""Stands for the program of the judge's agent in the words of the command."""
FOLDER: Final = "{folder}"
"""Stands for an empty directory that belongs to one case."""
VARIABLE: Final = "ACP_AGENT_COMMAND"
"""The environment variable that names the same program."""

_PATIENCE: Final = Patience(stdin_seconds=LEAVE_SECONDS, term_seconds=1.0)
_SOCKET_PATH_BYTES: Final = 100  # the system allows 108


class ClientProgram:
    """The command of a client, started for each case, with our agent in place of `{agent}` or as its last word."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> None:
        self.command = tuple(command)
        self._env = dict(env or {})

    async def open(self, folder: Path, on_output: Output, within_seconds: float) -> ClientLink:
        home = folder / "agent"
        home.mkdir()
        socket, program, empty = home / "socket", home / "agent", folder / "empty"
        if len(os.fsencode(socket)) > _SOCKET_PATH_BYTES:
            raise DragomanError(f"the path {socket} is too long for a socket; set TMPDIR to a shorter directory")
        empty.mkdir()
        _write_program(program, socket)
        meeting = _Meeting()
        server = await asyncio.get_running_loop().create_unix_server(lambda: _Relay(meeting), str(socket))
        child: Child | None = None
        try:
            argv = _fill(self.command, str(program), str(empty))
            env = {**self._env, VARIABLE: str(program)}
            child = Child.spawn(argv, env=env, patience=_PATIENCE, on_stderr=on_output)
            link = _ProgramLink(child, on_output)
            link.attach(await meeting.wait(child, within_seconds))
        except BaseException:
            if child is not None:
                link.close()
                await child.wait_gone()
            raise
        finally:
            server.close()
        return link


def _fill(command: Sequence[str], program: str, folder: str) -> list[str]:
    has_place = any(AGENT in word for word in command)
    words = [word.replace(AGENT, program).replace(FOLDER, folder) for word in command]
    return words if has_place else [*words, program]


def _write_program(program: Path, socket: Path) -> None:
    """Write a program whose one word starts the agent, so that no client has to split, quote or pass on arguments."""
    argv = [sys.executable, "-I", "-S", records.__file__, str(socket)]
    program.write_text(f"#!/bin/sh\nexec {shlex.join(argv)}\n")
    program.chmod(0o755)


class _Meeting:
    """The wait for the agent that the client sends a message to; an agent that it starts only as a test is ended."""

    def __init__(self) -> None:
        self.met: asyncio.Future[_Relay] = asyncio.get_running_loop().create_future()
        self.silent = 0

    async def wait(self, child: Child, within_seconds: float) -> _Relay:
        exited = asyncio.ensure_future(child.wait())
        either: set[asyncio.Future[Any]] = {self.met, exited}
        try:
            await asyncio.wait(either, timeout=within_seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            exited.cancel()
        if self.met.done():
            return self.met.result()
        self.met.cancel()
        what = "sent anything to the agent it started" if self.silent else "started the agent"
        if child.is_running:
            raise NoAgent(f"the client has not {what} within {within_seconds:g} s")
        last = child.stderr_tail().strip().rpartition("\n")[2]
        raise NoAgent(f"the client ended with code {child.returncode} before it {what}{last and f': {last}'}")


class _Relay(asyncio.Protocol):
    """The judge's end of the records of one agent."""

    def __init__(self, meeting: _Meeting) -> None:
        self._meeting = meeting
        self._is_met = False
        self._rest = bytearray()
        self.transport: asyncio.Transport
        self.on_record: Callable[[bytes, bytes], None] | None = None
        self.on_lost: Callable[[], None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._meeting.silent += 1

    def send(self, kind: bytes, payload: bytes = b"") -> None:
        self.transport.write(kind + len(payload).to_bytes(4, "big"))
        self.transport.write(payload)

    def data_received(self, data: bytes) -> None:
        self._rest += data
        if self.on_record is not None:
            self.read()
        elif len(self._rest) >= records.HEAD_BYTES and not self._is_met:
            self._introduce()

    def read(self) -> None:
        """Pass on every record that is complete."""
        head = records.HEAD_BYTES
        while len(self._rest) >= head:
            end = head + int.from_bytes(self._rest[1:head], "big")
            if len(self._rest) < end:
                return
            kind, payload = bytes(self._rest[:1]), bytes(self._rest[head:end])
            del self._rest[:end]
            if self.on_record is not None:
                self.on_record(kind, payload)

    def connection_lost(self, error: Exception | None) -> None:
        if self.on_lost is not None:
            self.on_lost()

    def _introduce(self) -> None:
        """Keep, before the judge reads records, the first agent that the client sends to, and end any other."""
        if self._meeting.met.done() or self._rest[:1] != records.STDIN:
            self.send(records.EXIT, b"0")
            self.transport.close()
            return
        self._is_met = True
        self.transport.pause_reading()
        self._meeting.silent -= 1
        self._meeting.met.set_result(self)


class _ProgramLink:
    """A client as a child process, and the agent it started."""

    def __init__(self, child: Child, on_output: Output) -> None:
        self.ending: AgentEnding | None = None
        self._child = child
        self._on_output = on_output
        self._stdin, self._stdout = child.take_pipes()
        self._relay: _Relay
        self._receiver: Receiver | None = None
        self._logged: list[asyncio.Future[None]] = []
        self._is_closed = False
        self._loop = asyncio.get_running_loop()
        os.set_blocking(self._stdout, False)
        self._loop.add_reader(self._stdout, self._read_stdout)

    def attach(self, relay: _Relay) -> None:
        self._relay = relay
        relay.on_record = self._on_record
        relay.on_lost = self._on_lost

    def start(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._relay.transport.resume_reading()
        self._loop.call_soon(self._relay.read)

    def write(self, data: bytes) -> None:
        if not self._is_closed and self.ending is None:
            self._relay.send(records.STDOUT, data)

    @property
    def unsent_bytes(self) -> int:
        return self._relay.transport.get_write_buffer_size()

    def pause_reading(self) -> None:
        self._relay.transport.pause_reading()

    def resume_reading(self) -> None:
        self._relay.transport.resume_reading()

    def end_output(self) -> None:
        self._relay.send(records.CLOSE)

    async def log(self, data: bytes) -> None:
        taken: asyncio.Future[None] = self._loop.create_future()
        self._logged.append(taken)
        self._relay.send(records.STDERR, data)
        await taken

    def interrupt(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._child.pid, signal.SIGINT)

    async def wait_exit(self) -> int | None:
        return await self._child.wait()

    def close(self) -> None:
        """End the agent, then the client with everything it started."""
        if self._is_closed:
            return
        self._is_closed = True
        if hasattr(self, "_relay"):
            self._relay.send(records.EXIT, b"0")
            self._relay.transport.close()
        os.close(self._stdin)
        self._child.begin_close()

    async def wait_closed(self) -> None:
        await self._child.wait_gone()
        self._close_stdout()

    def _on_record(self, kind: bytes, payload: bytes) -> None:
        if kind == records.STDIN:
            if self._receiver is not None and not self._is_closed:
                self._receiver.feed(payload)
        elif kind == records.EOF:
            self._end("closed")
        elif kind == records.TERM:
            self._end("closed" if payload == b"closed" else "signalled")
        elif kind == records.TAKEN:
            self._logged.pop(0).set_result(None)

    def _on_lost(self) -> None:
        self._end("killed")

    def _end(self, ending: AgentEnding) -> None:
        for waiting in self._logged:
            waiting.cancel()
        if self.ending is not None or self._is_closed:
            return
        self.ending = ending
        # An agent ends when its input does; the client may be waiting for that.
        self._relay.send(records.EXIT, b"0")
        if self._receiver is not None:
            self._receiver.end(ConnectionClosed(_ENDINGS[ending]))

    def _read_stdout(self) -> None:
        try:
            data = os.read(self._stdout, 1 << 16)
        except BlockingIOError:
            return
        if data:
            self._on_output(data)
        else:
            self._close_stdout()

    def _close_stdout(self) -> None:
        if self._stdout >= 0:
            self._loop.remove_reader(self._stdout)
            os.close(self._stdout)
            self._stdout = -1


_ENDINGS: Final[dict[AgentEnding, str]] = {
    "closed": "the client closed the agent's stdin",
    "signalled": "the client sent the agent SIGTERM and left its stdin open",
    "killed": "the client killed the agent and left its stdin open",
}
