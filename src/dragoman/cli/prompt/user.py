"""The user at this terminal, asked one question at a time.

Answers permission requests (`ask`), forms and pages of an agent (`form`, `url`), and the choice of a login. Reads from
the terminal itself, so that a prompt can be piped into stdin. A question that is withdrawn ends with a note and leaves
the terminal as it was. Whether the user may be asked at all is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
import termios
from typing import TYPE_CHECKING, TypeVar

from dragoman.cli.prompt.dialogue import Dialogue, InputEnded
from dragoman.cli.prompt.keyboard import TERMINAL, Keyboard, can_read
from dragoman.schema import v1
from dragoman.text.colour import Painter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TextIO

    from dragoman.cli.prompt.progress import Progress
    from dragoman.client.elicitation.form import Outcome
    from dragoman.client.login import LoginMethod
    from dragoman.client.permission import Answer, Question
    from dragoman.client.session import Session

Talked = TypeVar("Talked")


class UserPrompt:
    """The questions to the user at the terminal. One that comes while another one is open waits for it."""

    def __init__(
        self,
        *,
        agent: str,
        colour: bool,
        progress: Progress | None = None,
        tty: str = TERMINAL,
        open_page: Callable[[str], bool] | None = None,
    ) -> None:
        """Create the prompt.

        Args:
            agent: The name shown in every question.
            progress: Held while a question is open.
            tty: The terminal to read from.
            open_page: Opens a page in a browser; returns whether it could.
        """
        self._agent = agent
        self._paint = Painter(colour)
        self._progress = progress
        self._tty = tty
        self._open_page = open_page
        self._turn = asyncio.Lock()

    @staticmethod
    def is_available(stderr: TextIO | None = None, tty: str = TERMINAL) -> bool:
        """Return whether the user can be asked: stderr is a terminal, and this process may read from it."""
        stream = sys.stderr if stderr is None else stderr
        try:
            return stream.isatty() and can_read(tty)
        except ValueError:  # closed
            return False

    async def ask(self, question: Question, session: Session) -> Answer | None:
        """Ask for permission; return the chosen option, with the reason of a refusal, or None."""
        from dragoman.cli.prompt.permission import ask_permission

        chosen = await self._talk(lambda dialogue: ask_permission(question, session.state, dialogue), None)
        if self._progress is not None:
            content = question.permission.tool_call.content or ()
            self._progress.note_shown(question.diffs or [item for item in content if isinstance(item, v1.Diff)])
        return chosen

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Outcome:
        """Ask the user to fill in a form."""
        from dragoman.cli.prompt.form import ask_form

        return await self._talk(lambda dialogue: ask_form(request, dialogue), v1.CancelElicitation())

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> Outcome:
        """Ask the user whether to open a page, and open it."""
        from dragoman.cli.prompt.browser import ask_url
        from dragoman.client.elicitation.pages import open_in_browser

        open_page = self._open_page or open_in_browser
        return await self._talk(lambda dialogue: ask_url(request, dialogue, open_page), v1.CancelElicitation())

    async def complete(self, elicitation_id: str) -> None:
        """Show that the agent is done with a page the user opened."""
        if self._progress is not None:
            self._progress.note(f"{self._agent} reports that the page you opened is done")

    async def choose_login(self, methods: Sequence[LoginMethod]) -> LoginMethod | None:
        """Ask for a login method; return None if none was chosen."""
        from dragoman.cli.prompt.login_choice import choose_method

        return await self._talk(lambda dialogue: choose_method(methods, dialogue), None)

    async def type_key(self, method: LoginMethod) -> str | None:
        """Ask for the key of a login method and check it; "" for the key that the agent has, None for no login."""
        from dragoman.cli.prompt.login_choice import ask_key

        return await self._talk(lambda dialogue: ask_key(method, dialogue), None)

    async def confirm(self, question: str) -> bool:
        """Ask a question whose answer is yes if the user only presses Enter."""

        async def ask(dialogue: Dialogue) -> bool:
            return (await dialogue.ask(f"{question} [Y/n] ")).strip().lower() in ("", "y", "yes")

        return await self._talk(ask, False)

    async def _talk(self, talk: Callable[[Dialogue], Awaitable[Talked]], nothing: Talked) -> Talked:
        """Return the answer of `talk`; `nothing` if the user ends the input or cannot be asked after all."""
        async with self._turn:
            if self._progress is not None:
                self._progress.hold()
            try:
                with Keyboard(self._tty) as keyboard:
                    return await _answer(talk, nothing, Dialogue(keyboard, self._paint, self._agent))
            except (OSError, termios.error):  # the terminal went away, or we went to the background
                return nothing
            finally:
                if self._progress is not None:
                    self._progress.release()


async def _answer(talk: Callable[[Dialogue], Awaitable[Talked]], nothing: Talked, dialogue: Dialogue) -> Talked:
    try:
        return await talk(dialogue)
    except InputEnded:
        return nothing
    except asyncio.CancelledError:
        dialogue.withdraw()
        raise
