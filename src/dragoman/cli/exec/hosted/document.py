"""A hosted turn as one JSON document: the result that the host made, with what only this program knows.

Nothing is folded here, so neither msgspec nor the state of a session is loaded for a turn that succeeds: that takes
longer than the turn of a quick agent.
"""

import sys
from _json import encode_basestring  # `json` itself loads `re`
from time import monotonic

from dragoman.cli.exec.hosted.text import TextView

TYPE_CHECKING = False  # see dragoman/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from dragoman.cli.exec.hosted.turn import HostedEnd, TurnRequest


class DocumentView(TextView):
    """The view that shows lines about tool calls, and keeps the updates for a host that makes no result."""

    def __init__(self, *, is_quiet: bool) -> None:
        super().__init__(is_quiet=is_quiet)
        self.updates: list[dict[str, Any]] = []

    def update(self, update: "dict[str, Any]") -> None:
        self.updates.append(update)
        super().update(update)


def run_document(request: "TurnRequest", *, is_quiet: bool) -> int:
    """Run a turn and write its result; gives the exit code.

    Raises:
        OSError: stdout could not be written.
    """
    from dragoman.cli.exec.hosted.turn import HostedTurn

    request.wants_result = True
    started = monotonic()
    view = DocumentView(is_quiet=is_quiet)
    turn = HostedTurn(request, view)
    try:
        turn.run()
    except Exception as failure:  # whatever happens, one result is written
        turn.end.error = failure
    end = turn.end
    document = end.report.get("result")
    if not isinstance(document, dict) or not end.is_success:
        from dragoman.cli.exec.hosted.shown import finish_document

        return finish_document(request, turn.session, view.updates, end, started, is_quiet=is_quiet)
    document |= {"exit_code": 0, "error": None, "stop_reason": end.stop_reason, **times(end, started)}
    write_document(document)
    return 0


def times(end: "HostedEnd", started: float) -> "dict[str, Any]":
    """Return the members about time. The start of the agent is not a part of the turn: the host runs it already."""
    now = monotonic()
    found: dict[str, int | None] = {"start_ms": None, "session_ms": None, "turn_ms": None}
    opening, working, done = (end.reached.get(name) for name in ("opening", "working", "done"))
    if opening is not None:
        found["session_ms"] = round(((working or now) - opening) * 1000)
    if working is not None:
        found["turn_ms"] = round(((done or now) - working) * 1000)
    return {"duration_ms": round((now - started) * 1000), "durations": found}


def write_document(document: "dict[str, Any]") -> None:
    """Write a document to stdout, as plain `exec` does."""
    from dragoman.text.secrets import known_keys

    text = known_keys.mask(format_json(document)) + "\n"
    if not (text.isascii() and text.replace("\n", "").isprintable()):  # else nothing is escaped, and nothing loaded
        from dragoman.cli.console import json_text

        text = json_text(text)
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def format_json(value: "Any", indent: str = "\n") -> str:
    """Return JSON with two spaces for each level."""
    inner = indent + "  "
    if isinstance(value, dict) and value:
        members = [f"{encode_basestring(name)}: {format_json(member, inner)}" for name, member in value.items()]
        return "{" + inner + f",{inner}".join(members) + indent + "}"
    if isinstance(value, list) and value:
        return "[" + inner + f",{inner}".join([format_json(item, inner) for item in value]) + indent + "]"
    if isinstance(value, str):
        return str(encode_basestring(value))
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return "{}" if isinstance(value, dict) else "[]" if isinstance(value, list) else repr(value)
