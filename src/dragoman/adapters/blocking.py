"""Functions and generators that are not async: in a thread of their own, with calls to the client that wait.

Theory of operation. The thread belongs to one run. What the function yields is passed to the event loop one by one, and
the function waits until it was taken. A cancelled run sets `ctx.cancelled`, ends every call to the client that the
thread waits for, and closes a generator at its next `yield`. A thread cannot be stopped from outside: a function that
never looks is left behind, and what it does to its context afterwards raises `RunCancelled`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

from dragoman.errors import DragomanError

if TYPE_CHECKING:
    import os
    from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Mapping, Sequence

    from dragoman.adapters.adapter import Yielded
    from dragoman.adapters.context import AskedCall, PromptContext
    from dragoman.adapters.session import AdapterSession
    from dragoman.adapters.values import AskAnswer, AskOption
    from dragoman.agent import TerminalHandle
    from dragoman.schema import v1
    from dragoman.uistream.messages import UIMessage

_log = logging.getLogger("dragoman.adapters")

T = TypeVar("T")

_END: Final = object()
# How long the end of a cancelled run waits for its thread. Longer than this, the client would wait for nothing.
_STOP_SECONDS: Final = 1.5


class RunCancelled(DragomanError):
    """The turn was cancelled; raised in the function's thread by the call to its context."""


class LoopCalls:
    """Calls from a thread into the event loop, all of which end when the run is cancelled."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._waiting: set[concurrent.futures.Future[Any]] = set()
        self.is_cancelled = False

    def wait_for(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine in the event loop and wait for it. Raises: RunCancelled, and what the coroutine raises."""
        with self._lock:
            if self.is_cancelled:
                raise RunCancelled("this turn was cancelled")
            future = asyncio.run_coroutine_threadsafe(work(), self._loop)
            self._waiting.add(future)
        try:
            return future.result()
        except concurrent.futures.CancelledError:
            raise RunCancelled("this turn was cancelled") from None
        finally:
            with self._lock:
                self._waiting.discard(future)

    def cancel(self) -> None:
        """End every call that waits, and refuse later ones."""
        with self._lock:
            self.is_cancelled = True
            waiting = tuple(self._waiting)
        for future in waiting:
            future.cancel()


class BlockingContext:
    """The context of a function that is not async: as `PromptContext`, with calls that wait for their result."""

    def __init__(self, context: PromptContext, calls: LoopCalls) -> None:
        self._context = context
        self._calls = calls

    @property
    def cancelled(self) -> bool:
        """Whether the turn was cancelled: a function that works for long looks here, and returns."""
        return self._calls.is_cancelled or self._context.cancelled

    @property
    def text(self) -> str:
        """The prompt as text: embedded texts and links are included, images are not."""
        return self._context.text

    @property
    def blocks(self) -> tuple[v1.ContentBlock, ...]:
        """The content blocks of the prompt."""
        return self._context.blocks

    @property
    def history(self) -> tuple[UIMessage, ...]:
        """The messages before this prompt."""
        return self._context.history

    @property
    def answers(self) -> Mapping[str, AskAnswer]:
        """Answers to the questions that the last run ended with, by `approval_id`."""
        return self._context.answers

    @property
    def session(self) -> AdapterSession:
        """The session. Its async methods belong to the event loop."""
        return self._context.session

    @property
    def session_id(self) -> str:
        return self._context.session_id

    @property
    def cwd(self) -> str:
        """The folder of the session, absolute."""
        return self._context.cwd

    @property
    def has_forms(self) -> bool:
        """Whether the client can show forms."""
        return self._context.has_forms

    def emit(self, item: Yielded) -> None:
        """Show text or a chunk now."""
        self._calls.wait_for(lambda: self._context.emit(item))

    def plan(self, entries: Iterable[tuple[str, str] | str]) -> None:
        """Show the plan, in place of the one before. An entry is a text, or a text and its status."""
        listed = list(entries)
        self._calls.wait_for(lambda: self._context.plan(listed))

    def usage(self, used: int, size: int, cost_usd: float | None = None) -> None:
        """Show how many tokens of the context window are in use, and what the session has cost so far."""
        self._calls.wait_for(lambda: self._context.usage(used, size, cost_usd))

    def notice(self, title: str, description: str = "", severity: str = "info") -> None:
        """Show a notice next to the conversation."""
        self._calls.wait_for(lambda: self._context.notice(title, description, severity))

    def ask(self, call: str | AskedCall, options: Sequence[AskOption] | None = None) -> AskAnswer:
        """Ask the user for permission, and wait for the answer. Everything that is not clearly a yes is a no."""
        return self._calls.wait_for(lambda: self._context.ask(call, options))

    def result(self, call_id: str, output: Any = None, *, error: str | None = None) -> None:
        """Report the outcome of a call that `ask` announced."""
        self._calls.wait_for(lambda: self._context.result(call_id, output, error=error))

    def offer(self, approval_id: str, options: Sequence[AskOption]) -> None:
        """Set the options of a question that this run ends with."""
        self._context.offer(approval_id, options)

    def form(self, message: str, schema: v1.ElicitationSchema) -> dict[str, Any] | None:
        """Ask the user to fill in a form. None if the user declined, or the client cannot show forms."""
        return self._calls.wait_for(lambda: self._context.form(message, schema))

    def read_file(self, path: str | os.PathLike[str], line: int | None = None, limit: int | None = None) -> str:
        """Read a text file: through the client if it offers that; from the disk otherwise."""
        return self._calls.wait_for(lambda: self._context.read_file(path, line, limit))

    def write_file(self, path: str | os.PathLike[str], text: str) -> None:
        """Write a whole file: through the client if it offers that, otherwise on the disk."""
        self._calls.wait_for(lambda: self._context.write_file(path, text))

    @contextmanager
    def terminal(
        self,
        command: str,
        args: Sequence[str] = (),
        *,
        cwd: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> Iterator[BlockingTerminal]:
        """Run a command for the body of `with`: in the client's terminal if it has one, else as a child."""
        manager = self._context.terminal(command, args, cwd=cwd, env=env)
        entered = self._calls.wait_for(lambda: _as_coroutine(manager.__aenter__))
        try:
            yield BlockingTerminal(entered, self._calls)
        finally:
            if not self._calls.is_cancelled:  # otherwise the turn releases it
                self._calls.wait_for(lambda: _as_coroutine(lambda: manager.__aexit__(None, None, None)))


class BlockingTerminal:
    """A command in a terminal, for functions that are not async."""

    def __init__(self, terminal: TerminalHandle, calls: LoopCalls) -> None:
        self._terminal = terminal
        self._calls = calls

    def output(self) -> v1.TerminalOutputResponse:
        """Return what the command has written so far."""
        return self._calls.wait_for(self._terminal.output)

    def wait(self) -> v1.WaitForTerminalExitResponse:
        """Return the exit status, once the command has ended."""
        return self._calls.wait_for(self._terminal.wait)

    def kill(self) -> None:
        """End the command; its output stays available."""
        self._calls.wait_for(self._terminal.kill)


async def _as_coroutine(make: Callable[[], Any]) -> Any:
    return await make()


class ThreadRun:
    """One call of a function in its thread: an async iterator of what it yields, or of its one result."""

    def __init__(self, call: Callable[[], Any], calls: LoopCalls, name: str) -> None:
        self._call = call
        self._calls = calls
        self._loop = asyncio.get_running_loop()
        self._items: asyncio.Queue[Any] = asyncio.Queue(1)
        self._done = asyncio.Event()
        self._error: BaseException | None = None
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=lambda: context.run(self._work), name=name, daemon=True)

    async def items(self) -> AsyncGenerator[Any, None]:
        """Start the thread, and give what the function yields or returns. Raises what the function raises."""
        self._thread.start()
        try:
            while (item := await self._items.get()) is not _END:
                yield item
            if self._error is not None:
                raise self._error
        finally:
            self._calls.cancel()
            await self._stopped()

    async def _stopped(self) -> None:
        try:
            async with asyncio.timeout(_STOP_SECONDS):
                await self._done.wait()
        except TimeoutError:
            _log.warning(
                "the function in thread %s does not look at ctx.cancelled; it is left running", self._thread.name
            )

    def _work(self) -> None:
        try:
            result = self._call()
            if inspect.isgenerator(result):
                self._pass_on(result)
            else:
                self._deliver(result)
        except RunCancelled:
            pass
        except (Exception, SystemExit) as error:
            self._error = error
        try:
            self._loop.call_soon_threadsafe(self._done.set)
            self._calls.wait_for(lambda: self._items.put(_END))
        except (RunCancelled, RuntimeError):
            pass  # no one waits any more; RuntimeError: the event loop is gone

    def _pass_on(self, generator: Any) -> None:
        try:
            for item in generator:
                self._deliver(item)
        finally:
            generator.close()

    def _deliver(self, item: Any) -> None:
        self._calls.wait_for(lambda: self._items.put(item))
