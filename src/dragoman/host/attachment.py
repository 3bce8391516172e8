"""A client that is attached to a session: a cursor on the session's log.

Owns what this client has been sent. Events never wait in memory for it: when its socket is full the cursor stops, and
goes on from the log when there is room. So a slow client slows down no other, and one that comes back goes on behind
the number it names.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.host.client_kind import variant_of
from dragoman.host.frames import notice_frame, stored_update, update_frame, user_chunk
from dragoman.host.replay import blocks_of, message_id_of
from dragoman.wire import write_notification

if TYPE_CHECKING:
    from dragoman.host.connection import HostConnection
    from dragoman.host.session import HostedSession
    from dragoman.store.event_log import LogEvent

_PAGE: Final = 256


class Attachment:
    """One client on one session."""

    def __init__(self, session: HostedSession, client: HostConnection, cursor: int) -> None:
        self.session = session
        self.client = client
        self.cursor = cursor
        self._id = msgspec.json.encode(session.id)
        self._is_waiting = False
        self._is_held = False
        self._is_over = False
        self._awaited: dict[str, asyncio.Future[dict[str, Any]]] = {}

    def await_outcome(self, prompt_id: str) -> asyncio.Future[dict[str, Any]]:
        """The outcome of a prompt, once everything before it was sent to this client."""
        if prompt_id not in self._awaited:
            self._awaited[prompt_id] = asyncio.get_running_loop().create_future()
        return self._awaited[prompt_id]

    def pump(self, fresh: list[LogEvent] | None = None) -> None:
        """Send what the client has not got yet, as far as there is room.

        Args:
            fresh: Events that were committed just now; others are read from the log.
        """
        if self._is_waiting or self._is_held or self._is_over:
            return
        outbox = self.client.peer.outbox
        while self.cursor < self.session.head and not self._is_over:
            if outbox.is_full:
                self._is_waiting = True
                _ = self.client.run(self._go_on())
                return
            if fresh is not None and fresh[0].number == self.cursor + 1:
                events = fresh
            else:
                events = self.session.log.read(self.session.id, self.cursor, _PAGE)
            fresh = None
            if not events:
                return
            for event in events:
                self.cursor = event.number
                if self._send(event):
                    return

    def answered(self) -> None:
        """The answer to a prompt was written: what comes after it may follow."""
        self._is_held = False
        self.pump()

    def detach(self) -> None:
        """Send nothing more."""
        self._is_over = True
        for each in self._awaited.values():
            each.cancel()

    async def _go_on(self) -> None:
        try:
            await self.client.peer.outbox.room()
        finally:
            self._is_waiting = False
        self.pump()

    def _send(self, event: LogEvent) -> bool:
        """Send what the event means to this client; True if nothing may follow for now."""
        match event.kind:
            case "update":
                update, meta = stored_update(event.body)
                self._update(update, meta, event.number)
            case "start":
                self._started(event)
            case "question":
                self._question(event)
            case "answer":
                self._notify("_dragoman/answered", event)
            case "end" | "queue":
                self._ended(event)
            case "setting":
                self._setting(event)
            case "notice":
                self._notice(event)
            case _:
                pass
        return self._is_held

    def _update(self, update: bytes, meta: dict[str, Any], number: int) -> None:
        kind = self.client.kind
        converted = kind.convert(update, variant_of(update))
        if converted is not None:
            frame = update_frame(self._id, converted, meta, number if kind.knows_us else None)
            self.client.peer.post(frame)

    def _started(self, event: LogEvent) -> None:
        """The others see a prompt when its turn starts; its sender shows it already."""
        found: dict[str, Any] = msgspec.json.decode(event.body)
        if found.get("by") == self.client.key:
            if self.client.kind.starts:
                self._notify("_dragoman/turn_started", event)
            return
        number = found.get("prompt")
        asked = self.session.log.read(self.session.id, number - 1, 1)[:1] if isinstance(number, int) else []
        for block in blocks_of(asked[0].body) if asked else ():
            self._update(user_chunk(block, message_id_of(event.body)), {}, event.number)

    def _question(self, event: LogEvent) -> None:
        id = msgspec.json.decode(event.body).get("questionId")
        question = self.session.questions.get(id)
        if question is not None:
            question.show(self.client)

    def _ended(self, event: LogEvent) -> None:
        found: dict[str, Any] = msgspec.json.decode(event.body)
        waiting = self._awaited.pop(str(found.get("promptId")), None)
        if waiting is not None and not waiting.done():
            self._is_held = True  # the answer is written in a later turn of the loop
            waiting.set_result(found)
        elif event.kind == "end":
            self._notify("_dragoman/turn_ended", event)

    def _setting(self, event: LogEvent) -> None:
        found: dict[str, Any] = msgspec.json.decode(event.body)
        if found.get("by") != self.client.key:
            for update in found.get("updates") or ():
                self._update(msgspec.json.encode(update), {}, event.number)

    def _notice(self, event: LogEvent) -> None:
        text = str(msgspec.json.decode(event.body).get("text"))
        if self.client.kind.notices:
            notice = {"sessionUpdate": "notice", "severity": "info", "title": text}
            self._update(msgspec.json.encode(notice), {}, event.number)
        elif self.client.kind.knows_us:
            self.client.peer.post(notice_frame(self.session.id, text))

    def _notify(self, method: str, event: LogEvent) -> None:
        if self.client.kind.knows_us:
            body = {"sessionId": self.session.id, "seq": event.number, **msgspec.json.decode(event.body)}
            self.client.peer.post(write_notification(method, msgspec.json.encode(body)))
