"""`dragoman sessions search`: the sessions that contain a text, without their agents.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.sessions.history import read_history
from dragoman.cli.sessions.known import Scope, document, handle, offline_sessions, opened_ledger
from dragoman.cli.sessions.list import shown_agent, shown_time

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.known import KnownSession
    from dragoman.store.ledger import Ledger

_AROUND: Final = 40  # characters of an excerpt on both sides


def search_sessions(call: CliCall) -> int:
    import asyncio

    wanted = call.given.id.casefold()
    if not wanted.strip():
        raise exits.CliError("sessions search needs a text", hint="dragoman sessions search 'import error'")
    found = asyncio.run(_search(Scope(call), wanted))
    if call.given.json:
        write_json([{**document(row), "excerpt": excerpt} for row, excerpt in found])
    elif found:
        rows = [[handle(row), shown_time(row), shown_agent(row), row.folder, excerpt] for row, excerpt in found]
        write_table(("NR", "UPDATED", "AGENT", "FOLDER", "FOUND"), rows)
    else:
        write_note("no session contains this text")
    return exits.OK


async def _search(scope: Scope, wanted: str) -> list[tuple[KnownSession, str]]:
    found = []
    with opened_ledger() as ledger:
        for row in await offline_sessions(ledger, scope.agent if scope.is_named else None, scope.cwd):
            async for text in _texts(scope, row, ledger):
                excerpt = _excerpt(text, wanted)
                if excerpt is not None:
                    found.append((row, excerpt))
                    break
    return found


async def _texts(scope: Scope, row: KnownSession, ledger: Ledger | None) -> Any:
    from dragoman.store.ledger_record import texts_of

    yield row.title or ""
    if row.entry is not None and ledger is not None:
        yield row.entry.first_prompt
        for path in row.entry.files:
            yield path.path
        for record in ledger.turns(row.entry.number):
            for text in texts_of(record):
                yield text
    elif row.is_stored:
        history = await read_history(scope, row.session_id)
        for text in _shown(history.blocks()):
            yield text


def _shown(blocks: Any) -> Iterator[str]:
    """Yield the texts of blocks, from their JSON."""
    import msgspec

    from dragoman.store.ledger_record import strings_of

    return strings_of(msgspec.to_builtins(blocks))


def _excerpt(text: str, wanted: str) -> str | None:
    at = text.casefold().find(wanted)
    if at < 0:
        return None
    start, end = max(0, at - _AROUND), at + len(wanted) + _AROUND
    shown = " ".join(text[start:end].split())
    return f"{'…' if start else ''}{shown}{'…' if end < len(text) else ''}"
