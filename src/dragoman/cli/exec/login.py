"""A login in the middle of a run: the agent refused the prompt, and the user is at this terminal.

Loaded when that happens: other runs start without it. `dragoman login` does the login, in the foreground.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.errors import DragomanError
from dragoman.text.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.registry.agents import AgentEntry


def log_in_on_terminal(entry: AgentEntry, refusal: str, note: Callable[[str], None]) -> bool:
    """Ask whether to log in now, and do it; return whether the user is logged in. Nothing is asked without a user."""
    from dragoman.cli.login_here import login_words, shown_login, user_here
    from dragoman.process.foreground import run_in_foreground
    from dragoman.process.own_program import own_command

    async def log_in() -> bool:
        user = user_here(entry)
        if user is None:
            return False
        if not await user.confirm(f"{one_line(refusal)}\n  Log in now with {shown_login(entry)}?"):
            return False
        try:
            return await run_in_foreground(own_command(*login_words(entry))) == 0
        except DragomanError as error:
            note(str(error))
            return False

    return asyncio.run(log_in())
