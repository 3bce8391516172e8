"""The list of sessions, the inbox, a new session, keys and frame: in a real browser, in front of a real host."""

from __future__ import annotations

import itertools
import os
from typing import Any

import pytest
from playwright.async_api import Page, expect

from tests.web.kit import SECONDS, Web, axe, holds

expect.set_options(timeout=SECONDS * 1000)
_users = itertools.count(1)

# Sessions in every state, as the host lists them; they are shown only.
ROWS = """() => {
    const now = Date.now();
    const row = (sessionId, title, agent, folder, minutes, own) => ({
        sessionId, title, cwd: `/src/${folder}`, updatedAt: new Date(now - minutes * 1000).toISOString(),
        own: {agent, state: 'idle', branch: 'main', cost: {amount: 1.25, currency: 'USD'}, ...own},
    });
    const question = (questionId, sessionId, seconds) => ({
        questionId, sessionId, askedAt: now - seconds * 1000, method: 'session/request_permission', kind: 'execute',
        title: 'make', digest: 'digest', params: {
            sessionId, toolCall: {toolCallId: '1', kind: 'execute', rawInput: {command: `make ${questionId}`}},
            options: [
                {optionId: 'once', name: 'Allow once', kind: 'allow_once'},
                {optionId: 'no', name: 'Reject', kind: 'reject_once'},
            ],
            _meta: {dragoman: {why: 'no rule allows it', cwd: '/src'}},
        },
    });
    const asked = [question('old', 'one', 500), question('new', 'two', 100)];
    dragoman.app.rows.value = [
        row('two', 'Newer question', 'codex', 'harbor', 1, {state: 'waiting', questions: [asked[1]]}),
        row('one', 'Older question', 'claude', 'atlas', 2, {
            state: 'waiting', questions: [asked[0]], steps: {done: 2, total: 5},
        }),
        row('three', 'Runs', 'claude', 'harbor', 3, {
            state: 'running', turn: {promptId: 'p', startedAt: now - 65000}, lastLine: 'Testing',
        }),
        row('four', 'Waits its turn', 'claude', 'harbor', 4, {queued: 1}),
        row('five', 'Broke', 'gemini', 'atlas', 5, {error: {message: 'The agent ended: exit 137'}}),
        row('six', 'Changed', 'claude', 'atlas', 6, {
            ended: {stopReason: 'end_turn'}, changes: {files: 2, added: 31, removed: 4},
        }),
        row('seven', 'Answered', 'claude', 'atlas', 7, {
            ended: {stopReason: 'end_turn'}, changes: {files: 0, added: 0, removed: 0},
        }),
        row('eight', 'Put away', 'claude', 'atlas', 8, {archivedAt: now}),
    ];
    dragoman.app.questions.value = asked;
    window.done = [];
    for (const name of ['stop', 'restartAgent', 'archive', 'setTitle']) {
        dragoman.app[name] = (...given) => { window.done.push([name, ...given]); return Promise.resolve(); };
    }
}"""


def new_user() -> str:
    return f"board-{next(_users)}"


async def fill(page: Page) -> None:
    await page.evaluate(ROWS)
    await page.evaluate("location.hash = '#/'")
    await expect(page.get_by_text("Older question").last).to_be_visible()


async def titles(page: Page) -> list[str]:
    return [text.strip() for text in await page.locator("main [data-row] .open").all_inner_texts()]


_SOAK = pytest.mark.soak


@pytest.mark.parametrize(
    ("size", "scheme"),
    [
        ("desktop", "light"),
        ("phone", "dark"),
        pytest.param("desktop", "dark", marks=_SOAK),
        pytest.param("phone", "light", marks=_SOAK),
    ],
)
async def test_every_screen_is_without_a_finding_of_axe_and_without_scrolling_sideways(
    web: Web, size: str, scheme: str
) -> None:
    async with web.page(user=new_user(), size=size, scheme=scheme) as page:
        await fill(page)
        for path in ("/", "/inbox", "/new", "/settings", "/devices"):
            await page.evaluate("path => { location.hash = path }", path)
            await expect(page.locator("main h1")).to_be_visible()
            assert await axe(page) == [], path
        for width in (320, 390) if size == "phone" else (620, 920, 1400):
            await page.set_viewport_size({"width": width, "height": 800})
            for path in ("/", "/inbox", "/new", "/settings", "/devices"):
                await page.evaluate("path => { location.hash = path }", path)
                await expect(page.locator("main h1")).to_be_visible()
                over = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                assert await page.evaluate(over) <= 0, (path, width)
        if size == "phone":
            small = """() => [...document.querySelectorAll('main button, main a.btn, nav.tabs a')]
                .map(one => one.getBoundingClientRect())
                .filter(place => place.height > 0 && (place.height < 44 || place.width < 44)).length"""
            for path in ("/", "/inbox"):
                await page.evaluate("path => { location.hash = path }", path)
                await expect(page.locator("main h1")).to_be_visible()
                assert await page.evaluate(small) == 0, path


@pytest.mark.parametrize("size", ["desktop", pytest.param("phone", marks=_SOAK)])
async def test_sessions_are_grouped_found_stopped_restarted_renamed_and_archived(web: Web, size: str) -> None:
    """By what they need; by folder, agent and words; each from the list."""
    async with web.page(user=new_user(), size=size) as page:
        await fill(page)
        groups = [text.split("\n")[0] for text in await page.locator("main h2.group").all_inner_texts()]
        assert [text.rstrip(" 0123456789") for text in groups] == ["Needs you", "Running", "Failed", "Done"]
        everything = ["Older question", "Newer question", "Runs", "Waits its turn", "Broke", "Changed", "Answered"]
        assert sorted(await titles(page)) == sorted(everything)
        assert (await titles(page))[:2] == everything[:2]
        await expect(page.locator("main")).to_contain_text("Today $8.75")
        await expect(page.locator("main")).to_contain_text("The agent ended: exit 137")
        await page.get_by_label("Folder").select_option("/src/harbor")
        assert sorted(await titles(page)) == ["Newer question", "Runs", "Waits its turn"]
        await page.get_by_label("Agent").select_option("codex")
        assert await titles(page) == ["Newer question"]
        await page.get_by_label("Find a session").fill("nothing like this")
        await expect(page.get_by_text("No session has these words")).to_be_visible()
        await page.get_by_role("button", name="Clear the filter").click()
        assert len(await titles(page)) == 7
        await page.get_by_role("button", name="Show 1 archived").click()
        assert (await titles(page))[-1] == "Put away"
        await fill(page)
        await page.get_by_role("button", name="Stop Runs").click()
        await page.get_by_role("button", name="Restart").click()
        await page.get_by_role("button", name="More for Changed").click()
        await page.get_by_role("button", name="Rename…").click()
        await page.get_by_label("New title").fill("Another name")
        await page.get_by_role("button", name="Save").click()
        await page.get_by_role("button", name="More for Changed").click()
        await page.get_by_role("button", name="Archive", exact=True).click()
        await page.get_by_role("button", name="Undo").click()
        wanted: list[list[Any]] = [
            ["stop", "three"],
            ["restartAgent", "five"],
            ["setTitle", "six", "Another name"],
            ["archive", "six", True],
            ["archive", "six", False],
        ]
        assert await page.evaluate("done") == wanted


async def test_rows_keep_their_place_under_a_pointer(web: Web) -> None:
    async with web.page(user=new_user()) as page:
        await fill(page)
        await page.locator("[data-row=six]").hover()
        before = await titles(page)
        # The session that runs asks, one fails, and a new one comes: none of it moves what is under the pointer.
        await page.evaluate(
            """() => {
                const over = {turn: null, state: 'idle', ended: {stopReason: 'end_turn'}};
                const rows = dragoman.app.rows.value.map(row =>
                    row.sessionId === 'three' ? {...row, own: {...row.own, ...over}} : row);
                const own = {agent: 'claude', state: 'running', turn: {promptId: 'q', startedAt: Date.now()}};
                dragoman.app.rows.value = [{...rows[0], sessionId: 'nine', title: 'Fresh', own}, ...rows];
            }"""
        )
        await expect(page.locator("nav.side")).to_contain_text("Fresh")
        assert await titles(page) == before
        await page.mouse.move(5, 5)
        await expect(page.locator("main [data-row=nine]")).to_be_visible()
        assert (await titles(page)).index("Runs") > (await titles(page)).index("Broke")


async def test_everything_is_reached_by_keys(web: Web) -> None:
    async with web.page(user=new_user()) as page:
        await fill(page)
        await page.keyboard.press("j")
        await page.keyboard.press("j")
        await expect(page.locator("[data-row=two] .open")).to_be_focused()
        await page.keyboard.press("k")
        await expect(page.locator("[data-row=one] .open")).to_be_focused()
        await page.keyboard.press("Enter")
        await holds(page, "() => location.hash === '#/s/one'")
        await page.keyboard.press("Alt+ArrowDown")
        await holds(page, "() => location.hash === '#/s/two'")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("g")
        await page.keyboard.press("i")
        await expect(page.locator("main h1")).to_have_text("Inbox")
        await page.keyboard.press("g")
        await page.keyboard.press("s")
        await expect(page.locator("main h1")).to_have_text("Sessions")
        await page.keyboard.press("/")
        await expect(page.get_by_label("Find a session")).to_be_focused()
        await page.keyboard.type("jk?")  # letters in a field are letters
        await expect(page.get_by_label("Find a session")).to_have_value("jk?")
        await page.keyboard.press("Escape")
        await page.keyboard.press("?")
        await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
        assert await axe(page) == []
        await page.keyboard.press("Escape")
        await page.keyboard.press("Control+k")
        palette = page.get_by_role("dialog").get_by_role("combobox")
        await expect(palette).to_be_focused()
        await palette.fill("broke")
        assert await axe(page) == []
        await page.keyboard.press("Enter")
        await holds(page, "() => location.hash === '#/s/five'")
        await page.evaluate("document.activeElement.blur()")
        await page.keyboard.press("n")
        await expect(page.locator("main h1")).to_have_text("New session")
        await page.evaluate(
            "dragoman.app.settings.value = {...dragoman.app.settings.value, letters: false}; location.hash = '#/'"
        )
        await expect(page.locator("main h1")).to_have_text("Sessions")
        await page.keyboard.press("?")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("dialog")).to_have_count(1)
        await expect(palette).to_be_focused()


async def test_the_side_bar_is_a_drawer_where_there_is_no_room(web: Web) -> None:
    async with web.page(user=new_user()) as page:
        await fill(page)
        await expect(page.locator("nav.side")).to_be_visible()
        await page.keyboard.press("Control+b")
        await expect(page.locator("nav.side")).to_have_count(0)
        await page.keyboard.press("Control+b")
        await page.set_viewport_size({"width": 700, "height": 800})
        await expect(page.locator("nav.side")).to_have_count(0)
        await page.get_by_role("button", name="Show the side bar").click()
        await expect(page.get_by_role("dialog").get_by_text("Older question")).to_be_visible()
        assert await axe(page) == []
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("button", name="Show the side bar")).to_be_focused()


async def test_the_banner_says_what_is_wrong_with_the_line_and_the_theme_is_chosen(web: Web) -> None:
    async with web.page(user=new_user(), scheme="light") as page:
        await fill(page)
        banner = page.locator(".banner")
        states = {
            "Reconnecting… the agents go on working": "{state: 'reconnecting', since: Date.now() - 3000}",
            "This device is offline. What you send waits here.": "{state: 'offline', since: Date.now()}",
            "The host is restarting. What you send waits here.": "{state: 'draining'}",
        }
        for text, line in states.items():
            await page.evaluate(f"dragoman.app.line.value = {line}")
            await expect(banner).to_contain_text(text)
            assert await axe(page) == []
        await expect(page.locator("[data-question]").first).to_contain_text("There is no connection to the host")
        await page.evaluate("dragoman.app.line.value = {state: 'connected'}")
        await expect(banner).to_have_count(0)
        await expect(page.locator(".side .host")).to_have_text(f"on {os.uname().nodename}")
        await another_page_is_served(web, page)
        await page.evaluate("location.hash = '#/settings'")
        colour = "getComputedStyle(document.body).backgroundColor"
        assert await page.evaluate(colour) == "rgb(247, 247, 245)"
        await page.get_by_label("Dark").check()
        await holds(page, f"() => {colour} === 'rgb(18, 18, 17)'")


async def another_page_is_served(web: Web, page: Page) -> None:
    """The host is updated under the page, which then offers to be loaded again, while nothing is typed."""
    pairing = web.server.pairing
    assert pairing is not None
    own, banner = pairing.page, page.locator(".banner")
    assert own == await page.locator("meta[name=dragoman-page]").get_attribute("content")
    try:
        pairing.page = "another"
        await page.evaluate("location.hash = '#/new'")
        await page.get_by_label("The task").fill("Half a sen")
        web.proxy.cut()
        await holds(page, "() => dragoman.app.host.value.page === 'another'")
        await page.get_by_label("The task").press_sequentially("tence")
        await expect(banner).to_have_count(0)
        await page.get_by_label("The task").fill("")
        await expect(banner).to_contain_text("The host has another version of this page.")
        assert await axe(page) == []
    finally:
        pairing.page = own
    await page.evaluate("window.isBefore = true")
    await banner.get_by_role("button", name="Reload to update").click()
    await holds(page, "() => !window.isBefore && window.dragoman?.app.line.value.state === 'connected'")
    await expect(banner).to_have_count(0)


@pytest.mark.parametrize("size", ["desktop", pytest.param("phone", marks=_SOAK)])
async def test_a_session_is_started_with_agent_folder_worktree_model_and_mode(web: Web, size: str) -> None:
    async with web.page(user=new_user(), size=size) as page:
        # A user without sessions comes to the first run.
        await expect(page.locator("main h1")).to_have_text("New session")
        assert await axe(page) == []
        await page.evaluate(
            """() => {
                const app = dragoman.app;
                app.host.value = {...app.host.value, methods: [...app.host.value.methods, '_dragoman/agents']};
                app.agents = async () => [
                    {name: 'test', title: 'Test', version: '1.0', state: 'ready', isDefault: true},
                    {name: 'other', title: 'Other', state: 'login', how: 'other login'},
                    {name: 'absent', title: 'Absent', state: 'missing', how: 'install it'},
                ];
                const call = app.call.bind(app);
                const known = {folders: [{path: '/src'}], recent: [{path: '/src/atlas', usedAt: 1}], parent: null};
                const children = [{name: 'harbor', path: '/src/harbor', isProject: true}];
                const login = {
                    authMethods: [
                        {id: 'self', name: 'With a browser'},
                        {id: 'key', name: 'A key', _meta: {'api-key': {provider: 'other'}}},
                    ],
                    commands: [{id: 'tty', name: 'In a terminal', command: 'dragoman login -a other tty'}],
                };
                window.logins = [];
                app.call = (method, params) => {
                    if (method === '_dragoman/login_methods') return Promise.resolve(login);
                    if (method === '_dragoman/log_in') {
                        window.logins.push(params);
                        return params.method === 'key' ? Promise.resolve({}) : Promise.reject(new Error('no browser'));
                    }
                    if (method !== '_dragoman/folders') return call(method, params);
                    return Promise.resolve(params.path ? {...known, path: params.path, children} : known);
                };
                const create = app.create.bind(app);
                window.made = [];
                app.create = wanted => {
                    window.made.push({...wanted});
                    return create({agent: 'test', cwd: window.folder});
                };
            }"""
        )
        await page.evaluate("folder => { window.folder = folder }", str(web.folder))
        await page.evaluate("location.hash = '#/inbox'")
        await expect(page.locator("main h1")).to_have_text("Inbox")
        await page.evaluate("location.hash = '#/new'")
        await expect(page.get_by_role("button", name="Folder: /src/atlas")).to_be_visible()
        await expect(page.get_by_role("radio", name="test")).to_be_checked()
        await log_in(page)
        await page.get_by_label("The task").fill("Bump Go to 1.27, please")
        await page.get_by_role("button", name="Folder: /src/atlas").click()
        await page.get_by_role("button", name="harbor").click()
        assert await axe(page) == []
        await page.get_by_label("Path on the host").fill("/src/harbor")
        await page.get_by_role("button", name="Use this folder").click()
        await page.get_by_label("Own worktree").check()
        starts = web.source.starts
        await page.get_by_role("button", name="Model and mode…").click()
        agent = await web.source.started(starts + 1)
        await page.get_by_role("button", name="Start with test").click()
        prompt = await agent.prompted()
        assert prompt["params"]["prompt"][0]["text"] == "Bump Go to 1.27, please"
        wanted = {"agent": "test", "cwd": "/src/harbor", "worktree": "bump-go-to-1"}
        assert await page.evaluate("made") == [wanted]
        await holds(page, "() => location.hash.startsWith('#/s/')")
        agent.reply(prompt, {"stopReason": "end_turn"})


async def log_in(page: Page) -> None:
    """Logs in to an agent that is not ready: by itself, which fails, then with a key; a terminal has a command."""
    offer = page.get_by_role("button", name="Log in to other…")
    await expect(offer).to_have_count(0)
    await page.get_by_role("radio", name="other").check()
    await offer.click()
    dialog = page.get_by_role("dialog", name="Log in to other")
    await expect(dialog.locator("code")).to_have_text("dragoman login -a other tty")
    await expect(dialog.get_by_role("button", name="Copy dragoman login -a other tty")).to_be_enabled()
    assert await axe(page) == []
    await dialog.get_by_role("button", name="Log in to other: With a browser").click()
    await expect(dialog.get_by_role("alert")).to_contain_text("no browser")
    await expect(dialog.get_by_role("button", name="Log in to other: A key")).to_be_disabled()
    await dialog.get_by_label("Key for A key").fill("sk-1")
    await dialog.get_by_role("button", name="Log in to other: A key").click()
    await expect(dialog).to_have_count(0)
    key = {"agent": "other", "method": "key", "_meta": {"api-key": {"apiKey": "sk-1"}}}
    assert await page.evaluate("logins") == [{"agent": "other", "method": "self"}, key]
    await page.get_by_role("radio", name="test").check()
