"""The conversation in a real browser, in front of a real host: what an agent does is shown, and what a user does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import pytest

from tests.web.kit import Played, Web, axe

if TYPE_CHECKING:
    from playwright.async_api import Page

OLD = "def deliver(hook):\n    return post(hook)\n"
NEW = "def deliver(hook):\n    return post(hook, timeout=10)\n"
MARKDOWN = (
    "See [the docs](https://example.org/a):\n\n```python\nreturn 1  # yes\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"
)
MODES = {
    "currentModeId": "ask",
    "availableModes": [
        {"id": "ask", "name": "Ask"},
        {"id": "bypass", "name": "Bypass permissions", "description": "Runs everything"},
        {"id": "edit", "name": "Edit"},
    ],
}


async def open_session(web: Web, page: Page) -> Played:
    """A new session, in sight."""
    session = await web.session(page)
    await page.evaluate("id => { location.hash = `#/s/${encodeURIComponent(id)}` }", session.id)
    await page.get_by_role("log", name="Conversation").wait_for()
    return session


def field(page: Page) -> Any:
    return page.get_by_role("textbox", name="Message")


async def say(page: Page, text: str) -> None:
    await field(page).fill(text)
    await page.get_by_role("button", name="Send", exact=True).click()


def text_update(kind: str, text: str, id: str) -> dict[str, Any]:
    return {"sessionUpdate": kind, "content": {"type": "text", "text": text}, "messageId": id}


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_a_turn_is_shown_with_everything_that_is_in_it(web: Web, size: Literal["desktop", "phone"]) -> None:
    """Messages, thoughts, calls of each kind, diff, output, plan, subagent, picture and end; axe in light and dark."""
    async with web.page(size=size) as page:
        session = await open_session(web, page)
        await say(page, "Retry webhooks")
        assert await session.prompted() == "Retry webhooks"
        log = page.get_by_role("log", name="Conversation")
        await log.get_by_text("Retry webhooks").wait_for()
        session.think("Let me **look** first.")
        await log.get_by_role("button", name="Thinking").wait_for()
        session.tool("Read queue.py", "read", "completed", content=[{"type": "content", "content": words("its text")}])
        edit = [{"type": "diff", "path": "src/deliver.py", "oldText": OLD, "newText": NEW}]
        session.tool("Edit deliver.py", "edit", "completed", content=edit)
        call = session.tool(
            "mypy src",
            "execute",
            "in_progress",
            content=[{"type": "terminal", "terminalId": "t1"}],
            _meta={"terminal_info": {"terminal_id": "t1"}},
        )
        output = {"terminal_id": "t1", "data": "\x1b[31merror:\x1b[0m wrong \x1b]0;title\x07type\n"}
        session.tool_update(call, _meta={"terminal_output": output})
        await log.get_by_role("region", name="Output of mypy src").get_by_text("error:").wait_for()
        session.tool_update(call, status="failed", _meta={"terminal_exit": {"terminal_id": "t1", "exit_code": 1}})
        await log.get_by_text("exit 1").wait_for()
        assert "title" not in await log.get_by_role("region", name="Output of mypy src").inner_text()
        task = session.tool("Look at the tests", "think", "in_progress")
        session.tool("Read test_order.py", "read", "completed", _meta={"claudeCode": {"parentToolUseId": task}})
        session.update("plan", entries=[plan("Find it", "completed"), plan("Run the tests", "in_progress")])
        session.update("usage_update", used=170_000, size=200_000, cost={"amount": 1.12, "currency": "USD"})
        session.say(MARKDOWN)
        await log.get_by_role("region", name="Code, python").get_by_text("return").wait_for()
        await log.get_by_role("region", name="Table").wait_for()
        assert "(example.org)" in await log.inner_text()
        link = log.get_by_role("link", name="the docs")
        assert await link.get_attribute("rel") == "noopener noreferrer"
        assert await log.get_by_role("table", name="Changed lines").locator("mark").all_inner_texts() == [
            ", timeout=10"
        ]
        assert await log.get_by_role("region", name="Output of mypy src").locator(".c-r").inner_text() == "error:"
        await page.get_by_text("85 %").first.wait_for()
        session.end()
        await log.locator(".turnend").wait_for()
        thought = log.get_by_role("button", name="Thought")
        await thought.click()
        await log.locator(".thoughts strong").get_by_text("look").wait_for()
        await log.get_by_role("button", name="Read queue.py").click()
        await log.get_by_text("its text").wait_for()
        if size == "phone":
            await page.get_by_role("button", name="Plan, 1 of 2").click()
        await page.get_by_text("1 of 2").first.wait_for()
        assert await page.get_by_role("heading", name="Usage").is_visible()
        for scheme in ("light", "dark"):
            await page.emulate_media(color_scheme=scheme)
            assert await axe(page) == [], scheme


def words(text: str) -> dict[str, str]:
    return {"type": "text", "text": text}


def plan(content: str, status: str) -> dict[str, str]:
    return {"content": content, "status": status, "priority": "medium"}
