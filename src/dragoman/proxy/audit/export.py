"""Audit records in the forms of other programs: CSV, CloudEvents, OTLP logs, OCSF.

The log itself is the truth; these are views of it, one line or one document. Pure: records in, text out.
"""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from dragoman.text.terminal import escape_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dragoman.proxy.audit.files import AuditRecord

FORMS: Final = ("jsonl", "csv", "cloudevents", "otlp", "ocsf")
_COLUMNS: Final = (
    *("seq", "time", "kind", "host", "run", "session", "turn", "what", "outcome", "by", "grade", "exit", "hash"),
)
# The conventions are in development, so their version is stated.
_SCHEMA: Final = "https://opentelemetry.io/schemas/1.41.0"
_OTEL_NAMES: Final = {
    "session": "gen_ai.conversation.id",
    "tool.id": "gen_ai.tool.call.id",
    "tool.title": "gen_ai.tool.name",
    "command": "process.command_line",
    "exit": "process.exit.code",
    "file.path": "file.path",
    "usage.inputTokens": "gen_ai.usage.input_tokens",
    "usage.outputTokens": "gen_ai.usage.output_tokens",
    "agent.name": "gen_ai.agent.name",
    "agent.version": "gen_ai.agent.version",
    "user.name": "user.name",
    "host": "host.name",
    "error": "error.type",
}
_SEVERE: Final = {
    "violation": (17, "ERROR"),
    "unjudged": (13, "WARN"),
    "limit": (13, "WARN"),
    "gap": (17, "ERROR"),
    "broken": (17, "ERROR"),
    "retention": (13, "WARN"),
}
# (class_uid, class_name, category_uid): OCSF has no class for agents.
_OCSF: Final = {
    "command": (1007, "Process Activity", 1),
    "command_end": (1007, "Process Activity", 1),
    "file": (1001, "File System Activity", 1),
    "violation": (2004, "Detection Finding", 2),
    "unjudged": (2004, "Detection Finding", 2),
}
_OCSF_OTHER: Final = (6003, "API Activity", 6)


def export(records: Iterable[AuditRecord], form: str) -> Iterator[str]:
    """Yield the records in one of `FORMS`, in pieces of text."""
    if form == "csv":
        yield from _csv(records)
        return
    make = {"jsonl": _plain, "cloudevents": _cloud_event, "otlp": _otlp, "ocsf": _ocsf}[form]
    for record in records:
        yield escape_json(json.dumps(make(record), ensure_ascii=False, separators=(",", ":"))) + "\n"


def subject(fields: dict[str, Any]) -> str:
    """Return what a record is about, in a few words."""
    tool, file = fields.get("tool"), fields.get("file")
    violation, agent = fields.get("violation") or fields.get("unjudged"), fields.get("agent")
    found = fields.get("command") or fields.get("why")
    removed = fields.get("removed")
    if not found and isinstance(removed, dict):
        found = f"{removed.get('count')} records since the log began, in {len(fields.get('files') or ())} files now"
    if not found and isinstance(violation, dict):
        found = violation.get("command") or violation.get("title")
    if not found and isinstance(file, dict):
        found = f"{file.get('op')} {file.get('path')}"
    if not found and isinstance(tool, dict):
        found = tool.get("title") or tool.get("id")
    if not found and isinstance(agent, dict):
        found = agent.get("name")
    return str(found or fields.get("stop_reason") or fields.get("cwd") or fields.get("terminal") or "")


def _plain(record: AuditRecord) -> dict[str, Any]:
    return {**record.fields, "hash": record.hash}


def _csv(records: Iterable[AuditRecord]) -> Iterator[str]:
    yield ",".join(_COLUMNS) + "\r\n"
    for record in records:
        fields = record.fields
        decision = fields.get("decision") or fields.get("violation") or fields.get("unjudged") or {}
        row = {
            **fields,
            "hash": record.hash,
            "what": subject(fields),
            "outcome": decision.get("outcome") or decision.get("action") or fields.get("stop_reason"),
            "by": decision.get("by"),
        }
        buffer = io.StringIO()
        csv.writer(buffer).writerow([_cell(row.get(name)) for name in _COLUMNS])
        yield buffer.getvalue()


def _cell(value: object) -> object:
    """Return a cell that no spreadsheet takes for a formula: what an agent names must not run in one."""
    text = "" if value is None else str(value)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r") else text


def _cloud_event(record: AuditRecord) -> dict[str, Any]:
    fields = record.fields
    host = fields.get("host", "")
    event = {
        "specversion": "1.0",
        "id": f"{host}/{record.seq}",
        "source": f"/dragoman/guard/{host}",
        "type": f"dragoman.audit.{fields.get('kind')}",
        "time": fields.get("time"),
        "datacontenttype": "application/json",
        "data": _plain(record),
    }
    return event | ({"subject": fields["session"]} if fields.get("session") else {})


def _otlp(record: AuditRecord) -> dict[str, Any]:
    fields = record.fields
    kind = str(fields.get("kind"))
    number, text = _SEVERE.get(kind, (9, "INFO"))
    attributes = [{"key": name, "value": _otlp_value(value)} for name, value in _flat(_plain(record), "")]
    entry = {
        "timeUnixNano": str(_nanoseconds(fields.get("time"))),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"dragoman.audit.{kind}",
        "body": {"stringValue": subject(fields)},
        "attributes": attributes,
    }
    service = [{"key": "service.name", "value": {"stringValue": "dragoman-guard"}}]
    scope = {"name": "dragoman.guard", "version": str(fields.get("v", ""))}
    logs = [{"scope": scope, "schemaUrl": _SCHEMA, "logRecords": [entry]}]
    return {"resourceLogs": [{"resource": {"attributes": service}, "scopeLogs": logs}]}


def _flat(value: dict[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, member in value.items():
        path = f"{prefix}{name}"
        if isinstance(member, dict):
            yield from _flat(member, f"{path}.")
        elif member is not None:
            yield _OTEL_NAMES.get(path, f"dragoman.{path}"), member


def _otlp_value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_otlp_value(item) for item in value]}}
    return {"stringValue": value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}


def _ocsf(record: AuditRecord) -> dict[str, Any]:
    fields = record.fields
    kind = str(fields.get("kind"))
    class_uid, class_name, category = _OCSF.get(kind, _OCSF_OTHER)
    event: dict[str, Any] = {
        "class_uid": class_uid,
        "class_name": class_name,
        "category_uid": category,
        "activity_id": 99,
        "activity_name": kind,
        "type_uid": class_uid * 100 + 99,
        "severity_id": {"violation": 4, "unjudged": 3}.get(kind, 1),
        "time": _nanoseconds(fields.get("time")) // 1_000_000,
        "message": subject(fields),
        "metadata": {
            "version": "1.3.0",
            "uid": record.hash,
            "sequence": record.seq,
            "product": {"name": "dragoman guard", "vendor_name": "dragoman"},
        },
        "device": {"hostname": fields.get("host"), "type_id": 0},
        "unmapped": _plain(record),
    }
    if kind in ("command", "command_end"):
        event["process"] = {"cmd_line": fields.get("command"), "uid": fields.get("terminal")}
    if kind == "file":
        event["file"] = {"path": fields["file"].get("path"), "type_id": 1}
    return event


def _nanoseconds(time: Any) -> int:
    try:
        return int(datetime.fromisoformat(str(time)).timestamp() * 1000) * 1_000_000
    except ValueError:
        return 0
