"""Hosted sessions in the ledger of sessions, so that `dragoman sessions` shows them next to those of `exec`.

A session has one entry, under the id that its agent gave it: an entry that `exec` wrote for the same session goes on.
A ledger that cannot be written costs a line in the log, never a turn.
"""

from __future__ import annotations

import logging
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dragoman.errors import StoreError
from dragoman.host.agents import command_of
from dragoman.store.ledger import EndedTurn, NewEntry
from dragoman.store.ledger_record import pack, record_prompt, record_turn
from dragoman.text.secrets import Secrets

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dragoman.client import Session
    from dragoman.host.agents import AgentSource, RunningAgent
    from dragoman.host.session import HostedSession
    from dragoman.host.working.prompts import HostedPrompt
    from dragoman.store.ledger import Ledger

_log = logging.getLogger("dragoman.host")


class SessionLedger:
    """Writes the turns of one session; does nothing without a ledger."""

    def __init__(self, ledger: Ledger | None, source: AgentSource | None) -> None:
        self._ledger = ledger
        self._command = command_of(source)
        self._number: Future[int] | None = None
        self._session: Session | None = None
        self._secrets = Secrets(os.environ)

    def begin(self, hosted: HostedSession, agent: RunningAgent, item: HostedPrompt) -> None:
        """A turn begins."""
        if self._ledger is None:
            return
        self._secrets = secrets = Secrets(os.environ, hosted.env or {})
        text = " ".join(block.text for block in item.blocks if hasattr(block, "text"))
        entry = NewEntry(
            agent=secrets.mask(hosted.record.agent),
            command=tuple(map(secrets.mask, self._command)),
            session_id=agent.session.id,
            folder=hosted.record.cwd,
            directories=tuple(hosted.directories),
            title=_title(agent.session),
            first_prompt=secrets.mask(" ".join(text.split())),
            can_reopen=agent.can_come_back,
        )
        self._session = agent.session
        with suppress(StoreError):
            record = pack(record_prompt(item.blocks), secrets.mask_bytes)
            is_new = hosted.prompts.turn_number == 1
            self._number = self._ledger.begin_turn(entry, record, is_new=is_new)
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


def _title(session: Session) -> str | None:
    return session.state.title or None


def _exit_code(outcome: dict[str, Any]) -> int:
    """The code that `exec` would have ended with."""
    error = outcome.get("error")
    if error is not None:
        reason = error["data"].get("reason") if isinstance(error.get("data"), dict) else None
        return 4 if reason in ("agent_exited", "agent_lost") else 1
    return {"end_turn": 0, "cancelled": 130}.get(outcome["result"].get("stopReason"), 6)
