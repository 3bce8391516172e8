"""A page that an agent asks to open: its address is shown in full, and opened only after a yes (rules 308, 322, 323).

What is known about an address and how a browser is started is in `client/elicitation/pages.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from dragoman.cli.prompt.dialogue import InputEnded
from dragoman.client.elicitation.pages import inspect, is_web
from dragoman.schema import v1
from dragoman.text.colour import BOLD, DIM, YELLOW
from dragoman.text.visible import label, paragraphs, quoted, spelled, wrapped

if TYPE_CHECKING:
    from collections.abc import Callable

    from dragoman.cli.prompt.dialogue import Dialogue
    from dragoman.client.elicitation.form import Outcome

RAIL: Final = "  │ "
_MESSAGE: Final = 30  # lines


async def ask_url(request: v1.ElicitationUrlMode, dialogue: Dialogue, open_page: Callable[[str], bool]) -> Outcome:
    """Ask the user whether to open the page; the end of the input cancels the request."""
    paint, width = dialogue.paint, dialogue.width
    host, warnings = inspect(request.url)
    await dialogue.write("", paint(f"{label(dialogue.agent, 40)} asks you to open a page", BOLD))
    lines = paragraphs(request.message, width - len(RAIL))[:_MESSAGE] if request.message.strip() else []
    await dialogue.write(*(paint(RAIL, DIM) + line for line in lines))
    await dialogue.write(*(f"  {piece}" for piece in wrapped(spelled(request.url), width - 2)))
    await dialogue.write(f"  {paint('host', DIM)}   {paint(quoted(host), BOLD) if host else '(none)'}")
    await dialogue.write(*(f"  {paint(warning, YELLOW)}" for warning in warnings))
    if not is_web(request.url):
        await dialogue.refuse("only http and https pages can be opened: cancelled")
        return v1.CancelElicitation()
    try:
        while (line := (await dialogue.ask("  y opens it in your browser, d declines, c cancels > ")).strip()) != "y":
            if line == "d":
                return v1.DeclineElicitation()
            if line == "c":
                return v1.CancelElicitation()
    except InputEnded:
        return v1.CancelElicitation()
    if not await asyncio.to_thread(open_page, request.url):
        await dialogue.write("  no browser could be started; please open the address above yourself")
    return v1.AcceptElicitation()
