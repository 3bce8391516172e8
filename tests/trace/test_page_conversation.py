"""The page for a browser: the conversation next to the timeline, its keys, and the width of its columns."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from dragoman.trace import Trace, open_trace
from dragoman.trace.entry import Header
from tests.trace.browser import Browser
from tests.trace.golden import RECORDING
from tests.trace.talk import started, text
from tests.trace.test_page import EVIL, hostile, packed, page_of, saved, shown_markup

ANSWER = (
    "**Done** in `a.py`, see [the page](https://example.org/x) or [this](javascript:window.pwned=1).\n\n- one\n- two\n"
)


def rich() -> Trace:
    """A turn with a plan, a change of a file, a terminal that fails, and an answer in Markdown."""
    talk = started()
    prompt = talk.prompt("s", text("Fix <b>it</b>"))
    talk.update("agent_thought_chunk", content=text("hm"))
    talk.update("plan", entries=[{"content": "Look", "priority": "low", "status": "completed"}])
    change = {"type": "diff", "path": "/p/a.py", "oldText": "one\ntwo\n", "newText": "one\nthree\n"}
    done = {"status": "completed"}
    talk.update("tool_call", toolCallId="edit", title="Edit a.py", kind="edit", content=[change], **done)
    made = talk.ask("terminal/create", {"sessionId": "s", "command": "npm", "args": ["test"]}, by="a2c")
    talk.answer(made, {"terminalId": "term"}, by="c2a")
    shown = [{"type": "terminal", "terminalId": "term"}]
    talk.update("tool_call", toolCallId="run", title="Test", kind="execute", content=shown, **done)
    looked = talk.ask("terminal/output", {"sessionId": "s", "terminalId": "term"}, by="a2c")
    talk.answer(looked, {"output": "1 failed\n", "truncated": False, "exitStatus": {"exitCode": 1}}, by="c2a")
    talk.say(ANSWER)
    talk.end(prompt)
    return Trace(Header(), talk.entries)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(rich(), tmp_path_factory.mktemp("page") / "rich.html")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(open_trace(RECORDING), tmp_path_factory.mktemp("page") / "small.html", str(RECORDING))


def press(window: Browser, *keys: str) -> None:
    """Press keys where the focus is, as a user does."""
    actions = [step for key in keys for step in ({"type": "keyDown", "value": key}, {"type": "keyUp", "value": key})]
    window.command("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})


DOWN, ENTER, ESCAPE, RIGHT = "\ue015", "\ue007", "\ue00c", "\ue014"


def test_conversation_is_next_to_the_timeline_when_the_page_opens(window: Browser, page: Path) -> None:
    window.open(page)
    assert window.texts(".conversation .typed") == ["Fix <b>it</b>"]
    assert window.texts(".conversation .steps li") == ["☑ Look"]
    assert window.texts(".conversation .diff .added, .conversation .diff .removed") == ["-two\n", "+three\n"]
    assert window.texts(".conversation .terminal") == ["$ npm test\n1 failed"]
    assert window.texts(".conversation .status") == ["completed", "exit 1"]
    assert window.texts(".conversation .agent strong, .conversation .agent li") == ["Done", "one", "two"]
    assert window.texts(".conversation .turn-end") == ["Done"]
    boxes = window.run(
        "return ['list', 'detail'].map(id => { const box = document.getElementById(id).getBoundingClientRect();"
        "return [box.left, box.right] })"
    )
    assert boxes[0][1] <= boxes[1][0] + 4
    assert window.log() == []


def test_links_of_a_conversation_lead_to_the_web_only(window: Browser, page: Path) -> None:
    window.open(page)
    links = window.run("return [...document.querySelectorAll('.conversation a')].map(a => [a.href, a.target, a.rel])")
    assert links == [["https://example.org/x", "_blank", "noopener noreferrer nofollow"]]
    # A page whose data was changed cannot make other elements either.
    grown = window.run(
        "return inspect.grow(['iframe', {src: 'x', onclick: 'x', href: 'javascript:1'}, ['y']]).outerHTML"
    )
    assert grown == "<span>y</span>"


def test_block_and_message_lead_to_each_other(window: Browser, page: Path) -> None:
    window.open(page)
    window.click(".conversation .tool .name")
    assert window.run("return location.hash") == ""  # it is a summary, which opens and closes
    window.click(".conversation .diff .path")
    assert window.texts("#detail h2") == ["tool_call"]
    number = window.run("return location.hash")
    window.click("[data-tab=conversation]")
    assert window.texts(".conversation .current .name") == ["Edit a.py"]
    window.run("inspect.page.choose(inspect.page.list.chosen + 3)")
    assert window.run("return location.hash") != number
    assert window.texts(".conversation .current .name") == ["Test"]


def test_whole_page_can_be_used_with_the_keyboard(window: Browser, page: Path, small: Path) -> None:
    window.open(page)
    press(window, "j", "j")
    assert window.run("return location.hash") == "#2"
    press(window, "c")
    assert window.run("return document.activeElement.className") == "conversation"
    press(window, DOWN, DOWN, DOWN, DOWN, ENTER)
    assert window.texts(".conversation .current .name") == ["Edit a.py"]
    press(window, "m")
    assert window.texts("#detail [aria-selected=true]") == ["Message"]
    window.run("document.querySelector('#detail [aria-selected=true]').focus()")
    press(window, RIGHT)
    assert window.run("return document.activeElement.textContent") == "Conversation"
    press(window, "3")
    assert window.run("return document.getElementById('view-stats').hidden") is False
    press(window, "1", "?")
    assert window.run("return document.getElementById('help').open") is True
    press(window, ESCAPE)
    assert window.run("return document.getElementById('help').open") is False
    press(window, "/", "n", "c")
    assert window.run("return document.getElementById('search').value") == "nc"
    press(window, ESCAPE)
    assert window.run("return document.activeElement.id") == "list"
    window.open(small)
    press(window, "n", "n", "p")
    assert window.run("return location.hash") == "#18"


def widths(window: Browser) -> tuple[float, float]:
    """Of the list and of the narrowest summary in it."""
    found = window.run(
        "return [document.getElementById('list').clientWidth,"
        " Math.min(...[...document.querySelectorAll('.row .says')].map(e => e.getBoundingClientRect().width))]"
    )
    return found[0], found[1]


def test_summary_has_the_width_that_the_other_columns_leave(window: Browser, page: Path) -> None:
    window.open(page)
    whole, summary = widths(window)
    assert summary >= 0.45 * whole
    hidden = "return [...document.querySelectorAll('.row .what')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert window.run(hidden) == 0
    window.devtools("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=1, mobile=True)
    try:
        window.open(page)
        whole, summary = widths(window)
        assert summary >= 0.9 * whole
        assert window.run("return document.documentElement.scrollWidth") <= 390
        rows = window.run("return [...document.querySelectorAll('.row')].map(e => e.getBoundingClientRect().top)")
        assert all(after - before == pytest.approx(46) for before, after in pairwise(rows))
        block = window.run("return document.querySelector('.conversation .block').getBoundingClientRect().width")
        assert block >= 300
    finally:
        window.devtools("Emulation.clearDeviceMetricsOverride")


def test_session_that_was_loaded_again_is_shown_once(window: Browser, tmp_path: Path) -> None:
    talk = started()
    talk.end(talk.prompt("s", text("first")))
    loaded = talk.ask("session/load", {"sessionId": "s", "cwd": "/p", "mcpServers": []})
    talk.update("user_message_chunk", content=text("from the history"))
    talk.answer(loaded)
    window.open(saved(Trace(Header(), talk.entries), tmp_path / "loaded.html"))
    assert window.texts(".conversation .typed") == ["from the history"]
    window.click(".conversation .typed")
    assert window.texts("#detail h2") == ["user_message_chunk"]


def test_hostile_text_is_text_in_a_conversation(window: Browser, tmp_path: Path) -> None:
    window.open(saved(hostile(), tmp_path / "evil.html", " ".join(EVIL)))
    other_links = ".conversation a:not([href^='https:']):not([href^='http:'])"
    markup = f"img, iframe, object, svg, {other_links}"
    assert shown_markup(window, ["conversation"], markup, chooses=False) == [0]  # test_page.py has list and strip
    assert any(EVIL[-1] in text for text in window.texts(".conversation")), "it is shown"
    assert window.run("return window.pwned") is None
    assert window.log() == []


def test_conversations_are_packed_like_the_rest_and_have_no_html() -> None:
    page = page_of(rich())
    [conversation] = json.loads(packed(page, "conversations"))
    assert conversation["since"] == 0
    assert conversation["elements"][0][0] == "article"
    assert "it&lt;/b" not in page
    assert "it</b" not in page
