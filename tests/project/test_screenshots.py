"""The pictures of the documentation show what the commands print now, and are nothing but pictures."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.project.pages import PAGES
from tools import web_pictures
from tools.screen import PLAIN, Run, Screen, Style
from tools.screenshots import GRIDS, IMAGES, MOST_BYTES, SHOTS, drawn, screens
from tools.screenshots import PAGES as WEB_PAGES
from tools.svg import picture

SVG = "{http://www.w3.org/2000/svg}"
TAGS = {f"{SVG}{name}" for name in ("svg", "title", "rect", "circle", "g", "text")}


def words(svg: str) -> Counter[tuple[str, str, str]]:
    """All words with their colours, in no order, without the lines of calls that have only begun.

    What an agent asks for and what it reports take different ways through the client: a decision may be shown before,
    after or in the middle of a text that was sent just before. Under load a call may be over before it is shown.
    """
    found: dict[str, list[tuple[str, str, str]]] = {}
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        look = text.get("fill", ""), text.get("font-weight", "")
        found.setdefault(text.get("y", ""), []).extend((word, *look) for word in (text.text or "").split())
    return Counter(word for line in found.values() if line[0][0] != "→" for word in line)


def test_pictures_show_what_the_commands_print() -> None:
    """All in one test: later commands show what earlier ones left, and one home is enough for all."""
    taken = screens()
    for shot in SHOTS:
        committed, fresh = (IMAGES / f"{shot.name}.svg").read_text(), picture(taken[shot.name], shot.title)
        if shot.is_steady:
            assert committed == fresh, f"{shot.name}: run make docs"
        else:
            assert words(committed) == words(fresh), f"{shot.name}: run make docs"


def test_pictures_of_the_terminal_client_are_the_screens_that_its_tests_compare() -> None:
    for grid in GRIDS:
        committed = (IMAGES / f"{grid.name}.svg").read_text()
        assert committed == picture(drawn(grid), grid.title), f"{grid.name}: run make docs"


def test_every_picture_is_made_by_the_script_and_shown_on_a_page() -> None:
    names = {path.name for path in IMAGES.iterdir()}
    photographs = (*(page.name for page in WEB_PAGES), *web_pictures.NAMES)
    assert names == {f"{shot.name}.svg" for shot in (*SHOTS, *GRIDS)} | {f"{name}.png" for name in photographs}
    shown = [found for page in PAGES for found in re.findall(r"!\[([^\]]*)\]\([^)]*images/([^)]+)\)", page.read_text())]
    assert {name for _, name in shown} == names
    assert all(words for words, _ in shown), "a picture needs a description"


def test_pictures_are_small() -> None:
    assert [path.name for path in IMAGES.iterdir() if path.stat().st_size > MOST_BYTES] == []


def assert_harmless(svg: str) -> None:
    for element in ElementTree.fromstring(svg).iter():
        assert element.tag in TAGS, element.tag
        assert not [name for name in element.attrib if name.lower().startswith("on") or "href" in name]


@pytest.mark.parametrize("path", sorted(IMAGES.glob("*.svg")), ids=lambda path: path.name)
def test_a_picture_runs_and_loads_nothing(path: Path) -> None:
    assert_harmless(path.read_text())


def test_text_in_a_picture_stays_text() -> None:
    attack = """</text><script>alert(1)</script><image href="http://127.0.0.1/"/> & ]]> "x" 'y'"""
    screen = Screen(200)
    screen.feed(attack)
    svg = picture(screen, f'" onload="alert(1) {attack}')
    assert_harmless(svg)
    [text] = ElementTree.fromstring(svg).iter(f"{SVG}text")
    assert text.text == attack


def test_a_screen_shows_what_is_left_after_lines_were_written_again() -> None:
    screen = Screen(20)
    screen.feed("\x1b[2mstarting\x1b[0m\r\x1b[K\x1b[32m✓\x1b[0m done\r\nover\rO\r\n\r\n")
    assert screen.lines == ["✓ done", "Over"]
    assert screen.runs[0] == [Run(0, "✓", Style("green")), Run(2, "done", PLAIN)]


def test_half_blocks_in_two_colours_are_rectangles() -> None:
    screen = Screen(20)
    screen.feed("│ \x1b[38;2;255;0;0;48;2;0;0;255m▀▀▀\x1b[0m x")
    assert screen.runs[0][1] == Run(2, "▀▀▀", Style("#ff0000", background="#0000ff"))
    svg = picture(screen, "half blocks")
    assert_harmless(svg)
    halves = [
        each for each in ElementTree.fromstring(svg).iter(f"{SVG}rect") if each.get("fill") in ("#ff0000", "#0000ff")
    ]
    assert [(each.get("fill"), each.get("width")) for each in halves] == [("#ff0000", "24"), ("#0000ff", "24")]


def test_a_long_line_continues_on_the_next_and_a_wide_letter_takes_two_columns() -> None:
    screen = Screen(5)
    screen.feed("日本語 ab  c")
    assert screen.lines == ["日本", "語 ab", "  c"]
    assert screen.runs == [[Run(0, "日本", PLAIN)], [Run(0, "語 ab", PLAIN)], [Run(2, "c", PLAIN)]]


@pytest.mark.parametrize(
    "control", ["\x1b[2J", "\x1b[1A", "\x1b]0;title\x07", "\x07", "\x1b[38;5;1m", "\x9b1m", "\x00"]
)
def test_a_control_that_a_screen_does_not_know_is_an_error(control: str) -> None:
    with pytest.raises(ValueError, match="the screen does not know"):
        Screen(80).feed(f"text{control}text")
