"""The conversation in a real browser, in front of a real host: what an agent does is shown, and what a user does."""

from __future__ import annotations

from base64 import b64decode, b64encode
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from dragoman.host.serving.access import ProjectServices
from dragoman.registry.agents import AgentEntry
from dragoman.registry.mode_reach import reaches_in
from tests.host.kit import WireAgent
from tests.web.kit import Played, Web, axe, holds

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


ONE_PIXEL = b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NAMES = ["changed\nold.py\n+2\n−1", "created\nnew.py\n+1"]


async def open_session(web: Web, page: Page, cwd: str | None = None) -> Played:
    """A new session, in sight."""
    session = await web.session(page, cwd)
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


# Feeds the page's own store, once a frame, and notes what a user would see in each: where the first block in view
# stands, how far the end is, how many blocks there are. The host's line is tested in test_line.py.
WATCH = """async ({id, frames, each, start}) => {
    const thread = dragoman.thread(id), list = document.querySelector('.thread');
    const next = () => new Promise(done => requestAnimationFrame(done));
    const rows = () => [...list.querySelectorAll('[data-row]')];
    const edge = list.getBoundingClientRect().top;
    const first = rows().find(row => row.getBoundingClientRect().bottom > edge + 1);
    const top = () => first?.isConnected ? first.getBoundingClientRect().top : null;
    const begun = top(), seen = {jumps: 0, far: 0, most: 0, times: []};
    let before = await next();
    for (let frame = 0; frame < frames; frame++) {
        for (let n = 0; n < each; n++) {
            const at = start + frame * each + n;
            const kind = at % 40;
            const update = kind === 39
                ? {sessionUpdate: 'tool_call', toolCallId: `c${at}`, title: `Step ${at}`, kind: 'read',
                   status: 'completed'}
                : {sessionUpdate: 'agent_message_chunk', messageId: `m${Math.floor(at / 40)}`,
                   content: {type: 'text', text: kind % 13 === 12 ? `word ${at}.\\n\\n` : `word \\`${at}\\` and `}};
            thread.onUpdate({update}, null);
        }
        thread.paint();
        const now = await next();
        seen.times.push(now - before);
        before = now;
        if (begun !== null && Math.abs((top() ?? 1e9) - begun) > 1) seen.jumps++;
        seen.far = Math.max(seen.far, list.scrollHeight - list.clientHeight - list.scrollTop);
        seen.most = Math.max(seen.most, rows().length);
    }
    seen.times.sort((a, b) => a - b);
    seen.p95 = seen.times[Math.floor(seen.times.length * 0.95)];
    return seen;
}"""
IN_VIEW = """() => {
    const row = document.querySelector('.aimed').getBoundingClientRect();
    const list = document.querySelector('.thread').getBoundingClientRect();
    return row.top >= list.top && row.bottom <= list.bottom;
}"""
EMPTY = """async frames => {
    const next = () => new Promise(done => requestAnimationFrame(done));
    const times = [];
    let before = await next();
    for (let frame = 0; frame < frames; frame++) { const now = await next(); times.push(now - before); before = now; }
    times.sort((a, b) => a - b);
    return times[Math.floor(times.length * 0.95)];
}"""


async def test_the_view_follows_at_its_end_and_stays_elsewhere_while_text_streams(web: Web) -> None:
    """At the end it follows; one wheel step up nothing moves, the button counts what is new, and goes back."""
    async with web.page() as page:
        session = await open_session(web, page)
        at_end = await page.evaluate(WATCH, {"id": session.id, "frames": 60, "each": 10, "start": 0})
        assert at_end["far"] <= 32
        assert at_end["most"] <= 150
        log = page.get_by_role("log", name="Conversation")
        await log.hover()
        await page.mouse.wheel(0, -1500)
        await page.get_by_role("button", name="To the end").wait_for()
        # A wheel may go on for some frames: the view has to stand before it is watched.
        await holds(
            page,
            "() => { const now = document.querySelector('.thread').scrollTop, is = now === window.stood;"
            " window.times = is ? (window.times ?? 0) + 1 : 0; window.stood = now; return window.times > 20; }",
        )
        away = await page.evaluate(WATCH, {"id": session.id, "frames": 60, "each": 10, "start": 600})
        assert away["jumps"] == 0
        assert away["most"] <= 150
        button = page.get_by_role("button", name="new", exact=False).filter(has_text="new")
        assert int((await button.inner_text()).split()[0]) == 30  # fifteen messages and fifteen calls
        await button.click()
        await holds(
            page,
            "() => { const list = document.querySelector('.thread');"
            " return list.scrollHeight - list.clientHeight - list.scrollTop < 2; }",
        )
        assert await button.count() == 0


@pytest.mark.alone
async def test_ten_thousand_updates_stay_as_smooth_as_an_empty_page(web: Web) -> None:
    """The 95th percentile of the time between two frames, against that of an empty page in the same run."""
    async with web.page() as page:
        ratios = []
        for _ in range(3):  # another program may take a core for some seconds: then both are measured again
            session = await open_session(web, page)
            seen = await page.evaluate(WATCH, {"id": session.id, "frames": 250, "each": 40, "start": 0})
            assert seen["most"] <= 150
            assert seen["far"] <= 32
            empty = await page.context.new_page()
            blank = await empty.evaluate(EMPTY, 120)
            await empty.close()
            ratios.append(seen["p95"] / blank)
            if ratios[-1] <= 1.5:
                return
        pytest.fail(f"frames took {ratios} times those of an empty page")


async def test_history_comes_by_pages_and_keeps_the_first_block_at_its_pixel(web: Web) -> None:
    """A session that is opened again begins at its end; at the top the page before it comes, and nothing jumps."""
    async with web.page() as page:
        session = await open_session(web, page)
        await say(page, "Count")
        await session.prompted()
        session.say("The needle lies here.")
        for number in range(900):
            session.tool(f"Step {number}", "read", "completed")
        session.end()
        await page.locator(".turnend").wait_for()
        await page.reload()
        log = page.get_by_role("log", name="Conversation")
        await log.get_by_role("region", name="Step 899").wait_for()
        held = "id => dragoman.thread(id).items.value.length"
        assert await page.evaluate(held, session.id) < 500
        moved = await page.evaluate(
            """async id => {
                const list = document.querySelector('.thread'), thread = dragoman.thread(id);
                const next = () => new Promise(done => requestAnimationFrame(done));
                list.scrollTop = 400;
                await next();
                const edge = list.getBoundingClientRect().top, had = thread.items.value.length;
                const rows = () => [...list.querySelectorAll('[data-row]')];
                const first = rows().find(row => row.getBoundingClientRect().bottom > edge + 1);
                const name = first.textContent, begun = first.getBoundingClientRect().top;
                let moved = 0;
                for (let frame = 0; frame < 3000; frame++) {
                    const now = rows().find(row => row.textContent === name);
                    moved = Math.max(moved, now ? Math.abs(now.getBoundingClientRect().top - begun) : 1e9);
                    if (thread.items.value.length > had && frame > 30) return moved;
                    await next();
                }
                return -1;
            }""",
            session.id,
        )
        assert 0 <= moved <= 1
        assert await page.evaluate(held, session.id) > 500
        assert await page.locator("[data-row]").count() <= 150

        await page.reload()  # what is searched for is not loaded
        await log.get_by_role("region", name="Step 899").wait_for()
        await log.focus()
        await page.keyboard.press("/")
        await page.get_by_role("searchbox", name="Search this session").fill("NEEDLE")
        await page.get_by_text("1 place", exact=True).wait_for()
        assert await axe(page) == []
        await page.get_by_role("button", name="The needle lies here.").click()
        await log.locator(".aimed").get_by_text("The needle lies here.").wait_for()
        assert await page.evaluate(IN_VIEW)
        assert await page.evaluate("location.hash") == f"#/s/{session.id}"
        seq = await page.evaluate("() => Number(document.querySelector('.aimed').dataset.row)")
        await page.goto("about:blank")
        await page.goto(f"{web.url}/#/s/{session.id}/{seq}")  # as a link that was copied
        await log.locator(".aimed").get_by_text("The needle lies here.").wait_for()
        assert await page.evaluate(IN_VIEW)


async def test_a_prompt_is_written_queued_changed_and_stopped_by_keys(web: Web) -> None:
    """Keyboard only: completion, new lines, send, queue, edit, take back, mode, stop; and the draft is kept."""
    async with web.page() as page:
        session = await open_session(web, page)
        session.update("available_commands_update", availableCommands=[{"name": "review", "description": "Look"}])
        await holds(page, "id => dragoman.thread(id).commands.value.length === 1", session.id)
        await field(page).focus()
        await page.keyboard.type("/rev")
        await page.get_by_role("option", name="/review").wait_for()
        assert await axe(page) == []
        await page.keyboard.press("Enter")
        await page.keyboard.type("now")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("please")
        assert await field(page).input_value() == "/review now\nplease"
        await page.evaluate("location.hash = '#/'")  # the draft stays with its session
        await page.get_by_role("log", name="Conversation").wait_for(state="detached")
        await page.go_back()
        await holds(page, "() => document.querySelector('textarea')?.value === '/review now\\nplease'")
        await field(page).focus()
        await page.keyboard.press("Enter")
        assert await session.prompted() == "/review now\nplease"
        await page.get_by_role("button", name="Queue this prompt").wait_for()
        for text in ("Second", "Third"):
            await page.keyboard.type(text)
            await page.keyboard.press("Enter")
            await page.locator(".queued:has(.i-queue)").get_by_text(text).wait_for()
        await page.keyboard.press("ArrowUp")  # the last one comes back
        await holds(page, "() => document.querySelector('textarea').value === 'Third'")
        await page.keyboard.press("Control+A")
        await page.keyboard.press("Delete")
        await holds(page, "() => document.querySelectorAll('.queued').length === 1")
        await page.get_by_role("button", name="Edit the waiting prompt").focus()
        await page.keyboard.press("Enter")
        await page.get_by_role("textbox", name="Edit the waiting prompt").press_sequentially(" of all")
        await page.keyboard.press("Enter")
        await page.locator(".queued").get_by_text("Second of all").wait_for()
        assert await axe(page) == []
        await field(page).focus()
        await page.keyboard.press("Escape")  # what waits does not run: it is in the input again
        assert (await session.agent.next())["method"] == "session/cancel"
        session.end("cancelled")
        await page.get_by_text("Stopped.", exact=True).wait_for()
        assert "Second" in await field(page).input_value()
        await holds(page, "() => document.querySelectorAll('.queued').length === 0")


async def test_modes_that_ask_nothing_are_amber_and_need_a_second_press(web: Web) -> None:
    """The picker says so, the key for the next mode passes them by, and every client sees the change."""
    async with web.page() as page:
        session = await open_session(web, page)
        script = "({id, answer}) => { const t = dragoman.thread(id); t.fold.open(answer); t.paint(); }"
        answer = {"modes": MODES, "_meta": {"dragoman": {"reach": reaches_in("test", MODES, None)}}}
        await page.evaluate(script, {"id": session.id, "answer": answer})
        picker = page.get_by_role("button", name="Mode: Ask")
        await picker.click()
        choice = page.get_by_role("menuitemradio", name="Bypass permissions")
        await choice.click()
        await page.get_by_text("Press again to choose it.").wait_for()
        assert await page.evaluate("id => dragoman.thread(id).modes.value.current", session.id) == "ask"
        assert await axe(page) == []
        await page.keyboard.press("Escape")
        await holds(page, "() => document.activeElement?.textContent.includes('Ask')")
        await page.evaluate("id => { dragoman.thread(id).setMode('bypass') }", session.id)
        amber = page.get_by_role("button", name="Mode: Bypass permissions")
        await amber.wait_for()
        assert "amber" in (await amber.get_attribute("class") or "")
        # Nothing that an agent names covers the buttons next to it, or makes the page wider.
        long = {"id": "b", "name": "B" * 200, "type": "boolean", "currentValue": True}
        await page.evaluate(script, {"id": session.id, "answer": {"configOptions": [long]}})
        await page.get_by_role("switch").wait_for()
        await say(page, "Go")
        await session.prompted()
        await page.get_by_role("button", name="Stop").click(trial=True)
        over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert await page.evaluate(over) == 0
        session.update("available_commands_update", availableCommands=[None, {"name": ""}, {"name": "only"}])
        await holds(page, "id => dragoman.thread(id).commands.value.length === 3", session.id)
        await field(page).press_sequentially("/")
        await page.get_by_role("option", name="/only").wait_for()
        assert await page.get_by_role("option").count() == 1
        await page.keyboard.press("Escape")
        session.ask("make " + "x" * 300)
        await page.set_viewport_size({"width": 390, "height": 844})
        button = page.get_by_role("button", name="Answer", exact=True)
        await button.wait_for()
        assert await button.evaluate("found => found.scrollWidth <= found.clientWidth")
        assert await page.evaluate(over) == 0
        session.end()


ATTACH = """({kind, name, type, bytes, size}) => {
    const data = new DataTransfer();
    const content = size ? new Uint8Array(size) : Uint8Array.from(atob(bytes), one => one.charCodeAt(0));
    data.items.add(new File([content], name, {type}));
    const made = kind === 'paste'
        ? new ClipboardEvent('paste', {clipboardData: data, bubbles: true, cancelable: true})
        : new DragEvent('drop', {dataTransfer: data, bubbles: true, cancelable: true});
    document.querySelector('.box textarea').dispatchEvent(made);
}"""
SHOWN = """() => {
    const found = document.querySelector('.you img');
    return found?.src.startsWith('blob:') && found.naturalWidth;
}"""


async def test_files_are_attached_by_press_paste_and_drop_and_reach_the_agent(web: Web, tmp_path: Path) -> None:
    """Each is a chip; what is refused says why; the agent gets the bytes, and the conversation shows them again."""
    picture = b64encode(ONE_PIXEL).decode()
    async with web.page() as page:
        session = await open_session(web, page)
        await page.locator("input[type=file]").set_input_files(
            {"name": "my notes.txt", "mimeType": "text/plain", "buffer": b"their text"}
        )
        pasted = {"kind": "paste", "name": "image.png", "type": "image/png", "bytes": picture}
        await page.evaluate(ATTACH, pasted)
        await page.evaluate(ATTACH, pasted)  # two pictures of a clipboard have one name
        await page.evaluate(ATTACH, {"kind": "drop", "name": "empty.txt", "type": "text/plain", "bytes": ""})
        await page.evaluate(ATTACH, {"kind": "drop", "name": "film.mp4", "type": "video/mp4", "size": 17 << 20})
        chips = page.locator(".att .chip")
        await chips.filter(has_text="empty.txt").get_by_text("The file is empty.").wait_for()
        await chips.filter(has_text="film.mp4").get_by_text("too large: 16 MiB at most").wait_for()
        await holds(page, "() => !document.querySelector('.att').textContent.includes('uploading')")
        assert await axe(page) == []
        for name in ("Remove empty.txt", "Remove film.mp4"):
            await page.get_by_role("button", name=name).click()
        await page.get_by_role("button", name="Remove image.png").first.click()
        assert await chips.count() == 2
        await say(page, "Look at these")
        assert await session.prompted() == "Look at these"
        _, file, image = session.blocks
        assert file["resource"]["text"] == "their text"
        assert (image["mimeType"], image["data"]) == ("image/png", picture)
        assert await holds(page, SHOWN) == 1

        await page.locator("input[type=file]").set_input_files(
            {"name": "later.txt", "mimeType": "text/plain", "buffer": b"later"}
        )
        await chips.get_by_text("5 B").wait_for()
        await holds(page, "() => !document.querySelector('.att').textContent.includes('uploading')")
        await field(page).fill("And this")
        await page.keyboard.press("Enter")
        await page.locator(".queued").get_by_text("And this").wait_for()
        await holds(page, "id => dragoman.thread(id).waiting.value.length === 1", session.id)  # the host has it
        await field(page).focus()
        await page.keyboard.press("ArrowUp")  # what was attached comes back with the text
        await chips.filter(has_text="later.txt").wait_for()
        assert await field(page).input_value() == "And this"
        # Again, and at once: the host has read the prompt, or has not, when it is to come back.
        await page.evaluate(
            """id => dragoman.thread(id).unsent.subscribe(unsent => {
                if (unsent.at(-1)?.state !== 'sending' || window.isUp) return;
                window.isUp = true;
                const up = new KeyboardEvent('keydown', {key: 'ArrowUp', bubbles: true, cancelable: true});
                queueMicrotask(() => document.querySelector('textarea').dispatchEvent(up));
            })""",
            session.id,
        )
        await page.keyboard.press("Enter")
        await holds(page, "() => window.isUp && document.querySelector('textarea').value === 'And this'")
        await chips.filter(has_text="later.txt").wait_for()
        await page.locator(".queued").wait_for(state="detached")

        session.end()
        await page.locator(".turnend").wait_for()
        await page.reload()
        assert await holds(page, SHOWN) == 1
        async with page.expect_download() as saved:
            await page.get_by_role("button", name="my notes.txt").click()
        download = await saved.value
        assert download.suggested_filename == "my notes.txt"
        await download.save_as(tmp_path / "saved")
        assert (tmp_path / "saved").read_bytes() == b"their text"


class Able(WireAgent):
    """An agent with modes, which can be steered."""

    def reply(self, message: dict[str, Any], result: Any) -> None:
        more = {"modes": MODES} if message["method"] == "session/new" else {}
        super().reply(message, {**result, **more})


LATER = """() => {
    const real = Date.now;
    Date.now = () => real() + 190_000;
    document.dispatchEvent(new Event('visibilitychange'));
}"""
LIVE = "() => document.querySelector('[data-live]').textContent"


async def test_a_session_is_steered_renamed_restarted_and_put_away(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    """By keys and the menu; an agent that is quiet, or that ended, says so with what can be done."""
    monkeypatch.setattr(web.source, "kind", Able)
    able = {**web.source.capabilities, "_meta": {"dragoman": {"steer": "_vendor/add"}}}
    monkeypatch.setattr(web.source, "capabilities", able)
    async with web.page() as page:
        session = await open_session(web, page)
        agent = session.agent
        await page.get_by_role("button", name="Mode: Ask").wait_for()
        await field(page).focus()
        await page.keyboard.press("Shift+Tab")  # the mode between them asks nothing
        asked = await agent.next()
        assert (asked["method"], asked["params"]["modeId"]) == ("session/set_mode", "edit")
        agent.reply(asked, {})
        await page.get_by_role("button", name="Mode: Edit").wait_for()

        await page.evaluate(
            "() => { dragoman.app.settings.value = {...dragoman.app.settings.value, announce: 'messages'} }"
        )
        await say(page, "Begin")
        await session.prompted()
        session.think("A long thought.")
        session.say("First I look.", messageId="m1")
        session.tool("ls", "execute", "completed", content=[{"type": "content", "content": words("a.txt")}])
        await holds(page, f"() => ({LIVE})() === 'test: First I look.'")
        await field(page).fill("use tabs")
        await page.get_by_role("button", name="Steer").wait_for()
        await page.keyboard.press("Control+Enter")
        steered = await agent.next()
        assert (steered["method"], "use tabs" in str(steered["params"])) == ("_vendor/add", True)
        agent.reply(steered, {"accepted": True})
        await page.locator(".queued").get_by_text("Steers:").wait_for()
        agent.update("user_message_chunk", content=words("use tabs"), messageId="u1")
        await page.get_by_role("log", name="Conversation").get_by_text("use tabs").wait_for()
        await page.locator(".queued").wait_for(state="detached")

        await page.get_by_role("log", name="Conversation").focus()
        thought = page.get_by_role("button", name="Thought")
        assert await thought.get_attribute("aria-expanded") == "false"
        await page.keyboard.press("t")
        await page.get_by_text("A long thought.").wait_for()
        await page.keyboard.press("t")
        await page.get_by_text("A long thought.").wait_for(state="detached")
        assert await page.get_by_role("region", name="Output of ls").count() == 0

        await page.evaluate(LATER)
        await page.get_by_text("quiet for 3 min").wait_for()
        assert await page.get_by_role("button", name="Restart the agent").is_visible()
        assert await axe(page) == []
        session.say("Done with it.", messageId="m2")
        await page.get_by_text("quiet for 3 min").wait_for(state="detached")
        session.end()
        await holds(page, f"() => ({LIVE})() === 'test: Done with it. test has finished.'")

        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name="Rename").click()
        await page.get_by_role("textbox", name="New title").fill("Tabs, not spaces")
        await page.keyboard.press("Enter")
        await page.get_by_role("heading", name="Tabs, not spaces", level=1).wait_for()

        await page.evaluate(
            "() => { dragoman.app.settings.value = {...dragoman.app.settings.value, announce: 'turns'} }"
        )
        await say(page, "Go on")
        await session.prompted()
        session.say("Said.", messageId="m3")
        starts = web.source.starts
        agent.transport.close()
        fault = page.get_by_role("group", name="test could not go on")
        await fault.get_by_role("button", name="Restart and go on").click()
        session.agent = await web.source.started(starts + 1)
        await page.get_by_text("test runs again.").wait_for()
        assert await axe(page) == []
        await holds(page, f"() => ({LIVE})() === 'test has stopped before the end.'")
        await page.evaluate("() => { dragoman.app.settings.value = {...dragoman.app.settings.value, announce: 'off'} }")
        await say(page, "Once more")
        await session.prompted()
        session.end()
        await page.locator(".turnend").nth(1).wait_for()
        assert await page.evaluate(LIVE) == "test has stopped before the end."

        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name="Archive").click()
        await page.get_by_text("Archived.").wait_for()
        await page.get_by_role("heading", name="Tabs, not spaces").wait_for(state="detached")
        await page.go_back()  # it is only out of the list
        await page.get_by_role("log", name="Conversation").get_by_text("Once more").wait_for()
        await page.get_by_role("button", name="More").click()
        await page.get_by_role("menuitem", name="Take out of the archive").click()
        await holds(
            page, "id => dragoman.app.rows.value.some(r => r.sessionId === id && !r.own.archivedAt)", session.id
        )


async def test_a_draft_that_was_typed_right_before_a_reload_is_kept(web: Web) -> None:
    """Also where the database has not taken it: the page that goes leaves it for the next one."""
    async with web.page() as page:
        await open_session(web, page)
        await page.evaluate("() => { IDBObjectStore.prototype.put = () => { throw new Error('too slow') } }")
        await field(page).fill("half a thought")
        await page.reload()
        await holds(page, "() => document.querySelector('textarea')?.value === 'half a thought'")
        await page.reload()  # it is in the database now, and nothing is left over
        await holds(page, "() => document.querySelector('textarea')?.value === 'half a thought'")
        assert await page.evaluate("localStorage.length") == 0
        await field(page).fill("")
        await page.reload()
        await holds(page, "() => document.querySelector('textarea')?.value === ''")


async def test_the_panel_has_changed_files_limits_and_who_is_here(
    web: Web, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """From a turn that the host followed, and another client; what is not known is left out."""
    monkeypatch.setenv("DRAGOMAN_HOME", str(tmp_path / "home"))
    entry = AgentEntry(name="test", command=("test", "--acp"), source="user", where="settings")
    monkeypatch.setattr(web.host, "services", ProjectServices(find_entry=lambda name: entry))
    project = tmp_path / "project"
    project.mkdir()
    (project / "old.py").write_text("one\ntwo\n")
    async with web.page() as page:
        session = await open_session(web, page, str(project))
        panel = page.get_by_role("complementary", name="Plan, changes and usage")
        await say(page, "Change them")
        await session.prompted()
        (project / "old.py").write_text("one\n2\n3\n")
        (project / "new.py").write_text("new\n")
        limit = {"status": "allowed_warning", "rateLimitType": "five_hour", "utilization": 0.82}
        session.update("usage_update", used=10, size=100, _meta={"_claude/rateLimit": limit})
        await panel.get_by_text("Limit, five hour").wait_for()
        await panel.get_by_text("82 %").wait_for()
        assert await panel.get_by_role("heading", name="Changed in the last turn").count() == 0
        session.end()
        await panel.get_by_role("heading", name="Changed in the last turn 2").wait_for()
        assert sorted(await panel.locator(".files").first.locator("li").all_inner_texts()) == NAMES
        assert await panel.get_by_text("other client").count() == 0
        async with web.wire() as other:
            await other.request("session/resume", sessionId=session.id, cwd=str(project), mcpServers=[])
            await panel.get_by_text("1 other client").wait_for()
        await panel.get_by_text("1 other client").wait_for(state="detached")
        assert "Cost" not in await panel.inner_text()
        assert await axe(page) == []


async def test_a_file_of_the_project_is_completed_behind_an_at_sign(web: Web) -> None:
    """The host looks for it; Tab takes it."""
    (web.folder / "ledger-notes.md").write_text("text")
    async with web.page() as page:
        await open_session(web, page)
        await field(page).focus()
        await page.keyboard.type("See @ledger")
        await page.get_by_role("option", name="ledger-notes.md").wait_for()
        await page.keyboard.press("Tab")
        await holds(page, "() => document.querySelector('textarea').value === 'See @ledger-notes.md '")
