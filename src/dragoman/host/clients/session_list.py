"""The rows of the list of sessions, and the answer to `session/list`: from the log, without starting an agent.

A row is made here and nowhere else, for `session/list` and for clients that watch the list (`methods/watching.py`). On
a connection that is bound to an agent which runs anyway, the sessions that only the agent knows are among them.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from dragoman.errors import RequestError
from dragoman.host.history.facts import ARCHIVED, LEDGER_NUMBER, kept_state, progress_members
from dragoman.schema import decode, v1
from dragoman.store.event_log import ListPlace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.host.session import HostedSession
    from dragoman.rpc import Call
    from dragoman.store.event_log import SessionRecord

Row = dict[str, Any]
Archived = Literal["exclude", "include", "only"]
PAGE: Final = 50
_ARCHIVED: Final[dict[Archived, bool | None]] = {"exclude": False, "include": None, "only": True}
_PLACE_SECONDS: Final = 5.0  # a branch that was switched is seen after this, without a look at the disk for each row
_MOST_PLACES: Final = 1024


class ListFilter(Struct, frozen=True):
    """Which sessions a client wants to see."""

    cwd: str | None = None
    agent: str | None = None
    states: frozenset[str] | None = None
    archived: Archived = "exclude"

    def takes(self, row: Row) -> bool:
        """Whether a row is among them."""
        own = row["_meta"]["dragoman"]
        is_wanted = self.archived == "include" or (ARCHIVED in own) == (self.archived == "only")
        return (
            is_wanted
            and self.cwd in (None, row["cwd"])
            and self.agent in (None, own["agent"])
            and (self.states is None or own["state"] in self.states)
        )


class SessionList:
    """Lists the sessions that one client may see."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client

    async def answer(self, call: Call) -> object:
        request = decode(v1.ListSessionsRequest, call.params or b"{}")
        wanted = ListFilter(cwd=request.cwd or None, agent=self._client.agent, archived=read_archived(request.archived))
        rows, following = await self.page(wanted, request.cursor if isinstance(request.cursor, str) else None)
        for row in rows:
            own = row["_meta"]["dragoman"]
            questions = own.pop("questions")
            if self._host.live(row["sessionId"]) is not None:
                own["questions"] = len(questions)
        return {"sessions": rows, **({} if following is None else {"nextCursor": following})}

    async def page(self, wanted: ListFilter, cursor: str | None) -> tuple[list[Row], str | None]:
        """Return a page of rows, the last used first, and the cursor of the next page; None if there is none.

        Raises:
            RequestError: the cursor or the folder is not one.
        """
        if wanted.cwd is not None and not os.path.isabs(wanted.cwd):
            raise RequestError.invalid_params("cwd must be absolute", path="$.cwd")
        visitor, rows = self._client.visitor, list[Row]()
        before = None if cursor is None else _read_cursor(cursor)
        foreign = [] if self._client.agent is None else await self._host.foreign_sessions(self._client.agent, visitor)
        while True:
            # One more than a page: whether another page follows is seen after the sessions of the agent are among them.
            page = await self._host.log.page(
                visitor.principal,
                agent=wanted.agent,
                cwd=wanted.cwd,
                archived=_ARCHIVED[wanted.archived],
                before=before,
                limit=PAGE + 1,
            )
            records = page.records + [
                record
                for record in foreign
                if wanted.cwd in (None, record.cwd) and (before is None or _place(record) < before)
            ]
            records.sort(key=_place, reverse=True)
            for row, record in zip(await self.rows(records[:PAGE]), records, strict=False):
                if wanted.takes(row):
                    rows.append(row)
                before = _place(record)
                if len(rows) == PAGE:
                    break
            is_last = len(records) <= PAGE and (not records or before == _place(records[-1]))
            if is_last or len(rows) == PAGE:
                return rows, None if is_last or before is None else _cursor(before)

    async def find(self, ids: Iterable[str]) -> dict[str, Row]:
        """Return the rows of these sessions, as far as they exist and belong to the client's user."""
        records = []
        for id in ids:
            live = self._host.find_live(id, self._client.visitor)
            record = await self._host.log.find(id, self._client.visitor.principal) if live is None else live.now_listed
            if record is not None:
                records.append(record)
        return {row["sessionId"]: row for row in await self.rows(records)}

    async def rows(self, records: list[SessionRecord]) -> list[Row]:
        """Return the rows for records of the log."""
        places = await self._host.places.find({record.cwd for record in records}) if self._client.kind.knows_us else {}
        return [self._described(record, places.get(record.cwd, {})) for record in records]

    def _described(self, record: SessionRecord, place: dict[str, Any]) -> Row:
        live = self._host.live(record.id)
        facts: dict[str, Any] = msgspec.json.decode(record.facts) if live is None else live.facts
        state = kept_state(facts, record.head)
        own: dict[str, Any] = {"agent": record.agent, "state": state, "attached": 0, "head": record.head}
        if live is not None:
            own.update(state=live.state, attached=len(live.attachments), head=live.head)
            own["queued"] = live.prompts.waiting_count
        own["name"] = facts.get("name")
        own.update(progress_members(facts))
        if self._client.kind.knows_us:
            own["agentSessionId"] = record.agent_session if live is None else live.agent_session
            own.update(place)
            parent = facts.get("parent")
            if isinstance(parent, dict):
                own["parent"] = parent.get("id")
            if self._client.visitor.is_local:
                own[LEDGER_NUMBER] = facts.get(LEDGER_NUMBER)
        own["questions"] = []
        if live is not None:
            own.update(self._live_members(live))
        elif self._client.kind.knows_us:
            own.update(turn=None, waiting=[])
        return {
            "sessionId": record.id,
            "cwd": record.cwd,
            **({"title": facts["title"]} if facts.get("title") else {}),
            "updatedAt": datetime.fromtimestamp(record.updated_at, UTC).isoformat().replace("+00:00", "Z"),
            **({"archived": True} if facts.get(ARCHIVED) else {}),
            "_meta": {"dragoman": own},
        }

    def _live_members(self, live: HostedSession) -> dict[str, Any]:
        """Return what is known of a session that is in memory, and shown to clients that know the host."""
        client = self._client
        found: dict[str, Any] = {"questions": live.questions.described(client)}
        if not client.kind.knows_us:
            return found
        line = live.last_line
        if line:
            found["lastLine"] = line
        if live.agent.is_lost and "error" not in live.facts:
            found["error"] = live.agent.end_described()
        found["turn"] = live.prompts.place
        mine, waiting = client.identity, live.prompts.waiting
        found["waiting"] = [{**item.shown(), "isMine": item.identity == mine} for item in waiting]
        return found


class SessionPlaces:
    """Branches and worktrees of the folders that sessions work in, read at most every few seconds, in a thread."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, dict[str, Any]]] = {}

    async def find(self, folders: set[str]) -> dict[str, dict[str, Any]]:
        """Return `branch` and `worktree` of each folder, as far as it has them."""
        oldest = monotonic() - _PLACE_SECONDS
        missing = [folder for folder in folders if self._known.get(folder, (0.0, {}))[0] < oldest]
        if missing:
            found = await asyncio.to_thread(_read_places, missing)
            if len(self._known) > _MOST_PLACES:
                self._known.clear()
            self._known.update({folder: (monotonic(), place) for folder, place in found.items()})
        return {folder: self._known[folder][1] for folder in folders if folder in self._known}


def _read_places(folders: list[str]) -> dict[str, dict[str, Any]]:
    from dragoman.workspace.git_branch import branch_of
    from dragoman.worktrees.worktree import worktree_at

    found = {}
    for folder in folders:
        place: dict[str, Any] = {}
        branch, worktree = branch_of(folder), worktree_at(folder)
        if branch:
            place["branch"] = branch
        if worktree is not None:
            place["worktree"] = {"name": worktree.name, "project": worktree.project}
        found[folder] = place
    return found


def read_archived(found: object) -> Archived:
    """Read the filter of a request; what is not known shows the sessions that are not archived."""
    return found if found == "include" or found == "only" else "exclude"


def _place(record: SessionRecord) -> ListPlace:
    return ListPlace(record.updated_at, record.id)


def _cursor(place: ListPlace) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(place)).decode()


def _read_cursor(cursor: str) -> ListPlace:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=ListPlace)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise RequestError.invalid_params("this cursor is not one of this host", path="$.cursor") from None
