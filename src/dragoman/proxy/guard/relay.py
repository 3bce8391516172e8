"""The guard between this program's stdin and stdout and an agent's program.

The exchange speaks version 1. An editor whose `initialize` asks for version 2 is translated; the agent is not asked for
version 2, because there less goes through its client. When the agent ends, what the editor still waits for is answered
with an error that states the reason. The log is complete up to the last record that was written, however this program
ends. Streams, room and ends are those of `proxy/between.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.errors import INTERNAL_ERROR, AgentExited, DragomanError
from dragoman.proxy.between import EDITOR, GRACE_SECONDS, run_between
from dragoman.proxy.guard.exchange import GuardExchange
from dragoman.proxy.translate import AnyEditor
from dragoman.text.secrets import known_keys
from dragoman.transports.stdio import StdioTransport
from dragoman.wire import Framer, Request, read_message, write_error

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from dragoman.errors import ConnectionClosed
    from dragoman.proxy.between import Between, OnStderr, RecordsLines
    from dragoman.proxy.guard.plan import GuardPlan
    from dragoman.rpc.transport import Transport
    from dragoman.transports.process import ProcessTransport
    from dragoman.wire import Frame

_NAME: Final = "dragoman guard"
_AGENT: Final = 1
_MOST_RECORDS: Final = 20_000  # of the log that are not written yet


async def run_guard(
    start: Callable[[OnStderr], Awaitable[ProcessTransport]],
    plan: GuardPlan,
    *,
    notes: Sequence[str] = (),
    recording: RecordsLines | None = None,
    grace_seconds: float = GRACE_SECONDS,
) -> int:
    """Run an agent behind this program's stdin and stdout until it ends; return its exit code.

    If the agent cannot be started, the editor's first request is answered with the reason, because editors show that
    and not stderr. See `run_between` for the streams and signals of this program.

    Args:
        start: Starts the agent; called with a function for what it writes to stderr.
        plan: Rules, limits, additions.
        notes: Sentences for stderr at the start.
        recording: Gets the lines from and to the agent.
        grace_seconds: How long a silent agent may take to end after its editor is gone.

    Raises:
        DragomanError: The agent could not be started; the editor was answered.
    """

    async def begin(between: Between) -> Sequence[Transport]:
        agent = await start(between.stderr())
        return StdioTransport(), agent

    guard: _GuardMiddle | None = None

    def make(between: Between) -> AnyEditor:
        nonlocal guard
        editor = AnyEditor(between)
        guard = editor.inner = _GuardMiddle(plan, between, editor.send)
        return editor

    try:
        ending = await run_between(
            begin, make, name=_NAME, notes=notes, recording=recording, grace_seconds=grace_seconds
        )
    except DragomanError as error:
        await answer_failure(str(error))
        raise
    why = "" if guard is None else guard.why
    plan.events.ended(why if ending.signal is None else f"signal {ending.signal.name}", ending.code)
    return ending.code


class _GuardMiddle:
    """The exchange of a guard, between an editor of version 1 and an agent."""

    is_waiting = True  # the agent may answer until it ends

    def __init__(self, plan: GuardPlan, between: Between, to_editor: Callable[[bytes], None]) -> None:
        self._between = between
        self.why = "the editor closed the connection"
        self._exchange = GuardExchange(plan, to_editor, self._to_agent, between.say, self._end_commands)

    def _to_agent(self, line: bytes) -> None:
        self._between.send(_AGENT, line)

    async def _end_commands(self, since: float) -> None:
        await self._between.end_commands(_AGENT, since)

    @property
    def is_behind(self) -> bool:
        return self._exchange.waiting_records > _MOST_RECORDS

    def feed(self, number: int, line: Frame) -> None:
        if number == EDITOR:
            self._exchange.from_editor(line)
        else:
            self._exchange.from_agent(line)

    def ended(self, number: int, reason: ConnectionClosed) -> None:
        if number == EDITOR:
            self._exchange.editor_ended()
            self._between.end_input(_AGENT)
            return
        is_exit = isinstance(reason, AgentExited)
        self.why = known_keys.mask(f"{_NAME}: {reason if is_exit else 'the agent closed the connection'}")
        self._exchange.agent_ended(self.why)

    async def close(self) -> None:
        await self._exchange.close()


async def answer_failure(why: str) -> None:
    """Answer the editor's first request with the reason why there is no agent."""
    client = StdioTransport()
    over = asyncio.get_running_loop().create_future()
    client.start(_FailureEnd(client, why, over))
    await over
    client.close()
    await client.wait_closed()


class _FailureEnd:
    """The editor's side of a guard that has no agent."""

    def __init__(self, client: StdioTransport, why: str, over: asyncio.Future[None]) -> None:
        self._client = client
        self._why = why
        self._over = over
        self._framer = Framer()

    def feed(self, data: bytes) -> None:
        for line in self._framer.feed(data):
            message = read_message(line) if isinstance(line, bytes) else None
            if isinstance(message, Request):
                why = known_keys.mask(self._why)
                self._client.write(write_error(message.id, INTERNAL_ERROR, f"{_NAME}: {why}"))
                self.end(None)

    def end(self, reason: object) -> None:
        if not self._over.done():
            self._over.set_result(None)

    def drained(self) -> None:
        pass
