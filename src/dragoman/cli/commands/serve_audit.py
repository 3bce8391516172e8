"""`dragoman serve audit`: who did what at a host, from the audit log in its data folder."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, CliCall, CliCommand, CliOption

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dragoman.proxy.audit.files import AuditRecord

_LOOK_SECONDS: Final = 0.25
_COLUMNS: Final = frozenset(("v", "run", "host", "seq", "prev", "opens", "time", "kind", "user", "client", "session"))


def run(call: CliCall) -> int:
    from dragoman.cli.console import json_of, write_warning
    from dragoman.cli.serve.places import ServePlaces

    given = call.given
    places = ServePlaces(given.data)
    since, until = _time("--since", given.since), _time("--until", given.until)
    if not given.follow and not places.audit.is_dir():
        raise exits.CliError(
            f"{places.folder}: no host has written an audit log here", hint="name the data folder of a host with --data"
        )
    previous, is_whole = "", True
    try:
        for record in _records(places.audit, follows=given.follow):
            fields = record.fields
            before, previous = previous, record.hash
            if before and fields.get("prev") != before and "opens" not in fields:
                is_whole = False
                write_warning(f"record {record.seq} does not follow the one before it: the log was changed")
            if not _is_wanted(fields, given, since, until):
                continue
            shown = json_of({**fields, "hash": record.hash}) if given.json else _line(fields)
            sys.stdout.write(f"{shown}\n")
            sys.stdout.flush()
    except KeyboardInterrupt:
        if not given.follow:
            raise
    if not is_whole:
        write_warning(f"dragoman audit verify {places.audit} says where")
        return exits.CHECK_FAILED
    return exits.OK


def _is_wanted(fields: dict[str, Any], given: Any, since: str, until: str) -> bool:
    time = str(fields.get("time", ""))
    return (
        (not since or time >= since)
        and (not until or time < until)
        and given.user in (None, fields.get("user"))
        and given.session in (None, fields.get("session"))
        and (not given.kind or fields.get("kind") in given.kind)
    )


def _records(folder: Path, *, follows: bool) -> Iterator[AuditRecord]:
    """Yield the records in order; with `follows` those that are written from now on, too, without an end."""
    import time

    from dragoman.proxy.audit.files import AuditError, list_files, read_name

    last, offset = ("", 0), 0
    while True:
        try:
            files = list_files(folder)
        except AuditError:
            if not follows:
                raise
            files = []  # the host has not been started yet
        for path in files:
            name = read_name(path.name)
            if name < last:
                continue
            offset = offset if name == last else 0
            last = name
            for size, record in _read(path, offset):
                offset += size
                if record is not None:
                    yield record
        if not follows:
            return
        time.sleep(_LOOK_SECONDS)


def _read(path: Path, offset: int) -> Iterator[tuple[int, AuditRecord | None]]:
    """Yield the complete lines of a file behind a place: how long each is, and its record if it is one."""
    from dragoman.cli.console import write_warning
    from dragoman.proxy.audit.files import AuditRecord, number_of, open_file, read_line

    try:
        descriptor = open_file(path)
    except FileNotFoundError:  # retention removed it at this moment
        return
    with open(descriptor, "rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):  # it is being written, or a host was killed while it wrote
                return
            found = read_line(line.removesuffix(b"\n"))
            if found is None and line.strip():
                write_warning(f"{path} has a line that is not a record: it was changed, or cut off")
            yield len(line), None if found is None else AuditRecord(path, 0, number_of(found[0]), found[1], found[0])


def _line(fields: dict[str, Any]) -> str:
    from dragoman.text.terminal import one_line

    rest = {name: value for name, value in fields.items() if name not in _COLUMNS and value not in ("", None)}
    what = " ".join(f"{name}={_plain(value)}" for name, value in rest.items())
    columns = (str(fields.get("time", "")), f"{fields.get('kind', ''):15}", str(fields.get("user") or "-"))
    session = str(fields.get("session") or "-")
    return one_line(f"{columns[0]}  {columns[1]}  {columns[2]:12}  {session:26}  {what}".rstrip())


def _plain(value: object) -> str:
    if isinstance(value, dict):
        return ",".join(f"{name}:{_plain(found)}" for name, found in value.items())
    return ",".join(map(_plain, value)) if isinstance(value, list) else str(value)


def _time(flag: str, given: str | None) -> str:
    """Return a time as records have it, of `2026-11-17`, `2026-11-17T12:00Z` or `2h`."""
    if given is None:
        return ""
    from datetime import UTC, datetime, timedelta

    from dragoman.cli.serve.tokens import read_duration

    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        try:
            found = datetime.now(UTC) - timedelta(seconds=read_duration(given))
        except exits.CliError:
            raise exits.CliError(
                f"{flag}: {given!r} is not a time", hint="write it like 2026-11-17, 2026-11-17T12:30Z, 90m, 12h or 7d"
            ) from None
    aware = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return aware.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


COMMAND = CliCommand(
    run=run,
    description=(
        "Prints who did what at a host: connections with their tokens and devices, prompts, questions, answers and\n"
        "the rules that decided, cancels, modes and options, requests that change something, agents that ended. It\n"
        "has no text of prompts or answers. It reads the folder `audit` of the host's data, while the host runs and\n"
        "while it does not. The records are a chain of hashes: dragoman audit verify DATA/audit finds what was\n"
        "changed or removed, and dragoman audit export writes other forms (csv, cloudevents, otlp, ocsf)."
    ),
    options=(
        CliOption("--data", "the data folder of the host (default: ~/.local/share/dragoman/serve)", value="DIR"),
        CliOption("--since", "only from this time on: 2026-11-17, 2026-11-17T12:30Z, or 2h ago", value="TIME"),
        CliOption("--until", "only before this time", value="TIME"),
        CliOption("--user", "only of the sessions and connections of this user", value="USER"),
        CliOption("--session", "only of this session", value="ID"),
        CliOption("--kind", "only of this kind, such as prompt or answer", value="KIND", is_repeatable=True),
        CliOption("--follow", "go on, and print records as they are written, until Ctrl-C"),
        JSON._replace(help="write each record as JSON on a line of its own"),
    ),
    examples=(
        "dragoman serve audit --since 2h",
        "dragoman serve audit --user ada --kind answer --kind cancel",
        "dragoman serve audit --follow --json --data /var/lib/dragoman/serve",
        "dragoman audit verify /var/lib/dragoman/serve/audit",
    ),
)
