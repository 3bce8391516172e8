"""What the web page costs in a browser: ``python -m benchmarks.web``.

The real page in Chromium, with a CPU that is slowed down four times, in front of a host whose agent is played. Goals
are those of the design; nothing is asserted: what must hold is tested in tests/web, by counts and by ratios of one run.
`make bench` runs it, too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import TYPE_CHECKING

from tests.trace.browser import CHROMIUM
from tests.web.kit import Loop, Played, Web, holds, opened_web

if TYPE_CHECKING:
    from playwright.async_api import Page

SLOWDOWN = 4
CHUNKS = 20_000
BLOCKS = 10_000
SECONDS = 600.0
# Counts tasks above 50 ms, and how often the view moved away from its end while it followed the text.
WATCH = """() => {
    window.seen = {tasks: 0, longest: 0};
    new PerformanceObserver(list => { for (const task of list.getEntries()) {
        window.seen.tasks += 1; window.seen.longest = Math.max(window.seen.longest, task.duration); } })
        .observe({entryTypes: ['longtask']});
}"""
LENGTH = """id => dragoman.thread(id).fold.timeline.filter(item => item.kind === 'message')
    .reduce((sum, item) => sum + item.parts.reduce((all, part) => all + (part.text ?? '').length, 0), 0)"""


def row(name: str, value: str, goal: str, is_met: bool) -> None:
    print(f"  {name:<58} {value:>12}   goal {goal:<14} {'met' if is_met else 'NOT MET'}", flush=True)


async def slow_down(page: Page) -> None:
    session = await page.context.new_cdp_session(page)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": SLOWDOWN})


async def first_paint(web: Web) -> None:
    async with web.context() as context:
        page = await context.new_page()
        await slow_down(page)
        await page.goto(web.url)
        await holds(page, "() => performance.getEntriesByName('first-contentful-paint').length > 0")
        milliseconds = await page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    row("first paint", f"{milliseconds:.0f} ms", "1,000 ms", milliseconds < 1000)


async def prompted(web: Web, page: Page) -> Played:
    session = await web.session(page)
    await page.goto(f"{web.url}/#/s/{session.id}")
    await page.evaluate("id => { void dragoman.app.prompt(id, 'Begin', 'send'); }", session.id)
    await session.prompted()
    return session


async def streaming(web: Web) -> None:
    async with web.page() as page:
        session = await prompted(web, page)
        await slow_down(page)
        await page.evaluate(WATCH)
        texts = [f"word {number} " if number % 40 else f"\n\nword {number} " for number in range(CHUNKS)]
        begun = time.monotonic()
        for number, text in enumerate(texts):
            session.say(text)
            if number % 50 == 0:
                await asyncio.sleep(0)
        total = sum(map(len, texts)) + len("Begin")
        await holds(page, f"([id, total]) => ({LENGTH})(id) >= total", [session.id, total])
        await page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        seconds = time.monotonic() - begun
        seen = await page.evaluate("() => window.seen")
        session.end()
    row(f"{CHUNKS:,} chunks in one turn, shown", f"{seconds:.2f} s", "5 s", seconds < 5)
    row("tasks above 50 ms meanwhile", f"{seen['tasks']}", "0", seen["tasks"] == 0)
    row("the longest of them", f"{seen['longest']:.0f} ms", "50 ms", seen["longest"] <= 50)


async def opening(web: Web) -> None:
    async with web.page() as page:
        session = await prompted(web, page)
        for number in range(BLOCKS):
            session.say(f"Block {number}.\n\n")
        session.end()
        await holds(
            page, "id => dragoman.app.rows.value.some(one => one.sessionId === id && !one.own.turn)", session.id
        )
    async with web.page() as page:
        await slow_down(page)
        begun = time.monotonic()
        await page.goto(f"{web.url}/#/s/{session.id}")
        await holds(page, "text => document.querySelector('main')?.innerText.includes(text)", f"Block {BLOCKS - 1}.")
        seconds = time.monotonic() - begun
        blocks = await page.evaluate("() => document.querySelectorAll('.thread [data-row]').length")
    row(f"a session of {BLOCKS:,} blocks, opened", f"{seconds:.2f} s", "1 s", seconds < 1)
    row("elements of the thread in the document", f"{blocks}", "150", blocks <= 150)


async def measure(web: Web) -> None:
    bytes = json.loads((web.folder.parent / "page" / "table.json").read_text())["firstLoad"]
    row("first load, with gzip", f"{bytes / 1000:.1f} kB", "80 kB", bytes <= 80_000)
    await first_paint(web)
    await streaming(web)
    await opening(web)


def main(arguments: list[str]) -> int:
    if CHROMIUM is None:
        print("the web page is not measured: chromium is not installed (Debian: apt install chromium)")
        return 0
    print(f"the web page in Chromium, CPU slowed down {SLOWDOWN} times")
    loop = Loop()
    try:
        with opened_web(loop) as web:
            loop.run(measure(web), SECONDS)
    finally:
        loop.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
