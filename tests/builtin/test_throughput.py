"""Long texts cost in proportion to their length, and a fast stream leaves room for everything else."""

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from dragoman.store.sessions import Store
from dragoman.uistream import chunks as c
from dragoman.uistream.fold import Reducer
from dragoman.uistream.messages import ReasoningPart, TextPart, ToolPart, UIMessage
from tests.builtin.http_service import Service

FOLDED: dict[str, tuple[list[c.Chunk], Callable[[str], c.Chunk]]] = {
    "text": ([c.TextStart("1")], lambda piece: c.TextDelta("1", piece)),
    "reasoning": ([c.ReasoningStart("1")], lambda piece: c.ReasoningDelta("1", piece)),
    "tool input": ([c.ToolInputStart("1", "write")], lambda piece: c.ToolInputDelta("1", piece)),
}


def folding_seconds(kind: str, count: int) -> float:
    """CPU time to fold a text of so many chunks, the best of three."""
    start, delta = FOLDED[kind]
    chunks = [delta(f"{number} ") for number in range(count)]
    seconds = []
    for _ in range(3):
        reducer = Reducer(UIMessage("m", "assistant", []))
        begin = time.process_time()
        for chunk in (*start, *chunks):
            reducer.feed(chunk)
        part = reducer.message.parts[0]
        seconds.append(time.process_time() - begin)
        assert isinstance(part, (TextPart, ReasoningPart, ToolPart))
        text = part.input_text if isinstance(part, ToolPart) else part.text
        assert len(text) == sum(len(str(number)) + 1 for number in range(count))
    return min(seconds)


@pytest.mark.parametrize("kind", FOLDED)
def test_folding_a_text_of_200_000_chunks_takes_time_in_proportion_to_its_length(kind: str) -> None:
    # Four times the chunks take four times as long, and sixteen times if each copies the text before it.
    assert folding_seconds(kind, 200_000) < 8 * folding_seconds(kind, 50_000)


async def test_a_fast_stream_is_committed_and_shown_in_few_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[int] = []
    append = Store.append_log

    async def append_log(self: Store, message_id: str, position: int, chunks: Sequence[bytes]) -> None:
        rows.append(len(chunks))
        await append(self, message_id, position, chunks)

    monkeypatch.setattr(Store, "append_log", append_log)
    count = 20_000
    async with Service(tmp_path).session() as session:
        updates = 0
        async for _ in session.prompt(f"flood {count}"):
            updates += 1
        assert session.state.text == "".join(f"{number} " for number in range(1, count + 1))
    # A commit takes what arrived during the one before it, up to 512 chunks, as one piece.
    assert updates <= count / 100
    assert sum(rows) <= count / 100


async def test_a_slow_stream_is_shown_piece_by_piece(tmp_path: Path) -> None:
    async with Service(tmp_path).session() as session:
        updates = [update async for update in session.prompt("slow 5")]
        assert sum("TextContent" in repr(update) for update in updates) == 5


async def test_other_requests_are_answered_while_a_model_floods(tmp_path: Path) -> None:
    async with Service(tmp_path).client() as agent:
        session = await agent.new_session(tmp_path)
        async with session.prompt("flood 100000") as turn:
            await anext(turn)
            for _ in range(5):
                await asyncio.wait_for(agent.list_sessions(), 10)
            with pytest.raises(Exception, match="not over"):
                _ = turn.result
            await turn.cancel()
            assert (await turn).stop_reason == "cancelled"
