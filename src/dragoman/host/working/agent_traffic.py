"""The last lines between the host and the agent of a session, for a user who looks at them.

Owns a bounded ring of references: adding a line costs an append, and nothing is decoded, copied or sent unless a client
asks. A client asks again and again for what came after the last line it has, and the answer waits for a moment if there
is nothing: so a client that is slow or gone holds nothing up. Keys that are known are masked in every answer.
"""

from __future__ import annotations

import asyncio
import os
import time
from base64 import b64encode
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

from dragoman.client.connection import HasStderr
from dragoman.rpc import Observer
from dragoman.schema import v1
from dragoman.text.secrets import Secrets
from dragoman.trace.passed_keys import passed_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.rpc import Transport

MOST_FRAMES: Final = 1_000
MOST_BYTES: Final = 1024 * 1024
"""Of one session. A line that is longer alone is kept as its length only."""
_ANSWER_BYTES: Final = 256 * 1024
_WAIT_SECONDS: Final = 10.0


class AgentTraffic(Observer):
    """The lines of the last connection to an agent, also after it ended."""

    def __init__(self) -> None:
        self.connection = 0
        """Counts the starts of the agent: another number means other lines."""
        self._frames: deque[tuple[int, float, bool, int, bytes]] = deque()
        self._bytes = 0
        self._count = 0
        self._started = 0.0
        self._started_at = 0.0
        self._transport: object = None
        self._waiting: set[asyncio.Future[None]] = set()

    def begin(self, transport: Transport) -> None:
        """Forget what was kept of an earlier connection, because the agent was started."""
        self.connection += 1
        self._frames.clear()
        self._bytes = self._count = 0
        self._started, self._started_at = monotonic(), time.time()
        self._transport = transport

    def received(self, line: bytes) -> None:
        """Keep a line of the agent."""
        self.add(line, is_sent=False)

    def sent(self, line: bytes) -> None:
        """Keep a line of the host."""
        self.add(line, is_sent=True)

    def add(self, line: bytes, *, is_sent: bool) -> None:
        """Keep a line; the oldest ones go."""
        size = len(line)
        kept = line if size <= MOST_BYTES else b""
        self._count += 1
        self._frames.append((self._count, monotonic() - self._started, is_sent, size, kept))
        self._bytes += len(kept)
        while len(self._frames) > MOST_FRAMES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._frames.popleft()[4])
        if self._waiting:
            for arrived in self._waiting:
                if not arrived.done():
                    arrived.set_result(None)
            self._waiting.clear()

    @property
    def stderr_tail(self) -> str:
        """The end of what the agent wrote to stderr."""
        return self._transport.stderr_tail if isinstance(self._transport, HasStderr) else ""

    async def wait(self, connection: int, after: int) -> None:
        """Return when there is a line after one, at the latest in a moment."""
        if self.connection != connection or self._count > after:
            return
        arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(arrived)
        try:
            await asyncio.wait((arrived,), timeout=_WAIT_SECONDS)
        finally:
            self._waiting.discard(arrived)

    def answer(self, connection: int, after: int, secrets: Secrets) -> dict[str, Any]:
        """Answer with the lines after one, as many as fit, and with what a reader needs to know about them."""
        if connection != self.connection:
            after = 0
        frames: list[dict[str, Any]] = []
        size = 0
        for number, t, is_sent, length, line in self._frames:
            if number <= after:
                continue
            size += len(line)
            if frames and size > _ANSWER_BYTES:
                break
            frames.append(_frame(number, t, length, line, secrets, is_sent=is_sent))
        return {
            "connection": self.connection,
            "startedAt": self._started_at,
            "count": self._count,
            "frames": frames,
            "stderr": secrets.mask(self.stderr_tail),
        }


def session_secrets(env: Mapping[str, str] | None, servers: Sequence[v1.McpServer]) -> Secrets:
    """Return the keys of this host, of the client that opened a session, and of its MCP servers."""
    found = Secrets(os.environ, env or {})
    passed: dict[str, str] = {}
    for server in servers:
        for variable in _passed_values(server):
            # `Bearer KEY`: the key may be repeated alone.
            passed |= dict.fromkeys((variable.value, *variable.value.split()), f"[{variable.name}]")
    found.add(passed)
    return found


def _passed_values(server: v1.McpServer) -> Sequence[v1.EnvVariable | v1.HttpHeader]:
    if isinstance(server, v1.McpServerStdio):
        return server.env
    return server.headers if isinstance(server, v1.McpServerHttp | v1.McpServerSse) else ()


def _frame(number: int, t: float, length: int, line: bytes, secrets: Secrets, *, is_sent: bool) -> dict[str, Any]:
    if keys := passed_keys(line):
        secrets.add(keys)
    line = secrets.mask_bytes(line)
    frame: dict[str, Any] = {"n": number, "t": round(t, 6), "dir": "c2a" if is_sent else "a2c", "bytes": length}
    try:
        frame["text"] = line.decode()
    except UnicodeDecodeError:
        frame["b64"] = b64encode(line).decode()
    return frame
