"""Methods for those who run a host: which hosts, users and sessions there are, ending a session, limits of users.

For clients with the right `admin`, and for sessions of all users. What an operator needs is shown: whose session it is,
its agent, state, folder, sizes, cost and times. What users and agents wrote is not: no title, prompt, message, tool
call or question. Loaded when one of them is called first: a host starts without it.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman._version import __version__
from dragoman.errors import ConfigError, RequestError, StoreError
from dragoman.host.history.facts import kept_state
from dragoman.host.host import Visitor
from dragoman.host.methods.params import read_params, text_member
from dragoman.host.quotas import LIMITS
from dragoman.host.working.prompts import milliseconds
from dragoman.store.event_log import ListPlace

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.quotas import Quotas
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call
    from dragoman.store.event_log import SessionRecord

_PAGE: Final = 100
_MOST: Final = 1000
_LONGEST_USER: Final = 256


async def list_hosts(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the hosts of the fleet; one machine is a fleet of one."""
    quotas = _quotas(host, call)
    live = host.live_sessions()
    stored = await _stored(host)
    row = {
        "host": os.uname().nodename,
        "version": __version__,
        "state": "draining" if host.ends_because else "ready" if host.store_error is None else "failing",
        "startedAt": milliseconds(quotas.started_at),
        "agents": host.agent_names(),
        "agentsRunning": quotas.places.running,
        "agentsMost": quotas.places.most,
        "startsWaiting": quotas.places.waiting,
        "turns": sum(session.prompts.is_busy for session in live),
        "questions": sum(len(list(session.questions)) for session in live),
        "connections": len(host.visitors()),
        "sessions": sum(found.sessions for found in stored.values()),
        "storedBytes": sum(found.size_bytes for found in stored.values()),
    }
    return {"hosts": [row]}


async def list_sessions(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with a page of sessions, of one user or of all, the one that changed last first."""
    _quotas(host, call)
    params = read_params(call.params)
    user, limit = params.get("user"), params.get("limit", _PAGE)
    if user is not None and not isinstance(user, str):
        raise RequestError.invalid_params("user must be a name", path="$.user")
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= _MOST:
        raise RequestError.invalid_params(f"limit must be a number from 1 to {_MOST}", path="$.limit")
    try:
        page = await host.log.page(user, before=_place(params.get("cursor")), limit=limit)
        sizes = await host.log.sizes([record.id for record in page.records])
    except StoreError as error:
        raise _no_log(error) from None
    answer: dict[str, Any] = {"sessions": [_row(host, record, sizes) for record in page.records]}
    if page.next is not None:
        answer["nextCursor"] = f"{page.next.updated_at!r} {page.next.id}"
    return answer


async def show_session(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with what is known of one session, without its content."""
    _quotas(host, call)
    record = await _find(host, read_params(call.params))
    sizes = await host.log.sizes([record.id])
    live, facts = host.live(record.id), msgspec.json.decode(record.facts)
    row = _row(host, record, sizes)
    row |= {"agentSessionId": record.agent_session, "parent": (facts.get("parent") or {}).get("id")}
    ended = facts.get("ended") or {}
    row["lastTurn"] = {"stopReason": ended.get("stopReason"), "isError": "error" in ended} if ended else None
    row["error"] = {name: value for name, value in (facts.get("error") or {}).items() if name != "message"} or None
    if live is not None:
        turn = live.turn
        row |= {
            "agentRuns": live.agent.is_running,
            "turnStartedAt": None if turn is None else turn["startedAt"],
            "clients": [attachment.client.who for attachment in live.attachments],
        }
    return {"session": row}


async def end_session(host: Host, client: HostConnection, call: Call) -> object:
    """End the turn and the agent of a session, whatever it does; its history stays for its user."""
    _quotas(host, call)
    record = await _find(host, read_params(call.params))
    session = await host.find(record.id, Visitor(principal=record.principal))
    if session is None:
        raise RequestError.not_found("there is no such session")
    was = session.state
    # To its end, also if the client goes away in the middle of it.
    await asyncio.shield(host.run(host.close_session(session, "An administrator of the host ended this session.")))
    return {"sessionId": record.id, "user": record.principal, "was": was}


async def list_users(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the users that have sessions, connections, limits of their own, or used something today."""
    quotas, stored = _quotas(host, call), await _stored(host)
    visitors = host.visitors()
    names = {*stored, *quotas.users(), *(visitor.principal for visitor in visitors)}
    rows = []
    for name in sorted(names):
        kept = stored.get(name)
        rows.append(
            {
                "user": name,
                "sessions": 0 if kept is None else kept.sessions,
                "storedBytes": host.uploads.kept_bytes(name) + (0 if kept is None else kept.size_bytes),
                "agents": quotas.places.count(name),
                "turns": quotas.turns_of(name),
                "promptsLastHour": quotas.prompts_of(name),
                "costToday": {currency: round(amount, 6) for currency, amount in quotas.cost_of(name).items()},
                "connections": sum(visitor.principal == name for visitor in visitors),
                "hasOwnLimits": bool(quotas.own_names(name)),
            }
        )
    return {"users": rows}


async def change_quota(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the limits of a user and what is used of each, after changing some."""
    quotas, params = _quotas(host, call), read_params(call.params)
    user, values = text_member(params, "user"), params.get("set")
    if not user.isprintable() or len(user) > _LONGEST_USER:  # of a token, or of a login, which has other letters
        raise RequestError.invalid_params(f"user must be a name of up to {_LONGEST_USER} characters", path="$.user")
    if values is not None and not isinstance(values, dict):
        raise RequestError.invalid_params("set must be an object of limits", path="$.set")
    try:
        if values is not None or params.get("reset") is True:
            quotas.change(user, values or {}, resets=params.get("reset") is True)
    except ConfigError as error:
        raise RequestError.invalid_params(str(error), path="$.set") from None
    await quotas.load(user)
    kept = (await _stored(host, user)).get(user)
    used = {**quotas.used(user), "sessions": 0 if kept is None else kept.sessions}
    quota, own = quotas.of(user), quotas.own_names(user)
    limits = [
        {"name": name, "value": getattr(quota, name), "used": used[name], "isOwn": name in own} for name in LIMITS
    ]
    return {"user": user, "limits": limits}


def _quotas(host: Host, call: Call) -> Quotas:
    if host.quotas is None:  # the table offers none of these without them
        raise RequestError.method_not_found(call.method)
    return host.quotas


async def _stored(host: Host, user: str | None = None) -> dict[str, Any]:
    try:
        return dict(await host.log.stored(user))
    except StoreError as error:
        raise _no_log(error) from None


async def _find(host: Host, params: dict[str, Any]) -> SessionRecord:
    """Return the session that `sessionId` names, of any user."""
    wanted = text_member(params, "sessionId")
    try:
        record = await host.log.find(wanted, None)
    except StoreError as error:
        raise _no_log(error) from None
    if record is None:
        raise RequestError.not_found("there is no such session on this host")
    return record


def _row(host: Host, record: SessionRecord, sizes: dict[str, int]) -> dict[str, Any]:
    live: HostedSession | None = host.live(record.id)
    facts = msgspec.json.decode(record.facts) if live is None else live.facts
    return {
        "sessionId": record.id,
        "user": record.principal,
        "host": os.uname().nodename,
        "agent": record.agent,
        "state": kept_state(facts, record.head) if live is None else live.state,
        "cwd": record.cwd,
        "createdAt": milliseconds(record.created_at),
        "updatedAt": milliseconds(record.updated_at),
        "turns": int(facts.get("turns") or 0),
        "queued": 0 if live is None else live.prompts.waiting_count,
        "questions": 0 if live is None else len(list(live.questions)),
        "attached": 0 if live is None else len(live.attachments),
        "bytes": sizes.get(record.id, 0),
        "cost": facts.get("cost"),
    }


def _place(cursor: object) -> ListPlace | None:
    if cursor is None:
        return None
    at, _, id = str(cursor).partition(" ")
    try:
        return ListPlace(float(at), id)
    except ValueError:
        raise RequestError.invalid_params("cursor must be one that was answered", path="$.cursor") from None


def _no_log(error: StoreError) -> RequestError:
    return RequestError(-32603, f"the log cannot be read now: {error}", {"reason": "store"})
