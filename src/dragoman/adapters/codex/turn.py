"""One turn of a Codex thread: from the prompt until Codex reports that it has ended.

Theory of operation. The turn has its own queue of messages; `chunks` reads it. Questions of Codex are asked in tasks of
their own, because other calls go on meanwhile, and because Codex withdraws a question that an interrupt made void
(`serverRequest/resolved`).

*Cancel.* Codex answers an interrupt at once and leaves the running command alive in the background. So `interrupt` does
all of it: it waits until the turn was really begun (an interrupt before is refused), interrupts it and the turns of its
sub-agents, waits for the end of each, then asks the commands of this turn to end, has Codex end those that do
not, and waits until they are gone, both for Codex and for the system. Commands that earlier turns left in the
background on purpose stay. If that takes too long the program is ended with everything it started: a command that runs
on after a cancel is worse than a program that has to start again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.adapters.codex.events import CodexEvents, error_text
from dragoman.adapters.codex.messages import CodexEnded, CodexQuestion, CodexRefused, Report
from dragoman.adapters.codex.questions import answer_question
from dragoman.adapters.values import AdapterError
from dragoman.process import proctable
from dragoman.text.terminal import plain

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection

    from dragoman.adapters.codex.thread import CodexThread
    from dragoman.adapters.context import PromptContext
    from dragoman.uistream import chunks as c

_log = logging.getLogger("dragoman.adapters")

# An interrupt takes 10 ms, ending a command 50 ms, on a machine that is not busy.
INTERRUPT_SECONDS: Final = 8.0
# Messages that wait because the client is slow, before Codex has to wait, and when it may go on.
_MOST_WAITING: Final = 2000
_FEW_WAITING: Final = 500
_LOOK_SECONDS: Final = 0.05  # between two looks at the commands that still run
_BEGIN_SECONDS: Final = 0.2  # until a command that was reported has a process
_END_SECONDS: Final = 1.0  # for a command that is asked to end, and for the rest of one that was killed
_THREAD: Final = b"CODEX_THREAD_ID="
_CALL: Final = b"CODEX_TOOL_CALL_ID="
# Programs of the sandbox, by the beginning of what the kernel calls them.
_HELPERS: Final = ("codex", "bwrap")


class CodexTurn:
    """A turn that a prompt began."""

    def __init__(self, thread: CodexThread, ctx: PromptContext) -> None:
        self.thread = thread
        self.id: str | None = None
        self._ctx = ctx
        self._queue: asyncio.Queue[Report | CodexQuestion | CodexEnded] = asyncio.Queue()
        self._events = CodexEvents(thread.notes)
        self._children: dict[str, CodexEvents] = {}
        self._turns: dict[str, str] = {}
        """Turns that run, by thread: this one and those of sub-agents."""
        self._over: set[str] = set()
        self._asking: dict[int | str, asyncio.Task[None]] = {}
        self._begun = False
        self._is_over = False
        self._starting: asyncio.Task[dict[str, Any]] | None = None

    def put(self, message: Report | CodexQuestion | CodexEnded) -> None:
        """Take a message of the program."""
        self._queue.put_nowait(message)
        if self._queue.qsize() == _MOST_WAITING:
            self.thread.server.note_backlog(self, is_long=True)

    async def start(self, method: str, params: dict[str, Any]) -> None:
        """Begin the turn. Raises: AdapterError."""
        # In a task, so that a cancel does not lose the id of a turn that Codex has begun.
        self._starting = asyncio.ensure_future(self.thread.server.request(method, params))
        result = await asyncio.shield(self._starting)
        turn = result.get("turn")
        if isinstance(turn, dict) and isinstance(turn.get("id"), str):
            self.id = turn["id"]

    async def chunks(self) -> AsyncIterator[c.Chunk]:
        """Yield what the turn shows, until it is over. Raises: AdapterError if it failed, or the program ended."""
        while not self._is_over:
            for chunk in await self._take(await self._next()):
                yield chunk
        for chunk in self._events.close():
            yield chunk

    async def interrupt(self) -> None:
        """End the turn and every command of it. Returns when they are gone; the program is ended if they stay."""
        try:
            async with asyncio.timeout(INTERRUPT_SECONDS):
                self._stop_asking()
                if self._starting is not None:
                    await self._interrupt()
                return
        except TimeoutError:
            _log.warning("codex did not end the turn in %.0f seconds; it is started again", INTERRUPT_SECONDS)
        except CodexEnded:
            pass
        except AdapterError as error:
            _log.warning("codex could not be interrupted; it is started again: %s", error)
        await self.thread.server.close()

    async def close(self) -> None:
        """Leave nothing behind."""
        self.thread.server.note_backlog(self, is_long=False)
        for events in (self._events, *self._children.values()):
            events.end()
        self._stop_asking()
        for task in [*self._asking.values(), *([self._starting] if self._starting is not None else [])]:
            task.cancel()
            await asyncio.wait({task})
            if not task.cancelled():
                task.exception()  # read, so that it is not reported as lost

    # Messages

    async def _next(self) -> Report | CodexQuestion | CodexEnded:
        message = await self._queue.get()
        if self._queue.qsize() == _FEW_WAITING:
            self.thread.server.note_backlog(self, is_long=False)
        return message

    async def _take(self, message: Report | CodexQuestion | CodexEnded) -> list[c.Chunk]:
        if isinstance(message, CodexEnded):
            raise message
        if isinstance(message, CodexQuestion):
            self._asking[message.id] = asyncio.ensure_future(self._ask(message))
            return []
        method, params = message.method, message.params
        thread_id = str(params.get("threadId") or self.thread.id)
        if method == "serverRequest/resolved":
            asking = self._asking.get(params.get("requestId", ""))
            if asking is not None:
                asking.cancel()
        elif method in ("turn/started", "turn/completed"):
            self._note_turn(thread_id, method, params.get("turn"))
        elif thread_id == self.thread.id:
            await self.thread.follow(method, params)
        elif isinstance(params.get("turnId"), str) and params["turnId"] not in self._over:
            # The beginning of a sub-agent's turn may come before it is known whose sub-agent it is.
            self._turns.setdefault(thread_id, params["turnId"])
        return list(self._events_of(thread_id).feed(method, params))

    def _events_of(self, thread_id: str) -> CodexEvents:
        if thread_id == self.thread.id:
            return self._events
        return self._children.setdefault(thread_id, CodexEvents(self.thread.notes, sub_agent=thread_id))

    def _note_turn(self, thread_id: str, method: str, turn: Any) -> None:
        turn = turn if isinstance(turn, dict) else {}
        turn_id = str(turn.get("id"))
        if method == "turn/started":
            self._turns[thread_id] = turn_id
            if thread_id == self.thread.id:
                self._begun = True
                self.id = self.id or turn_id
            return
        self._turns.pop(thread_id, None)
        self._over.add(turn_id)
        # A turn that Codex began by itself before the prompt may end first.
        if thread_id != self.thread.id or (self.id is not None and turn_id != self.id):
            return
        self._begun = self._is_over = True
        if turn.get("status") == "failed":
            raise AdapterError(_failure(turn.get("error")))

    # Questions

    async def _ask(self, question: CodexQuestion) -> None:
        server = self.thread.server
        events = self._events_of(str(question.params.get("threadId") or self.thread.id))
        try:
            result = await answer_question(self._ctx, events, question)
        except asyncio.CancelledError:
            raise
        except Exception as error:  # such as a client that is gone: Codex must not wait forever
            _log.warning("a question of codex could not be asked: %s", error)
            result = None
        # Left in the table until Codex confirms: an answer after that would be one too many.
        if result is None:
            server.refuse(question.id, f"{question.method} is not supported by this client")
        else:
            server.answer(question.id, result)

    def _stop_asking(self) -> None:
        for task in self._asking.values():
            task.cancel()

    # Cancel

    async def _interrupt(self) -> None:
        assert self._starting is not None
        await asyncio.wait({self._starting})
        if self._starting.cancelled() or self._starting.exception() is not None:
            return  # Codex refused the prompt
        turn = self._starting.result().get("turn")
        self.id = self.id or (str(turn["id"]) if isinstance(turn, dict) and "id" in turn else None)
        await self._drain(lambda: self._begun)
        if not self._is_over:
            await self._request_interrupt(self.thread.id, str(self.id))
            await self._drain(lambda: self._is_over)
        for thread_id, turn_id in list(self._turns.items()):
            await self._request_interrupt(thread_id, turn_id)
        await self._drain(lambda: not self._turns)
        await self._ask_commands_to_end()
        await self._end_commands(self.thread.id)
        for thread_id in self._children:
            await self._end_commands(thread_id)
        await self._wait_for_processes()
        await self._show_waiting()

    async def _ask_commands_to_end(self) -> None:
        """Ask commands to end, and wait for a moment until they have."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        asked: set[int] = set()
        while True:
            await self._show_waiting()
            left = self._processes()
            # A command that has just begun is not there yet, or only the helper of its sandbox is.
            asked |= ask_to_end([pid for pid in left if pid not in asked])
            waited = clock() - begun
            is_quiet = not left and (waited >= _BEGIN_SECONDS or (waited > 0 and not self._open_commands))
            if is_quiet or waited >= _END_SECONDS:
                return
            await asyncio.sleep(_LOOK_SECONDS)

    async def _wait_for_processes(self) -> None:
        """Wait until nothing is left of the commands; what stays is killed."""
        clock = asyncio.get_running_loop().time
        begun = clock()
        while left := self._processes():
            if clock() - begun >= _END_SECONDS:
                kill(left)
            await asyncio.sleep(_LOOK_SECONDS)

    def _processes(self) -> list[int]:
        """Return the processes of the commands of this turn and of its sub-agents."""
        threads = (self.thread.id, *self._children)
        return processes_of(self.thread.server.marker, threads, self.thread.notes.commands)

    @property
    def _open_commands(self) -> set[str]:
        """Commands of this turn and of its sub-agents without an outcome."""
        return {call for events in (self._events, *self._children.values()) for call in events.open_commands}

    async def _request_interrupt(self, thread_id: str, turn_id: str) -> None:
        try:
            await self.thread.server.request("turn/interrupt", {"threadId": thread_id, "turnId": turn_id})
        except CodexRefused as error:  # the turn has just ended by itself
            _log.debug("codex refused an interrupt: %s", error)

    async def _drain(self, is_done: Callable[[], bool]) -> None:
        """Show what still comes until something has happened."""
        while not is_done():
            try:
                shown = await self._take(await self._next())
            except CodexEnded:
                raise
            except AdapterError:  # the turn failed before it was interrupted
                continue
            await self._emit(shown)

    async def _end_commands(self, thread_id: str) -> None:
        """End the commands of this turn that Codex keeps in the background, and wait until they are gone."""
        while True:
            await self._show_waiting()
            try:
                running = await self._running_commands(thread_id)
            except CodexRefused:  # an older version, whose interrupt ends the commands
                if self._open_commands:
                    raise
                return
            if not running:
                return
            for process_id in running:
                params = {"threadId": thread_id, "processId": process_id}
                await self.thread.server.request("thread/backgroundTerminals/terminate", params)
            await asyncio.sleep(_LOOK_SECONDS)

    async def _running_commands(self, thread_id: str) -> list[str]:
        found: list[str] = []
        params = {"threadId": thread_id}
        while True:
            page = await self.thread.server.request("thread/backgroundTerminals/list", params)
            rows = page.get("data")
            for row in rows if isinstance(rows, list) else ():
                if isinstance(row, dict) and row.get("itemId") not in self.thread.notes.commands:
                    found.append(str(row.get("processId")))
            following = page.get("nextCursor")
            if not isinstance(following, str):
                return found
            params["cursor"] = following

    async def _show_waiting(self) -> None:
        while not self._queue.empty():
            await self._emit(await self._take(self._queue.get_nowait()))

    async def _emit(self, chunks: list[c.Chunk]) -> None:
        try:
            for chunk in chunks:
                await self._ctx.emit(chunk)
        except Exception as error:  # the client is gone; what is left to do is to end the commands
            _log.debug("not shown after a cancel", exc_info=error)


def _failure(error: Any) -> str:
    """Return what the user reads about a turn that failed."""
    text = error_text(error)
    if isinstance(error, dict) and error.get("codexErrorInfo") == "unauthorized":
        return f"Codex is not logged in, or its login has expired: {text}. Run `codex login` in a terminal."
    return f"Codex failed: {plain(text)}"


def processes_of(marker: str, threads: Collection[str], earlier: Collection[str]) -> list[int]:
    """Return the living processes of commands, found by what Codex writes into their environment.

    They are not named, because Codex does not report every command before it runs.

    Args:
        marker: what everything that this program started has in its environment.
        threads: the threads whose commands are meant.
        earlier: the ids of commands that are not meant.
    """
    found: list[int] = []
    for pid in proctable.pids():
        with suppress(OSError):
            variables = proctable.environment(pid)
            if marker.encode() not in variables or _CALL not in variables:
                continue
            values = variables.split(b"\0")
            is_meant = any(_THREAD + thread.encode() in values for thread in threads)
            is_earlier = any(_CALL + call.encode() in values for call in earlier)
            if is_meant and not is_earlier and proctable.status(pid).is_alive:
                found.append(pid)
    return found


def ask_to_end(processes: Collection[int]) -> set[int]:
    """Send SIGTERM to the commands themselves; the helper of the sandbox follows when they are gone.

    Codex ends a command at once and completely, which is wrong twice. The helper of its sandbox gets no time to remove
    the folders that it makes for the sandbox, so that an empty `.git` stays in the user's project. And the end is
    reported when the first process is gone, while others are still there for a moment.

    Returns: those that were asked.
    """
    asked: set[int] = set()
    for pid in processes:
        with suppress(OSError):
            if not proctable.name(pid).startswith(_HELPERS):
                os.kill(pid, signal.SIGTERM)
                asked.add(pid)
    return asked


def kill(processes: Collection[int]) -> None:
    """End processes at once."""
    for pid in processes:
        with suppress(OSError):
            os.kill(pid, signal.SIGKILL)
