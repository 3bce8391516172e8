"""One session of Codex, a thread: what it works with, and where its messages go.

Owns the way of messages: to the turn that runs, otherwise to a task that shows what happens between turns. A thread
of a sub-agent belongs to the thread that started it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from msgspec import structs

from dragoman.adapters.codex.choices import Choices, choices_of, settings_of
from dragoman.adapters.codex.messages import CodexEnded, CodexQuestion, Report
from dragoman.adapters.codex.notes import ThreadNotes
from dragoman.uistream import chunks as c

if TYPE_CHECKING:
    from dragoman.adapters.codex.app_server import AppServer
    from dragoman.adapters.codex.choices import CodexModel
    from dragoman.adapters.codex.events import CodexEvents
    from dragoman.adapters.codex.turn import CodexTurn
    from dragoman.adapters.session import AdapterSession

_log = logging.getLogger("dragoman.adapters")


class CodexThread:
    """An open thread of one run of the program.

    `wanted` is what the user chose, `known` what Codex works with, `configured` what it worked with at first.
    """

    def __init__(
        self,
        session: AdapterSession,
        server: AppServer,
        result: dict[str, Any],
        models: tuple[CodexModel, ...],
        wanted: Choices | None = None,
    ) -> None:
        thread = result.get("thread")
        details: dict[str, Any] = thread if isinstance(thread, dict) else {}
        self.id = str(details.get("id"))
        self.session = session
        self.server = server
        self.models = models
        self.current = self.configured = choices_of(result)
        self.wanted = wanted or self.current
        self.name = details.get("name") or None
        self.turn: CodexTurn | None = None
        self.notes = ThreadNotes()
        self._between: deque[Report | CodexQuestion] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._own_turn: CodexEvents | None = None
        """The events of a turn that Codex began by itself."""

    def deliver(self, message: Report | CodexQuestion) -> None:
        """Take a message of the program about this thread, or about a sub-agent of it."""
        if self.turn is not None:
            self.turn.put(message)
            return
        self._between.append(message)
        if self._worker is None:
            self._worker = asyncio.ensure_future(self._show_between())

    def end(self, reason: CodexEnded) -> None:
        """End with the program."""
        if self.turn is not None:
            self.turn.put(reason)

    async def close(self) -> None:
        """Show nothing more."""
        if self._worker is not None:
            self._worker.cancel()
            await asyncio.wait({self._worker})

    async def follow(self, method: str, params: dict[str, Any]) -> None:
        """Take over what Codex changed about the thread itself: its name and its settings."""
        name, settings = params.get("threadName"), params.get("threadSettings")
        if method == "thread/name/updated" and isinstance(name, str) and name and name != self.name:
            self.name = name
            await self.session.rename(name)
        elif method == "thread/settings/updated" and isinstance(settings, dict):
            changed = structs.replace(choices_of(settings), is_custom=self.wanted.is_custom)
            if self.wanted == self.current:
                self.wanted = changed
            self.current = changed
            offered = settings_of(self.wanted, self.models)
            if offered != self.session.settings:
                await self.session.offer(offered)

    async def _show_between(self) -> None:
        try:
            while self._between:
                message = self._between.popleft()
                try:
                    await self._show(message)
                except Exception as error:  # the client is gone, or has not opened the session yet
                    _log.debug("not shown between turns", exc_info=error)
        finally:
            self._worker = None

    async def _show(self, message: Report | CodexQuestion) -> None:
        from dragoman.adapters.codex.events import CodexEvents

        if isinstance(message, CodexQuestion):
            # There is no turn, so no client waits for an answer: the question could stay open forever.
            self.server.refuse(message.id, "the user cannot be asked between turns")
            return
        method, params = message.method, message.params
        if params.get("threadId") not in (None, self.id):
            return  # a sub-agent that works on after its turn; the next turn sees what it did
        await self.follow(method, params)
        if method == "turn/started":
            self._own_turn = CodexEvents(self.notes)
            turn = params.get("turn")
            await self.session.show(c.Start(str(turn.get("id"))) if isinstance(turn, dict) else c.Start())
        # Without a turn of its own, an item is the late end of one whose turn was shown as over.
        events = self._own_turn or CodexEvents(self.notes)
        if self._own_turn is not None or not method.startswith("item/"):
            for chunk in events.feed(method, params):
                await self.session.show(chunk)
        if method == "turn/completed" and self._own_turn is not None:
            for chunk in self._own_turn.close():
                await self.session.show(chunk)
            self._own_turn.end()
            self._own_turn = None
