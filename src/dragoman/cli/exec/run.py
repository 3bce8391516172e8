"""One run of `dragoman exec`, from its options to its result.

Owns the order of the steps, and the meaning of a signal, a timeout or an error at each of them. Whatever happens, one
result is written, the exit code fits it, and no process is left. The agent is run by `dragoman.runs`, and how output is
shown is up to `view.py`.
"""

from __future__ import annotations

import gc
import os
import signal
from contextlib import contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING, Final

from dragoman.cli.console import shown_log
from dragoman.cli.exec.activity import Activity
from dragoman.cli.exec.exit_code import KINDS, RunFacts, exit_code_of, note_error
from dragoman.cli.exec.request import RunRequest, again, read_request, start_program
from dragoman.cli.exec.view import ExecView

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator
    from types import FrameType, TracebackType

    from dragoman.cli.command import CliCall
    from dragoman.process.launch import Launched
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.runs.events import RunEvent
    from dragoman.runs.result import Error, RunPatch, RunResult, RunRetry

# How long a cancelled agent may take to answer. Real ones need up to a second; some never react.
CANCEL_SECONDS: Final = 5.0
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
_HANDLED: Final = 2  # signals that are passed to `stop`; the next one ends the process


def execute(call: CliCall) -> int:
    """Do one run and return its exit code.

    Raises:
        OSError: stdout could not be written.
    """
    run = Run(ExecView(call.given.output or "text"))
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
    """The state of one run: of the tries with `--retries`, the last one."""

    def __init__(self, view: ExecView) -> None:
        self.facts = RunFacts()
        self._error: Exception | None = None
        self._view = view
        self._activity = view.activity = Activity()
        self._retries: list[RunRetry] = []
        self._request: RunRequest | None = None
        self._program: Launched | None = None
        self._run: GuardedRun | None = None
        self._task: asyncio.Task[None]
        self._cancelling: asyncio.Task[None] | None = None
        self._is_stopping = False
        self._result: RunResult | None = None

    def begin(self, call: CliCall) -> None:
        """Read the input and start the agent's program.

        Raises:
            CliError, ConfigError, StartFailed: the input is wrong, or the program cannot be started.
        """
        self._request = read_request(call, self._view)
        self._program = start_program(self._request)
        self._view.starting(self._request.entry.name, self._request.described_agent)

    def work(self) -> None:
        """Run the turn; its result is written as soon as the agent has answered, before the agent is ended.

        A run that failed for a reason that may pass is tried again, as far as `--retries` allows; one that wants a
        login, once after the user at this terminal has logged in.
        """
        self._try_once()
        if self.facts.is_login_needed and self._begin_after_login():
            self._try_once()
        while self._begin_retry():
            self._try_once()

    def _try_once(self) -> None:
        import asyncio

        try:
            with suppress(asyncio.CancelledError):  # by `_stop` or a failure of stdout; the facts hold the reason
                asyncio.run(self._supervise())
        except Exception as error:
            self.fail(error)

    async def _supervise(self) -> None:
        import asyncio

        task = asyncio.current_task()
        assert task is not None
        assert self._request is not None
        self._task = task
        self._view.on_failure = task.cancel
        loop = asyncio.get_running_loop()
        seconds = self._request.options.timeout_seconds
        if seconds is not None:
            loop.call_later(max(0.0, seconds - self._activity.elapsed_seconds), self._stop)
        with Signals(loop, self._stop), shown_log(self._view.note), self._view.ticking(loop):
            await self._converse(self._request)

    async def _converse(self, request: RunRequest) -> None:
        from dragoman.cli.exec.prompt import blocks
        from dragoman.cli.exec.setup import agent_transport, make_opening, make_run, protocol_of
        from dragoman.cli.spared import note_spared

        options = request.options
        self._run = self._view.run = run = make_run(request, self._view, self._taken)
        program, self._program = self._program, None
        assert program is not None
        gc.enable()
        try:
            transport = agent_transport(program, request, self._view)
            # The only unstable member that a run may send is the system prompt.
            is_draft = request.passed.system_prompt is not None
            await run.start(transport, protocol=protocol_of(options), unstable=is_draft)
            content = blocks(request.prompt, run.agent.capabilities.prompt_capabilities or None)
            await run.open(await make_opening(run.agent, request))
            end = await run.prompt(content, text=request.prompt.text, copies_before=options.patch is not None)
            if end.error is not None:
                raise end.error
            self.facts.stop_reason = run.record.stop_reason
            self.facts.is_empty = run.record.is_empty(run.session.state)
            self.facts.lost_messages = run.lost_messages
            if not self._can_retry():
                self._write_result()
                if options.holds_agent:
                    from dragoman.cli.exec.hold import wait_for_stdin

                    await wait_for_stdin()
                is_elsewhere = "connect" in request.entry.command  # a cheap look; the rest is for those few runs
                is_done = self._result is not None and self._result.exit_code == 0
                if is_elsewhere and is_done and not options.keeps_session:
                    from dragoman.cli.exec.setup import delete_at_host

                    await delete_at_host(run, request, self._view)
        finally:
            await run.close()
            self._view.agent_log(b"", is_end=True)
            note_spared(request.entry.quirks, program.marker, self._view.note)

    def _taken(self, event: RunEvent) -> None:
        """Take an event of the run: it is shown, and a violation may end the turn."""
        self._view.take(event)
        if getattr(event, "violation", None) is not None:
            self.facts.has_violation = True
            self._stop_on_violation("the violation")
        elif getattr(event, "unjudged", None) is not None:
            self._stop_on_violation("what cannot be judged")

    # Another try

    def _can_retry(self) -> bool:
        """Return whether the run failed in a way that may pass, and may be tried again."""
        if self._request is None or len(self._retries) >= self._request.options.retries or self._is_stopping:
            return False
        from dragoman.cli.exec.retry import may_pass

        self._note_decisions()
        if not may_pass(self.facts, self._error):
            return False
        if self._run is not None:
            self._run.end_now()
        return self._run is None or not self._run.record.may_have_changed

    def _begin_retry(self) -> bool:
        """Wait, and start the agent again; return False if the run is over."""
        if self._result is not None or self._view.failure is not None or not self._can_retry():
            return False
        from dragoman.cli.exec.retry import wait_seconds
        from dragoman.runs.result import RunRetry

        assert self._request is not None
        number, limit = len(self._retries) + 1, self._request.options.timeout_seconds
        seconds = wait_seconds(number, self._error)
        if limit is not None and self._activity.elapsed_seconds + seconds >= limit:
            return False
        code = exit_code_of(self.facts)
        message = self._explain(code, self._known_result()).message
        self._retries.append(RunRetry(KINDS[code], message, round(seconds * 1000)))  # type: ignore[arg-type]
        self._view.retrying(self._retries[-1], number, self._request.options.retries)
        sleep(seconds)  # a signal ends it with an exception
        self._start_again(again(self._request, number, self._view))
        return True

    def _begin_after_login(self) -> bool:
        """Let the user log in on this terminal, and start the agent again; return False if there was no login."""
        request, has_run = self._request, self._run is not None and self._run.record.may_have_changed
        if request is None or self._result is not None or has_run:
            return False
        if self._view.form not in ("text", "json") or request.options.recording is not None:
            return False  # a stream of events and a recording are of one try
        from dragoman.cli.exec.login import log_in_on_terminal

        message = self._explain(exit_code_of(self.facts), self._known_result()).message
        if not log_in_on_terminal(request.entry, message, self._view.note):
            return False
        self._start_again(request)
        return True

    def _start_again(self, request: RunRequest) -> None:
        self._close_ledger()
        self.facts, self._error, self._run, self._view.run = RunFacts(), None, None, None
        self._activity.restart()
        self._request = request
        self._program = start_program(request)
        self._view.starting(request.entry.name, request.described_agent)

    # How a run ends

    def fail(self, error: Exception) -> None:
        """Record an error; the first one counts."""
        if self._error is None:
            self._error = error
            note_error(self.facts, error)

    def abandon(self) -> None:
        """End a program that was started and not connected to."""
        if self._program is not None:
            self._program.end()
        if self._request is not None:
            self._request.sandboxes.close()

    def finish(self) -> int:
        """Write the result unless it was written, and return the exit code.

        Raises:
            OSError: stdout could not be written.
        """
        if self._result is None and self._view.failure is None:
            self._write_result()
        self._close_ledger()
        if self._view.failure is not None:
            raise self._view.failure
        assert self._result is not None
        return self._result.exit_code

    def _close_ledger(self) -> None:
        if self._run is not None and self._run.ledger is not None:
            self._run.ledger.close()

    def _stop(self, number: int = 0) -> None:
        """Handle a signal, or the timeout if `number` is 0: cancel the turn the first time, end everything the second.

        If the agent has answered already, the answer counts, and a signal only ends the agent sooner.
        """
        state = None if self._run is None else self._run.state
        is_prompted = self._run is not None and self._run.is_prompted
        if is_prompted and state is not None and not state.is_running:
            if number:
                self._is_stopping = True
                self._task.cancel()
            return
        is_first = not self._is_stopping
        self._is_stopping = True
        if number:
            self.facts.signal = self.facts.signal or number
        elif is_first:
            self.facts.is_timed_out = True
            self.facts.waiting_for = self._activity.now(state, self._view.stderr_tail)
        else:
            return
        if is_first and is_prompted:
            self._cancel("cancelling the turn; Ctrl-C again ends at once" if number else "time is up; cancelling")
        else:
            self._task.cancel()

    def _stop_on_violation(self, reason: str) -> None:
        """Cancel the turn at the first violation or thing that cannot be judged, if the user wants that."""
        assert self._request is not None
        if self._request.options.stops_on_violation and not self.facts.has_violation:
            self.facts.has_unjudged = True
        state = None if self._run is None else self._run.state
        is_running = state is not None and state.is_running
        if self._request.options.stops_on_violation and is_running and not self._is_stopping:
            self._is_stopping = True
            self._cancel(f"cancelling the turn because of {reason}")

    def _cancel(self, note: str) -> None:
        assert self._run is not None
        self._view.note(note)
        self._cancelling = self._task.get_loop().create_task(self._run.cancel(give_up_seconds=CANCEL_SECONDS))

    # The result

    def _write_result(self) -> None:
        self._note_decisions()
        self._activity.enter("done")
        if self._run is not None:
            self._run.end_now()
        result = self._known_result()
        result.patch = self._write_patch()
        code = result.exit_code = exit_code_of(self.facts)
        result.stop_reason = self.facts.stop_reason
        result.error = None if code == 0 else self._explain(code, result)
        result.duration_ms = round(self._activity.elapsed_seconds * 1000)
        result.durations = self._activity.durations()
        result.retries = list(self._retries)
        self._result = result
        run = self._run
        self._view.finish(result, run.state if run is not None and run.is_prompted else None)
        if run is not None and run.ledger is not None:
            run.ledger.end(
                result.exit_code,
                stop_reason=result.stop_reason,
                error=None if result.error is None else result.error.message,
                files=result.files_changed,
            )

    def _known_result(self) -> RunResult:
        """Return the result as far as anything is known about a turn."""
        from dragoman.runs.result import RunResult

        if self._run is not None:
            return self._run.record.result(self._run.state)
        if self._request is not None:
            from dragoman.runs.record import RunRecord

            return RunRecord(self._request.terms()).result(None)
        return RunResult.nothing()

    def _explain(self, code: int, result: RunResult) -> Error:
        from dragoman.cli.exec.error import explain  # only a run that failed needs it

        request = self._request
        return explain(
            code,
            self.facts,
            self._error,
            result,
            options=None if request is None else request.options,
            entry=None if request is None else request.entry,
            unasked_hint="" if self._run is None else self._run.guard.unasked_hint,
            stderr_tail=self._view.stderr_tail,
        )

    def _note_decisions(self) -> None:
        decisions = () if self._run is None else self._run.guard.decisions
        self.facts.could_not_ask = any(decision.is_unasked for decision in decisions)
        if self._request is not None and self._request.options.fails_on_deny:
            self.facts.was_denied = any(decision.action == "deny" for decision in decisions)

    def _write_patch(self) -> RunPatch | None:
        if self._request is None or self._request.options.patch is None:
            return None
        from dragoman.runs.patch import write_patch

        found = (b"", [], []) if self._run is None else self._run.make_patch()
        try:
            patch = write_patch(self._request.options.patch, *found)
        except OSError as error:
            self.fail(error)
            return None
        for left_out in patch.left_out:
            self._view.note(f"not in the patch: {left_out.path}: {left_out.reason}")
        return patch


class Terminated(BaseException):
    """SIGTERM arrived while no loop ran; like KeyboardInterrupt, it is not an Exception."""


@contextmanager
def terminable() -> Iterator[None]:
    """Make an exception of SIGTERM, while entered, so that a result can be written; if it is ignored, that stays."""
    before = signal.getsignal(signal.SIGTERM)
    if before is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


class Signals:
    """Ctrl-C and SIGTERM: while entered, calls `stop` on the loop for each signal.

    A signal handler is used instead of the loop's: the loop's would not run while stdout blocks, and the third Ctrl-C
    must end the process at once. What is still running then is killed by the guard of `dragoman.process`.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, stop: Callable[[int], None]) -> None:
        self._loop = loop
        self._stop = stop
        self._first = 0
        self._count = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> None:
        for number in _NUMBERS:
            before = signal.getsignal(number)
            if before is not signal.SIG_IGN:  # ignored on purpose, as in a shell's background job
                self._before[number] = before
                signal.signal(number, self._handle)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]  # as it was

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._first = self._first or number
        self._count += 1
        if self._count > _HANDLED:
            os._exit(128 + self._first)
        self._loop.call_soon_threadsafe(self._stop, number)


def _terminate(number: int, frame: FrameType | None) -> None:
    raise Terminated
