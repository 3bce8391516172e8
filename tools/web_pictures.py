"""Makes the pictures of the web page in docs/images/: `python -m tools.web_pictures`, part of `make screenshots`.

Opens `dragoman web` in a home of its own, lets the built-in agent work with a scripted model in several sessions, and
photographs what Chromium shows. Fonts and the version of Chromium differ, so the pictures are looked at, not compared.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tools.screenshots import IMAGES, MOST_BYTES, ROOT, Place, place

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NAMES: Final = ("web-board", "web-conversation", "web-inbox")
SECONDS: Final = 60
DESKTOP: Final = {"width": 1280, "height": 780}
PHONE: Final = {"width": 390, "height": 780}
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking")
# Prompt, and how many of its two questions are answered.
SESSIONS: Final = (
    ("Make the greeting friendlier", 2),
    ("Greet in two sentences", 1),
    ("Say hello to all", 0),
)


def _run(where: Place, *words: str) -> str:
    command = [f"{where.home}/.venv/bin/dragoman", *words]
    done = subprocess.run(
        command, cwd=where.project, env=where.environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def _opened(where: Place) -> Iterator[str]:
    """The page, open in the background; gives its address with the code."""
    shown = json.loads(_run(where, "web", "--detach", "--no-open", "--json"))
    try:
        yield str(shown["url"])
    finally:
        _run(where, "web", "stop")
        os.kill(json.loads(_run(where, "sessions", "--host", "--json"))["pid"], signal.SIGTERM)


def _await(page: Page, function: str, argument: Any = None) -> None:
    """Waits in the page; its policy refuses the texts that Playwright's own waiting evaluates."""
    look = f"""value => new Promise(done => {{
        const look = () => ({function})(value) ? done() : setTimeout(look, 50); look(); }})"""
    page.evaluate(look, argument)


def _paired(browser: Browser, address: str, size: dict[str, int], scheme: Any) -> Page:
    is_phone = size is PHONE
    context = browser.new_context(
        viewport=size,  # type: ignore[arg-type]  # a dict of two integers
        color_scheme=scheme,
        is_mobile=is_phone,
        has_touch=is_phone,
        reduced_motion="reduce",
    )
    page = context.new_page()
    page.set_default_timeout(SECONDS * 1000)
    page.goto(address)
    page.get_by_role("button", name="Pair").click()
    _await(page, "() => dragoman.app.line.value.state === 'connected'")
    return page


def _work(page: Page, where: Place) -> list[str]:
    """Opens the sessions and answers some of their questions; gives their ids."""
    ids: list[str] = []
    for number, (prompt, answers) in enumerate(SESSIONS):
        folder = where.home / f"app-{number}"
        shutil.copytree(where.project, folder)
        wanted = {"agent": "dragoman", "cwd": str(folder), "prompt": prompt}
        id = page.evaluate("wanted => dragoman.app.create(wanted)", wanted)
        ids.append(id)
        for _ in range(answers):
            _await(page, "id => dragoman.app.questions.value.some(one => one.sessionId === id)", id)
            page.evaluate(
                """async id => {
                    const asked = dragoman.app.questions.value.find(one => one.sessionId === id);
                    const once = asked.params.options.find(one => one.kind === 'allow_once');
                    await dragoman.app.answer(asked, {outcome: 'selected', optionId: once.optionId});
                    const isGone = () => !dragoman.app.questions.value.some(one => one.questionId === asked.questionId);
                    await new Promise(done => { const look = () => isGone() ? done() : setTimeout(look, 50); look(); });
                }""",
                id,
            )
        state = "one => one.sessionId === id && (!one.own.turn || one.own.questions?.length > 0)"
        _await(page, f"id => dragoman.app.rows.value.some({state})", id)
    return ids


def _photograph(page: Page, name: str) -> None:
    page.mouse.move(0, 0)
    page.evaluate("() => new Promise(done => setTimeout(done, 1200))")  # fonts, colours of code, times
    file = IMAGES / f"{name}.png"
    page.screenshot(path=file)
    if (size := file.stat().st_size) > MOST_BYTES:
        raise ValueError(f"{file} has {size} bytes; make it smaller than {MOST_BYTES}")
    print(f"docs/images/{name}.png")


def take(chromium: str) -> None:
    """Write all pictures. Raises: AssertionError, playwright's errors."""
    from playwright.sync_api import sync_playwright

    with place() as where, _opened(where) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=list(FLAGS))
        page = _paired(browser, address, DESKTOP, "light")
        ids = _work(page, where)
        origin = address.partition("#")[0]
        page.goto(f"{origin}#/")
        _photograph(page, "web-board")
        page.goto(f"{origin}#/s/{ids[1]}")
        _photograph(page, "web-conversation")
        code = json.loads(_run(where, "web", "pair", "--json"))["url"]
        phone = _paired(browser, code, PHONE, "dark")
        phone.goto(f"{origin}#/inbox")
        _photograph(phone, "web-inbox")
        browser.close()


def main() -> int:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        print("the pictures of the web page need chromium (Debian: apt install chromium)", file=sys.stderr)
        return 1
    subprocess.run(["node", "build.mjs"], cwd=Path(ROOT, "web"), check=True)
    take(chromium)
    return 0


if __name__ == "__main__":
    sys.exit(main())
