"""The turns of a run in the ledger of sessions.

Owns when a turn is written: when it begins, from time to time while it runs, and when it ends. The file is opened and
written in threads, while the agent works. A session has one entry, under the id that its agent gave it, also if `exec`
and a host ran turns of it. A ledger that cannot be written costs a note, never the run.
"""

from __future__ import annotations

import shlex
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError, StoreError
from dragoman.runs.events import Opened, Updated

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from dragoman.client import RemoteAgent, Session
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.events import RunEvent
    from dragoman.runs.result import FileChange
    from dragoman.schema import v1
    from dragoman.state import SessionState
    from dragoman.store.ledger import EndedTurn, Ledger
    from dragoman.text.secrets import Secrets
    from dragoman.view.blocks import ShownTerminal

# What `kill -9` may cost of a running turn. Writing a long turn takes longer, so the pause grows with it.
SAVE_SECONDS: Final = 2.0
_SHARE: Final = 50  # at most one part in so many of a run is spent on saving


def ledger_name(entry: AgentEntry) -> str:
    """Return the name of an agent in the ledger: for a command after `--`, the command line."""
    return shlex.join(entry.command) if entry.source == "command" else entry.name


class RunLedger:
    """The ledger as one run uses it.

    Args:
        agent: the name of the agent in the ledger.
        command: its command line.
        roots: the folders of the session, its own first.
        secrets: masked in everything that is written.
        note: called with a sentence if a turn cannot be written; by any thread if `find` is given.
        state: what the session shows now.
        terminals: what the terminals of the last turn show now.
        find: the ledger of the next turn, None for none. Without it the user's own is opened, and closed at the end.
        number: the entry of the session, if that is known for sure.
        is_new: whether the agent has made the session for the turn that begins; without it, whether this run opened it.
        on_number: called in the event loop with the entry of the session.
        saves_every_seconds: how often a turn is written while it runs; None for not at all.
    """

    def __init__(
        self,
        agent: str,
        command: Sequence[str],
        roots: Sequence[str],
        *,
        secrets: Secrets,
        note: Callable[[str], object],
        state: Callable[[], SessionState | None],
        terminals: Callable[[], list[ShownTerminal]] = list,
        find: Callable[[], Ledger | None] | None = None,
        number: int | None = None,
        is_new: Callable[[], bool] | None = None,
        on_number: Callable[[int], object] | None = None,
        saves_every_seconds: float | None = SAVE_SECONDS,
    ) -> None:
        self._agent = agent
        self._command = command
        self._roots = roots
        self._secrets = secrets
        self._note = note
        self._state = state
        self._terminals = terminals
        self._find = find
        self.has_own_file = find is None
        """Whether `open` has a file to open."""
        self._entry = number
        self._is_new = is_new
        self._on_number = on_number
        self._saves_every = saves_every_seconds
        self._pause = saves_every_seconds or 0.0
        self._ledger: Ledger | None = None
        self._opened: Opened | None = None
        self._is_elsewhere = False
        self._turns_before = 0  # in the state, when the turn began
        self._begun: Future[int] | None = None
        self._ending: Future[None] | None = None
        self._timer: TimerHandle | None = None

    def open(self) -> None:
        """Open the file; called in a thread while the agent starts."""
        from dragoman.settings.places import data_dir
        from dragoman.store.ledger import FILE_NAME, Ledger

        try:
            self._ledger = Ledger.open(data_dir() / FILE_NAME)
        except (StoreError, OSError) as error:
            self._give_up(error)

    async def join(self, agent: RemoteAgent, session: Session) -> None:
        """Leave the turns to a host elsewhere that writes the same ledger: one session is one entry."""
        from dragoman.registry.elsewhere import host_of

        if not host_of(self._command):
            return
        from dragoman.settings.places import data_dir
        from dragoman.store.ledger import FILE_NAME, identify_ledger

        file = identify_ledger(data_dir() / FILE_NAME)
        with suppress(RequestError):  # it is not such a host
            asked = {"sessionId": session.id, "file": file}
            answer = await agent.request("_dragoman/ledger", asked)
            if file is not None and isinstance(answer, dict) and answer.get("isWritten") is True:
                self._is_elsewhere = True
                self.close()

    def take(self, event: RunEvent) -> None:
        """Take an event of the run: what happens in a turn is written soon."""
        if isinstance(event, Updated):
            if self._timer is None and self._begun is not None and self._saves_every is not None:
                import asyncio

                self._timer = asyncio.get_running_loop().call_later(self._pause, self._save)
        elif isinstance(event, Opened):
            self._opened = event

    def begin(self, prompt: Sequence[v1.ContentBlock], text: str = "") -> None:
        """Write that a turn begins; called before the prompt is sent. `text` is the prompt as a user reads it."""
        if self._find is not None:
            self._ledger = self._find()  # the settings may change from turn to turn
        opened = self._opened
        if self._ledger is None or self._is_elsewhere or opened is None:
            return
        from dragoman.store.ledger import NewEntry
        from dragoman.store.ledger_record import pack, record_prompt

        state = self._state()
        self._turns_before = 0 if state is None else len(state.turns)
        is_new = not (opened.is_resumed or self._turns_before) if self._is_new is None else self._is_new()
        text = text or " ".join(block.text for block in prompt if hasattr(block, "text"))
        mask = self._secrets.mask
        entry = NewEntry(
            agent=mask(self._agent),
            command=tuple(map(mask, self._command)),
            session_id=opened.session_id,
            folder=self._roots[0],
            directories=tuple(self._roots[1:]),
            title=self._title(),
            first_prompt=mask(" ".join(text.split())),
            can_reopen=opened.can_reopen,
            is_scripted=opened.is_scripted,
        )
        with suppress(StoreError):
            record = pack(record_prompt(prompt), self._secrets.mask_bytes)
            self._begun = self._ledger.begin_turn(entry, record, is_new=is_new, number=self._entry)
            if self._on_number is not None:
                self._keep_number(self._begun, self._on_number)
            if is_new:
                self._ledger.prune()

    def _keep_number(self, begun: Future[int], on_number: Callable[[int], object]) -> None:
        import asyncio

        loop = asyncio.get_running_loop()

        def note(number: int) -> None:
            self._entry = number
            on_number(number)

        def written(begun: Future[int]) -> None:  # called in the thread of the ledger
            if not begun.cancelled() and begun.exception() is None:
                with suppress(RuntimeError):  # the loop has ended
                    loop.call_soon_threadsafe(note, begun.result())

        begun.add_done_callback(written)

    def _save(self) -> None:
        self._timer = None
        if self._ledger is None or self._begun is None or self._saves_every is None:
            return
        started = monotonic()
        if self._begun.done() and self._begun.exception() is None:
            with suppress(StoreError):
                self._ledger.save_turn(self._begun.result(), self._record())
        self._pause = max(self._saves_every, (monotonic() - started) * _SHARE)

    def end(
        self,
        exit_code: int,
        *,
        stop_reason: str | None = None,
        error: str | None = None,
        files: Sequence[FileChange] = (),
    ) -> None:
        """Write how the turn ended, if it began."""
        begun, self._begun = self._begun, None
        if self._ledger is None or begun is None:
            return
        from dragoman.store.ledger import EndedTurn, TouchedFile

        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        mask = self._secrets.mask
        ended = EndedTurn(
            exit_code=exit_code,
            stop_reason=stop_reason,
            error=None if error is None else mask(error),
            title=self._title(),
            files=tuple(TouchedFile(mask(file.path), file.change) for file in files),
        )
        if self.has_own_file:
            wait((begun,))  # the run is over, and `close` is the next call; a host's loop must not wait
        begun.add_done_callback(partial(self._write_end, self._ledger, self._record(), ended))

    def _write_end(self, ledger: Ledger, record: bytes | None, ended: EndedTurn, begun: Future[int]) -> None:
        try:
            self._ending = ledger.end_turn(begun.result(), record, ended)
        except StoreError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file, with everything written; that can take as long as the agent takes to end."""
        if not self.has_own_file:
            return
        ending, self._ending = self._ending, None
        if ending is not None:
            try:
                ending.result()
            except StoreError as error:
                self._give_up(error)
        if self._timer is not None:
            self._timer.cancel()
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            ledger.close()

    def _title(self) -> str | None:
        state = self._state()
        return self._secrets.mask(state.title) if state is not None and state.title else None

    def _record(self) -> bytes | None:
        """Return the turn so far; None if it has not begun, because the prompt could not be sent."""
        from dragoman.store.ledger_record import pack, record_turn

        state = self._state()
        if state is None or len(state.turns) <= self._turns_before:
            return None
        return pack(record_turn(state, state.turns[-1], self._terminals()), self._secrets.mask_bytes)

    def _give_up(self, error: Exception) -> None:
        self._note(f"this run is not in the ledger of sessions: {error}")
        self.close()
