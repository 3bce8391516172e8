"""The answer to `session/list`: sessions of the host's log, in pages, without starting an agent.

On a connection that is bound to an agent which runs anyway, the sessions that only the agent knows are among them.
"""

from __future__ import annotations

import base64
import binascii
import os
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import RequestError
from dragoman.host.history.facts import LEDGER_NUMBER, kept_state, progress_members
from dragoman.schema import decode, v1
from dragoman.store.event_log import ListPlace

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.host import Host
    from dragoman.rpc import Call
    from dragoman.store.event_log import SessionRecord

PAGE: Final = 50


class SessionList:
    """Lists the sessions that one client may see."""

    def __init__(self, host: Host, client: HostConnection) -> None:
        self._host = host
        self._client = client

    async def answer(self, call: Call) -> object:
        request = decode(v1.ListSessionsRequest, call.params or b"{}")
        cwd = request.cwd or None
        if cwd is not None and not os.path.isabs(cwd):
            raise RequestError.invalid_params("cwd must be absolute", path="$.cwd")
        agent, visitor = self._client.agent, self._client.visitor
        before = _read_cursor(request.cursor) if isinstance(request.cursor, str) else None
        # One more than a page: whether another page follows is seen after the sessions of the agent are among them.
        page = await self._host.log.page(visitor.principal, agent=agent, cwd=cwd, before=before, limit=PAGE + 1)
        records = page.records
        if agent is not None:
            foreign = await self._host.foreign_sessions(agent, visitor)
            records += [
                record
                for record in foreign
                if cwd in (None, record.cwd) and (before is None or _place(record) < before)
            ]
            records.sort(key=_place, reverse=True)
        answer: dict[str, Any] = {"sessions": [self._described(record) for record in records[:PAGE]]}
        if len(records) > PAGE:
            answer["nextCursor"] = _cursor(records[PAGE - 1])
        return answer

    def _described(self, record: SessionRecord) -> dict[str, Any]:
        facts: dict[str, Any] = msgspec.json.decode(record.facts)
        live = self._host.live(record.id)
        state = kept_state(facts, record.head)
        own: dict[str, Any] = {"agent": record.agent, "state": state, "attached": 0, "head": record.head}
        if live is not None:
            facts = live.facts
            own.update(state=live.state, attached=len(live.attachments), head=live.head)
            own["questions"] = sum(1 for _ in live.questions)
            own["queued"] = live.prompts.waiting_count
        own["name"] = facts.get("name")
        own.update(progress_members(facts))
        if self._client.kind.knows_us:
            own["agentSessionId"] = record.agent_session if live is None else live.agent_session
            if self._client.visitor.is_local:
                own[LEDGER_NUMBER] = facts.get(LEDGER_NUMBER)
        return {
            "sessionId": record.id,
            "cwd": record.cwd,
            **({"title": facts["title"]} if facts.get("title") else {}),
            "updatedAt": datetime.fromtimestamp(record.updated_at, UTC).isoformat().replace("+00:00", "Z"),
            "_meta": {"dragoman": own},
        }


def _place(record: SessionRecord) -> ListPlace:
    return ListPlace(record.updated_at, record.id)


def _cursor(record: SessionRecord) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_place(record))).decode()


def _read_cursor(cursor: str) -> ListPlace:
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(cursor.encode()), type=ListPlace)
    except (binascii.Error, msgspec.MsgspecError, ValueError):
        raise RequestError.invalid_params("this cursor is not one of this host", path="$.cursor") from None
