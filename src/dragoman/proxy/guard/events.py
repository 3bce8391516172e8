"""What the guard records: one method for each kind of record, with its fields.

Owns which facts go into the log and in which form: contents as digests (bodies only if asked), texts with keys masked
and cut; of a git repository what its files state, because git would run programs that a repository names. Does not
write: the sink does (`proxy/audit/log.py`).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
from typing import TYPE_CHECKING, Any, Final, Protocol

from dragoman.schema import UNSET, encode
from dragoman.text.secrets import known_keys

if TYPE_CHECKING:
    from dragoman.client.violations import Unjudged, Violation
    from dragoman.policy.decide import Decision
    from dragoman.proxy.guard.files import FileAccess
    from dragoman.proxy.guard.session import GuardedSession
    from dragoman.proxy.guard.terminals import StartedCommand
    from dragoman.state import ToolCallState

_TEXT_CHARACTERS: Final = 2_000  # of a title or a command in a record
_MOST_NAMES: Final = 50  # paths or attachments of one record


class AuditSink(Protocol):
    """Where records go. Nothing here waits."""

    @property
    def problem(self) -> str:
        """Why records cannot be written; empty if they can."""

    @property
    def waiting(self) -> int:
        """How many records are not on the disk yet."""

    def add(self, kind: str, fields: dict[str, Any], *, is_important: bool = False) -> None:
        """Write a record later; an important one is synced with those before it."""

    def take_notices(self) -> list[str]:
        """Return sentences about the log for the user, each once."""


class NoAudit:
    """The sink that keeps nothing."""

    problem = ""
    waiting = 0

    def add(self, kind: str, fields: dict[str, Any], *, is_important: bool = False) -> None:
        """Drop the record."""

    def take_notices(self) -> list[str]:
        """Return nothing: there is no log."""
        return []


class GuardEvents:
    """The events of a guard, turned into records.

    Args:
        sink: gets the records.
        keeps_bodies: write the texts of prompts and the arguments of tools, with keys masked.
        digest_key: a key for the digests, so that a short text cannot be guessed from its digest.
        own_grade: how what the agent does itself is bound: `observed`, or `confined` in a sandbox.
    """

    def __init__(
        self, sink: AuditSink, *, keeps_bodies: bool = False, digest_key: bytes = b"", own_grade: str = "observed"
    ) -> None:
        self.sink = sink
        self._keeps_bodies = keeps_bodies
        self._digest_key = digest_key
        self._own_grade = own_grade
        self._reported: dict[tuple[str, int, str], str] = {}

    def _add(self, kind: str, fields: dict[str, Any], *, is_important: bool = False) -> None:
        self.sink.add(kind, _masked(fields), is_important=is_important)

    def digest(self, data: bytes) -> str:
        """Return the digest of a content."""
        if self._digest_key:
            return hmac.new(self._digest_key, data, hashlib.sha256).hexdigest()
        return hashlib.sha256(data).hexdigest()

    def _digest_of(self, value: object) -> str | None:
        """Return the digest of a JSON value; None if there is none."""
        return None if value is None or value is UNSET else self.digest(encode(value))

    def started(self, facts: dict[str, Any]) -> None:
        """Record that the guard runs: the agent, the rules, what is enforced."""
        self._add("start", facts, is_important=True)

    def introduced(self, editor: Any, agent: Any, protocol: Any) -> None:
        """Record the names that both sides gave."""
        self._add("peers", {"editor": _peer(editor), "agent": _peer(agent), "protocol": protocol})

    def session(self, session: GuardedSession, method: str) -> None:
        """Record that a session was opened."""
        folders = [session.cwd, *session.additional_directories]
        fields = {"session": session.id, "method": method, "cwd": session.cwd, "folders": folders}
        self._add("session", fields | {"repository": describe_repository(session.cwd)})

    def prompt(self, session: GuardedSession, params: bytes, blocks: list[Any]) -> None:
        """Record a prompt that passes to the agent."""
        uris = [_uri(block) for block in blocks]
        fields: dict[str, Any] = {
            "session": session.id,
            "turn": session.turn,
            "prompt": {
                "sha256": self.digest(params),
                "bytes": len(params),
                "blocks": len(blocks),
                "attachments": [uri for uri in uris if uri][:_MOST_NAMES],
            },
        }
        if self._keeps_bodies:
            fields["prompt"]["body"] = params.decode(errors="replace")
        self._add("prompt", fields)

    def limit(self, session_id: str, why: str, action: str) -> None:
        """Record that a limit was reached: a request was `refused`, or the turn `cancelled`."""
        self._add("limit", {"session": session_id, "why": why, "action": action}, is_important=True)

    def tool_call(self, call: ToolCallState, session: GuardedSession, update: bytes) -> None:
        """Record a tool call that was reported: when it is new, and when it has ended."""
        key = (session.id, session.turn, call.id)
        status = str(call.status)
        known = self._reported.get(key)
        if known == status or (known is not None and status not in ("completed", "failed")):
            return
        if len(self._reported) > 10_000:
            self._reported.clear()
        self._reported[key] = status
        tool: dict[str, Any] = {
            "id": call.id,
            "kind": str(call.kind),
            "name": call.name,
            "title": call.title,
            "status": status,
            "input": self._digest_of(call.raw_input),
            "output": self._digest_of(call.raw_output),
            "paths": [location.path for location in call.locations][:_MOST_NAMES],
        }
        fields: dict[str, Any] = {"session": session.id, "turn": session.turn, "tool": tool, "grade": self._own_grade}
        fields["update"] = {"sha256": self.digest(update), "bytes": len(update)}
        if self._keeps_bodies:
            fields["update"]["body"] = update.decode(errors="replace")
        self._add("tool_call", fields)

    def decision(self, decision: Decision, session: GuardedSession | None, waited_ms: int = 0) -> None:
        """Record what was decided about a permission."""
        fields: dict[str, Any] = {
            "session": decision.session_id,
            "turn": 0 if session is None else session.turn,
            "decision": {
                "outcome": decision.action,
                "by": decision.decided_by,
                "rule": decision.rule,
                "reason": decision.reason,
                "option": decision.option_kind,
                "waited_ms": waited_ms,
            },
            "tool": {"id": decision.tool_call_id, "kind": decision.kind, "title": decision.title},
            "command": decision.command,
            "paths": list(decision.paths[:_MOST_NAMES]),
            "grade": "enforced",
        }
        self._add("decision", fields, is_important=True)

    def command(self, started: StartedCommand, session: GuardedSession) -> None:
        """Record that a command was started for the agent."""
        fields = {
            "session": session.id,
            "turn": session.turn,
            "command": started.command,
            "cwd": started.cwd,
            "terminal": started.terminal_id,
            "run_by": "editor" if started.is_by_editor else "guard",
            "sandbox": started.sandbox,
            "grade": "enforced" if started.sandbox is None else "confined",
        }
        self._add("command", fields)

    def command_ended(self, terminal_id: str, session_id: str, exit_code: Any, signal: Any) -> None:
        """Record that a command has ended."""
        fields = {"session": session_id, "terminal": str(terminal_id), "exit": exit_code, "signal": signal}
        self._add("command_end", fields)

    def file(self, access: FileAccess, session: GuardedSession) -> None:
        """Record that a file was read or written for the agent."""
        fields = {
            "session": session.id,
            "turn": session.turn,
            "file": {
                "path": access.path,
                "op": access.operation,
                "before": access.before,
                "after": access.after,
                "added": access.added,
                "removed": access.removed,
            },
            "run_by": "editor" if access.is_by_editor else "guard",
            "grade": "enforced",
        }
        self._add("file", fields)

    def violation(self, violation: Violation, session_id: str, turn: int, action: str) -> None:
        """Record something that happened although a rule denies it."""
        what = {
            "rule": violation.rule,
            "by": violation.decided_by,
            "kind": violation.kind,
            "title": violation.title,
            "paths": list(violation.paths[:_MOST_NAMES]),
            "command": violation.command,
            "tool": violation.tool_call_id,
            "action": action,
        }
        self._add("violation", {"session": session_id, "turn": turn, "violation": what}, is_important=True)

    def unjudged(self, left: Unjudged, session_id: str, turn: int, action: str) -> None:
        """Record something of which it cannot be seen whether a rule denies it."""
        what = {
            "rule": left.rule,
            "by": left.decided_by,
            "kind": left.kind,
            "title": left.title,
            "why": left.why,
            "tool": left.tool_call_id,
            "action": action,
        }
        self._add("unjudged", {"session": session_id, "turn": turn, "unjudged": what}, is_important=True)

    def turn_end(self, session: GuardedSession, stop_reason: str | None, error: Any, usage: dict[str, Any]) -> None:
        """Record that the agent answered a prompt."""
        fields = {"session": session.id, "turn": session.turn, "stop_reason": stop_reason, "error": error}
        self._add("turn_end", {**fields, "usage": usage}, is_important=True)

    def noise(self, side: str, why: str) -> None:
        """Record that a side sent what was not passed on."""
        self._add("refused_line", {"side": side, "why": why})

    def ended(self, why: str, exit_code: int | None) -> None:
        """Record that the guard ends."""
        self._add("exit", {"why": why, "exit": exit_code}, is_important=True)


def _masked(value: Any) -> Any:
    """Return a value for a record: keys masked, control characters made visible by JSON, texts cut."""
    if isinstance(value, str):
        masked = known_keys.mask(value)
        return masked if len(masked) <= _TEXT_CHARACTERS else masked[:_TEXT_CHARACTERS] + "…"
    if isinstance(value, dict):
        return {name: known_keys.mask(member) if name == "body" else _masked(member) for name, member in value.items()}
    if isinstance(value, list | tuple):
        return [_masked(item) for item in value]
    return value


def _peer(given: Any) -> Any:
    if not isinstance(given, dict):
        return None
    return {name: str(given[name])[:200] for name in ("name", "title", "version") if given.get(name) is not None}


def _uri(block: Any) -> str:
    if not isinstance(block, dict):
        return ""
    resource = block.get("resource")
    found = block.get("uri") or (resource.get("uri") if isinstance(resource, dict) else "")
    return found if isinstance(found, str) else ""


_MOST_BYTES: Final = 1 << 20
_COMMIT: Final = re.compile(r"[0-9a-f]{40,64}")
_REMOTE: Final = re.compile(r'^\[remote "origin"\]\s*$(?P<members>(?:\n(?!\[).*)*)', re.MULTILINE)
_URL: Final = re.compile(r"^\s*url\s*=\s*(?P<url>\S+)", re.MULTILINE)
_LOGIN: Final = re.compile(r"(?<=://)[^/@\s]*@")


def describe_repository(folder: str) -> dict[str, str] | None:
    """Return the remote `origin` without a login, the branch and the commit; None without a repository."""
    place = _git_folder(folder)
    if place is None:
        return None
    found: dict[str, str] = {}
    common = os.path.normpath(os.path.join(place, _read(place, "commondir").strip() or "."))
    head = _read(place, "HEAD").strip()
    if head.startswith("ref: "):
        name = head.removeprefix("ref: ")
        found["branch"] = name.removeprefix("refs/heads/")
        head = _read(common, name).strip() if ".." not in name else ""
        head = head or _packed(common, name)
    if _COMMIT.fullmatch(head):
        found["commit"] = head
    remote = _REMOTE.search(_read(common, "config"))
    url = None if remote is None else _URL.search(remote["members"])
    if url is not None:
        found["remote"] = _LOGIN.sub("", url["url"])
    return found or None


def _git_folder(folder: str) -> str | None:
    here = os.path.realpath(folder)
    while True:
        place = os.path.join(here, ".git")
        if os.path.isdir(place):
            return place
        if os.path.isfile(place):
            target = _read(here, ".git").removeprefix("gitdir:").strip()
            return os.path.join(here, target) if target else None
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above


def _packed(place: str, name: str) -> str:
    for line in _read(place, "packed-refs").splitlines():
        commit, _, ref = line.partition(" ")
        if ref == name:
            return commit
    return ""


def _read(folder: str, name: str) -> str:
    try:
        with open(os.path.join(folder, name), "rb") as file:
            return file.read(_MOST_BYTES).decode(errors="replace")
    except (OSError, ValueError):
        return ""
