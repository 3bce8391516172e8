"""`dragoman sessions report`: one file for a bug report, with private contents removed, and a list of what is in it.

Loaded when its verb runs: the command line is read without it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from dragoman.cli import console, exits
from dragoman.cli.sessions.history import read_history
from dragoman.cli.sessions.hosted import hosted_sessions, pick_hosted
from dragoman.cli.sessions.known import Scope
from dragoman.host.local.place import find_places
from dragoman.host.local.start import find_host
from dragoman.host.local.thin import HostLost, HostRefused
from dragoman.trace.bug_report import ReportSource, build_report, report_name, settings_files, zip_of
from dragoman.trace.written import frame_of

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.history import SessionHistory
    from dragoman.cli.sessions.hosted import HostedEntry
    from dragoman.trace.entry import Frame

_METHOD = "_dragoman/traffic"


def report_session(call: CliCall) -> int:
    given = call.given
    source = _source(call)
    parts = build_report(source)
    path = given.o or report_name(source.session_id)
    if given.json:
        rows = [{"name": part.name, "bytes": len(part.data), "what": part.what} for part in parts]
        console.write_json({"file": None if given.dry_run else path, "parts": rows})
    else:
        console.write_table(("PART", "BYTES", "WHAT"), [(part.name, str(len(part.data)), part.what) for part in parts])
    if given.dry_run:
        return exits.OK
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except FileExistsError:
        raise exits.CliError(f"{path} is there already", hint="-o FILE writes to another file") from None
    with open(fd, "wb") as file:
        file.write(zip_of(parts))
    console.write_note(f"wrote {path}; look at it before you send it")
    return exits.OK


def _source(call: CliCall) -> ReportSource:
    """Return what the running host and the ledger know of the session. Raises: CliError if neither knows it."""
    word = call.given.id
    hosted, history = _hosted(word), _history(call, word)
    if hosted is None and isinstance(history, exits.CliError):
        raise history
    known = None if isinstance(history, exits.CliError) else history
    folder = hosted.folder if hosted is not None else known.session.folder if known is not None else "."
    frames: list[Frame] = []
    answer: dict[str, Any] = {}
    is_whole = True
    if hosted is not None:
        frames, answer, is_whole = _traffic(hosted)
    return ReportSource(
        session_id=hosted.session_id if hosted is not None else known.session.session_id if known is not None else word,
        agent=hosted.agent if hosted is not None else known.session.agent if known is not None else "",
        state="" if hosted is None else hosted.state,
        frames=frames,
        is_whole=is_whole,
        started_at=float(answer.get("startedAt", 0.0)),
        stderr=str(answer.get("stderr", "")),
        blocks=[] if known is None else known.blocks(),
        settings=settings_files(folder),
    )


def _hosted(word: str) -> HostedEntry | None:
    try:
        return pick_hosted(word, hosted_sessions())
    except exits.CliError:
        return None


def _history(call: CliCall, word: str) -> SessionHistory | exits.CliError:
    try:
        return asyncio.run(read_history(Scope(call), word))
    except exits.CliError as error:
        return error


def _traffic(row: HostedEntry) -> tuple[list[Frame], dict[str, Any], bool]:
    """Return the lines that the host has kept, its last answer, and whether they begin with the connection."""
    frames: list[Frame] = []
    answer: dict[str, Any] = {}
    connection, after, is_whole = 0, 0, True
    client = find_host(find_places())
    if client is None:
        console.write_note("no host runs, so that the messages between host and agent are not in it")
        return frames, answer, is_whole
    try:
        while True:
            answer = client.call(_METHOD, sessionId=row.session_id, connection=connection, after=after)
            if answer["connection"] != connection:
                frames, connection, is_whole = [], answer["connection"], True
                after = 0
            for frame in answer["frames"]:
                is_whole = is_whole and frame["n"] == after + 1
                frames.append(frame_of(frame))
                after = frame["n"]
            if not answer["frames"] or after >= answer["count"]:
                return frames, answer, is_whole
    except (HostLost, HostRefused) as error:
        console.write_note(f"the messages between host and agent are not in it: {error}")
        return frames, answer, is_whole
    finally:
        client.close()
