"""The person at this terminal: whoever asks them something, they are asked one thing at a time.

Answers permissions (`ask`), forms and pages of an agent (`form`, `url`), and the choice of a login. Reads the
terminal itself, so that a prompt piped into stdin is not in the way. A question that is given up disappears with a
note and leaves the terminal as it was. Knows no policy: who may be asked what is decided elsewhere.
"""

from __future__ import annotations

import asyncio
import sys
import termios
from typing import TYPE_CHECKING, TypeVar

from dragoman.cli.prompt.dialogue import Dialogue, Ended
from dragoman.cli.prompt.keyboard import TERMINAL, Keyboard, can_read
from dragoman.schema import v1
from dragoman.text.colour import Painter

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import TextIO

    from dragoman.cli.prompt.form import Outcome
    from dragoman.cli.prompt.progress import Progress
    from dragoman.client.permission import Question
    from dragoman.client.session import Session

Told = TypeVar("Told")


class Person:
    """Asks the person at the terminal. Everything that is asked while a question is open waits for its turn."""

    def __init__(
        self,
        *,
        agent: str,
        colour: bool,
        progress: Progress | None = None,
        tty: str = TERMINAL,
        open_page: Callable[[str], bool] | None = None,
    ) -> None:
        """`agent` is named in every question; `progress` is silent while one is open."""
        self._agent = agent
        self._paint = Painter(colour)
        self._progress = progress
        self._tty = tty
        self._open_page = open_page
        self._turn = asyncio.Lock()

    @staticmethod
    def is_there(stderr: TextIO | None = None, tty: str = TERMINAL) -> bool:
        """Whether somebody can be asked: stderr is a terminal, and this process may read from it."""
        stream = sys.stderr if stderr is None else stderr
        try:
            return stream.isatty() and can_read(tty)
        except ValueError:  # closed
            return False

    async def ask(self, question: Question, session: Session) -> str | None:
        """The id of the option the person chose for a permission, None if none."""
        from dragoman.cli.prompt.permission import ask_permission

        return await self._talk(lambda dialogue: ask_permission(question, session.state, dialogue), None)

    async def form(self, request: v1.ElicitationFormMode, session: Session | None) -> Outcome:
        """What the person makes of a form."""
        from dragoman.cli.prompt.form import ask_form

        return await self._talk(lambda dialogue: ask_form(request, dialogue), v1.CancelElicitation())

    async def url(self, request: v1.ElicitationUrlMode, session: Session | None) -> Outcome:
        """Opens a page, if the person wants it opened."""
        from dragoman.cli.prompt.browser import ask_url, open_in_browser

        open_page = self._open_page or open_in_browser
        return await self._talk(lambda dialogue: ask_url(request, dialogue, open_page), v1.CancelElicitation())

    async def complete(self, elicitation_id: str) -> None:
        """The agent says that what was begun on a page is done."""
        if self._progress is not None:
            self._progress.note(f"{self._agent} says that the page you opened is done")

    async def choose_auth(self, methods: Sequence[v1.AuthMethod]) -> v1.AuthMethod | None:
        """The way to log in which the person chose, None if none."""
        from dragoman.cli.prompt.login_choice import choose_method

        return await self._talk(lambda dialogue: choose_method(methods, dialogue), None)

    async def _talk(self, talk: Callable[[Dialogue], Awaitable[Told]], nothing: Told) -> Told:
        """What `talk` brings; `nothing` if the person ends the input, or cannot be asked after all."""
        async with self._turn:
            if self._progress is not None:
                self._progress.hold()
            try:
                with Keyboard(self._tty) as keyboard:
                    return await _take_part(talk, nothing, Dialogue(keyboard, self._paint, self._agent))
            except (OSError, termios.error):  # the terminal went away, or we went to the background
                return nothing
            finally:
                if self._progress is not None:
                    self._progress.release()


async def _take_part(talk: Callable[[Dialogue], Awaitable[Told]], nothing: Told, dialogue: Dialogue) -> Told:
    try:
        return await talk(dialogue)
    except Ended:
        return nothing
    except asyncio.CancelledError:
        dialogue.withdraw()
        raise
