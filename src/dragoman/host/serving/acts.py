"""What users, rules and agents do at a host, in the words of its own log and of its audit log.

An act is made of a committed event, of an answered request, or of a connection. It names who did what, in which
session, by which token or device: never what was written. `title` is the one exception, what a rule or a user decided
about; it is for the audit log only, which is in the data folder like the sessions themselves.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol
from weakref import ref

from msgspec import Struct

from dragoman.errors import RequestError
from dragoman.host.methods.params import read_params
from dragoman.host.methods.table import ACP_RIGHTS, METHODS
from dragoman.host.serving.watched_requests import reason_of
from dragoman.text.terminal import shorten

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Visitor
    from dragoman.host.serving.counting_log import EventFacts
    from dragoman.rpc import Call
    from dragoman.store.event_log import LogEvent, SessionRecord

_log = logging.getLogger("dragoman.host")
Level = Literal["info", "warning", "error"]
_LONGEST: Final = 200
_KEPT_CLIENTS: Final = 1024
_MOST_LIMITS: Final = 20
_FLEET: Final = "_dragoman/fleet/"
_OWN_RECORDS: Final = frozenset(("session/prompt", "_dragoman/answer", "session/set_mode", "session/set_config_option"))
"""Requests that change something and are events of the log as well."""
_REFUSED: Final = frozenset(("forbidden", "limit", "queue_full", "draining", "store"))
"""Why a prompt is not accepted."""
_KINDS: Final[Mapping[str, str]] = {
    "start": "turn_started",
    "end": "turn_ended",
    "queue": "prompt_dropped",
    "late": "late_answer",
    "agent": "agent_started",
}
"""What events are called that have another name in the log of a session."""


class Act(Struct, frozen=True, omit_defaults=True):
    """Something that was done, or happened."""

    kind: str
    session: str = ""
    user: str = ""
    agent: str = ""
    request: str = ""
    """The id of the prompt that it belongs to."""
    client: str = ""
    """The client, as the log names it: its user and its name."""
    token: str = ""
    device: str = ""
    facts: dict[str, Any] = {}
    title: str = ""
    level: Level = "info"
    is_audited: bool = True
    at: float = 0.0
    """Seconds since 1970; 0 for now."""


class TakesActs(Protocol):
    """Where acts are written down."""

    def take(self, act: Act) -> None: ...


class HostActs:
    """The acts at one host, passed to those who write them down."""

    def __init__(self, takers: Sequence[TakesActs] = ()) -> None:
        self._takers = takers
        self._started: dict[str, float] = {}
        # By the keys of connections. An event of one that has ended may be committed after its end.
        self._clients: dict[str, tuple[Visitor, ref[HostConnection]]] = {}

    def _pass_on(self, act: Act) -> None:
        for taker in self._takers:
            try:
                taker.take(act)
            except Exception:  # the host goes on, and so do those behind this one
                _log.exception("an act was not written down")

    # Connections

    def connection(self, kind: Literal["connected", "disconnected"], visitor: Visitor, peer: str, **facts: Any) -> None:
        """Take note of a connection that was opened or has ended."""
        found = {"peer": peer, "rights": sorted(visitor.rights), **facts}
        token, device = _key(visitor)
        act = Act(kind, user=visitor.principal, agent=visitor.agent or "", token=token, device=device, facts=found)
        self._pass_on(act)

    def note(self, kind: str, user: str = "", *, token: str = "", device: str = "", **facts: Any) -> None:
        """Take note of something that is neither an event nor a request, such as a browser that was paired."""
        self._pass_on(Act(kind, user=user, token=token, device=device, facts=facts))

    # From the requests

    def came(self, client: HostConnection) -> None:
        """Note which token or device a client has, before it can do anything in a session."""
        if client.key not in self._clients:
            if len(self._clients) >= _KEPT_CLIENTS:
                found = {key: (entry, entry[1]()) for key, entry in self._clients.items()}
                self._clients = {key: entry for key, (entry, kept) in found.items() if kept and kept.peer.is_open}
            self._clients[client.key] = (client.visitor, ref(client))

    def answered(self, client: HostConnection, call: Call, result: object, error: Exception | None) -> None:
        """Take note of a request that may change something."""
        method, reason = call.method, reason_of(error)
        if error is None and method in _OWN_RECORDS:
            return
        # The error of a prompt is mostly how its turn ended, which is an event.
        is_refused = reason in _REFUSED if method == "session/prompt" else _changes(method)
        if not is_refused and reason != "forbidden":
            return
        params = read_params(call.params)
        session = params.get("sessionId")
        facts: dict[str, Any] = {"method": method}
        if method.startswith(_FLEET):
            facts.update(_changed_limits(params))
        if isinstance(error, RequestError):
            facts["error"] = error.code
            if reason:
                facts["reason"] = _short(reason)
        elif isinstance(result, dict) and isinstance(result.get("sessionId"), str):
            session = result["sessionId"]
        token, device = _key(client.visitor)
        self._pass_on(
            Act(
                "request",
                session=_short(session),
                user=client.visitor.principal,
                agent=client.agent or "",
                client=_short(client.who),
                token=token,
                device=device,
                facts=facts,
                level="warning" if error is not None else "info",
            )
        )

    # From the log

    def happened(self, record: SessionRecord, event: LogEvent, facts: EventFacts) -> None:
        """Take note of an event."""
        kind, more, title, level = self._describe(record.id, event, facts)
        known = self._clients.get(facts.by)
        token, device = ("", "") if known is None else _key(known[0])
        self._pass_on(
            Act(
                kind,
                session=record.id,
                user=record.principal,
                agent=record.agent,
                request=_short(facts.prompt_id),
                client=_short(facts.who) if facts.by else "",
                facts=more,
                title=title,
                level=level,
                is_audited=kind not in ("turn_started", "agent_started"),
                at=event.at,
                token=token,
                device=device,
            )
        )

    def updated(self, record: SessionRecord, event: LogEvent) -> None:
        """Take no note of updates."""

    def removed(self, session: str) -> None:
        """Take note of a session that is gone."""
        self._started.pop(session, None)
        self._pass_on(Act("session_removed", session=session))

    def _describe(self, session: str, event: LogEvent, facts: EventFacts) -> tuple[str, dict[str, Any], str, Level]:
        """Return what to call an event, its facts, its title and its level."""
        kind, title = _KINDS.get(event.kind, event.kind), ""
        level: Level = "info"
        more: dict[str, Any] = {"number": event.number}
        if facts.question_id:
            more["question"] = _short(facts.question_id)
        if event.kind == "start":
            self._started[session] = event.at
        elif event.kind in ("end", "queue"):
            more["outcome"] = facts.outcome
            started = self._started.pop(session, None) if event.kind == "end" else None
            if started is not None:
                more["seconds"] = round(max(0.0, event.at - started), 3)
            level = "info" if facts.error is None else "warning"
        elif event.kind == "question":
            call = None if facts.params is None else facts.params.tool_call
            more["about"] = _short((None if call is None else call.kind) or facts.method.partition("/")[0] or "other")
            title = "" if call is None else _short(call.title)
        elif event.kind == "answer":
            title = self._answer(more, facts)
        elif event.kind == "setting":
            more.update(_settings(facts.updates))
        elif event.kind == "agent" and facts.ended is not None:
            kind, level = "agent_ended", "warning"
            if facts.exit_code is not None:
                more["exit"] = facts.exit_code
        return kind, more, title, level

    @staticmethod
    def _answer(more: dict[str, Any], facts: EventFacts) -> str:
        """Add who and what decided; gives the title of what it was about."""
        more["by"] = facts.decided_by
        if facts.option is not None:
            more["option"] = _short(facts.option)
        decision = facts.decision if isinstance(facts.decision, dict) else {}
        for name in ("action", "rule"):
            if isinstance(decision.get(name), str):
                more[name] = _short(decision[name])
        return _short(decision.get("title"))


def _changes(method: str) -> bool:
    """Whether a method may change something: it needs more than the right to see, or removes a device."""
    if method.startswith(_FLEET) or method in ("authenticate", "logout", "_dragoman/devices/remove"):
        return True
    own = METHODS.get(method)
    right = ACP_RIGHTS.get(method) if own is None else own.right
    return right not in (None, "view")


def _key(visitor: Visitor) -> tuple[str, str]:
    """Return what a client came with: the name of its token, or the id of its device."""
    return ("", visitor.device) if visitor.device is not None else (visitor.token or "", "")


def _short(text: object) -> str:
    return shorten(text, _LONGEST) if isinstance(text, str) else ""


def _changed_limits(params: dict[str, Any]) -> dict[str, Any]:
    """Return whose limits an administrator looks at or changes, and to what."""
    values = params.get("set")
    changed = {
        _short(name): _short(value) if isinstance(value, str) else value
        for name, value in (list(values.items())[:_MOST_LIMITS] if isinstance(values, dict) else ())
        if value is None or isinstance(value, str | int | float)
    }
    found: dict[str, Any] = {"of": _short(params["user"])} if isinstance(params.get("user"), str) else {}
    return {
        **found,
        **({"set": changed} if changed else {}),
        **({"reset": True} if params.get("reset") is True else {}),
    }


def _settings(updates: Any) -> dict[str, Any]:
    """Return the mode and the options that a session has after a change."""
    found: dict[str, Any] = {}
    for update in updates if isinstance(updates, list) else ():
        if not isinstance(update, dict):
            continue
        if isinstance(update.get("currentModeId"), str):
            found["mode"] = _short(update["currentModeId"])
        options = update.get("configOptions")
        values = {
            _short(option.get("id")): option.get("currentValue")
            for option in (options if isinstance(options, list) else ())
            if isinstance(option, dict) and isinstance(option.get("currentValue"), str | bool)
        }
        if values:
            found["options"] = values
    return found
