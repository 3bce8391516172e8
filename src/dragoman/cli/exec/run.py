"""One run from its options to its result: the agent, the session, the turn, and every way out of them.

Owns the order of things and what a signal, a timeout or an error means at each step. The promise: whatever happens,
one result is written, the exit code fits it, and no process is left. Does not know how anything is shown or asked.
"""

from __future__ import annotations

import gc
import signal
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.cli.exec.exit_code import Facts, exit_code_of, note_error
from dragoman.cli.exec.output import Output
from dragoman.cli.exec.request import Plan, end_program, read_plan, start_program
from dragoman.cli.exec.signals import Signals, Terminated, terminable

if TYPE_CHECKING:
    import asyncio

    from dragoman.cli.command import Call
    from dragoman.cli.exec.connection import Connected
    from dragoman.cli.exec.result import Result
    from dragoman.client import Session
    from dragoman.process.launch import Launched

# A cancelled agent is given this long to answer. Real ones need up to a second; some never listen.
CANCEL_SECONDS: Final = 5.0


def execute(call: Call) -> int:
    """Does one run and returns its exit code.

    Raises:
        OSError: stdout could not be written.
    """
    run = Run(Output(call.given.output or "text"))
    with terminable():
        try:
            run.begin(call)
            run.work()
        except (KeyboardInterrupt, Terminated) as ending:
            run.facts.signal = signal.SIGTERM if isinstance(ending, Terminated) else signal.SIGINT
        except Exception as error:
            run.fail(error)
        finally:
            run.abandon()
        return run.finish()


class Run:
    """What is known of one run so far."""

    def __init__(self, output: Output) -> None:
        self.facts = Facts()
        self.error: Exception | None = None
        self._output = output
        self._started = monotonic()
        self._plan: Plan | None = None
        self._program: Launched | None = None
        self._to: Connected | None = None
        self._task: asyncio.Task[None]
        self._asking: asyncio.Task[None] | None = None
        self._is_prompted = False
        self._is_stopping = False
        self._result: Result | None = None

    def begin(self, call: Call) -> None:
        """Reads what is to be done and starts the agent's program.

        Raises:
            Failure, ConfigError, StartFailed: something is wrong with it.
        """
        self._plan = read_plan(call, self._output)
        self._program = start_program(self._plan)

    def work(self) -> None:
        """The run itself; its result is written as soon as the agent has answered, before the agent is ended."""
        import asyncio

        with suppress(asyncio.CancelledError):  # our own doing: the facts, or the failure of stdout, say why
            asyncio.run(self._supervise())

    async def _supervise(self) -> None:
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        assert self._plan is not None
        self._task = task
        self._output.on_failure = task.cancel
        loop = asyncio.get_running_loop()
        seconds = self._plan.options.timeout_seconds
        if seconds is not None:
            loop.call_later(max(0.0, seconds - (monotonic() - self._started)), self._stop)
        with Signals(loop, self._stop), self._output.log():
            await self._converse(self._plan)

    async def _converse(self, plan: Plan) -> None:
        from dragoman.cli.exec.connection import Connected, connected, open_session
        from dragoman.cli.exec.prompt import blocks
        from dragoman.cli.exec.settings import apply_settings

        self._to = to = Connected(plan)
        program, self._program = self._program, None
        assert program is not None
        gc.enable()
        async with connected(to, program, self._output) as agent:
            content = blocks(plan.prompt, agent.capabilities.prompt_capabilities or None)
            to.session = session = await open_session(agent, plan)
            await apply_settings(session, plan.options, to.models)
            self._output.opened(to)
            turn = session.prompt(content)
            self._is_prompted = True
            async for update in turn:
                to.note(update)
                self._output.update(update, session.state)
            to.note_end(turn.result)
            answered = turn.result.stop_reason
            # Told to stop, an agent may still say that it is done: the run was cut short all the same.
            self.facts.stop_reason = answered if answered == "cancelled" or not self._is_stopping else None
            self._write_result()

    # Ways out

    def fail(self, error: Exception) -> None:
        """Something was raised; the first error counts."""
        if self.error is None:
            self.error = error
            note_error(self.facts, error)

    def abandon(self) -> None:
        """Ends a program that was started and not connected to."""
        if self._program is not None and self._plan is not None:
            end_program(self._plan, self._program)

    def finish(self) -> int:
        """Writes the result unless that is done, and gives the exit code.

        Raises:
            OSError: stdout could not be written.
        """
        if self._result is None and self._output.failure is None:
            self._write_result()
        if self._output.failure is not None:
            raise self._output.failure
        assert self._result is not None
        return self._result.exit_code

    def _stop(self, number: int = 0) -> None:
        """A signal (or, without one, the timeout): first the turn is cancelled, the second time everything ends.

        An answer that is already here stands: after it a signal only hastens the end of the agent.
        """
        if self._has_answer():
            if number:
                self._task.cancel()
            return
        is_first = not self._is_stopping
        self._is_stopping = True
        if number:
            self.facts.signal = self.facts.signal or number
        elif is_first:
            self.facts.is_timed_out = True
        else:
            return
        session = self._session
        if is_first and self._is_prompted and session is not None:
            self._output.note("cancelling the turn; once more to end at once" if number else "time is up: cancelling")
            loop = self._task.get_loop()
            self._asking = loop.create_task(self._ask_to_stop(session))
            loop.call_later(CANCEL_SECONDS, self._task.cancel)
        else:
            self._task.cancel()

    async def _ask_to_stop(self, session: Session) -> None:
        from dragoman.errors import ConnectionClosed

        with suppress(ConnectionClosed):  # the turn hears of it too
            await session.cancel()

    @property
    def _session(self) -> Session | None:
        return None if self._to is None else self._to.session

    def _has_answer(self) -> bool:
        return self._is_prompted and self._session is not None and not self._session.state.is_running

    # The result

    def _write_result(self) -> None:
        from dragoman.cli.exec.result_builder import build_result

        decisions = [] if self._to is None else self._to.consent.decisions
        self.facts.was_nobody_asked = any(decision.is_unasked for decision in decisions)
        code = exit_code_of(self.facts)
        duration_ms = round((monotonic() - self._started) * 1000)
        self._result = build_result(code, self.facts, self.error, self._plan, self._to, duration_ms)
        self._output.finish(self._result, self._session.state if self._session and self._is_prompted else None)
