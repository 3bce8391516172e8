"""Hosted sessions in the ledger of sessions, so that `dragoman sessions` shows them next to those of `exec`.

A session has one entry, under the id that its agent gave it: an entry that `exec` wrote for the same session goes on.
A ledger that cannot be written costs a line in the log, never a turn.
"""

from __future__ import annotations

import asyncio
import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from dragoman.errors import StoreError
from dragoman.host.agents import command_of
from dragoman.store.ledger import EndedTurn, NewEntry
from dragoman.store.ledger_record import pack, record_prompt, record_turn
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from dragoman.client import Session
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.runs.agent_run import GuardedRun
    from dragoman.store.ledger import Ledger

_log = logging.getLogger("dragoman.host")
NUMBER: Final = "ledgerNumber"
"""The fact of a session that names its entry, because ids of agents are not always used once only."""


class SessionLedger:
    """Writes the turns of one session; does nothing without a ledger."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._ledger: Ledger | None = None
        self._number: Future[int] | None = None
        self._session: Session | None = None
        self._secrets = Secrets(os.environ)

    def begin(self, hosted: HostedSession, agent: GuardedRun, item: HostedPrompt) -> None:
        """A turn begins."""
        self._ledger = self._host.ledger_for(hosted)
        if self._ledger is None:
            return
        source = self._host.find_source(hosted.record.agent)
        self._secrets = secrets = Secrets(os.environ, hosted.env or {})
        text = " ".join(block.text for block in item.blocks if hasattr(block, "text"))
        entry = NewEntry(
            agent=secrets.mask(getattr(source, "ledger_name", None) or hosted.record.agent),
            command=tuple(map(secrets.mask, command_of(source))),
            session_id=agent.session.id,
            folder=hosted.record.cwd,
            directories=tuple(hosted.directories),
            title=_title(agent.session),
            first_prompt=secrets.mask(" ".join(text.split())),
            can_reopen=agent.can_come_back,
            is_scripted=getattr(source, "is_scripted", False) or _is_marked_scripted(agent.agent.capabilities.meta),
        )
        self._session = agent.session
        with suppress(StoreError):
            record = pack(record_prompt(item.blocks), secrets.mask_bytes)
            is_new = hosted.prompts.turn_number == 1
            number = hosted.facts.get(NUMBER)
            self._number = self._ledger.begin_turn(entry, record, is_new=is_new, number=number)
            self._number.add_done_callback(_noting(hosted))
            if is_new:
                self._ledger.prune()

    def end(self, outcome: dict[str, Any]) -> None:
        """The turn ended."""
        number, self._number = self._number, None
        session, self._session = self._session, None
        if self._ledger is None or number is None or session is None or not session.state.turns:
            return
        error = outcome.get("error")
        reason = (outcome.get("result") or {}).get("stopReason")
        ended = EndedTurn(
            exit_code=_exit_code(outcome),
            stop_reason=reason,
            error=None if error is None else self._secrets.mask(str(error.get("message"))),
            title=_title(session),
        )
        record = pack(record_turn(session.state, session.state.turns[-1]), self._secrets.mask_bytes)
        ledger = self._ledger

        def write(found: Future[int]) -> None:
            if found.exception() is not None:
                _log.warning("a hosted session is not in the ledger: %s", found.exception())
                return
            with suppress(StoreError):
                ledger.end_turn(found.result(), record, ended)

        number.add_done_callback(write)


def _noting(hosted: HostedSession) -> Callable[[Future[int]], None]:
    """Keeps the number of the entry with the session; the ledger calls back in its own thread."""
    loop = asyncio.get_running_loop()

    def note(number: int) -> None:
        if hosted.facts.get(NUMBER) != number and not hosted.is_closed:
            hosted.facts[NUMBER] = number
            hosted.describe()

    def found(written: Future[int]) -> None:
        if not written.cancelled() and written.exception() is None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(note, written.result())

    return found


def _is_marked_scripted(meta: object) -> bool:
    own = meta.get("dragoman") if isinstance(meta, dict) else None
    return isinstance(own, dict) and own.get("scripted") is True


def _title(session: Session) -> str | None:
    return session.state.title or None


def _exit_code(outcome: dict[str, Any]) -> int:
    """The code that `exec` would have ended with."""
    error = outcome.get("error")
    if error is not None:
        reason = error["data"].get("reason") if isinstance(error.get("data"), dict) else None
        return 4 if reason in ("agent_exited", "agent_lost") else 1
    return {"end_turn": 0, "cancelled": 130}.get(outcome["result"].get("stopReason"), 6)
