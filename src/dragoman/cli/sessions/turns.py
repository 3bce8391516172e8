"""The turns that `dragoman sessions diff`, `review`, `rewind` and `redo` are about.

Turns are in the snapshots of the folder they ran in. Without a word the last turn in the current folder is meant,
whichever session it belongs to, so that a run that is not in the ledger can be reviewed too.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.cli import exits
from dragoman.cli.sessions.known import LAST, Scope, offline_sessions, opened_ledger, pick
from dragoman.runs.changes import snapshots_folder
from dragoman.snapshots.overlap import stored_folders
from dragoman.snapshots.rewind import Rewinder
from dragoman.snapshots.session_turns import find_session_turns

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.snapshots.records import TurnChanges
    from dragoman.snapshots.session_turns import SessionTurns

_HINT = "dragoman exec follows changes unless --no-snapshots is given; docs/review.md"


def chosen_turn(found: SessionTurns, text: str | None) -> tuple[int, tuple[TurnChanges, ...]]:
    """Return the turn with a number, counted from 1; the last one without. Raises: CliError."""
    if text is None:
        return len(found.turns), found.turns[-1]
    if not text.isdigit() or not 1 <= int(text) <= len(found.turns):
        raise exits.CliError(
            f"--turn {text}: this session has turns 1 to {len(found.turns)} in the snapshots",
            hint="leave it out for the last one",
        )
    return int(text), found.turns[int(text) - 1]


def find_turns(call: CliCall) -> SessionTurns:
    """Return the turns of the session that the command line names. Raises: CliError."""
    import asyncio

    from dragoman.policy.paths import is_below

    base = snapshots_folder()
    word: str | None = call.given.id
    roots = stored_folders(base)
    if word is None or word == LAST:
        start = os.path.realpath(call.given.cwd or ".")
        around = [root for root in roots if is_below(start, root)]
        turns = [turn for root in around for turn in Rewinder(base, root).store.turns()]
        if not turns:
            raise exits.CliError(f"no turn was followed in {start}", hint=_HINT)
        last = max(turns, key=lambda turn: turn.ended_at)
        return _turns_of(base, last.session_id, last.agent)
    known = [(turn.session_id, turn.agent) for root in roots for turn in Rewinder(base, root).store.turns()]
    found = list(dict.fromkeys(session for session in known if session[0].startswith(word)))
    exact = [session for session in found if session[0] == word] or found
    chosen = exact[0] if len(exact) == 1 else asyncio.run(_picked(Scope(call), word))
    return _turns_of(base, *chosen)


async def _picked(scope: Scope, word: str) -> tuple[str, str]:
    with opened_ledger() as ledger:
        found = await offline_sessions(ledger, scope.agent if scope.is_named else None, None)
        row = pick(word, found, ledger, scope.agent_name, scope.cwd)
        return row.session_id, row.agent


def _turns_of(base: str, session_id: str, agent: str) -> SessionTurns:
    found = find_session_turns(base, session_id, agent)
    if found is None:
        raise exits.CliError(f"no turn of session {session_id} was followed", hint=_HINT)
    return found
