"""`dragoman sessions rename` and `delete`.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.console import write_note
from dragoman.cli.named_agent import find_agent, short_connection
from dragoman.cli.sessions.hosted import delete_hosted
from dragoman.cli.sessions.known import LAST, Scope, offline_sessions, opened_ledger, pick, store_path

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.known import KnownSession
    from dragoman.registry.agents import AgentEntry

_TITLE_CHARS = 200


def rename_session(call: CliCall) -> int:
    import asyncio

    title = " ".join((call.given.title or "").split())
    if call.given.title is None:
        raise exits.CliError("sessions rename needs a title", hint="dragoman sessions rename @12 'The login bug'")
    if len(title) > _TITLE_CHARS:
        raise exits.CliError(f"a title has at most {_TITLE_CHARS} characters", hint="write a shorter one")
    asyncio.run(_rename(Scope(call), call.given.id, title))
    write_note("the session is renamed" if title else "the session has the agent's title again")
    return exits.OK


async def _rename(scope: Scope, word: str, title: str) -> None:
    with opened_ledger() as ledger:
        found = await offline_sessions(ledger, scope.agent if scope.is_named else None, None)
        row = pick(word, found, ledger, scope.agent_name, scope.cwd)
        if row.entry is not None and ledger is not None:
            ledger.rename(row.entry.number, title)
        elif not row.is_stored:
            raise exits.CliError(
                "only sessions of the ledger and of the built-in agent can be renamed", hint="dragoman sessions list"
            )
    if row.is_stored and title:
        from dragoman.store.sessions import Store

        store = await Store.open(store_path())
        try:
            await store.update_session(row.session_id, title=title, updated_at=row.updated_at)
        finally:
            await store.close()


def delete_session(call: CliCall) -> int:
    import asyncio

    return asyncio.run(_delete(Scope(call), call.given.id))


async def _delete(scope: Scope, word: str) -> int:
    with opened_ledger() as ledger:
        found = await offline_sessions(ledger, scope.agent if scope.is_named else None, None)
        row: KnownSession | None = None
        try:
            row = pick(word, found, ledger, scope.agent_name, scope.cwd)
        except exits.CliError as error:
            # A word that names several must not delete one of them. Another one may be an id that only the agent knows.
            if "names" in error.message or word.startswith("@") or word == LAST or scope.is_offline:
                raise
        if scope.is_offline and (row is None or row.entry is None):
            raise exits.CliError(
                f"the session {word!r} is not in the ledger", hint="leave out --offline to delete it at its agent"
            )
        is_deleted = False
        if row is not None and row.hosted is not None and not scope.is_offline:
            delete_hosted(row.hosted)  # which asks the agent, if the agent can
            is_deleted = row.is_stored
        elif not scope.is_offline and (row is None or row.entry is None or not row.entry.is_replaced):
            is_deleted = await _delete_at_agent(scope, row, word)
        if row is not None and row.entry is not None and ledger is not None:
            ledger.delete([row.entry.number])
    if not is_deleted:
        where = "" if row is None or row.entry is None else " from the ledger"
        write_note(f"the session is deleted{where}; the agent may still have it")
        return exits.OK
    write_note("the session is deleted")
    return exits.OK


async def _delete_at_agent(scope: Scope, row: KnownSession | None, word: str) -> bool:
    """Delete a session at its agent; return False if the agent cannot, and the ledger has it."""
    from dragoman.errors import CapabilityError, ConfigError

    is_in_ledger = row is not None and row.entry is not None
    try:
        entry = scope.agent if scope.is_named or row is None else _agent_of(row, scope.here)
        async with short_connection(entry, scope.here) as agent:
            await agent.delete_session(word if row is None else row.session_id)
            return True
    except CapabilityError as error:
        if not is_in_ledger:
            raise exits.CliError(str(error), hint="not every agent can delete its sessions") from None
    except (ConfigError, exits.CliError) as error:
        if not is_in_ledger:
            raise
        raise exits.CliError(
            f"the agent cannot be asked to delete it: {error}",
            hint=f"dragoman sessions delete {word} --offline deletes it from the ledger only",
        ) from None
    return False


def _agent_of(row: KnownSession, here: str) -> AgentEntry:
    is_command = row.entry is not None and " " in row.agent
    if is_command and row.entry is not None:
        return find_agent("sessions", None, row.entry.command, here).entry
    return find_agent("sessions", row.agent, None, here).entry
