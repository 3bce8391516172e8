"""The stored messages of an open session that are not in memory: read by pages, and only as far back as needed.

Theory of operation. A session is opened without its messages. `session/load` before its answer, and `session/resume`
after it, read from the newest message back to the oldest that the model is given: the last `/clear`, or the tail of the
last compaction. Those stay in memory, in `OpenSession.history`; everything up to `until` is only in the
store, and `session/load` streams it from there, page by page, and keeps none of it. A viewer takes `until` and the
messages in memory in one step, so that no message is shown twice or left out, whatever is read meanwhile.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from dragoman.builtin.context.history import CLEAR, COMMAND
from dragoman.builtin.context.rewound import RewoundWalk
from dragoman.store.messages import message_from_row
from dragoman.uistream.messages import DataPart

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from dragoman.store.sessions import Store
    from dragoman.uistream.messages import UIMessage

# Decoding a page takes a few milliseconds, in which the event loop does nothing else.
PAGE: Final = 64
_COMPACTION: Final = "compaction"


class StoredPast:
    """The messages of a session up to `until`, which is the id of the newest of them; None if there are none."""

    def __init__(self, store: Store, session_id: str) -> None:
        self._store = store
        self._session_id = session_id
        self.until: str | None = None
        self._is_read = False

    async def open(self) -> None:
        """Find the end of the past. Raises: StoreError."""
        newest = await self._store.messages(self._session_id, limit=1, is_backwards=True, has_parts=False)
        self.until = newest[0].id if newest else None

    async def pages(self, until: str | None) -> AsyncIterator[list[UIMessage]]:
        """Yield all messages up to this one, the oldest first. Raises: StoreError."""
        after: str | None = None
        while until is not None:
            rows = await self._store.messages(self._session_id, after=after, until=until, limit=PAGE)
            if not rows:
                return
            yield [message_from_row(row) for row in rows]
            after = rows[-1].id

    async def read(self, history: list[UIMessage]) -> None:
        """Put the messages that the model is given in front of `history`. Raises: StoreError."""
        if self._is_read:
            return
        reach = Reach()
        is_found = any(map(reach.add, reversed(history)))
        until = self.until
        newest_first: list[UIMessage] = []
        while until is not None and not is_found:
            rows = await self._store.messages(self._session_id, until=until, limit=PAGE, is_backwards=True)
            until = None
            for row in rows:
                if is_found:
                    until = row.id
                    break
                message = message_from_row(row)
                newest_first.append(message)
                is_found = reach.add(message)
            else:
                until = await self._id_before(rows[-1].id) if len(rows) == PAGE else None
            await asyncio.sleep(0)
        # In one step: a viewer that attaches takes both.
        history[:0] = reversed(newest_first)
        self.until = until
        self._is_read = True

    async def _id_before(self, message_id: str) -> str | None:
        before = await self._store.messages(
            self._session_id, until=message_id, limit=2, is_backwards=True, has_parts=False
        )
        return before[1].id if len(before) > 1 else None


class Reach:
    """How far back the messages for the model reach, found by adding messages from the newest to the oldest."""

    def __init__(self) -> None:
        self._count = 0
        self._needed: int | None = None
        self._walk = RewoundWalk()

    def add(self, message: UIMessage) -> bool:
        """Whether no older message is needed."""
        self._count += 1
        if self._walk.is_rewound(message):
            pass  # what it states does not apply
        elif message.role == "user":
            command = message.metadata.get(COMMAND, {})
            if command.get("name") == CLEAR and "prompt" not in command:
                return True
        elif self._needed is None:
            backs = [back for part in message.parts for back in _backs(part)]
            if backs:
                self._needed = self._count + max(backs)
        return self._needed is not None and self._count >= self._needed


def _backs(part: Any) -> list[int]:
    """Return how many messages before its own a compaction still needs, if the part is one."""
    if not isinstance(part, DataPart) or part.name != _COMPACTION or not isinstance(part.data, dict):
        return []
    tail, user = part.data.get("tail"), part.data.get("user")
    back = tail.get("back") if isinstance(tail, dict) else None
    return [count for count in (back, user) if isinstance(count, int)] if isinstance(back, int) else []
