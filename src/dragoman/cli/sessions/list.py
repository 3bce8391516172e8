"""`dragoman sessions list`: all sessions that are known, or those of one agent."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.console import write_json, write_note, write_table
from dragoman.cli.sessions.known import (
    Scope,
    document,
    handle,
    joined,
    listed_sessions,
    offline_sessions,
    opened_ledger,
)
from dragoman.cli.times import ago
from dragoman.registry.built_in import is_built_in

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.known import KnownSession

_TITLE: Final = 70  # characters of a title where there is no terminal
_SHORTEST_TITLE: Final = 20
_SHORTEST_ID: Final = 8


def list_sessions(call: CliCall) -> int:
    import asyncio

    scope = Scope(call)
    rows = asyncio.run(_gather(scope))
    limit = _limit(call.given.limit)
    show_rows(rows[:limit], is_json=call.given.json, has_agent=not scope.is_named)
    if limit is not None and len(rows) > limit:
        write_note(f"{len(rows) - limit} more; see --limit")
    return exits.OK


async def _gather(scope: Scope) -> list[KnownSession]:
    with opened_ledger() as ledger:
        rows = await offline_sessions(ledger, scope.agent if scope.is_named else None, scope.cwd)
    # Without a name, only an agent that the user made the default one is started.
    if scope.is_offline or not (scope.is_named or not is_built_in(scope.agent)):
        return rows
    return joined(rows, await _listed(scope, has_others=bool(rows)))


async def _listed(scope: Scope, *, has_others: bool) -> list[KnownSession]:
    from dragoman.errors import CapabilityError, DragomanError

    try:
        return await listed_sessions(scope.agent, scope.here, scope.cwd)
    except CapabilityError as error:
        if not has_others:
            raise exits.CliError(
                str(error), hint="not every agent can list its sessions, and the ledger has none of it"
            ) from None
        write_note("the agent does not list its sessions; these are from the ledger")
    except (DragomanError, exits.CliError) as error:
        if scope.is_named:
            raise
        write_note(f"{scope.agent.name} could not be asked for its sessions: {error}")
    return []


def show_rows(rows: list[KnownSession], *, is_json: bool, has_agent: bool) -> None:
    """Write sessions to stdout, for people or for programs."""
    if is_json:
        write_json([document(row) for row in rows])
    elif rows:
        header = ["NR", "SESSION", "UPDATED", *(["AGENT"] if has_agent else []), "FOLDER", "TITLE"]
        write_table(header, _table(rows, has_agent=has_agent))
    else:
        write_note("there are no sessions")


def _table(rows: list[KnownSession], *, has_agent: bool) -> list[list[str]]:
    """Return the rows for people: on a terminal short enough for its width, elsewhere with whole ids."""
    from dragoman.text.terminal import cells, one_line, shorten

    is_terminal = sys.stdout.isatty()
    length = _prefix_length(rows) if is_terminal else None
    found, titles = [], []
    for row in rows:
        number = "-" if row.entry is None else handle(row)
        agent = [shown_agent(row)] if has_agent else []
        found.append([number, row.session_id[:length], shown_time(row), *agent, shown_folder(row.folder)])
        state = "" if row.entry is None or row.entry.state == "ended" else f" ({row.entry.state})"
        if row.hosted is not None:
            attached = f", {row.hosted.attached} attached" if row.hosted.attached else ""
            state = f" ({row.hosted.state}{attached})"
        titles.append((one_line(row.shown_title), state))
    room = _TITLE
    if is_terminal:
        used = sum(max(*map(cells, column), 7) + 2 for column in zip(*found, strict=True))
        room = max(_SHORTEST_TITLE, shutil.get_terminal_size().columns - used)
    for line, (title, state) in zip(found, titles, strict=True):
        line.append(f"{shorten(title, room - len(state)) or '-'}{state}")
    return found


def _prefix_length(rows: list[KnownSession]) -> int:
    """Return how much of an id is needed to name one of these sessions: commands take the beginning of an id."""
    ids = {row.session_id for row in rows}
    length = _SHORTEST_ID
    while len({session_id[:length] for session_id in ids}) < len(ids):
        length += 1
    return length


def shown_folder(path: str) -> str:
    """Return a folder, on a terminal with `~` for the user's home."""
    home = os.environ.get("HOME", "").rstrip("/")
    if sys.stdout.isatty() and home and (path == home or path.startswith(f"{home}/")):
        return f"~{path[len(home) :]}"
    return path


def shown_agent(row: KnownSession) -> str:
    """Return the name of its agent, or its command without the folder of the program."""
    from dragoman.text.terminal import one_line, shorten

    program, space, rest = row.agent.partition(" ")
    return shorten(one_line(f"{program.rpartition('/')[2]}{space}{rest}" if space else row.agent), 30)


def shown_time(row: KnownSession) -> str:
    """Return when it last changed: how long ago on a terminal, else as it was reported."""
    import time

    if row.updated_at is None:
        return "-"
    return ago(row.updated_at, time.time()) if sys.stdout.isatty() else row.updated_at


def _limit(word: str | None) -> int | None:
    if word is None:
        return None
    if not word.isdecimal() or int(word) < 1:
        raise exits.CliError(f"--limit takes a number above 0, not {word!r}", hint="see dragoman sessions --help")
    return int(word)
