"""Questions of agents: what is shown of them, when a press counts, and what becomes of an answer."""

from __future__ import annotations

import itertools
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
from playwright.async_api import Page, expect

from tests.web.kit import OPTIONS, SECONDS, Played, Web, axe, holds

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

expect.set_options(timeout=SECONDS * 1000)

# Counts what the page sends, and can stand still: a press counts only after 400 ms at one place. With `hurry` a
# question that ended leaves as soon as the next one comes, not after the seconds that it takes to read how.
WATCHED = """() => {
    const app = dragoman.app, answer = app.answer.bind(app), real = performance.now.bind(performance);
    window.sent = [];
    window.stub = null;
    app.answer = (question, outcome) => {
        window.sent.push(outcome);
        return window.stub === null ? answer(question, outcome) : Promise.resolve(window.stub);
    };
    window.stop = () => { const at = performance.now(); performance.now = () => at; };
    window.pass = ms => { const at = performance.now(); performance.now = () => at + ms; };
    window.run = () => { performance.now = real; };
    window.hurry = () => {
        const later = window.setTimeout;
        window.setTimeout = (run, ms, ...given) => later(run, ms === 1000 || ms === 4000 ? 0 : ms, ...given);
    };
}"""
# A question as the host sends it, for what is only shown.
SHOW = """([kind, details, call, options]) => {
    const question = {
        questionId: `shown-${Math.random()}`, sessionId: 'shown', askedAt: Date.now() - 60000, digest: 'digest', kind,
        method: call.mode ? 'elicitation/create' : 'session/request_permission', title: '',
        params: call.mode ? call : {
            sessionId: 'shown', toolCall: {toolCallId: '1', ...call}, options, _meta: {dragoman: details},
        },
    };
    const own = {agent: 'claude', state: 'waiting', questions: [question]};
    const row = {sessionId: 'shown', cwd: '/src/harbor', title: 'Bump Go', own};
    dragoman.app.rows.value = [row];
    dragoman.app.questions.value = [question];
}"""


PLACES = "[...document.querySelectorAll('[data-question]')].map(card => card.getBoundingClientRect().top).join()"
_users = itertools.count(1)


def new_user() -> str:
    """A user of one test: questions of other tests are not those of this one."""
    return f"asked-{next(_users)}"


async def show(
    page: Page, kind: str, details: dict[str, Any] | None = None, call: dict[str, Any] | None = None
) -> None:
    await page.mouse.move(2, 2)  # for three seconds a list stays as it is under a pointer
    await page.evaluate(SHOW, [kind, details or {}, {"title": "", "kind": kind, **(call or {})}, OPTIONS])


@asynccontextmanager
async def asking(web: Web, path: str = "/#/inbox", **options: Any) -> AsyncIterator[tuple[Page, Played]]:
    """The page and a session in a turn, which a test lets ask."""
    async with web.page(path, **{"user": new_user(), **options}) as page:
        await page.evaluate(WATCHED)
        session = await web.session(page)
        await page.evaluate("id => dragoman.app.prompt(id, 'Work', 'send')", session.id)
        await session.prompted()
        yield page, session
        session.end()


async def sent(page: Page) -> int:
    return int(await page.evaluate("sent.length"))


async def settle(page: Page) -> None:
    """Waits until the page has seen its cards where they are, and lets 400 ms pass for it: a press counts then."""
    await page.evaluate("stop()")
    await holds(
        page,
        """() => [...document.querySelectorAll('dialog[open] .q, main .q')].every(card => {
            const place = card.getBoundingClientRect();
            return card.dataset.painted === `${Math.round(place.left)} ${Math.round(place.top)}`;
        })""",
    )
    await page.evaluate("pass(400)")


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_a_press_counts_once_and_only_after_the_card_has_been_at_its_place(web: Web, size: str) -> None:
    async with asking(web, size=size) as (page, session):
        await page.evaluate("stop()")
        answer = session.ask("go test ./...", rawInput={"command": "go test ./..."})
        allow = page.get_by_role("button", name="Allow once")
        await allow.click()
        await page.evaluate("pass(399)")
        await allow.click()
        assert await sent(page) == 0
        await expect(page.locator("main")).to_contain_text("go test ./...")
        await page.evaluate("pass(1)")
        # The pointer has to go down on it, too.
        box = await allow.bounding_box()
        assert box is not None
        await page.mouse.move(2, 2)
        await page.mouse.down()
        await page.mouse.move(box["x"] + 5, box["y"] + 5)
        await page.mouse.up()
        assert await sent(page) == 0
        await allow.dblclick()
        assert await answer.chosen() == "once"
        assert await sent(page) == 1
        await expect(page.locator("[data-live]")).to_have_text("Allowed.")
        await page.mouse.move(2, 2)  # nothing moves under the pointer
        await expect(page.locator("[data-question]")).to_have_count(0)


async def test_enter_allows_nothing_space_and_alt_with_a_digit_do(web: Web) -> None:
    async with asking(web) as (page, session):
        await page.evaluate("stop()")
        first = session.ask("one", rawInput={"command": "one"})
        allow = page.get_by_role("button", name="Allow once")
        await expect(allow).to_be_visible()
        assert await page.evaluate("document.activeElement.closest('[data-question]')") is None
        await settle(page)
        while not await allow.evaluate("element => element === document.activeElement"):
            await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.locator(".qnote")).to_contain_text("Enter allows nothing")
        assert await sent(page) == 0
        await settle(page)
        await page.keyboard.press("Space")
        assert await first.chosen() == "once"
        await expect(page.locator("[data-question]")).to_have_count(0)
        second = session.ask("two", rawInput={"command": "two"})
        await expect(allow).to_be_visible()
        await page.keyboard.press("Alt+1")  # too early: it was just painted
        assert await sent(page) == 1
        await settle(page)
        await page.keyboard.press("Alt+1")
        assert await second.chosen() == "once"
        third = session.ask("three", rawInput={"command": "three"})
        await expect(page.get_by_text("three", exact=True).first).to_be_visible()
        await settle(page)
        await page.keyboard.press("Alt+3")
        await expect(page.get_by_label("Why not?")).to_be_focused()
        await page.keyboard.type("Use the other one")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        assert await third.chosen() == "no"
        assert await page.evaluate("sent.at(-1)._meta.dragoman.reason") == "Use the other one"


@pytest.mark.parametrize(("size", "scheme"), [("desktop", "dark"), ("phone", "light")])
async def test_a_change_is_looked_at_to_its_end_before_it_can_be_allowed(web: Web, size: str, scheme: str) -> None:
    async with asking(web, size=size, scheme=scheme) as (page, session):
        text = "".join(f"line {number}\n" for number in range(120))
        diff = {"type": "diff", "path": str(web.folder / "long.txt"), "oldText": None, "newText": text}
        answer = session.ask("Edit long.txt", "edit", content=[diff], rawInput={"path": diff["path"]})
        await expect(page.get_by_role("button", name="Allow once")).to_have_count(0)
        await page.get_by_role("button", name="Look first").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog.get_by_role("heading", name="Edit this file?")).to_be_visible()
        allow = dialog.get_by_role("button", name="Allow once")
        await expect(allow).to_have_attribute("aria-disabled", "true")
        await expect(dialog.locator(".qnote").first).to_contain_text("Seen to line")
        await settle(page)
        await allow.click(force=True)
        assert await sent(page) == 0
        assert await axe(page) == []
        await page.evaluate("run()")
        # To the end at once leaves a gap that was not seen.
        body = dialog.locator(".body")
        await body.evaluate("element => { element.scrollTop = element.scrollHeight }")
        await holds(page, "() => document.querySelector('dialog .body').scrollTop > 100")
        await expect(allow).to_have_attribute("aria-disabled", "true")
        while await allow.get_attribute("aria-disabled") == "true":
            await body.evaluate(
                """element => new Promise(done => {
                    if (!window.isRead) { window.isRead = true; element.scrollTop = 0; }
                    else element.scrollTop += element.clientHeight / 2;
                    requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 0)));
                })"""
            )
        await settle(page)
        await allow.click()
        assert await answer.chosen() == "once"


async def test_the_words_of_each_kind_and_of_each_answer_are_the_hosts(web: Web) -> None:
    always = {
        "action": "allow",
        "by": "host",
        "rule": "execute:uv run pytest *",
        "kept": "project",
        "file": "/p/rules.json",
    }
    rows = [{"key": "shell", "lines": ["uv run pytest -q", "echo done"]}]
    cases: list[tuple[str, dict[str, Any], dict[str, Any], list[str]]] = [
        (
            "execute",
            {
                "why": "no rule allows it",
                "cwd": "/src",
                "words": {"kind": "execute", "rows": rows},
                "options": {"always": always},
            },
            {},
            [
                "Run this command?",
                "uv run pytest -q",
                "echo done",
                "In /src",
                "Asked because no rule allows it",
                "Nothing is remembered.",
                "Writes allow execute:uv run pytest * for this project (rules.json).",
            ],
        ),
        (
            "execute",
            {
                "commandCount": 3,
                "words": {"kind": "execute", "rows": rows},
                "options": {"always": {**always, "kept": "session"}},
            },
            {},
            ["Run these 3 commands?", "Holds for this session: allow execute:uv run pytest *."],
        ),
        (
            "edit",
            {
                "words": {
                    "kind": "edit",
                    "rows": [{"key": "path", "lines": ["AGENTS.md"], "note": "outside the project"}],
                },
                "why": "AGENTS.md is protected: a change of it is always asked for",
                "options": {"always": {"action": "allow", "by": "agent"}},
            },
            {"content": [{"type": "diff", "path": "AGENTS.md", "oldText": "a\n", "newText": "b\n"}]},
            [
                "Edit this file?",
                "outside the project",
                "is always asked for",
                "claude keeps this in its own way; this host writes no rule and may ask again.",
                "+1",
                "−1",
            ],
        ),
        (
            "delete",
            {"words": {"kind": "delete", "rows": [{"key": "path", "lines": ["a"]}, {"key": "path", "lines": ["b"]}]}},
            {},
            ["Delete 2 files?"],
        ),
        ("move", {"words": {"kind": "move", "rows": [{"key": "path", "lines": ["a"]}]}}, {}, ["Move this file?"]),
        (
            "read",
            {"words": {"kind": "read", "rows": [{"key": "path", "lines": ["/etc/passwd"]}]}},
            {},
            ["Read this file?", "/etc/passwd"],
        ),
        (
            "fetch",
            {"words": {"kind": "fetch", "rows": [{"key": "host", "lines": ["example.com"]}]}},
            {"rawInput": {"url": "https://ex\u0430mple.com/a?b=c#d"}},
            ["Open this address?", "xn--exmple-4nf.com", "/a?b=c#d"],
        ),
        (
            "switch_mode",
            {"words": {"kind": "switch_mode"}},
            {"rawInput": {"to": "auto"}},
            ["Change the mode?", '"to": "auto"'],
        ),
        (
            "other",
            {
                "readsReasons": True,
                "words": {
                    "kind": "other",
                    "rows": [{"key": "mcp", "lines": ["tickets close"]}, {"key": "input", "lines": ["id: 7"]}],
                },
            },
            {},
            ["Use this tool?", "tickets close", "id: 7", "Say why; claude reads it."],
        ),
        (
            "execute",
            {
                "words": {
                    "kind": "execute",
                    "rows": [{"key": "shell", "lines": ["rm -rf build<U+202E>sj.tset"]}],
                    "isWhole": False,
                }
            },
            {"rawInput": {"command": "rm \u200b-rf /"}},
            ["U+202E", "U+200B", "Not everything could be read", "sent as the next prompt"],
        ),
    ]
    async with web.page("/#/inbox", user=new_user()) as page:
        for kind, details, call, texts in cases:
            await show(page, kind, details, call)
            await (
                page.get_by_role("button", name="Look first")
                .or_(page.get_by_role("button", name="Always…"))
                .first.click()
            )
            dialog = page.get_by_role("dialog")
            for text in texts:
                await expect(dialog).to_contain_text(text)
            await page.keyboard.press("Escape")
            await expect(dialog).to_have_count(0)
        # Words are units: a line breaks between them only.
        await show(
            page, "execute", {"words": {"kind": "execute", "rows": [{"key": "runs", "lines": ["uv run  pytest"]}]}}
        )
        await expect(page.locator("main .cmd .w")).to_have_text(["uv", "run", "pytest"])


async def test_what_became_of_an_answer_is_reported(web: Web) -> None:
    endings = {
        "Already answered: rejected by terminal": {"result": "answered", "option": "no", "who": "terminal", "at": 0},
        "claude no longer asks.": {"result": "withdrawn"},
        "The question changed while you answered.": {"result": "changed"},
        "This device may look, not answer.": {"result": "forbidden"},
        "Your answer did not reach the host: gone. Answer again.": {"result": "lost", "message": "gone"},
    }
    async with web.page("/#/inbox", user=new_user()) as page:
        await page.evaluate(WATCHED)
        await page.evaluate("stop(); hurry()")
        for text, result in endings.items():
            await show(page, "execute", {"words": {"kind": "execute", "rows": [{"key": "runs", "lines": ["make"]}]}})
            await page.evaluate("stub => { window.stub = stub }", result)
            await expect(page.get_by_role("button", name="Allow once")).to_be_visible()
            await settle(page)
            await page.get_by_role("button", name="Allow once").click()
            await expect(page.locator("[data-question]").first).to_contain_text(text)


async def test_a_question_that_is_answered_elsewhere_leaves_its_place_empty_for_a_moment(web: Web) -> None:
    user = new_user()
    async with asking(web, user=user) as (page, session), web.page("/#/inbox", user=user, size="phone") as other:
        one = session.ask("make one", rawInput={"command": "make one"})
        await expect(page.locator("[data-question]")).to_have_count(1)
        two = session.ask("make two", rawInput={"command": "make two"})
        await expect(page.locator("[data-question]")).to_have_count(2)
        before = await page.evaluate(PLACES)
        await page.evaluate(
            f"""() => {{ window.places = new Set(); const look = () => {{
                if (document.querySelector('.qend')) window.places.add({PLACES});
                requestAnimationFrame(look);
            }}; look(); }}"""
        )
        await other.evaluate(WATCHED)
        await expect(other.locator("[data-question]")).to_have_count(2)
        await settle(other)
        await other.get_by_role("button", name="Allow once").first.click()
        assert await one.chosen() == "once"
        await expect(page.locator("[data-question]")).to_have_count(1)
        assert await page.evaluate("[...places]") == [before]
        await settle(page)
        # The other page has the session in its list only, and says who answered, too.
        await other.evaluate(
            """() => { window.ended = new Set(); new MutationObserver(() => {
                for (const end of document.querySelectorAll('.qend')) window.ended.add(end.textContent);
            }).observe(document.body, {childList: true, characterData: true, subtree: true}); }"""
        )
        assert await other.evaluate("id => dragoman.thread(id) === undefined", session.id)
        await page.get_by_role("button", name="Allow once").click()
        assert await two.chosen() == "once"
        await holds(other, f"() => [...ended].some(text => text.startsWith('Allowed by {user}'))")


async def test_who_may_only_look_gets_words_instead_of_buttons(web: Web) -> None:
    user = new_user()
    look = web.page("/#/inbox", rights=("view",), user=user, size="phone", scheme="dark")
    async with asking(web, user=user) as (_, session), look as viewer:
        session.ask("make", rawInput={"command": "make"})
        await expect(viewer.locator("[data-question]").first).to_contain_text("This device may look, not answer.")
        assert await viewer.locator("[data-question] button").count() == 0
        assert await axe(viewer) == []


FORM = {
    "mode": "form",
    "message": "Which release?",
    "sessionId": "shown",
    "requestedSchema": {
        "type": "object",
        "required": ["name", "count"],
        "properties": {
            "name": {"type": "string", "title": "Name", "minLength": 2},
            "count": {"type": "integer", "title": "Count", "minimum": 1, "maximum": 5},
            "kind": {
                "type": "string",
                "title": "Kind",
                "oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}],
            },
            "tags": {"type": "array", "title": "Tags", "items": {"type": "string", "enum": ["x", "y"]}},
            "sure": {"type": "boolean", "title": "Sure"},
            "password": {"type": "string", "title": "Password"},
        },
    },
}


@pytest.mark.parametrize("size", ["phone", pytest.param("desktop", marks=pytest.mark.soak)])
async def test_a_form_is_filled_in_and_sent_declined_or_cancelled(web: Web, size: str) -> None:
    async with web.page("/#/inbox", user=new_user(), size=size) as page:
        await page.evaluate(WATCHED)
        await page.evaluate("stop(); window.stub = {result: 'accepted'}")
        await show(page, "form", call=FORM)
        await page.get_by_role("button", name="Answer…").click()
        dialog = page.get_by_role("dialog")
        await expect(dialog).to_contain_text("claude asks you something")
        await expect(dialog).to_contain_text("This looks like a password")
        assert await axe(page) == []
        await settle(page)
        await dialog.get_by_role("button", name="Send").click()
        await expect(dialog).to_contain_text("Name is needed.")
        assert await sent(page) == 0
        await dialog.get_by_label("Name").fill("one")
        await dialog.get_by_label("Count").fill("9")
        await expect(dialog).to_contain_text("Count has to be 1 – 5.")
        await dialog.get_by_label("Count").fill("3")
        await dialog.get_by_label("Count").press("Enter")
        assert await sent(page) == 0
        await dialog.get_by_label("Kind").select_option("b")
        await dialog.get_by_label("y", exact=True).check()
        await settle(page)
        await dialog.get_by_role("button", name="Send").click()
        content = {"name": "one", "count": 3, "kind": "b", "tags": ["y"], "sure": False}
        assert await page.evaluate("sent") == [{"action": "accept", "content": content}]
        for name, action in (("Decline", "decline"), ("Cancel", "cancel")):
            await page.evaluate("dragoman.app.questions.value = []")
            await expect(dialog).to_have_count(0)
            await show(page, "form", call=FORM)
            await page.get_by_role("button", name="Answer…").click()
            await expect(dialog.get_by_role("button", name=name, exact=True)).to_be_visible()
            await settle(page)
            await dialog.get_by_role("button", name=name, exact=True).click()
            await holds(page, "action => sent.at(-1).action === action", action)


async def test_a_page_is_opened_by_a_press_only_and_without_this_page(web: Web) -> None:
    async with web.page("/#/inbox", user=new_user()) as page:
        await page.evaluate(WATCHED)
        await page.evaluate("stop(); window.stub = {result: 'accepted'}")
        for address, can_open in (
            (f"{web.url}/healthz", True),
            ("javascript:alert(1)", False),
            ("https://a:b@example.com/", False),
        ):
            await page.evaluate("dragoman.app.questions.value = []")
            await show(
                page,
                "url",
                call={"mode": "url", "message": "Log in", "url": address, "elicitationId": "1", "sessionId": "shown"},
            )
            await page.get_by_role("button", name="Look first").first.click()
            dialog = page.get_by_role("dialog")
            await expect(dialog).to_contain_text("Open this page?")
            link = dialog.get_by_role("link", name="Open the page")
            if not can_open:
                await expect(dialog).to_contain_text("This address cannot be opened from here")
                assert await link.count() == 0
                await page.keyboard.press("Escape")
                continue
            assert await link.get_attribute("rel") == "noopener noreferrer"
            await expect(link).to_have_attribute("aria-disabled", "false")
            await settle(page)
            async with page.context.expect_page() as opened:
                await link.click()
            await (await opened.value).close()
            assert await page.evaluate("sent") == [{"action": "accept"}]


@pytest.mark.parametrize("size", ["desktop", "phone"])
async def test_in_a_conversation_questions_come_one_at_a_time(web: Web, size: str) -> None:
    async with asking(web, size=size) as (page, session):
        one = session.ask("make one", rawInput={"command": "make one"})
        await expect(page.locator("[data-question]")).to_have_count(1)  # in the same millisecond they have no order
        two = session.ask("make two", rawInput={"command": "make two"})
        await expect(page.locator("[data-question]")).to_have_count(2)
        await page.evaluate("id => { location.hash = `/s/${id}` }", session.id)
        for answer, text in ((one, "make one"), (two, "make two")):
            if size == "phone":
                await page.get_by_role("button", name="Answer").click()
            card = page.locator("[data-question]").filter(has_text=text)
            await expect(card).to_have_count(1)
            await expect(page.locator("[data-question]")).to_have_count(1)
            assert await axe(page) == []
            await settle(page)
            await card.get_by_role("button", name="Allow once").click()
            assert await answer.chosen() == "once"
            await expect(card).to_have_count(0)
