"""The page's line to its host, in a real browser: what it holds is what the host has, whatever happens to the line."""

from __future__ import annotations

from tests.web.kit import Web, holds


async def test_a_turn_is_in_the_state_of_the_page(web: Web) -> None:
    """Prompt, thought, tool call, text and end come to the page in their order, and the list has the session."""
    async with web.page() as page:
        session = await web.session(page)
        await page.evaluate("id => { dragoman.app.open(id) }", session.id)
        await page.evaluate("id => { dragoman.app.prompt(id, 'Hello', 'send') }", session.id)
        assert await session.prompted() == "Hello"
        session.think("Let me look.")
        call = session.tool("ls")
        session.tool_update(call, status="completed")
        session.say("Done.")
        session.end()
        await holds(page, "id => dragoman.thread(id).fold.timeline.at(-1)?.kind === 'turn'", session.id)
        kinds = await page.evaluate(
            "id => dragoman.thread(id).fold.timeline.map(one => one.role ?? one.kind)", session.id
        )
        assert kinds == ["user", "thought", "tool", "agent", "turn"]
        assert await page.evaluate("id => dragoman.app.rows.value.some(row => row.sessionId === id)", session.id)
        assert await page.evaluate("id => dragoman.thread(id).unsent.value.length", session.id) == 0
