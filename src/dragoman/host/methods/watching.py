"""Watching the list of sessions: the whole list once, then what changes of it, with the questions that wait.

A watch is a filter, the ids that have changed since it last sent something, and a timer. It sends at most four times a
second, each session once with its last state, and nothing while the socket of its client is full: what changes then is
one entry. A session that does not fit the filter any more is reported as removed, once. The rows are those of
`session/list` (`clients/session_list.py`); `list_changes.py` says which have changed.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import DragomanError, RequestError
from dragoman.host.clients.session_list import ListFilter, SessionList, read_archived
from dragoman.host.methods.params import read_params
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from dragoman.host.clients.session_list import Row
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call

KEPT: Final = "watches"
MOST: Final = 64
"""Watches of one connection."""
SECONDS: Final = 0.25
"""Between two notifications of one watch."""
_JOINED_SECONDS: Final = 0.02  # what one step of a session changes comes in several commits
_MOST_STATES: Final = 32


class ListWatch:
    """One client's view of the list."""

    def __init__(self, host: Host, client: HostConnection, id: str, wanted: ListFilter) -> None:
        self.client = client
        self.id = id
        self.wanted = wanted
        self.list = SessionList(host, client)
        self._host = host
        self._changed: dict[str, None] = {}
        self._sent: dict[str, bytes] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._is_sending = False
        self._is_held = True
        self._is_over = False
        host.list_changes.add(self)

    def changed(self, id: str) -> None:
        self._changed[id] = None
        self._send_later()

    def shows(self, id: str) -> bool:
        return id in self._sent

    def keep(self, rows: list[Row]) -> None:
        """Note what the client has been sent."""
        self._sent.update({row["sessionId"]: _state_of(row) for row in rows})

    def forget(self, id: str) -> None:
        """Note that the client was sent that a session is gone."""
        self._sent.pop(id, None)

    def release(self) -> None:
        """Send what has changed from here on: the answer with the list was written."""
        self._is_held = False
        self._send_later()

    def close(self) -> None:
        """Send nothing more."""
        if not self._is_over:
            self._is_over = True
            self._host.list_changes.remove(self)
            if self._timer is not None:
                self._timer.cancel()

    def _send_later(self) -> None:
        if self._changed and self._timer is None and not (self._is_sending or self._is_held or self._is_over):
            wait = max(_JOINED_SECONDS, self._last + SECONDS - monotonic())
            self._timer = asyncio.get_running_loop().call_later(wait, self._send)

    def _send(self) -> None:
        self._timer = None
        self._is_sending = True
        _ = self.client.run(self._send_changes())

    async def _send_changes(self) -> None:
        ids: list[str] = []
        try:
            await self.client.peer.outbox.room()
            ids, self._changed = list(self._changed), {}
            revision = self._host.list_changes.revision  # before the rows are made: what comes meanwhile is newer
            rows = await self.list.find(ids)
            if self._is_over or not self.client.peer.is_open:
                return
            changed, removed = [], []
            for id in ids:
                row = rows.get(id)
                if row is None or not self.wanted.takes(row):
                    if self._sent.pop(id, None) is not None:
                        removed.append(id)
                elif (state := _state_of(row)) != self._sent.get(id):
                    self._sent[id] = state
                    changed.append(row)
            if changed or removed:
                self._last = monotonic()
                body = {"revision": revision, "changed": changed, "removed": removed}
                if self.id:
                    body["watchId"] = self.id
                self.client.peer.post(write_notification("_dragoman/sessions/changed", msgspec.json.encode(body)))
        except DragomanError:
            self._last = monotonic()  # the log cannot be read now, or the client is gone; the rows are due again
            self._changed = {**dict.fromkeys(ids), **self._changed} if self.client.peer.is_open else {}
        finally:
            self._is_sending = False
            self._send_later()


class ClientWatches:
    """The watches of one connection, by the ids that its client gave them."""

    def __init__(self) -> None:
        self.by_id: dict[str, ListWatch] = {}

    def close(self) -> None:
        for watch in self.by_id.values():
            watch.close()


def _state_of(row: Row) -> bytes:
    """Return what of a row a client would see: the number of its last event alone is not worth a message."""
    own = {name: value for name, value in row["_meta"]["dragoman"].items() if name != "head"}
    return msgspec.json.encode([{**row, "_meta": None}, own])


async def watch(host: Host, client: HostConnection, call: Call) -> object:
    """Answer with the list, or with what has changed of it since a revision, and send what changes from here on."""
    params = read_params(call.params)
    id, wanted, cursor = params.get("watchId", ""), _read_filter(client, params), params.get("cursor")
    if not isinstance(id, str) or len(id) > 128:
        raise RequestError.invalid_params("watchId must be a text of up to 128 characters", path="$.watchId")
    if cursor is not None and not isinstance(cursor, str):
        raise RequestError.invalid_params("cursor must be a text", path="$.cursor")
    watches: ClientWatches = client.kept.setdefault(KEPT, ClientWatches())
    found = watches.by_id.get(id)
    if cursor is not None and found is not None and found.wanted == wanted:
        rows, following = await found.list.page(wanted, cursor)
        found.keep(rows)
        return {"revision": host.list_changes.revision, "sessions": rows, **_next(following)}
    if found is None and len(watches.by_id) >= MOST:
        raise RequestError(-32603, f"there are {MOST} watches on this connection already", {"reason": "limit"})
    if found is not None:
        found.close()
    after = params.get("after")
    since = host.list_changes.since(client.visitor.principal, after) if isinstance(after, str) else None
    made = watches.by_id[id] = ListWatch(host, client, id, wanted)
    revision = host.list_changes.revision
    try:
        if since is not None and cursor is None:
            changed = await made.list.find(since)
            rows = [row for row in changed.values() if wanted.takes(row)]
            gone = sorted(set(since) - {row["sessionId"] for row in rows})
            answer: dict[str, Any] = {"revision": revision, "sessions": rows, "removed": gone, "isPart": True}
        else:
            rows, following = await made.list.page(wanted, cursor)
            answer = {"revision": revision, "sessions": rows, **_next(following)}
    except BaseException:
        made.close()
        if watches.by_id.get(id) is made:
            del watches.by_id[id]
        raise
    made.keep(rows)
    call.after_response(made.release)
    return answer


async def unwatch(host: Host, client: HostConnection, call: Call) -> object:
    """End a watch; one that does not exist counts as ended."""
    watches: ClientWatches | None = client.kept.get(KEPT)
    found = None if watches is None else watches.by_id.pop(str(read_params(call.params).get("watchId", "")), None)
    if found is not None:
        found.close()
    return {}


def _next(cursor: str | None) -> dict[str, str]:
    return {} if cursor is None else {"nextCursor": cursor}


def _read_filter(client: HostConnection, params: dict[str, Any]) -> ListFilter:
    cwd, agent, states = (params.get(name) for name in ("cwd", "agent", "states"))
    for name, value in (("cwd", cwd), ("agent", agent)):
        if value is not None and not isinstance(value, str):
            raise RequestError.invalid_params(f"{name} must be a text", path=f"$.{name}")
    if states is not None and not (
        isinstance(states, list) and len(states) <= _MOST_STATES and all(isinstance(state, str) for state in states)
    ):
        raise RequestError.invalid_params("states must be a list of states", path="$.states")
    if client.agent is not None and agent not in (None, client.agent):
        raise RequestError.invalid_params(f"this connection is bound to {client.agent}", path="$.agent")
    return ListFilter(
        cwd=cwd or None,
        agent=client.agent or agent or None,
        states=None if states is None else frozenset(states),
        archived=read_archived(params.get("archived")),
    )
