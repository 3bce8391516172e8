"""Sessions in lines: those of this folder or of all, numbered; going to one, beginning one, trying again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from dragoman.text.visible import label
from dragoman.tui.local_host.session_rows import in_order

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.tui.lines.client import LineClient
    from dragoman.tui.values import ListedSession

_FOLDER: Final = 50  # characters; of a longer path the end says more


async def list_sessions(client: LineClient, words: str) -> None:
    """List the sessions of the folder; with `all`, or if it has none, of every folder. Raises: RequestError."""
    rows = in_order(await client.talk.sessions())
    here = [row for row in rows if row.folder == client.talk.folder]
    client.rows = rows if words == "all" or not here else here
    if not rows:
        client.write("note: there are no sessions")
        return
    for number, row in enumerate(client.rows, 1):
        client.write(f"{number}: {', '.join(_parts(row, client.talk.folder))}")
    left = len(rows) - len(client.rows)
    more = f"; /sessions all shows {left} of other folders" if left else ""
    client.write(f"note: /open N goes to one{more}")


def _parts(row: ListedSession, folder: str) -> Iterator[str]:
    yield row.word
    yield label(row.title or row.name or row.session_id, 60)
    yield label(row.agent, 30)
    if row.folder != folder:
        home = os.path.expanduser("~")
        place = f"~{row.folder[len(home) :]}" if row.folder.startswith(f"{home}/") else row.folder
        yield label(place if len(place) <= _FOLDER else f"…{place[-_FOLDER:]}", _FOLDER + 1)
    if row.steps_total:
        yield f"step {row.steps_done} of {row.steps_total}"
    if row.questions:
        yield f"{row.questions} question{'s' if row.questions != 1 else ''}"
    if row.cost:
        yield label(row.cost, 20)


async def open_session(client: LineClient, words: str) -> None:
    """Go to a session of the list. Raises: RequestError."""
    if not client.rows:
        client.rows = in_order(await client.talk.sessions())
    if not (words.isascii() and words.isdigit()) or not 1 <= int(words[:6]) <= len(client.rows):
        client.write("note: /open takes the number of a session in /sessions")
        return
    await client.talk.switch(client.rows[int(words) - 1])


async def begin_session(client: LineClient, words: str) -> None:
    """Begin a session, with another agent if one is named."""
    await client.talk.switch(None, agent=words or None)


async def retry(client: LineClient, words: str) -> None:
    """Try again after a failure."""
    client.talk.retry()
