"""The entry of a run in the ledger of sessions.

Owns when a turn is written: when it begins, from time to time while it runs, and when it ends. The file is opened and
written in threads, while the agent works. A ledger that cannot be written costs a note, never the run.
"""

from __future__ import annotations

import shlex
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, Final

from dragoman.errors import RequestError, StoreError

if TYPE_CHECKING:
    from asyncio import TimerHandle
    from collections.abc import Callable, Sequence
    from concurrent.futures import Future

    from dragoman.client import RemoteAgent, Session
    from dragoman.registry.agents import AgentEntry
    from dragoman.runs.result import RunResult
    from dragoman.schema import v1
    from dragoman.store.ledger import Ledger
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
        entry: the program of the agent.
        roots: the folders of the session, its own first.
        secrets: masked in everything that is written.
        note: called with a sentence if the run cannot be written.
        terminals: what the terminals of the last turn show now.
    """

    def __init__(
        self,
        entry: AgentEntry,
        roots: Sequence[str],
        *,
        secrets: Secrets,
        note: Callable[[str], object],
        terminals: Callable[[], list[ShownTerminal]],
    ) -> None:
        self._entry = entry
        self._roots = roots
        self._secrets = secrets
        self._note = note
        self._terminals = terminals
        self._ledger: Ledger | None = None
        self._session: Session | None = None
        self._number: Future[int] | None = None
        self._ending: Future[None] | None = None
        self._timer: TimerHandle | None = None
        self._pause = SAVE_SECONDS

    def open(self) -> None:
        """Open the file; called in a thread while the agent starts."""
        from dragoman.settings.places import data_dir
        from dragoman.store.ledger import FILE_NAME, Ledger

        try:
            self._ledger = Ledger.open(data_dir() / FILE_NAME)
        except (StoreError, OSError) as error:
            self._give_up(error)

    async def join(self, agent: RemoteAgent, session: Session) -> None:
        """Leave the turn to a host elsewhere that writes the same ledger: one session is one entry."""
        from dragoman.registry.elsewhere import host_of

        if not host_of(self._entry.command):
            return
        from dragoman.settings.places import data_dir
        from dragoman.store.ledger import FILE_NAME, identify_ledger

        file = identify_ledger(data_dir() / FILE_NAME)
        with suppress(RequestError):  # it is not such a host
            asked = {"sessionId": session.id, "file": file}
            answer = await agent.request("_dragoman/ledger", asked)
            if file is not None and isinstance(answer, dict) and answer.get("isWritten") is True:
                self.close()

    def begin(
        self,
        agent: RemoteAgent,
        session: Session,
        prompt: Sequence[v1.ContentBlock],
        text: str,
        *,
        is_new: bool,
        is_scripted: bool,
    ) -> None:
        """Write that a turn begins; called before the prompt is sent. `text` is the prompt as a user reads it."""
        if self._ledger is None:
            return
        from dragoman.schema import is_advertised
        from dragoman.store.ledger import NewEntry
        from dragoman.store.ledger_record import pack, record_prompt

        self._session = session
        mask = self._secrets.mask
        offered = ("sessionCapabilities.resume", "loadSession")
        entry = NewEntry(
            agent=mask(ledger_name(self._entry)),
            command=tuple(map(mask, self._entry.command)),
            session_id=session.id,
            folder=self._roots[0],
            directories=tuple(self._roots[1:]),
            title=self._title(),
            first_prompt=mask(" ".join(text.split())),
            can_reopen=any(is_advertised(agent.capabilities, name) for name in offered),
            is_scripted=is_scripted,
        )
        with suppress(StoreError):
            record = pack(record_prompt(prompt), self._secrets.mask_bytes)
            self._number = self._ledger.begin_turn(entry, record, is_new=is_new)
            self._ledger.prune()

    def update(self) -> None:
        """Note that something happened in the turn; it is written soon."""
        if self._timer is None and self._number is not None and self._ledger is not None:
            import asyncio

            self._timer = asyncio.get_running_loop().call_later(self._pause, self._save)

    def _save(self) -> None:
        self._timer = None
        if self._ledger is None or self._number is None:
            return
        started = monotonic()
        if self._number.done() and self._number.exception() is None:
            with suppress(StoreError):
                self._ledger.save_turn(self._number.result(), self._record())
        self._pause = max(SAVE_SECONDS, (monotonic() - started) * _SHARE)

    def end(self, result: RunResult) -> None:
        """Write how the turn ended."""
        if self._ledger is None or self._number is None:
            return
        from dragoman.store.ledger import EndedTurn, TouchedFile

        if self._timer is not None:
            self._timer.cancel()
        mask = self._secrets.mask
        ended = EndedTurn(
            exit_code=result.exit_code,
            stop_reason=result.stop_reason,
            error=None if result.error is None else mask(result.error.message),
            title=self._title(),
            files=tuple(TouchedFile(mask(each.path), each.change) for each in result.files_changed),
        )
        try:
            self._ending = self._ledger.end_turn(self._number.result(), self._record(), ended)
        except StoreError as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the file, with everything written; that can take as long as the agent takes to end."""
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
        title = None if self._session is None else self._session.state.title
        return self._secrets.mask(title) if title else None

    def _record(self) -> bytes | None:
        """Return the turn so far; None if it has not begun, because the prompt could not be sent."""
        from dragoman.store.ledger_record import pack, record_turn

        state = None if self._session is None else self._session.state
        if state is None or not state.turns:
            return None
        return pack(record_turn(state, state.turns[-1], self._terminals()), self._secrets.mask_bytes)

    def _give_up(self, error: Exception) -> None:
        self._note(f"this run is not in the ledger of sessions: {error}")
        self.close()
