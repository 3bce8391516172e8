"""A real agent of openai-agents in a program of its own, with a model server on loopback."""

from pathlib import Path

import pytest

from dragoman.errors import RequestError
from dragoman.schema import v1
from tests.adapters.fixtures import Answers, ask, on_wire, statuses, text_of
from tests.interop.frameworks.conftest import Start
from tests.interop.model_server.server import ModelServer


async def test_an_agent_answers_asks_fails_and_goes_on(start: Start, tmp_path: Path) -> None:
    answers = Answers("allow", "reject")
    with ModelServer() as server:
        async with start("openai_program.py", server.url, tmp_path / "s.db", permission=answers) as remote:
            session = await remote.new_session(tmp_path)
            assert text_of(await ask(session, "hello"))
            updates = await ask(session, "READ /a.txt")
            assert "content of /a.txt" in text_of(updates)
            assert statuses(updates) == ["pending", "in_progress", "completed"]
            updates = await ask(session, "WRITE /b.txt words")
            assert statuses(updates)[-1] == "completed"
            updates = await ask(session, "WRITE /c.txt words")
            assert statuses(updates)[-1] == "failed"
            assert len(answers.asked) == 2
            with pytest.raises(RequestError):
                await ask(session, "ERROR 400")
            turn = session.prompt("SLOW")
            async with turn:
                async for update in turn:
                    if isinstance(update, v1.AgentMessageChunk):
                        break
                await session.cancel()
                async for _ in turn:
                    pass
            assert turn.result.stop_reason == "cancelled"
            assert text_of(await ask(session, "hello"))
            await session.prompt([v1.TextContent("look"), v1.ImageContent("AAAA", "image/png")])
            assert "data:image/png;base64,AAAA" in server.exchanges[-1].body
            assert remote.noise_lines == 0
            session_id = session.id
        async with start("openai_program.py", server.url, tmp_path / "s.db") as remote:
            loading = remote.load_session(session_id, tmp_path)
            updates = on_wire([update async for update in loading])
            assert "READ /a.txt" in text_of(updates, "user_message_chunk")
            before = len(server.exchanges)
            assert text_of(await ask(loading.session, "hello again"))
            assert "READ /a.txt" in server.exchanges[before].body
