"""The pages without a script in a real browser: their policy lets their style in, both schemes have their colours."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.cli.compare.page import page_of as compare_page
from dragoman.view import blocks_of
from dragoman.view.html import page_of
from tests.cli.test_compare_page import FAILED, compared
from tests.trace.browser import Browser
from tests.view.conversation import TERMINALS, conversation

GROUND = {"light": "rgb(247, 247, 245)", "dark": "rgb(18, 18, 17)"}
PAGES = {
    "compare": compare_page("Fix " + "it" * 300, "/p", [compared("claude"), compared("codex" * 40), FAILED]),
    "export": page_of(blocks_of(conversation("long " * 200), TERMINALS), "A title", [("folder", "/x" * 200)]),
}


@pytest.fixture
def phone(window: Browser) -> Iterator[Browser]:
    window.devtools("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    yield window
    window.devtools("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_without_a_script_is_styled_and_fits_a_phone(phone: Browser, tmp_path: Path, name: str) -> None:
    file = tmp_path / "page.html"
    file.write_text(PAGES[name], "utf-8")
    _ = phone.log()
    phone.command("POST", "/url", {"url": file.as_uri()})
    assert phone.run("return document.documentElement.scrollWidth") == 390
    for scheme, ground in GROUND.items():
        phone.emulate(scheme)
        assert phone.run("return getComputedStyle(document.body).backgroundColor") == ground
    phone.click(".tree a")
    target = phone.run("return [location.hash, document.querySelector(':target')?.className]")
    assert target[0].startswith("#")
    assert target[1] == "diff"
    assert phone.log() == []
