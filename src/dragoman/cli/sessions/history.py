"""The history of one session, from where it is known: the ledger, the built-in agent's store, or the agent itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dragoman.cli import exits
from dragoman.cli.named_agent import short_connection
from dragoman.cli.sessions.known import Scope, listed_sessions, offline_sessions, opened_ledger, pick, store_path
from dragoman.state import SessionState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from dragoman.cli.sessions.known import KnownSession
    from dragoman.view import Block, ShownTerminal

_MESSAGES = 100  # of the built-in agent's store, read at a time


class SessionHistory(NamedTuple):
    """A session and everything that was shown in it."""

    session: KnownSession
    state: SessionState
    terminals: Mapping[str, ShownTerminal]

    def blocks(self) -> list[Block]:
        from dragoman.view import blocks_of

        return blocks_of(self.state, self.terminals)

    @property
    def title(self) -> str:
        return self.session.title or (self.session.entry.first_prompt if self.session.entry else "") or "Session"

    def facts(self) -> list[tuple[str, str]]:
        """Return what stands above a conversation."""
        row, entry = self.session, self.session.entry
        facts = [("agent", row.agent), ("session", row.session_id), ("folder", row.folder)]
        if entry is not None:
            facts += [("started", entry.created_at), ("updated", entry.updated_at)]
            if entry.state == "ended":
                facts.append(("exit code", "" if entry.exit_code is None else str(entry.exit_code)))
            else:
                facts.append(("state", entry.state))
            facts.append(("error", entry.error or ""))
            facts.append(("files", ", ".join(f"{file.path} ({file.change})" for file in entry.files[:50])))
        else:
            facts.append(("updated", row.updated_at or ""))
        usage, cost = self.state.usage, self.state.cost
        if usage is not None:
            facts.append(("context", f"{usage.used} of {usage.size} tokens"))
        if cost is not None:
            facts.append(("cost", f"{cost.amount:g} {cost.currency}"))
        return facts


async def read_history(scope: Scope, word: str) -> SessionHistory:
    """Find a session and read its history.

    Raises:
        CliError: there is no such session, or its history cannot be read.
    """
    from dragoman.store.ledger_record import replay_turns

    agent = scope.agent if scope.is_named else None
    with opened_ledger() as ledger:
        found = await offline_sessions(ledger, agent, None)
        try:
            row = pick(word, found, ledger, scope.agent_name, scope.cwd)
        except exits.CliError:
            if agent is None or scope.is_offline or any(word == session.session_id for session in found):
                raise
            row = pick(word, await _listed(scope), None, None, scope.cwd)
        if row.is_stored:  # it has the turns of other clients, too
            return SessionHistory(row, await _stored_history(row), {})
        if row.entry is not None and ledger is not None:
            return SessionHistory(row, *replay_turns(ledger.turns(row.entry.number)))
        if row.hosted is not None and agent is None:
            word = row.hosted.name or row.hosted.session_id
            hint = f"dragoman sessions watch {word} shows it while the host runs"
            raise exits.CliError(f"{word} is in the local host only, not in the ledger", hint=hint)
    return SessionHistory(row, await _loaded_history(scope, row), {})


async def _listed(scope: Scope) -> list[KnownSession]:
    from dragoman.errors import CapabilityError

    try:
        return await listed_sessions(scope.agent, scope.here, None)
    except CapabilityError:
        return []


async def _stored_history(row: KnownSession) -> SessionState:
    """Read a session of the built-in agent, as it would be loaded."""
    from dragoman.builtin.replay import stored_updates
    from dragoman.state import fold_all
    from dragoman.store.messages import message_from_row
    from dragoman.store.sessions import Store

    assert row.is_stored
    store, state, after = await Store.open(store_path()), SessionState(), None
    try:
        while rows := await store.messages(row.session_id, after=after, limit=_MESSAGES):
            for message in rows:
                fold_all(state, stored_updates(message_from_row(message), shows_compactions=True))
            after = rows[-1].id
    finally:
        await store.close()
    return state


async def _loaded_history(scope: Scope, row: KnownSession) -> SessionState:
    """Let the agent replay a session that only it knows."""
    from dragoman.schema import is_advertised

    async with short_connection(scope.agent, scope.here) as agent:
        if not is_advertised(agent.capabilities, "loadSession"):
            raise exits.CliError(
                f"{row.session_id} is known only to the agent, which cannot load it",
                hint="sessions that dragoman exec ran are in the ledger and need no agent",
            )
        session = await agent.load_session(row.session_id, row.folder)
        return session.state
