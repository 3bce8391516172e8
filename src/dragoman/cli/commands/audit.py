"""`dragoman audit`: the audit log of the guard."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dragoman.cli import exits
from dragoman.cli.command import JSON, Argument, CliCall, CliCommand, CliOption
from dragoman.cli.console import write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.proxy.audit.files import AuditRecord

_FORMS: Final = ("jsonl", "csv", "cloudevents", "otlp", "ocsf")
_ACTIONS: Final = ("verify", "head", "show", "export")
_HASH: Final = re.compile(r"[0-9a-f]{64}")


def run(call: CliCall) -> int:
    from dragoman.proxy.audit.files import AuditError

    given = call.given
    folder = _folder(given.folder)
    try:
        if given.action == "verify":
            return _verify(folder, _anchor(given.head), is_json=given.json)
        if given.action == "head":
            return _head(folder, is_json=given.json)
        if given.action == "show":
            return _show(folder, given, is_json=given.json)
        return _export(folder, given)
    except AuditError as error:
        raise exits.CliError(str(error), hint="name the folder of an audit log; see dragoman guard --help") from None


def _folder(given: str | None) -> Path:
    if given is not None:
        return Path(given)
    from dragoman.settings.places import state_dir

    return state_dir() / "audit"


def _anchor(given: str | None) -> str | None:
    if given is not None and not _HASH.fullmatch(given):
        raise exits.CliError("--head: a hash has 64 digits, 0 to 9 and a to f", hint="dragoman audit head prints it")
    return given


def _head(folder: Path, *, is_json: bool) -> int:
    """Print the hash of the last record, to be kept elsewhere."""
    from dragoman.proxy.audit.files import holds_end, locked_for_reading, read_head

    with locked_for_reading(folder):
        head = read_head(folder)
        if head is None or (head.seq and not holds_end(folder, head)):
            what = (
                "there is no head.json" if head is None else f"record {head.seq}, which head.json names, is not there"
            )
            raise exits.CliError(
                f"{folder}: {what}", hint="dragoman audit verify says what is missing", exit_code=exits.CHECK_FAILED
            )
    if is_json:
        write_json(head)
    else:
        sys.stdout.write(f"{head.hash}\n")
    return exits.OK


def _verify(folder: Path, anchor: str | None, *, is_json: bool) -> int:
    from dragoman.proxy.audit.verify import verify
    from dragoman.text.terminal import one_line

    found = verify(folder, anchor=anchor)
    if is_json:
        import msgspec

        document = {"folder": str(folder), "intact": found.is_intact, **msgspec.to_builtins(found)}
        write_json(document)
        return exits.OK if found.is_intact else exits.CHECK_FAILED
    for fault in found.faults:
        sys.stdout.write(f"fault: {one_line(str(fault))}\n")
    for note in found.notes:
        sys.stdout.write(f"note: {one_line(note)}\n")
    if found.is_intact:
        sys.stdout.write(
            f"intact: {found.records} records in {found.files} files; the last one has the hash {found.last_hash}\n"
        )
        return exits.OK
    count = len(found.faults)
    sys.stdout.write(f"not intact: {count} {'fault' if count == 1 else 'faults'} in {found.records} records\n")
    return exits.CHECK_FAILED


def _selected(folder: Path, given: Any) -> Iterator[AuditRecord]:
    from dragoman.proxy.audit.verify import read_records

    for record in read_records(folder):
        fields = record.fields
        if given.kind and fields.get("kind") not in given.kind:
            continue
        if given.session is not None and fields.get("session") != given.session:
            continue
        if given.since is not None and str(fields.get("time")) < given.since:
            continue
        yield record


def _show(folder: Path, given: Any, *, is_json: bool) -> int:
    from dragoman.proxy.audit.export import subject
    from dragoman.text.terminal import one_line, shorten

    if is_json:
        records = [{**record.fields, "hash": record.hash} for record in _selected(folder, given)]
        write_json(records)
        return exits.OK
    for record in _selected(folder, given):
        fields = record.fields
        decision = fields.get("decision") or fields.get("violation") or fields.get("unjudged") or {}
        outcome = " ".join(
            str(part)
            for part in (decision.get("outcome") or decision.get("action"), decision.get("rule") or decision.get("by"))
            if part
        )
        what = shorten(one_line(subject(fields)), 200) + (f"  [{shorten(one_line(outcome), 100)}]" if outcome else "")
        when, kind = (one_line(str(fields.get(name, ""))) for name in ("time", "kind"))
        sys.stdout.write(f"{record.seq:>6}  {when[:19]}  {kind[:20]:12}  {what}".rstrip() + "\n")
    return exits.OK


def _export(folder: Path, given: Any) -> int:
    from dragoman.proxy.audit.export import export

    for piece in export(_selected(folder, given), getattr(given, "as") or "jsonl"):
        sys.stdout.write(piece)
    return exits.OK


COMMAND = CliCommand(
    run=run,
    description=(
        "Reads the audit log that dragoman guard writes. `verify` checks the chain of hashes and both ends of it, and\n"
        "says what was changed, removed, moved or added, and where (exit code 8). `head` prints the hash of the last\n"
        "record: keep it elsewhere, and `verify --head HASH` also finds a log that was cut off or written again as a\n"
        "whole. `show` prints the records, `export` writes them in the forms of other programs."
    ),
    arguments=(
        Argument("action", "what to do", choices=_ACTIONS),
        Argument("folder", "the folder of the log (default: ~/.local/state/dragoman/audit)", is_optional=True),
    ),
    options=(
        CliOption("--head", "with verify: a record with this hash must be there", value="HASH"),
        CliOption(
            "--kind", "only records of this kind, such as decision or violation", value="KIND", is_repeatable=True
        ),
        CliOption("--session", "only records of this session", value="ID"),
        CliOption("--since", "only records from this time on, such as 2026-11-17", value="TIME"),
        CliOption("--as", "with export: the form (default: jsonl)", value="FORM", choices=_FORMS),
        JSON,
    ),
    examples=(
        "dragoman audit verify",
        "dragoman audit show --kind decision --kind violation",
        "dragoman audit export --as csv > audit.csv",
        "dragoman audit head /var/log/dragoman",
        "dragoman audit verify --head 3f1c... /var/log/dragoman",
    ),
)
