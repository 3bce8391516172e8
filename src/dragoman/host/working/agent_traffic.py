"""The last lines between the host and the agent of a session, for a user who looks at them.

Owns a bounded ring of references: adding a line costs an append, and nothing is decoded, copied or sent unless a client
asks. A client asks again and again for what came after the last line it has, and the answer waits for a moment if there
is nothing: so a client that is slow or gone holds nothing up. Keys that are known are masked in every answer.

What each line is, and which rules it breaks, is found when a client first asks (`checked_lines.py`).
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from base64 import b64encode
from collections import deque
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dragoman.client.connection import HasStderr
from dragoman.rpc import Observer
from dragoman.schema import v1
from dragoman.text.secrets import Secrets
from dragoman.trace.entry import Frame, Header, Stderr
from dragoman.trace.passed_keys import passed_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.host.working.checked_lines import CheckedLines
    from dragoman.rpc import Transport

MOST_FRAMES: Final = 1_000
MOST_BYTES: Final = 1024 * 1024
"""Of one session. A line that is longer alone is kept as its length only."""
_ANSWER_BYTES: Final = 256 * 1024
_WAIT_SECONDS: Final = 10.0


class KeptLine(NamedTuple):
    """A line, as it was sent."""

    number: int
    t: float
    is_sent: bool
    size_bytes: int
    data: bytes
    """Empty if it was too long to be kept."""

    def masked(self, secrets: Secrets) -> Frame:
        """Return it without keys; those that are passed in it are masked from here on."""
        if keys := passed_keys(self.data):
            secrets.add(keys)
        return Frame(self.t, "c2a" if self.is_sent else "a2c", secrets.mask_bytes(self.data))


class AgentTraffic(Observer):
    """The lines of the last connection to an agent, also after it ended."""

    def __init__(self) -> None:
        self.connection = 0
        """Counts the starts of the agent: another number means other lines."""
        self._frames: deque[KeptLine] = deque()
        self._bytes = 0
        self._count = 0
        self._started = 0.0
        self._started_at = 0.0
        self._transport: object = None
        self._waiting: set[asyncio.Future[None]] = set()
        self._checked: CheckedLines | None = None
        self._lock = threading.Lock()  # two clients may ask at the same time

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
        self._frames.append(KeptLine(self._count, monotonic() - self._started, is_sent, size, kept))
        self._bytes += len(kept)
        while len(self._frames) > MOST_FRAMES or self._bytes > MOST_BYTES:
            self._bytes -= len(self._frames.popleft().data)
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

    def answer(
        self,
        connection: int,
        after: int,
        secrets: Secrets,
        *,
        before: int | None = None,
        limit: int = MOST_FRAMES,
        only_broken: bool = False,
    ) -> dict[str, Any]:
        """Answer with a page of lines, and with what a reader needs to know about them. May run in a thread.

        Args:
            connection: Which one the client knows; of another one it gets the first lines.
            after: The number behind which the page begins.
            secrets: What is masked.
            before: The number that the page ends before: the page is then the last one in front of it.
            limit: How many lines a page has at most.
            only_broken: Leave out what is neither an error nor breaks a rule.
        """
        if connection != self.connection:
            after, before = 0, None
        from dragoman.host.working.checked_lines import CheckedLines

        with self._lock:
            kept = list(self._frames)  # in one step: the loop adds lines meanwhile
            self._checked = checked = self._checked or CheckedLines()
            checked.follow(self.connection, kept, secrets)
            found = [line for line in kept if line.number > after and (before is None or line.number < before)]
            if only_broken:
                found = [line for line in found if checked.is_bad(line.number)]
            page, has_more = _page(found, limit, is_last=before is not None)
            frames = [{**_frame(line, secrets), **checked.document(line.number)} for line in page]
            return {
                "connection": self.connection,
                "startedAt": self._started_at,
                "count": self._count,
                "oldest": kept[0].number if kept else self._count + 1,
                "hasMore": has_more,
                "broken": checked.failures(),
                "frames": frames,
                "stderr": secrets.mask(self.stderr_tail),
            }

    def recording(self, command: Sequence[str], secrets: Secrets) -> bytes:
        """Return the lines that are kept as a recording, which `dragoman inspect` reads. May run in a thread."""
        from dragoman.trace.written import recording_of

        kept = list(self._frames)
        entries = [line.masked(secrets) for line in kept]
        last = kept[-1].t if kept else 0.0
        lines = secrets.mask(self.stderr_tail).splitlines()
        header = None
        if kept and kept[0].number == 1:  # a header says that a recording begins with its connection
            started = datetime.fromtimestamp(self._started_at, UTC).isoformat(timespec="milliseconds")
            header = Header(started=started.replace("+00:00", "Z"), command=tuple(command))
        return recording_of([*entries, *(Stderr(last, text) for text in lines)], header)


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


def _page(lines: Sequence[KeptLine], limit: int, *, is_last: bool) -> tuple[list[KeptLine], bool]:
    """Return the first lines that fit into an answer, or the last ones, and whether there are more."""
    page: list[KeptLine] = []
    size = 0
    for line in reversed(lines) if is_last else lines:
        size += len(line.data)
        if len(page) >= limit or (page and size > _ANSWER_BYTES):
            return (page[::-1] if is_last else page), True
        page.append(line)
    return (page[::-1] if is_last else page), False


def _frame(line: KeptLine, secrets: Secrets) -> dict[str, Any]:
    masked = line.masked(secrets)
    frame: dict[str, Any] = {"n": line.number, "t": round(line.t, 6), "dir": masked.dir, "bytes": line.size_bytes}
    try:
        frame["text"] = masked.data.decode()
    except UnicodeDecodeError:
        frame["b64"] = b64encode(masked.data).decode()
    return frame
