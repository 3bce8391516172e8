"""The end of a turn that a crash left without one, so that its session can be continued.

Loaded with the first session that is loaded: new ones start without the code that puts messages together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dragoman.store.messages import message_to_row
from dragoman.uistream.chunks import decode_chunk
from dragoman.uistream.fold import ERROR, INTERRUPTED, Reducer
from dragoman.uistream.messages import UIMessage

if TYPE_CHECKING:
    from dragoman.store.sessions import Store


async def end_left_turn(store: Store, session_id: str) -> None:
    """Store what a turn had shown when its program died, with open calls as failed. Raises: StoreError."""
    log = await store.live_log(session_id)
    if log is None or log.is_alive:
        return
    reducer = Reducer(UIMessage(log.message_id, "assistant", []), is_tolerant=True)
    for line in log.chunks:
        reducer.feed(decode_chunk(line))
    reducer.close(INTERRUPTED)
    reducer.message.metadata.setdefault(ERROR, "the agent ended before the turn was over")
    await store.finish_message(session_id, message_to_row(reducer.message))
