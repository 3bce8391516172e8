"""One prompt on its way through Claude: the messages that belong to it, and which result ends it.

Owns the matching by `uuid`. Claude starts turns by itself when work in the background ends, before, between and after
the prompts, so results are never counted.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import deque
from typing import Any

from dragoman.adapters.values import AdapterError


class PromptedTurn:
    """The turn of one prompt. `put` takes its messages as they arrive, `next` returns them in order."""

    def __init__(self) -> None:
        self.uuid = str(uuid.uuid4())
        self.has_begun = False
        """Something arrived that shows that the program has the prompt."""
        self.is_waiting = False
        """Claude has the prompt in its queue: what arrives meanwhile belongs to a turn that it started by itself."""
        self.end: dict[str, Any] | None = None
        """The result that ends the turn, as soon as it has arrived: what follows it belongs to another turn."""
        self.added: dict[str, str] = {}
        """Texts that were added to the turn, by their uuid."""
        self._left: set[str] = set()
        """Those that Claude has not finished with."""
        self._messages: deque[dict[str, Any] | AdapterError] = deque()
        self._arrived = asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: dict[str, Any] | AdapterError) -> None:
        self.has_begun = self.has_begun or isinstance(message, dict)
        if isinstance(message, dict) and message.get("type") == "result":
            self._left -= answered_by(message)
            self.end = None if self._left else message
        self._messages.append(message)
        self._arrived.set()

    async def next(self) -> dict[str, Any]:
        """Return the next message. Raises: AdapterError when the program has ended, after everything that arrived."""
        while not self._messages:
            self._arrived.clear()
            await self._arrived.wait()
        message = self._messages.popleft()
        if isinstance(message, AdapterError):
            self._messages.appendleft(message)  # for the next call
            raise message
        return message

    def note_state(self, command: Any, state: Any) -> bool:
        """Claude reports what it does with a message: `queued`, `started`, `completed` or `cancelled`.

        Returns: whether the message belongs to this turn.
        """
        if command == self.uuid:
            self.is_waiting = state == "queued"
        elif state in ("completed", "cancelled"):
            self._left.discard(command)
        return command == self.uuid or command in self.added

    def add(self, text: str) -> str:
        """Note a text that is added to the turn, and return its uuid."""
        added = str(uuid.uuid4())
        self.added[added] = text
        self._left.add(added)
        return added

    def owns(self, result: dict[str, Any]) -> bool:
        """Return whether this result is that of the prompt, or of a text that was added to it.

        Versions that do not name the messages in results still mark the turns that they start by themselves.
        """
        answered = answered_by(result)
        return bool(answered & {self.uuid, *self.added}) if answered else "origin" not in result


def answered_by(result: dict[str, Any]) -> set[str]:
    """Return the uuids of the messages that a result answers."""
    listed = result.get("user_message_uuids")
    found = {str(name) for name in listed} if isinstance(listed, list) else set()
    if isinstance(result.get("user_message_uuid"), str):
        found.add(result["user_message_uuid"])
    return found
