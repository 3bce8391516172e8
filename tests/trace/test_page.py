"""The page for a browser: what is inside it, and how it behaves in a real one."""

from __future__ import annotations

import gzip
import io
import json
import re
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from dragoman.trace import Trace, open_trace
from dragoman.trace.entry import Header
from dragoman.trace.inspect.folding import FoldedSessions, describe
from dragoman.trace.inspect.page import write_page
from dragoman.trace.inspect.timeline import read_timeline
from tests.trace.browser import Browser
from tests.trace.golden import RECORDING
from tests.trace.kit import RECORDINGS
from tests.trace.talk import MODES, SELECT, started, text
from tests.trace.test_inspect import large
from tests.trace.test_inspect_plain import every_place

EVIL = (
    "<script>window.pwned = 1</script>",
    "</script><script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    "\"><svg onload='window.pwned = 1'>",
    "javascript:window.pwned=1",
    "<!--<script>",
    "{{script}}",
    "\u2028window.pwned = 1//",
    "__proto__",
)


def page_of(trace: Trace, name: str = "a recording") -> str:
    file = io.StringIO()
    write_page(file, trace, name)
    return file.getvalue()


def saved(trace: Trace, path: Path, name: str = "a recording") -> Path:
    path.write_text(page_of(trace, name), "utf-8")
    return path


def packed(page: str, id: str) -> bytes:
    found = re.search(rf'<script type="text/plain" id="{id}">([^<]*)</script>', page)
    assert found
    return gzip.decompress(b64decode(found[1]))


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(open_trace(RECORDING), tmp_path_factory.mktemp("page") / "small.html", str(RECORDING))


def test_page_is_whole_and_asks_for_nothing() -> None:
    page = page_of(open_trace(RECORDING))
    assert "default-src 'none'; style-src 'sha256-" in page
    assert not re.search(r"\b(src|href|action)\s*=|@import|url\(|https?://|{{\w+}}", page)
    index = json.loads(packed(page, "index"))
    frames = packed(page, "frames").split(b"\n")
    assert len(index["t"]) == len(frames) == 35
    assert json.loads(frames[3])["method"] == "session/new"
    assert json.loads(frames[22]) == "Downloading model... 42%"


def test_same_recording_gives_the_same_page() -> None:
    assert page_of(open_trace(RECORDING)) == page_of(open_trace(RECORDING))


@pytest.mark.parametrize("evil", EVIL)
def test_no_text_of_a_recording_is_part_of_the_markup(evil: str) -> None:
    trace = Trace(Header(command=(evil,), started=evil), every_place(evil).entries)
    harmless = page_of(Trace(Header(), []), "x")
    page = page_of(trace, evil)
    assert page.count("<script") == harmless.count("<script") == 4
    assert page.count("window.pwned") == ("window.pwned" in re.findall("<title>(.*?)</title>", page, re.DOTALL)[0])
    assert "<script>window" not in page
    assert "<img" not in page


def shown(window: Browser) -> list[str]:
    return window.texts(".row .what")


def test_page_opens_from_a_file_and_shows_the_timeline(window: Browser, small: Path) -> None:
    _ = window.requests()  # those of pages before this one
    window.open(small)
    assert window.texts("h1") == ["small.jsonl"]
    assert window.texts("#facts")[0].startswith("coder 0.9 and editor 2.1 · 35 messages · 2 sessions · 7.1s")
    assert shown(window)[:8] == [
        "initialize",
        "stderr",
        "initialize",
        "session/new",
        "session/new",
        "available_commands_update",
        "session/prompt",
        "agent_thought_chunk ×2",
    ]
    assert "I will rename it — 日本語 \\u001b]0;pwned\\u0007too." in window.texts(".row .says")
    assert window.texts("#badges .badge") == ["3", "1", "1"]
    assert window.log() == []
    assert {url for url in window.requests() if not url.startswith(("chrome:", "data:"))} == {small.as_uri()}


def test_policy_lets_nothing_out(window: Browser, small: Path) -> None:
    window.open(small)
    answer = window.run_async("fetch('http://127.0.0.1:9/').then(() => done('sent'), () => done('refused'))")
    assert answer == "refused"
    assert (
        window.run(
            "new Image().src = 'http://127.0.0.1:9/x.png'; const s = document.createElement('script');"
            "s.textContent = 'window.pwned = 1'; document.body.append(s); return window.pwned"
        )
        is None
    )
    assert any("Content Security Policy" in line for line in window.log())


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("#search", "will rename it", ["agent_message_chunk ×5"]),
        ("#search", "MAIN.PY", ["tool_call", "session/request_permission", "fs/read_text_file", "tool_call_update"]),
        (
            "#session",
            "1",
            ["session/new", "session_info_update", "session/new", "session/prompt", "session/prompt", "session/cancel"],
        ),
        ("#dir", "1", None),
    ],
)
def test_filters_leave_what_is_wanted(
    window: Browser, small: Path, field: str, value: str, expected: list[str] | None
) -> None:
    window.open(small)
    window.type(field, value)
    if expected is None:
        assert set(window.texts(".row .to-agent")) == {"→"}
        assert window.texts(".row .to-client") == []
    else:
        assert set(shown(window)) == set(expected)
        assert len(shown(window)) == len(expected)


def test_boxes_leave_errors_broken_rules_and_single_chunks(window: Browser, small: Path) -> None:
    window.open(small)
    window.click("#errors")
    assert shown(window) == ["fs/read_text_file", "terminal/create", "(not a message)", "session/prompt"]
    window.click("#errors")
    window.click("#marked")
    assert window.texts(".row .mark") == ["273", "282", "6", "102"]
    window.click("#marked")
    window.click("#each")
    assert window.texts("#count") == ["35 messages"]
    assert shown(window).count("agent_message_chunk") == 5


def test_message_is_shown_in_full_with_its_pair_and_its_findings(window: Browser, small: Path) -> None:
    window.open(small, "#18")
    assert window.texts("#detail h2") == ["fs/read_text_file"]
    assert "answered by message 19 after 0.2ms" in window.texts("#detail .sub")[0]
    assert window.texts("#detail .card b") == ["Rule 273 · MUST"]
    assert '"path": "main.py"' in window.texts("#detail .tree .leaf")
    window.click("#detail .link")
    assert window.run("return location.hash") == "#19"
    assert window.texts(".row.pair .what") == ["fs/read_text_file"]
    window.run_async("addEventListener('hashchange', () => done()); location.hash = '#7'")
    assert window.texts("#detail h2") == ["session/prompt"]


def test_keys_go_through_the_list(window: Browser, small: Path) -> None:
    window.open(small)
    for key in ("End", "ArrowUp", "j", "Home", "ArrowDown"):
        window.run(
            "document.getElementById('list').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))", key
        )
    assert window.run("return location.hash") == "#2"


def test_findings_and_figures_have_their_own_views(window: Browser, small: Path) -> None:
    window.open(small)
    window.click("#tab-findings")
    assert window.texts("#view-findings .level")[:3] == ["Rule 6 · MUST NOT", "Rule 273 · MUST", "Rule 282 · MUST"]
    window.click("#view-findings .link")
    assert window.run("return [location.hash, document.getElementById('view-timeline').hidden]") == ["#23", False]
    window.click("#tab-stats")
    assert "session/request_permission" in window.texts("#view-stats td:first-child")


def test_page_is_light_or_dark_as_the_system_is_or_as_one_likes(window: Browser, small: Path) -> None:
    ground = "return getComputedStyle(document.body).backgroundColor"
    window.open(small)
    window.emulate("dark")
    dark = window.run(ground)
    window.emulate("light")
    light = window.run(ground)
    assert dark != light
    window.click("#theme")
    assert window.run(ground) == dark


def hostile() -> Trace:
    """Every hostile text wherever a peer can put one, in one recording: a browser takes longer to open than to look."""
    return Trace(Header(command=EVIL), [entry for evil in EVIL for entry in every_place(evil).entries])


SHOW_EVERYTHING = """
const [tabs, markup, chooses] = arguments, found = new Set();
for (let number = 0; number < inspect.recording.length; number++) {
  for (const tab of tabs) {
    inspect.page.detail.tab = tab;
    if (chooses && tab === tabs[0]) inspect.page.choose(number);
    else inspect.page.detail.show(number);  // as a click on a tab does
    found.add(document.querySelectorAll(markup).length);
  }
}
await new Promise(resolve => setTimeout(resolve));  // what a text started has run then
done([...found]);
"""


def shown_markup(window: Browser, tabs: list[str], markup: str, *, chooses: bool = True) -> list[int]:
    """Show every message in these tabs; `chooses`: in the list and the strip, too, which takes most of the time.

    Returns how many such elements there were, each number once.
    """
    found: list[int] = window.run_async(f"(async () => {{ {SHOW_EVERYTHING} }})();", tabs, markup, chooses)
    return found


def test_hostile_text_is_text_in_every_view(window: Browser, tmp_path: Path) -> None:
    trace = hostile()
    window.open(saved(trace, tmp_path / "evil.html", " ".join(EVIL)))
    assert window.run("return inspect.recording.length") == len(trace.entries)
    assert shown_markup(window, ["message", "state"], "img, iframe, svg, script") == [1]
    window.click("#tab-findings")
    window.click("#tab-stats")
    assert window.run("return [window.pwned, document.querySelectorAll('img, iframe, svg, script').length]") == [
        None,
        1,
    ]
    assert window.log() == []


STATE = """
const folder = new inspect.Folder(inspect.recording), found = [];
for (const at of arguments[0]) {
  for (const [index, session] of folder.at(at - 1)) {
    found.push([at, inspect.recording.sessions[index], {
      title: session.title, mode: session.mode, turns: session.turns, running: session.running,
      stop_reason: session.stop,
      options: Object.fromEntries(session.options.map(option => [option.id, option.currentValue])),
      commands: session.commands.map(command => command.name),
      usage: session.usage && {used: session.usage.used, size: session.usage.size},
      timeline: session.items.map(item => item.item === "tool_call"
        ? [item.item, item.title, item.kind, item.cancelled ? "cancelled" : item.status, item.content.length]
        : item.item === "plan" ? [item.item, ...item.entries.map(entry => entry.status)] : [item.item, item.text]),
    }]);
  }
}
return found;
"""


def folded(trace: Trace, points: list[int]) -> list[Any]:
    """What the library folds, in the words of the page."""
    found: list[Any] = []
    sessions = FoldedSessions()
    done = 0
    timeline = read_timeline([], watch=sessions.feed)
    for at in points:
        for entry in trace.entries[done:at]:
            timeline.feed(entry)
        done = at
        for name, state in sessions.states.items():
            described = describe(state)
            kept = {
                key: described[key]
                for key in ("title", "mode", "turns", "running", "stop_reason", "options", "commands", "usage")
            }
            found.append([at, name, {**kept, "timeline": [_item(item) for item in described["timeline"]]}])
    return found


def _item(item: dict[str, Any]) -> list[Any]:
    if item["item"] == "tool_call":
        return [item["item"], item["title"], item["kind"], item["status"], item["content"]]
    if item["item"] == "plan":
        return [item["item"], *(entry["status"] for entry in item["entries"])]
    return [item["item"], item["text"]]


def busy() -> Trace:
    """A conversation with everything that changes a session."""
    talk = started(modes=MODES, configOptions=[SELECT])
    prompt = talk.prompt("s", text("do it"))
    talk.update("user_message_chunk", content=text("do it"))
    talk.say("I ", messageId="m")
    talk.update("agent_thought_chunk", content=text("hm"))
    talk.tool("t", status="pending", kind="edit")
    talk.say("will", messageId="m")
    talk.say("no id")
    talk.reply(talk.permission("t2"), {"outcome": {"outcome": "cancelled"}})
    talk.update(
        "tool_call_update", toolCallId="t", status="completed", content=[{"type": "content", "content": text()}]
    )
    talk.update("plan", entries=[{"content": "a", "priority": "low", "status": "pending"}])
    talk.update("notice", severity="info", title="look")
    talk.update("compaction_update", compactionId="c", status="in_progress")
    talk.update("compaction_summary_chunk", compactionId="c", content=text("short"))
    talk.update("something_new", text="x")
    talk.cancel()
    talk.end(prompt, "cancelled")
    talk.answer(talk.ask("session/set_mode", {"sessionId": "s", "modeId": "code"}))
    talk.update("session_info_update", title="A title")
    talk.update("usage_update", used=5, size=10)
    talk.fail(talk.prompt("s", text("again")), -32603)
    forked = talk.ask("session/fork", {"sessionId": "s", "cwd": "/p"})
    talk.answer(forked, {"sessionId": "child", "modes": MODES})
    loaded = talk.ask("session/load", {"sessionId": "s", "cwd": "/p", "mcpServers": []})
    talk.update("user_message_chunk", content=text("do it"))
    talk.say("I will")
    talk.answer(loaded)
    return Trace(Header(started="2026"), talk.entries)


def test_page_folds_sessions_as_the_library_does(window: Browser, tmp_path: Path) -> None:
    trace = busy()
    window.open(saved(trace, tmp_path / "busy.html"))
    points = list(range(1, len(trace.entries) + 1))
    for got, wanted in zip(window.run(STATE, points), folded(trace, points), strict=True):
        assert got == wanted
    backwards = [points[-1], points[10]]
    assert window.run(STATE, backwards)[-1] == folded(trace, [points[10]])[-1]


@pytest.mark.skipif(not RECORDINGS, reason="no recordings of real agents beside the project")
@pytest.mark.parametrize(
    "recordings", [RECORDINGS[::3], pytest.param(RECORDINGS, marks=pytest.mark.soak)], ids=["some", "all"]
)
def test_page_folds_real_sessions_as_the_library_does(window: Browser, tmp_path: Path, recordings: list[Path]) -> None:
    for path in recordings:
        trace = open_trace(path)
        window.open(saved(trace, tmp_path / f"{path.stem}.html", path.name))
        points = [len(trace.entries) // 3 or 1, len(trace.entries)]
        for got, wanted in zip(window.run(STATE, points), folded(trace, points), strict=True):
            # The page says what a block is that is no text; the library counts it apart.
            for item in (*got[2]["timeline"], *wanted[2]["timeline"]):
                item[:] = [re.sub(r"\[(image|resource|audio)[^\]]*\]|\[[\w.-]+\]", "", str(each)) for each in item]
            assert got == wanted, path.name
        assert window.log() == []


@pytest.mark.soak
def test_hundred_thousand_messages_scroll_and_open_at_once(window: Browser, tmp_path: Path) -> None:
    trace = open_trace(large(tmp_path / "large.jsonl", 100_000))
    page = saved(trace, tmp_path / "large.html")
    assert page.stat().st_size < 10_000_000
    window.open(page)
    window.click("#each")
    assert window.texts("#count") == ["100,001 messages"]
    assert len(shown(window)) < 100
    took = window.run(
        "const start = performance.now(); inspect.page.choose(100000); inspect.page.detail.tab = 'state';"
        "inspect.page.choose(99999); return performance.now() - start"
    )
    assert took < 10_000
    assert window.texts(".row .number")[-1] == "100001"
    assert len(window.texts("#detail .item")) <= 121


def test_narrow_window_keeps_list_and_message_in_sight(window: Browser, small: Path) -> None:
    window.open(small, "#18")
    window.devtools("Emulation.setDeviceMetricsOverride", width=420, height=800, deviceScaleFactor=1, mobile=True)
    try:
        boxes = window.run(
            "return ['list', 'detail'].map(id => { const box = document.getElementById(id).getBoundingClientRect();"
            "return [Math.round(box.width), Math.round(box.height)] })"
        )
    finally:
        window.devtools("Emulation.clearDeviceMetricsOverride")
    assert all(width >= 400 and height >= 150 for width, height in boxes)


def test_empty_recording_is_a_page_too(window: Browser, tmp_path: Path) -> None:
    window.open(saved(Trace(Header(), []), tmp_path / "empty.html"))
    assert window.texts("#count") == ["0 messages"]
    assert window.log() == []
