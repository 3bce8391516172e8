"""Which earlier session a run continues: `--continue`, `--resume last`, an id, the beginning of one, `@12`, a title.

The ledger knows the sessions of all agents; an agent that can list knows those of other clients, too, and which of them
still exist. Both are used. A word that neither names is passed to the agent as it is: it may be an id all the same.

Loaded for a run that continues a session: every other one starts without it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dragoman.cli.exits import CliError
from dragoman.cli.times import moment
from dragoman.errors import StoreError
from dragoman.registry.elsewhere import host_of
from dragoman.runs.ledger import ledger_name
from dragoman.schema import is_advertised

if TYPE_CHECKING:
    from dragoman.cli.exec.request import RunRequest
    from dragoman.client import RemoteAgent
    from dragoman.store.ledger import Ledger, LedgerEntry

_LIST = "dragoman sessions list"


async def find_session(agent: RemoteAgent, request: RunRequest) -> str:
    """Return the id of the session to continue.

    Raises:
        CliError: there is none, or the word names several.
    """
    ledger = _open_ledger()
    try:
        if request.options.resume == "last":
            return await _last_session(agent, request, ledger)
        found = _named_session(request, ledger)
        return await _id_at_host(agent, found) if host_of(request.entry.command) else found
    finally:
        if ledger is not None:
            ledger.close()


def _open_ledger() -> Ledger | None:
    from dragoman.settings.places import data_dir
    from dragoman.store.ledger import FILE_NAME, open_existing

    try:
        return open_existing(data_dir() / FILE_NAME)
    except (StoreError, OSError):  # the run itself reports it
        return None


async def _last_session(agent: RemoteAgent, request: RunRequest, ledger: Ledger | None) -> str:
    cwd, flag = request.options.cwd, request.options.resume_flag
    known = [] if ledger is None else ledger.entries(agent=ledger_name(request.entry), folder=cwd)
    times = {entry.session_id: moment(entry.updated_at) for entry in reversed(known) if not entry.is_replaced}
    can_list = is_advertised(agent.capabilities, "sessionCapabilities.list")
    # Some agents list all sessions, whatever folder they are asked for.
    found = [info async for info in agent.sessions(cwd=cwd) if is_same_folder(info.cwd, cwd)] if can_list else []
    if found:
        # What the agent does not list any more is gone. Agents list the newest first; if there are times, they decide.
        listed = {info.session_id: moment(info.updated_at or "") for info in found}
        return max(listed, key=lambda name: max(listed[name], times.get(name, 0.0)))
    is_hosted = can_list and bool(host_of(request.entry.command))  # the ledger has what was deleted there too
    if times and not is_hosted:
        return max(times, key=lambda name: times[name])
    where = "" if can_list else ", and the agent does not list its own"
    raise CliError(
        f"{flag}{'' if flag == '--continue' else ' last'}: this agent has no session in {cwd}{where}",
        hint="at a host, a session whose turn succeeded is deleted; the next run keeps it with --keep"
        if is_hosted
        else f"leave it out for a new session; sessions elsewhere: {_LIST}",
    )


async def _id_at_host(agent: RemoteAgent, id: str) -> str:
    """Return the id of a session at a host; the ledger may have it under the id that the host's agent gave it."""
    if is_advertised(agent.capabilities, "sessionCapabilities.list"):
        async for info in agent.sessions():
            own = info.meta.get("dragoman") if isinstance(info.meta, dict) else None
            if isinstance(own, dict) and own.get("agentSessionId") == id:
                return info.session_id
    return id


def _named_session(request: RunRequest, ledger: Ledger | None) -> str:
    word, cwd = request.options.resume or "", request.options.cwd
    found = [] if ledger is None else ledger.find(word, agent=ledger_name(request.entry))
    if not found and ledger is not None and host_of(request.entry.command):
        found = ledger.find(word)  # a host of this machine writes its sessions under the names of its agents
    if any(entry.session_id == word for entry in found):
        return word
    here = [entry for entry in found if is_same_folder(entry.folder, cwd)]
    match here or found:
        case [] if word.startswith("@"):
            raise CliError(f"--resume {word}: the ledger has no such session of this agent", hint=_LIST)
        case []:
            return word
        case [entry] if entry.is_replaced:
            raise CliError(
                f"--resume {word}: the agent has used the id {entry.session_id} for a newer session",
                hint=f"see what was done: dragoman sessions show @{entry.number}",
            )
        case [entry] if not here:
            raise CliError(f"--resume {word}: that is a session of {entry.folder}", hint=f"add --cwd {entry.folder}")
        case [entry]:
            return entry.session_id
        case several:
            raise CliError(f"--resume {word}: it names {len(several)} sessions: {_listed(several)}", hint=_LIST)


def _listed(entries: list[LedgerEntry]) -> str:
    shown = [f"@{entry.number} {entry.title or entry.first_prompt[:40]!r}" for entry in entries[:5]]
    return ", ".join(shown) + (", ..." if len(entries) > 5 else "")


def is_same_folder(one: str, other: str) -> bool:
    """Whether two paths are the same folder."""
    return os.path.realpath(one) == os.path.realpath(other)
