"""Two browsers, the terminal client and an editor on one session of the local host: all show the same."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")
acp = pytest.importorskip("acp")

from playwright.async_api import Page, expect  # noqa: E402

from dragoman.host.local.web_page import USER  # noqa: E402
from dragoman.host.serving.access_log import AccessLog  # noqa: E402
from dragoman.host.serving.metrics import HostMetrics  # noqa: E402
from dragoman.host.serving.server import HostServer, ServeOptions  # noqa: E402
from dragoman.host.serving.tokens import HostTokens  # noqa: E402
from dragoman.state.message import Message  # noqa: E402
from tests.host.kit import OnTheWire  # noqa: E402
from tests.host.serving.kit import FREELY, CuttingProxy  # noqa: E402
from tests.idle import wait_until_idle  # noqa: E402
from tests.tui.here import ScreenHere, UserHere  # noqa: E402
from tests.web.kit import SECONDS, Answer, Played, Web, holds  # noqa: E402
from tests.web.test_line import ENDED, KINDS, TEXT  # noqa: E402

expect.set_options(timeout=SECONDS * 1000)
TITLE = "Repair the importer"


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserHere]:
    """A user whose terminal client runs in this process."""
    for module in ("textual.app", "textual.pilot"):
        if module in sys.modules:
            monkeypatch.setattr(f"{module}.wait_for_idle", wait_until_idle)
    found = UserHere(tmp_path, monkeypatch)
    try:
        yield found
    finally:
        found.end()


@asynccontextmanager
async def local_web(web: Web, user: UserHere, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    """The local host of a user with its page, as `dragoman web` opens it, and an agent that the test plays."""
    source = OnTheWire("scripted")
    async with user.host_here() as host, CuttingProxy() as proxy:
        monkeypatch.setattr(host, "find_source", lambda name: source)
        tokens = HostTokens(user.home / "tokens.json")
        options = ServeOptions(hosts=(f"127.0.0.1:{proxy.port}",), limits=FREELY, web=True)
        found = Web(host, source, proxy, tokens, user.project)
        found.browser = web.browser
        found.server = HostServer(
            host, tokens, options, metrics=HostMetrics(), access_log=AccessLog(None), page=web.server.page
        )
        proxy.target = int((await found.server.listen("127.0.0.1:0")).address.rpartition(":")[2])
        try:
            yield found
        finally:
            await found.server.leave("The test ends.")
        assert found.problems == []


class Editor:
    """An editor on the official SDK. It reads no messages of ours, and answers a question when the test says so."""

    def __init__(self) -> None:
        self.updates: list[Any] = []
        self.asked = asyncio.Queue[tuple[str, asyncio.Future[str]]]()
        self._news = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **_: Any) -> None:
        self.updates.append(update)
        self._news.set()

    async def request_permission(self, session_id: str, tool_call: Any, options: Any, **_: Any) -> Any:
        chosen = asyncio.get_running_loop().create_future()
        self.asked.put_nowait((tool_call.title, chosen))
        outcome = acp.schema.AllowedOutcome(outcome="selected", option_id=await chosen)
        return acp.RequestPermissionResponse(outcome=outcome)

    def on_connect(self, conn: Any) -> None:
        pass

    def texts(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update.content.text for update in self.updates if update.session_update == kind)

    async def until(self, is_so: Callable[[], object]) -> None:
        async with asyncio.timeout(SECONDS):
            while not is_so():
                self._news.clear()
                await self._news.wait()

    async def question(self, title: str) -> asyncio.Future[str]:
        async with asyncio.timeout(SECONDS):
            shown, chosen = await self.asked.get()
        assert shown == title
        return chosen


async def opened(page: Page, id: str) -> None:
    await page.evaluate("id => { location.hash = `#/s/${id}` }", id)
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()


def ask(session: Played, command: str) -> Answer:
    return session.ask(command, rawInput={"command": command})


async def asked(pages: tuple[Page, Page], terminal: ScreenHere, editor: Editor, title: str) -> asyncio.Future[str]:
    """Wait until all four show a question; gives how the editor answers it."""
    for page in pages:
        await expect(page.get_by_role("region", name="Answer and send").get_by_text(title).first).to_be_visible()
    await terminal.until("needs your answer")
    assert title in terminal.drawn()
    return await editor.question(title)


async def answered(pages: tuple[Page, Page], terminal: ScreenHere) -> None:
    """Wait until none of them shows a question any more."""
    for page in pages:
        await holds(page, "() => dragoman.app.questions.value.length === 0")
    await terminal.until_gone("needs your answer")


async def test_two_browsers_a_terminal_and_an_editor_on_one_session_show_the_same(
    web: Web, user: UserHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What one of them sends, every update, the title and the state; a question is answered once, by the first."""
    editor = Editor()
    async with (
        local_web(web, user, monkeypatch) as own,
        acp.spawn_agent_process(
            editor,
            *(sys.executable, "-m", "dragoman", "connect", f"unix:{user.socket}", "-a", "scripted"),
            env=user.environment,
            cwd=user.project,
        ) as (line, _),
        own.page(user=USER) as one,
        own.page(user=USER, size="phone", scheme="dark") as other,
    ):
        await line.initialize(1)
        id = (await line.new_session(cwd=str(user.project))).session_id
        session = Played(id, await own.source.started(1))
        async with user.screen(session_id=id) as terminal:
            await terminal.wait_until(lambda: terminal.app.conversation.phase == "ready", terminal.drawn)
            pages = (one, other)
            await asyncio.gather(opened(one, id), opened(other, id))
            await story(own, session, pages, terminal, editor, line)


async def story(
    own: Web, session: Played, pages: tuple[Page, Page], terminal: ScreenHere, editor: Editor, line: Any
) -> None:
    one, other = pages
    id, chunks = session.id, [f"{number} " for number in range(60)]
    await one.get_by_role("textbox", name="Message").fill("Fix the importer")
    await one.keyboard.press("Enter")
    assert await session.prompted() == "Fix the importer"
    session.update("session_info_update", title=TITLE)
    session.update("plan", entries=[{"content": "Find it", "priority": "high", "status": "in_progress"}])
    for text in chunks:
        session.say(text)
    session.tool("rg importer", status="completed")
    await terminal.until("rg importer")
    assert "Fix the importer" in terminal.drawn()

    # The terminal is first. The editor does not notice that, and its late answer changes nothing.
    first = ask(session, "make one")
    late = await asked(pages, terminal, editor, "make one")
    await terminal.answer("1", "answered: Allow once")
    assert await first.chosen() == "once"
    await answered(pages, terminal)
    late.set_result("no")

    # The editor is first.
    second = ask(session, "make two")
    (await asked(pages, terminal, editor, "make two")).set_result("no")
    assert await second.chosen() == "no"
    await answered(pages, terminal)

    # Both browsers press at once: one answer counts, and the other one is told.
    third = ask(session, "make three")
    late = await asked(pages, terminal, editor, "make three")
    press = "option => dragoman.app.answer(dragoman.app.questions.value[0], {outcome: 'selected', optionId: option})"
    results = await asyncio.gather(one.evaluate(press, "once"), other.evaluate(press, "no"))
    assert sorted(result["result"] for result in results) == ["accepted", "answered"], results
    chosen = await third.chosen()
    assert chosen == ("once" if results[0]["result"] == "accepted" else "no")
    await answered(pages, terminal)
    late.set_result("always")

    session.say("Done.")
    session.end()
    await asyncio.gather(holds(one, ENDED, id), holds(other, ENDED, id))
    await terminal.until("Done.")
    await editor.until(lambda: editor.texts().endswith("Done."))
    assert session.agent.lines.empty(), "each question was answered once"

    whole = "".join(chunks) + "Done."
    state = terminal.app.conversation.state
    shown = [item for item in state.timeline if isinstance(item, Message)]
    assert "".join(item.text for item in shown if item.role == "agent") == editor.texts() == whole
    assert [await page.evaluate(TEXT, id) for page in pages] == [whole, whole]
    kinds = [await page.evaluate(KINDS, id) for page in pages]
    assert kinds[0] == kinds[1]
    assert editor.texts("user_message_chunk") == "Fix the importer"

    # The title and the state, in the list of each of them.
    row = "id => dragoman.app.rows.value.find(row => row.sessionId === id)"
    for page in pages:
        await holds(page, f"([id, title]) => ({row})(id)?.title === title && !({row})(id).own.turn", [id, TITLE])
        await expect(page.locator("main h1, header h1").first).to_have_text(TITLE)
    await terminal.until(TITLE)
    listed = (await line.list_sessions()).sessions
    assert [(entry.session_id, entry.title, entry.field_meta["dragoman"]["state"]) for entry in listed] == [
        (id, TITLE, "idle")
    ]
    assert [entry.title for entry in terminal.app.session_rows] == [TITLE]
