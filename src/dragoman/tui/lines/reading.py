"""More of the conversation than the lines show: the last answer as a copy, a thought whole, the messages below."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Final

from dragoman.errors import DragomanError
from dragoman.text.terminal import plain, size
from dragoman.text.visible import label
from dragoman.tui.clipboard import copy
from dragoman.tui.copied_answer import copied_sentence, last_answer

if TYPE_CHECKING:
    from dragoman.tui.lines.client import LineClient

_MESSAGES: Final = 20


async def copy_answer(client: LineClient, words: str) -> None:
    """Copy the last answer; with `all`, the conversation as Markdown."""
    state = client.talk.state
    if words == "all":
        from dragoman.view.build import blocks_of
        from dragoman.view.markdown import to_markdown

        text = to_markdown(blocks_of(state), state.title or "Conversation") if state.timeline else ""
    else:
        text = last_answer(state)
    if text:
        client.note(copied_sentence(await copy(text, os.environ, client.terminal.write_sequence), text))
    else:
        client.write("note: there is nothing to copy")


async def show_thought(client: LineClient, words: str) -> None:
    """Write the last thought of the agent whole."""
    text = last_answer(client.talk.state, "thought")
    if not text:
        client.write("note: the agent sent no thought")
        return
    client.write("thought:", *(f"  {line}" for line in plain(text).split("\n")))


async def show_traffic(client: LineClient, words: str) -> None:
    """Write the last messages between host and agent. Raises: RequestError, ConnectionClosed."""
    from dragoman.tui.reporting.traffic import METHOD, TrafficModel, is_broken, kind_of, what_of

    talk, model = client.talk, TrafficModel()
    if talk.remote is None or talk.session_id is None:
        raise DragomanError("there is no session to look at")
    answer = await talk.remote.request(METHOD, {"sessionId": talk.session_id, "wait": False, **model.asked()})
    _ = await asyncio.to_thread(model.feed, answer)
    count = min(int(words[:4]), 1_000) if words.isascii() and words.isdigit() else _MESSAGES
    for row in list(model.rows)[-count:] if count else []:
        mark = "broken rule, " if is_broken(row) else ""
        parts = [
            model.clock(row),
            kind_of(row),
            label(what_of(row), 80),
            f"{size(model.size_bytes(row)).strip()} bytes",
        ]
        client.write(f"{model.number(row)}: {mark}{', '.join(parts)}")
    if not model.rows:
        client.write("note: there are no messages yet")
