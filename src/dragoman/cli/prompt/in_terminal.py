"""The user at this terminal as a ready permission policy: `permission=dragoman.ask_in_terminal`.

Owns only how a script gets at `UserPrompt`: one for each event loop, so that questions of several agents wait for each
other. Without a terminal every request is cancelled.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from dragoman.cli.console import uses_colour
from dragoman.cli.prompt.user import UserPrompt
from dragoman.client.permission import ClientPermissions

if TYPE_CHECKING:
    from dragoman.client.permission import Answer, Question
    from dragoman.client.session import Session
    from dragoman.schema import v1


class TerminalAsker:
    """The user at the terminal, who is asked: a permission service by itself, and the `asker` of `rules`."""

    def __init__(self) -> None:
        self._prompts: WeakKeyDictionary[asyncio.AbstractEventLoop, UserPrompt] = WeakKeyDictionary()

    async def __call__(
        self, request: v1.RequestPermissionRequest, session: Session
    ) -> v1.SelectedPermissionOutcome | None:
        """Answer `session/request_permission` with what the user chooses; None, `cancelled`, without a terminal."""
        asker = self if UserPrompt.is_available() else None
        return await ClientPermissions((), agent="", asker=asker).permission(request, session)

    @property
    def has_user(self) -> bool:
        """Whether there is a terminal."""
        return UserPrompt.is_available()

    async def ask(self, question: Question, session: Session) -> Answer | None:
        """Return the option that the user chose, None for none or without a terminal."""
        if not UserPrompt.is_available():
            return None
        loop = asyncio.get_running_loop()
        prompt = self._prompts.get(loop)
        if prompt is None:
            prompt = self._prompts[loop] = UserPrompt(agent="The agent", colour=uses_colour(sys.stderr))
        return await prompt.ask(question, session)


ask_in_terminal = TerminalAsker()
