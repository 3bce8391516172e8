"""`dragoman sessions`: lists and deletes the sessions an agent has stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCommand, CliOption, Invocation
from dragoman.cli.named_agent import AGENT, find_agent, folder, short_connection

if TYPE_CHECKING:
    from dragoman.registry.agents import AgentEntry
    from dragoman.schema import v1

_SEE_HELP = "see dragoman sessions --help"


def run(call: Invocation) -> int:
    import asyncio

    given = call.given
    if (given.action == "delete") == (given.id is None):
        wrong = "delete needs the id of a session" if given.id is None else f"{given.action} does not take an id"
        raise exits.CliError(f"sessions {wrong}", hint=_SEE_HELP)
    if given.action == "delete" and given.json:
        raise exits.CliError("--json goes with list", hint=_SEE_HELP)
    cwd = None if given.cwd is None else folder("--cwd", given.cwd)
    here = cwd or folder("the current folder", ".")
    entry = find_agent("sessions", given.agent, call.program, here).entry
    if given.action == "delete":
        return asyncio.run(_delete(entry, here, given.id))
    return _show(asyncio.run(_list(entry, here, cwd)), is_json=given.json)


async def _list(entry: AgentEntry, here: str, cwd: str | None) -> list[v1.SessionInfo]:
    from dragoman.errors import CapabilityError

    async with short_connection(entry, here) as agent:
        try:
            found = [info async for info in agent.sessions(cwd=cwd)]
        except CapabilityError as error:
            raise exits.CliError(str(error), hint="not every agent can list its sessions") from None
    # Some agents list all sessions, whatever folder they are asked for.
    return found if cwd is None else [info for info in found if _is_in_folder(info, cwd)]


def _is_in_folder(info: v1.SessionInfo, cwd: str) -> bool:
    import os.path

    return os.path.realpath(info.cwd) == os.path.realpath(cwd)


async def _delete(entry: AgentEntry, here: str, session_id: str) -> int:
    from dragoman.cli.console import write_note
    from dragoman.errors import CapabilityError

    async with short_connection(entry, here) as agent:
        try:
            await agent.delete_session(session_id)
        except CapabilityError as error:
            raise exits.CliError(str(error), hint="not every agent can delete its sessions") from None
    write_note("the session is deleted")
    return exits.OK


def _show(found: list[v1.SessionInfo], *, is_json: bool) -> int:
    from dragoman.cli.console import write_json, write_note, write_table

    rows = [_row(info) for info in found]
    if is_json:
        write_json(rows)
    elif rows:
        shown = [[row[name] or "-" for name in ("session_id", "updated_at", "cwd", "title")] for row in rows]
        write_table(("SESSION", "UPDATED", "FOLDER", "TITLE"), shown)
    else:
        write_note("there are no sessions")
    return exits.OK


def _row(info: v1.SessionInfo) -> dict[str, Any]:
    return {
        "session_id": info.session_id,
        "cwd": info.cwd,
        "title": info.title or None,
        "updated_at": info.updated_at or None,
        "additional_directories": list(info.additional_directories_or_default),
    }


COMMAND = CliCommand(
    run=run,
    description=(
        "Lists the sessions an agent has stored, or deletes one. To continue one: dragoman exec --resume ID.\n"
        "Which sessions are stored, and for how long, is up to the agent."
    ),
    arguments=(
        Argument("action", "what to do", choices=("list", "delete")),
        Argument("id", "the session to delete", is_optional=True),
    ),
    options=(AGENT, CliOption("--cwd", "only the sessions of this folder", value="FOLDER"), JSON),
    examples=(
        "dragoman sessions list -a claude",
        "dragoman sessions list -a codex --cwd . --json",
        "dragoman sessions delete 0193ab -a claude",
        "dragoman sessions list -- my-agent --acp",
    ),
    takes_program=True,
)
