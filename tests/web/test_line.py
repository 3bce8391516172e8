"""The page's line to its host, in a real browser: what it holds is what the host has, whatever happens to the line."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.web.kit import Played, Web, connected, holds

if TYPE_CHECKING:
    from playwright.async_api import Page

TEXT = """id => dragoman.thread(id).fold.timeline.filter(one => one.role === 'agent')
    .flatMap(one => one.parts).map(part => part.text).join('')"""
KINDS = "id => dragoman.thread(id).fold.timeline.map(one => one.role ?? one.kind)"
ENDED = "id => dragoman.thread(id)?.fold.timeline.at(-1)?.kind === 'turn'"


async def begin(page: Page, session: Played, text: str = "Hello") -> None:
    """Opens a session in the page and prompts it; the turn runs."""
    await page.evaluate("id => { dragoman.app.open(id) }", session.id)
    await page.evaluate("([id, text]) => { dragoman.app.prompt(id, text, 'send') }", [session.id, text])
    assert await session.prompted() == text


async def test_a_turn_is_in_the_state_of_the_page(web: Web) -> None:
    """Prompt, thought, tool call, text and end come to the page in their order, and the list has the session."""
    async with web.page() as page:
        session = await web.session(page)
        await begin(page, session)
        session.think("Let me look.")
        call = session.tool("ls")
        session.tool_update(call, status="completed")
        session.say("Done.")
        session.end()
        await holds(page, ENDED, session.id)
        assert await page.evaluate(KINDS, session.id) == ["user", "thought", "tool", "agent", "turn"]
        assert await page.evaluate("dragoman.app.said.value") == "test has finished."
        assert await page.evaluate("id => dragoman.app.rows.value.some(row => row.sessionId === id)", session.id)
        assert await page.evaluate("id => dragoman.thread(id).unsent.value.length", session.id) == 0


@pytest.mark.parametrize("cuts", [12, pytest.param(100, marks=pytest.mark.soak)])
async def test_a_turn_of_200_updates_is_whole_after_random_cuts_and_a_sleep(cuts: int, web: Web) -> None:
    """Each of the 200 is in the page's own state once, in order, and so are the prompt and the end."""
    chance = random.Random(cuts)
    places = sorted(chance.sample(range(1, 200), cuts))
    asleep = places[len(places) // 2]
    async with web.page() as page:
        session = await web.session(page)
        await begin(page, session)
        line = await page.context.new_cdp_session(page)
        for number in range(200):
            session.say(f"{number} ")
            if number not in places:
                continue
            if chance.random() < 0.5:  # else the cut may come before anything of it was sent
                await holds(page, f"id => ({TEXT})(id).endsWith('{number} ')", session.id)
            web.proxy.cut()
            if number == asleep:
                await sleep_through(page, line, session, web)
            # At once, as a page does that is shown again; the wait between tries has a test of its own.
            await page.evaluate("dragoman.app.reconnect()")
            if chance.random() < 0.8:
                await connected(page)
        session.end()
        await page.evaluate("dragoman.app.reconnect()")
        await holds(page, ENDED, session.id)
        assert (await page.evaluate(TEXT, session.id)).split() == [str(number) for number in range(200)]
        assert await page.evaluate(KINDS, session.id) == ["user", "agent", "turn"]
        assert await page.evaluate("id => dragoman.thread(id).unsent.value.length", session.id) == 0


async def sleep_through(page: Page, line: Any, session: Played, web: Web) -> None:
    """Freezes the page as a phone does, cuts its line meanwhile, and wakes it."""
    await line.send("Page.setWebLifecycleState", {"state": "frozen"})
    web.proxy.cut()
    await line.send("Page.setWebLifecycleState", {"state": "active"})
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def test_the_line_comes_back_by_itself_and_a_line_that_is_dead_is_given_up(web: Web) -> None:
    """After a cut within seconds, without a gesture; a socket that gives no sign of life is noticed when shown."""
    async with web.page() as page:
        session = await web.session(page)
        await begin(page, session)
        web.proxy.cut()
        session.say("one ")
        await holds(page, f"id => ({TEXT})(id) === 'one '", session.id)
        web.proxy.is_mute = True
        try:
            session.say("two ")
            await page.evaluate("dispatchEvent(new Event('pageshow'))")
            await holds(page, "() => dragoman.app.line.value.state !== 'connected'")
        finally:
            web.proxy.is_mute = False
        web.proxy.cut()  # what was said while it was mute is lost in the proxy, and is not lost in the host
        await page.evaluate("dispatchEvent(new Event('online'))")
        await holds(page, f"id => ({TEXT})(id) === 'one two '", session.id)
        session.end()
        await holds(page, ENDED, session.id)


async def test_drafts_and_prompts_that_were_not_sent_survive_a_reload_and_run_once(web: Web) -> None:
    async with web.page() as page:
        session = await web.session(page)
        await page.evaluate(
            "id => { dragoman.app.open(id); dragoman.app.draft(id).value = 'half a thought' }", session.id
        )
        web.proxy.is_down = True
        try:
            web.proxy.cut()
            await holds(page, "() => dragoman.app.line.value.state !== 'connected'")
            await page.evaluate("id => dragoman.app.prompt(id, 'Kept', 'send')", session.id)
            states = "id => dragoman.thread(id).unsent.value.map(one => one.state)"
            assert await page.evaluate(states, session.id) == ["kept"]
        finally:
            web.proxy.is_down = False
        await page.reload()
        await connected(page)
        await page.evaluate("id => { dragoman.app.open(id) }", session.id)
        assert await session.prompted() == "Kept"
        assert await holds(page, "id => dragoman.app.draft(id).value", session.id) == "half a thought"
        await holds(page, "id => dragoman.thread(id).unsent.value.length === 0", session.id)
        session.say("Once.")
        session.end()
        await holds(page, ENDED, session.id)
        assert await page.evaluate(KINDS, session.id) == ["user", "agent", "turn"]
        await page.reload()
        await connected(page)
        await page.evaluate("id => { dragoman.app.open(id) }", session.id)
        await holds(page, ENDED, session.id)
        assert await page.evaluate(KINDS, session.id) == ["user", "agent", "turn"], "from the history"
        assert session.agent.lines.empty(), "the prompt ran once"


async def test_two_pages_and_a_client_on_the_wire_show_the_same(web: Web) -> None:
    async with web.page() as one, web.page(size="phone") as other, web.wire() as client:
        session = await web.session(one)
        await other.evaluate("id => { dragoman.app.open(id) }", session.id)
        await client.request("session/resume", sessionId=session.id, cwd=str(web.folder), mcpServers=[])
        await begin(one, session)
        for number in range(50):
            session.say(f"{number} ")
        session.tool("ls", status="completed")
        session.end()
        await asyncio.gather(holds(one, ENDED, session.id), holds(other, ENDED, session.id))
        await client.until(lambda message: message.get("method") == "_dragoman/turn_ended")
        shown = [[await page.evaluate(script, session.id) for script in (KINDS, TEXT)] for page in (one, other)]
        assert shown[0] == shown[1]
        assert shown[0] == [["user", "agent", "tool", "turn"], client.texts()]


async def test_a_page_that_is_hidden_goes_on_without_drawing_and_is_drawn_once_when_it_is_shown(web: Web) -> None:
    """Chromium without a window hides no page, whatever is in front of it: the page is given another answer."""
    hide = """(() => {
        let state = 'visible';
        Object.defineProperty(Document.prototype, 'visibilityState', {get: () => state});
        Object.defineProperty(Document.prototype, 'hidden', {get: () => state === 'hidden'});
        window.become = now => { state = now; document.dispatchEvent(new Event('visibilitychange')); };
    })()"""
    async with web.context() as context:
        page = await context.new_page()
        await page.add_init_script(hide)
        await web.enter(page, user="hidden")
        session = await web.session(page)
        await page.evaluate("id => { location.hash = `#/s/${id}` }", session.id)
        await page.evaluate("id => { dragoman.app.prompt(id, 'Hello', 'send') }", session.id)
        await session.prompted()
        session.say("Seen. ")
        await page.locator("main").get_by_text("Seen.").wait_for()
        await page.evaluate("become('hidden')")
        await page.evaluate("() => new Promise(done => setTimeout(done))")  # what had begun to be drawn is drawn
        await page.evaluate(
            """() => { window.drawn = 0;
                new MutationObserver(found => { window.drawn += found.length }).observe(document.body,
                    {childList: true, characterData: true, attributes: true, subtree: true}); }"""
        )
        for number in range(20):
            session.say(f"{number} ")
        session.ask("make")
        await holds(page, f"id => ({TEXT})(id).endsWith('19 ')", session.id)
        await holds(page, "() => document.title.startsWith('(1) ')")  # the tab says that it needs the user
        assert await page.evaluate("drawn") == 0
        await page.evaluate("become('visible')")
        await page.locator("main").get_by_text("18 19").wait_for()
        await page.get_by_role("button", name="Allow once").wait_for()
        session.end()
        await holds(page, ENDED, session.id)


async def test_a_question_is_in_every_page_and_is_answered_once(web: Web) -> None:
    async with web.page() as one, web.page() as other:
        session = await web.session(one)
        await begin(one, session)
        asked = session.ask("go test ./...")
        first = "() => dragoman.app.questions.value[0]?.title"
        await asyncio.gather(holds(one, first), holds(other, first))
        answer = (
            """() => dragoman.app.answer(dragoman.app.questions.value[0], {outcome: 'selected', optionId: 'once'})"""
        )
        assert await other.evaluate(answer) == {"result": "accepted"}
        assert await asked.chosen() == "once"
        gone = "() => dragoman.app.questions.value.length === 0"
        await asyncio.gather(holds(one, gone), holds(other, gone))
        session.end()
        await holds(one, ENDED, session.id)


async def test_a_device_that_was_removed_loses_its_line_and_everything_that_it_kept(web: Web) -> None:
    async with web.page() as page:
        session = await web.session(page)
        await page.evaluate("id => { dragoman.app.open(id); dragoman.app.draft(id).value = 'mine' }", session.id)
        device = await page.evaluate("dragoman.app.host.value.device")
        assert web.server.pairing is not None
        web.server.pairing.remove(device)
        await holds(page, "() => dragoman.app.line.value.state === 'unpaired'")
        assert await page.evaluate("dragoman.app.line.value.why") == "removed"
        assert await page.evaluate("dragoman.app.rows.value.length") == 0
        kept = """() => new Promise(done => {
            const asked = indexedDB.open('dragoman', 1);
            asked.onsuccess = () => {
                const keys = asked.result.transaction('kept').objectStore('kept').getAllKeys();
                keys.onsuccess = () => { asked.result.close(); done(keys.result); };
            };
        })"""
        assert await page.evaluate(kept) == []


@pytest.mark.parametrize("chunks", [5_000, pytest.param(20_000, marks=pytest.mark.soak)])
async def test_chunks_come_in_at_most_63_frames_a_second(chunks: int, web: Web) -> None:
    """All of them are in the page's state, in order; the host joins those that wait for the same frame."""
    frames = 0

    def count(data: Any) -> None:
        nonlocal frames
        frames += '"session/update"' in str(data)

    async with web.context() as context:
        page = await context.new_page()
        page.on("websocket", lambda socket: socket.on("framereceived", count))
        await web.enter(page)
        session = await web.session(page)
        await begin(page, session)
        begun, frames = time.monotonic(), 0
        for number in range(chunks):
            session.say(f"{number} ")
            if number % 200 == 0:
                await asyncio.sleep(0)  # what is on its way goes on
        session.end()
        await holds(page, ENDED, session.id)
        seconds = time.monotonic() - begun
        assert (await page.evaluate(TEXT, session.id)).split() == [str(number) for number in range(chunks)]
        assert 1 <= frames <= 63 * (seconds + 1)


async def test_an_idle_page_asks_for_nothing_beyond_a_sign_of_life(web: Web) -> None:
    """In three minutes, on a clock that the test moves."""
    sent: list[str] = []
    answered = asyncio.Event()

    def watch(socket: Any) -> None:
        socket.on("framesent", lambda data: sent.append(str(data)))
        socket.on("framereceived", lambda data: answered.set())

    async with web.context() as context:
        page = await context.new_page()
        page.on("websocket", watch)
        await page.clock.install()
        await web.enter(page)
        await page.locator("main h1").wait_for()  # a user without sessions is shown another screen, which is fetched
        sent.clear()
        web.requests.clear()
        for _ in range(36):  # a sign of life has eight seconds for its answer
            answered.clear()
            before = len(sent)
            await page.clock.run_for(5_000)
            if len(sent) > before:
                await answered.wait()
        assert await page.evaluate("dragoman.app.line.value.state") == "connected"
        assert web.requests == []
        assert 1 <= len(sent) <= 8
        assert all('"_dragoman/presence"' in frame for frame in sent), sent
