"""The page in Firefox and in WebKitGTK: it is not made for one engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from tests.web.kit import SECONDS, Played, Web
from tests.web.other_browsers import OtherBrowser, firefox, webkit

pytestmark = pytest.mark.soak

Opened = Callable[[], AbstractAsyncContextManager[OtherBrowser]]
PIECES = 200
# Each would run a script or load something, were it taken as it is.
HOSTILE = (
    '<img src=x onerror="window.hit=1">',
    '<svg onload="window.hit=1"></svg>',
    "[link](javascript:window.hit=1)",
    '<iframe srcdoc="<script>parent.hit=1</script>"></iframe>',
    '<a href="https://example.invalid/" style="background:url(https://example.invalid/x)">x</a>',
    "![x](https://example.invalid/picture.png)",
    '<math><mtext></p><style><img src=x onerror="window.hit=1"></style></math>',
)
SHOWN = """text => [...document.querySelectorAll('main')].some(part => part.innerText.includes(text))"""
ALLOW = """() => { const button = [...document.querySelectorAll('.q button')]
    .find(one => one.innerText.startsWith('Allow once'));
    const box = button?.getBoundingClientRect();
    return box ? [Math.round(box.x + box.width / 2), Math.round(box.y + box.height / 2)] : null; }"""
TEXT = """id => dragoman.thread(id).fold.timeline.filter(item => item.kind === 'message' && item.role === 'agent')
    .map(item => item.parts.map(part => part.text ?? '').join('')).join('')"""


async def becomes(window: OtherBrowser, function: str, *arguments: Any) -> None:
    """Waits until a function of the page gives true."""
    end = asyncio.get_running_loop().time() + SECONDS
    while not await window.evaluate(function, *arguments):
        assert asyncio.get_running_loop().time() < end, f"this did not come true: {function}"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("opened", [firefox, webkit], ids=["firefox", "webkit"])
async def test_a_turn_with_a_question_cuts_and_hostile_text(web: Web, opened: Opened) -> None:
    async with opened() as window:
        await window.open(web.url)
        await becomes(window, "() => window.dragoman?.app.line.value.state === 'unpaired'")
        paired = await window.evaluate("code => dragoman.app.pair(code, 'Another browser')", web.code())
        assert paired == {"ok": True}
        await becomes(window, "() => dragoman.app.line.value.state === 'connected'")

        starts = web.source.starts
        wanted = {"agent": "test", "cwd": str(web.folder)}
        id = await window.evaluate("wanted => dragoman.app.create(wanted)", wanted)
        session = Played(id, await web.source.started(starts + 1))
        await window.evaluate("id => { location.hash = '#/s/' + id; }", id)
        await window.evaluate("id => { void dragoman.app.prompt(id, 'Begin', 'send'); }", id)
        assert await session.prompted() == "Begin"

        asked = session.ask("go test ./...")
        await becomes(window, SHOWN, "go test ./...")
        answering = asyncio.ensure_future(asked.chosen())
        while not answering.done():  # a press counts only some time after the question was painted
            place = await window.evaluate(ALLOW)
            if place is not None:
                await window.press(*place)
            await asyncio.wait([answering], timeout=0.5)
        assert answering.result() == "once"

        for number in range(PIECES):
            session.say(f"<{number}>\n\n")
            if number % 25 == 10:
                web.proxy.cut()
        for text in HOSTILE:
            session.say(f"{text}\n\n")
        session.say("The end.")
        session.end()
        whole = "".join(f"<{number}>\n\n" for number in range(PIECES)) + "\n\n".join((*HOSTILE, "The end."))
        await becomes(window, f"(id, text) => ({TEXT})(id) === text", id, whole)
        await becomes(window, SHOWN, "The end.")
        assert await window.evaluate("() => window.hit ?? null") is None
        loaded = await window.evaluate("() => performance.getEntriesByType('resource').map(one => one.name)")
        assert [address for address in loaded if not address.startswith(web.url)] == []
