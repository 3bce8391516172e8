"""The turns of a thread as messages, for a session that is loaded.

Owns the way from items back to messages. The items pass through the same code as those of a running turn. Loaded with
the first session that is loaded; new ones start without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.adapters.codex.events import CodexEvents, error_text, user_text
from dragoman.uistream.fold import ERROR, Reducer
from dragoman.uistream.messages import FilePart, TextPart, UIMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dragoman.uistream.messages import Part


def messages_of(turn: dict[str, Any]) -> Iterator[UIMessage]:
    """Yield the messages of one turn: that of the user, then that of the agent."""
    found = turn.get("items")
    items = [item for item in (found if isinstance(found, list) else ()) if isinstance(item, dict) and "id" in item]
    prompt = next((item for item in items if item.get("type") == "userMessage"), None)
    if prompt is not None:
        yield UIMessage(str(prompt["id"]), "user", _parts(prompt.get("content")))
    answer = UIMessage(str(turn.get("id")), "assistant", [])
    reducer, events = Reducer(answer, is_tolerant=True), CodexEvents()
    for item in items:
        for chunk in events.complete(item):
            reducer.feed(chunk)
    reducer.close()
    if turn.get("status") == "failed":
        answer.metadata[ERROR] = error_text(turn.get("error"))
    if reducer.message.parts or answer.metadata:
        yield answer


def _parts(content: Any) -> list[Part]:
    parts: list[Part] = []
    for item in content if isinstance(content, list) else ():
        match item:
            case {"type": "image", "url": str(url)}:
                kind = url[5:].partition(";")[0] if url.startswith("data:") else "image/png"
                parts.append(FilePart(url, kind))
            case _ if text := user_text([item]):
                parts.append(TextPart(text))
    return parts
