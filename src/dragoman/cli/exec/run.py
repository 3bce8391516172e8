"""One run of `dragoman exec`, from its options to its result.

Owns the order of the steps, and the meaning of a signal, a timeout or an error at each of them. Whatever happens, one
result is written, the exit code fits it, and no process is left. How output is shown is up to `output.py`.
"""

from __future__ import annotations

import gc
import os
import signal
import stat
from contextlib import contextmanager, suppress
from time import sleep
from typing import TYPE_CHECKING, Final

from dragoman.cli.exec.activity import Activity
from dragoman.cli.exec.exit_code import END_TURN, KINDS, RunFacts, exit_code_of, note_error
from dragoman.cli.exec.output import Output
from dragoman.cli.exec.request import RunRequest, again, read_request, start_program

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterator, Sequence
    from types import FrameType, TracebackType

    from dragoman.cli.command import CliCall
    from dragoman.cli.exec.connection import RunConnection
    from dragoman.cli.exec.ledger import RunLedger
    from dragoman.cli.exec.options import Options
    from dragoman.client import PromptTurn, Session
    from dragoman.process.launch import Launched
    from dragoman.runs.changes import RunChanges
    from dragoman.runs.result import LeftOut, RunPatch, RunResult, RunRetry, RunViolation, TreeChanges
    from dragoman.schema import v1

# How long a cancelled agent may take to answer. Real ones need up to a second; some never react.
CANCEL_SECONDS: Final = 5.0
_NUMBERS: Final = (signal.SIGINT, signal.SIGTERM)
_HANDLED: Final = 2  # signals that are passed to `stop`; the next one ends the process


def execute(call: CliCall) -> int:
    """Do one run and return its exit code.

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
    """The state of one run."""

    def __init__(self, output: Output) -> None:
        self.facts = RunFacts()
        self.error: Exception | None = None
        self._output = output
        self.activity = output.activity = Activity()
        self.retries: list[RunRetry] = []
        self.patch: RunPatch | None = None
        self.tree_changes: TreeChanges | None = None
        self._changes: RunChanges | None = None
        self._request: RunRequest | None = None
        self._program: Launched | None = None
        self._conn: RunConnection | None = None
        self._ledger: RunLedger | None = None
        self._task: asyncio.Task[None]
        self._cancelling: asyncio.Task[None] | None = None
        self._is_prompted = False
        self._is_stopping = False
        self._result: RunResult | None = None

    def begin(self, call: CliCall) -> None:
        """Read the input and start the agent's program.

        Raises:
            CliError, ConfigError, StartFailed: the input is wrong, or the program cannot be started.
        """
        self._request = read_request(call, self._output)
        self._program = start_program(self._request)
        self._output.starting(self._request)

    def work(self) -> None:
        """Run the turn; its result is written as soon as the agent has answered, before the agent is ended.

        A run that failed for a reason that may pass is tried again, as far as `--retries` allows.
        """
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
        self._output.on_failure = task.cancel
        loop = asyncio.get_running_loop()
        seconds = self._request.options.timeout_seconds
        if seconds is not None:
            loop.call_later(max(0.0, seconds - self.activity.elapsed_seconds), self._stop)
        with Signals(loop, self._stop), self._output.log(), self._output.ticking(loop):
            await self._converse(self._request)

    async def _converse(self, request: RunRequest) -> None:
        import asyncio

        from dragoman.cli.exec.connection import RunConnection, connect_agent, open_session
        from dragoman.cli.exec.ledger import RunLedger
        from dragoman.cli.exec.prompt import blocks
        from dragoman.cli.exec.settings import apply_settings, enter_asking_mode

        self._conn = conn = RunConnection(request)
        self._ledger = ledger = RunLedger(request, self._output)
        opening = asyncio.ensure_future(asyncio.to_thread(ledger.open))
        self._follow_changes(request, conn)
        program, self._program = self._program, None
        assert program is not None
        gc.enable()
        conn.on_violation = self._violated
        async with connect_agent(conn, program, self._output) as agent:
            self.activity.enter("opening")
            self._output.initialized(conn)
            arming = asyncio.ensure_future(asyncio.to_thread(conn.confinement.arm))
            content = blocks(request.prompt, agent.capabilities.prompt_capabilities or None)
            conn.session = session = await open_session(agent, request)
            await apply_settings(session, request.options, conn.models)
            if request.options.chooses_no_mode and not request.allows_all:
                for note in await enter_asking_mode(session, request.entry.facts):
                    self._output.note(note)
            self._output.opened(conn)
            await arming
            await opening
            await ledger.join(conn)
            if self._changes is not None:
                await self._changes.ready()
            ledger.begin(conn, content)
            turn = self._begin_turn(conn, session, content)
            try:
                await self._follow(conn, session, turn, ledger)
            finally:  # also if the agent died or the run was cancelled
                conn.confinement.compare()
            self._note_answer(conn, turn)
            await self._end_of_changes(session)
            if not self._can_retry():
                self._write_result()
                await self._hold(request)

    async def _follow(self, conn: RunConnection, session: Session, turn: PromptTurn, ledger: RunLedger) -> None:
        async for update in turn:
            conn.note(update)
            self.activity.note_update(update)
            self._output.update(update, session.state, conn.tools)
            ledger.update()
            violation = conn.violations.look(update, session)
            if violation is not None:
                self._violated(violation)

    async def _end_of_changes(self, session: Session) -> None:
        if self._changes is not None:
            await self._changes.finish(session)

    async def _hold(self, request: RunRequest) -> None:
        if request.options.holds_agent:
            from dragoman.cli.exec.hold import wait_for_stdin

            await wait_for_stdin()

    def _follow_changes(self, request: RunRequest, conn: RunConnection) -> None:
        if not request.options.follows_changes:
            return
        from dragoman.cli.exec.ledger import ledger_name
        from dragoman.runs.changes import RunChanges

        self._changes = RunChanges(
            ledger_name(request.entry),
            request.options.roots,
            self._output.note,
            left_out=_own_files(request.options),
        )
        self._changes.start()
        conn.changes = self._changes.service

    def _note_answer(self, conn: RunConnection, turn: PromptTurn) -> None:
        conn.note_end(turn.result)
        answered = turn.result.stop_reason
        # An agent that was asked to stop may still report that it is done; the run was interrupted all the same.
        self.facts.stop_reason = answered if answered == "cancelled" or not self._is_stopping else None
        self.facts.is_empty = answered == END_TURN and conn.is_empty_turn()

    def _begin_turn(self, conn: RunConnection, session: Session, content: Sequence[v1.ContentBlock]) -> PromptTurn:
        self.activity.enter("working")
        self._output.tick()
        conn.turn = turn = session.prompt(content)
        self._is_prompted = True
        return turn

    # Another try

    def _can_retry(self) -> bool:
        """Return whether the run failed in a way that may pass, and may be tried again."""
        if self._request is None or len(self.retries) >= self._request.options.retries or self._is_stopping:
            return False
        from dragoman.cli.exec.retry import has_changed_something, may_pass

        self._note_decisions()
        if not may_pass(self.facts, self.error) or has_changed_something(self._conn):
            return False
        if self._changes is not None:
            self._changes.end_now(self._session)
        return self._changes is None or not self._changes.has_changes

    def _begin_retry(self) -> bool:
        """Wait, and start the agent again; return False if the run is over."""
        if self._result is not None or self._output.failure is not None or not self._can_retry():
            return False
        from dragoman.cli.exec.error import explain
        from dragoman.cli.exec.retry import wait_seconds
        from dragoman.runs.result import RunRetry

        assert self._request is not None
        number, limit = len(self.retries) + 1, self._request.options.timeout_seconds
        seconds = wait_seconds(number, self.error)
        if limit is not None and self.activity.elapsed_seconds + seconds >= limit:
            return False
        code = exit_code_of(self.facts)
        message = explain(code, self.facts, self.error, self._request, self._conn, "").message
        self.retries.append(RunRetry(KINDS[code], message, round(seconds * 1000)))  # type: ignore[arg-type]
        self._output.retrying(self.retries[-1], number, self._request.options.retries)
        sleep(seconds)  # a signal ends it with an exception
        if self._ledger is not None:
            self._ledger.close()
        self.facts, self.error, self._conn, self._ledger = RunFacts(), None, None, None
        self._is_prompted = False
        self.activity.restart()
        self._request = again(self._request, number, self._output)
        self._program = start_program(self._request)
        self._output.starting(self._request)
        return True

    # How a run ends

    def fail(self, error: Exception) -> None:
        """Record an error; the first one counts."""
        if self.error is None:
            self.error = error
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
        if self._result is None and self._output.failure is None:
            self._write_result()
        if self._ledger is not None:
            self._ledger.close()
        if self._output.failure is not None:
            raise self._output.failure
        assert self._result is not None
        return self._result.exit_code

    def _stop(self, number: int = 0) -> None:
        """Handle a signal, or the timeout if `number` is 0: cancel the turn the first time, end everything the second.

        If the agent has answered already, the answer counts, and a signal only ends the agent sooner.
        """
        if self._has_answer():
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
            session, conn = self._session, self._conn
            tail = "" if conn is None else conn.stderr_tail
            self.facts.waiting_for = self.activity.now(None if session is None else session.state, tail)
        else:
            return
        session = self._session
        if is_first and self._is_prompted and session is not None:
            note = "cancelling the turn; Ctrl-C again ends at once" if number else "time is up; cancelling"
            self._begin_cancelling(session, note)
        else:
            self._task.cancel()

    def _violated(self, violation: RunViolation) -> None:
        """Report a violation, and cancel the turn at the first one if the user wants that."""
        assert self._request is not None
        self.facts.has_violation = True
        self._output.violated(violation)
        session, wants_stop = self._session, self._request.options.stops_on_violation
        if wants_stop and session is not None and session.state.is_running and not self._is_stopping:
            self._is_stopping = True
            self._begin_cancelling(session, "cancelling the turn because of the violation")

    def _begin_cancelling(self, session: Session, note: str) -> None:
        self._output.note(note)
        loop = self._task.get_loop()
        self._cancelling = loop.create_task(self._cancel_turn(session))
        loop.call_later(CANCEL_SECONDS, self._task.cancel)

    async def _cancel_turn(self, session: Session) -> None:
        from dragoman.errors import ConnectionClosed

        with suppress(ConnectionClosed):  # the turn fails for the same reason
            await session.cancel()

    @property
    def _session(self) -> Session | None:
        return None if self._conn is None else self._conn.session

    def _has_answer(self) -> bool:
        return self._is_prompted and self._session is not None and not self._session.state.is_running

    # The result

    def _write_result(self) -> None:
        from dragoman.cli.exec.result_builder import build_result

        self._note_decisions()
        self.activity.enter("done")
        self._collect_changes()
        self._write_patch()
        code = exit_code_of(self.facts)
        self._result = build_result(code, self, self._request, self._conn)
        self._output.finish(self._result, self._session.state if self._session and self._is_prompted else None)
        if self._ledger is not None:
            self._ledger.end(self._result)

    def _note_decisions(self) -> None:
        decisions = () if self._conn is None else self._conn.permissions.decisions
        self.facts.could_not_ask = any(decision.is_unasked for decision in decisions)
        if self._request is not None and self._request.options.fails_on_deny:
            self.facts.was_denied = any(decision.action == "deny" for decision in decisions)

    def _collect_changes(self) -> None:
        if self._changes is not None:
            self._changes.end_now(self._session)
            self.tree_changes = self._changes.result()

    def _write_patch(self) -> None:
        if self._request is None or self._request.options.patch is None:
            return
        from dragoman.runs.patch import write_patch

        try:
            self.patch = write_patch(self._request.options.patch, *self._make_patch())
        except OSError as error:
            self.fail(error)
            return
        for each in self.patch.left_out:
            self._output.note(f"not in the patch: {each.path}: {each.reason}")

    def _make_patch(self) -> tuple[bytes, list[str], list[LeftOut]]:
        """The patch of everything that changed in the folders, or of what was seen to change if that is not known."""
        whole = None if self._changes is None else self._changes.patch()
        conn = self._conn
        if whole is not None:
            return whole
        if conn is None or conn.session is None or conn.patch is None:
            return b"", [], []
        changes = [change for workspace in conn.workspaces for change in workspace.journal.net()]
        state = conn.session.state
        return conn.patch.build(changes, state, state.turns[-1] if state.turns else None)


def _own_files(options: Options) -> list[str]:
    """The files that the run itself writes: the patch, a recording for each try, and redirected output."""
    found = [] if options.patch is None else [options.patch]
    for descriptor in (1, 2):
        with suppress(OSError):  # closed, or there is no such way to learn its name
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    if options.recording is not None:
        tries = range(1, options.retries + 1)
        found += [options.recording, *(f"{options.recording}.retry-{number}" for number in tries)]
    return found


class Terminated(BaseException):
    """SIGTERM arrived while no loop ran; like KeyboardInterrupt, it is not an Exception."""


@contextmanager
def terminable() -> Iterator[None]:
    """Turn SIGTERM into an exception, so that a result can be written; if it is ignored, that stays."""
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
