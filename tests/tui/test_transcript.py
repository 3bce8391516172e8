"""The conversation on the screen: walking over its blocks, what is drawn later, and what an agent cannot do to it."""

from __future__ import annotations

import base64
import shutil
import stat
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("textual")

from rich.cells import cell_len

from dragoman.schema import Unknown, v1
from dragoman.state import SessionState, fold
from dragoman.text.terminal import cells
from dragoman.tui.local_host.older_blocks import OlderPage
from dragoman.tui.screen.conversation import copy
from dragoman.tui.screen.conversation.emulation import EmulatedTerminals
from dragoman.tui.screen.conversation.highlighting import colour_code
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.strips import strip_of, style_named
from dragoman.view.blocks import ShownTerminal, TurnBlock
from tests.tui.test_screen import grid, painted, shown

EVIL = "\x1b]0;evil\x07\x1b[2J\x9b31m\u202e\x1b]8;;http://x\x07\x08\r\x00"


def say(text: str) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(v1.TextContent(text))


def call(id: str, title: str, **members: Any) -> v1.ToolCall:
    return v1.ToolCall(id, title, status="completed", **members)


def edit(path: str) -> v1.ToolCall:
    diff = v1.Diff(path, "def f():\n    return 2\n", old_text="def f():\n    return 1\n")
    return call(path, f"Edit {path}", kind="edit", content=[diff])


async def test_keys_walk_over_the_blocks_and_open_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        state, transcript = app.conversation.state, app.query_one(Transcript)
        long = "".join(f"line {number}\n" for number in range(30))
        for number in range(20):
            fold(state, call(str(number), f"run {number}", kind="execute", raw_output=long))
        await painted(app, pilot)
        await pilot.press("tab")
        assert transcript.walk.position == 19
        await pilot.press("k", "k")
        assert transcript.walk.position == 17
        assert "│    line 2" not in grid(app)
        await pilot.press("enter")
        lines = await painted(app, pilot)
        assert sum("lines before" in line for line in lines) <= 1, "only this block is open"
        assert transcript.layout_of.place_of(17)[1] == 31
        assert transcript.layout_of.place_of(16)[1] == 8
        await pilot.press("enter", "g", "g")
        assert transcript.walk.position == 0
        assert (await painted(app, pilot))[1].startswith("▸ ✔ run     run 0")
        style = transcript.render_line(0)._segments[0].style
        assert style is not None, "the cursor is drawn in reverse video"
        assert style.reverse
        await pilot.press("ctrl+d")
        assert abs(transcript.scroll_y - transcript.size.height / 2) < 1
        await pilot.press("G")
        assert transcript.walk.position == 19
        assert app.is_running, "Ctrl+D scrolls here"


async def test_the_conversation_has_no_colours_where_the_user_wants_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def colours(app: Any) -> set[str]:
        strips = app.screen._compositor.render_strips()
        styles = [segment.style for strip in strips for segment in strip if segment.style is not None]
        return {style.color.name for style in styles if style.color is not None} - {"default"}

    async with shown(monkeypatch) as (app, pilot):
        fold(app.conversation.state, edit("a.py"))
        await painted(app, pilot)
        assert "green" in colours(app)
    monkeypatch.setenv("NO_COLOR", "1")
    async with shown(monkeypatch) as (app, pilot):
        fold(app.conversation.state, edit("a.py"))
        await painted(app, pilot)
        assert colours(app) == set()


async def test_search_goes_through_the_blocks_and_around(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        state, transcript = app.conversation.state, app.query_one(Transcript)
        for text in ("alpha", "beta", "alpha again", "gamma"):
            fold(state, say(text))
            fold(state, call(text, f"between {len(text)}"))
        await painted(app, pilot)
        await pilot.press("tab", "slash", *"ALPHA")
        assert any("/ALPHA_" in line for line in await painted(app, pilot))
        await pilot.press("enter")
        assert transcript.walk.position == 4
        await pilot.press("N")
        assert transcript.walk.position == 0
        await pilot.press("N")
        assert transcript.walk.position == 4
        await pilot.press("slash", *"nowhere", "enter")
        assert any("not found: nowhere" in line for line in await painted(app, pilot))


async def test_a_block_is_copied_as_it_was_written(monkeypatch: pytest.MonkeyPatch) -> None:
    copied: list[str] = []
    monkeypatch.setattr(copy, "copy_text", lambda app, text: copied.append(text))
    async with shown(monkeypatch) as (app, pilot):
        text = "# Head\n\nsome **words** " + "that are long " * 20
        fold(app.conversation.state, say(text + EVIL))
        await painted(app, pilot)
        await pilot.press("tab", "y")
        fold(app.conversation.state, edit("a.py"))
        await painted(app, pilot)
        await pilot.press("G", "y")
    assert copied[0].startswith(text)
    assert copied[0].replace("\n", "").isprintable()
    assert "-    return 1\n+    return 2" in copied[1]


async def test_changes_are_side_by_side_where_there_is_room_and_the_user_decides(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch, (160, 24)) as (app, pilot):
        fold(app.conversation.state, edit("a.py"))
        lines = await painted(app, pilot)
        both = [line for line in lines if "2 -     return 1" in line]
        assert "2 +     return 2" in both[0]
        await pilot.press("tab", "s")
        lines = await painted(app, pilot)
        [one] = [line for line in lines if "2 -     return 1" in line]
        assert "return 2" not in one


async def test_code_gets_its_colours_from_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        transcript = app.query_one(Transcript)
        fold(app.conversation.state, edit("a.py"))
        await painted(app, pilot)
        for _ in range(200):
            await pilot.pause(0.05)
            segments = [segment for y in range(4) for segment in transcript.render_line(y)._segments]
            if any(segment.text == "return" and segment.style == style_named("keyword") for segment in segments):
                break
        else:
            raise AssertionError(segments)


def test_colours_never_change_the_text() -> None:
    text = "\n  def f(x):\n\treturn 'a' # c\n\n"
    lines = colour_code("a.py", text)
    assert lines is not None
    assert "\n".join("".join(piece for piece, _ in line) for line in lines) == text
    assert colour_code("no-such-language", "x") is None


async def test_older_blocks_come_when_the_user_scrolls_to_the_top(monkeypatch: pytest.MonkeyPatch) -> None:
    pages = [[f"page {page} line {number}" for number in range(40)] for page in (1, 2)]

    async def older(self: Any) -> OlderPage:
        texts, page = pages.pop(), SessionState()
        self.has_older = bool(pages)
        for number, text in enumerate(texts):
            fold(page, call(str(number), text))
        return OlderPage(page, {len(texts) - 1: TurnBlock(len(texts), 0, "cancelled", seconds=61.0)}, bool(pages))

    monkeypatch.setattr("dragoman.tui.conversation.HostedConversation.older_page", older)
    async with shown(monkeypatch) as (app, pilot):
        transcript = app.query_one(Transcript)
        for number in range(60):
            fold(app.conversation.state, call(str(number), f"live {number}"))
        app.conversation.has_older = True
        app.reloaded()
        await painted(app, pilot)
        await pilot.press("tab", "g", "g")
        for _ in range(3):
            await painted(app, pilot)
        assert transcript.layout_of.positions.start == -40
        assert grid(app)[1].endswith("live 0"), "what was in sight stays there"
        await pilot.press("k")
        shown_lines = await painted(app, pilot)
        assert any(line.endswith("page 2 line 39") for line in shown_lines)
        assert any(line.startswith("– Cancelled · 61.0 s") for line in shown_lines), "with the ends of turns"
        await pilot.press("g", "g")
        for _ in range(3):
            await painted(app, pilot)
        assert (len(transcript.layout_of.positions), transcript.has_older) == (140, False)
        await pilot.press("G")
        assert any(line.endswith("live 59") for line in await painted(app, pilot))


def poisoned() -> list[v1.SessionUpdate]:
    """Every kind of update, with hostile text in each of its texts."""
    text = v1.TextContent(EVIL)
    meta = {EVIL: {"parentToolUseId": EVIL}, "terminal_output": {"terminal_id": "t", "data": EVIL}}
    content: list[v1.ToolCallContent] = [
        v1.Content(text),
        v1.Content(v1.ImageContent(EVIL, EVIL, uri=EVIL)),
        v1.Content(v1.ResourceLink(EVIL, EVIL)),
        v1.Content(v1.EmbeddedResource(v1.TextResourceContents(EVIL, EVIL))),
        v1.Diff(EVIL, f"{EVIL}\nnew", old_text=f"{EVIL}\nold"),
        v1.Terminal("t"),
    ]
    return [
        v1.UserMessageChunk(text),
        say(f"# {EVIL}\n\n- {EVIL}\n\n```{EVIL}\n{EVIL}\n```\n\n[{EVIL}](http://{EVIL})"),
        v1.AgentMessageChunk(v1.AudioContent(EVIL, EVIL)),
        v1.AgentThoughtChunk(text),
        v1.ToolCall("1", EVIL, kind=EVIL, status=EVIL, content=content, raw_input={"command": EVIL}, meta=meta),
        v1.ToolCall("2", EVIL, raw_output={"output": EVIL, "exit_code": 3}, locations=[v1.ToolCallLocation(EVIL)]),
        v1.Plan([v1.PlanEntry(EVIL, "high", EVIL)]),
        v1.PlanUpdate(v1.PlanMarkdown(f"# {EVIL}", EVIL)),
        v1.Notice(EVIL, EVIL, description=EVIL),
        v1.CompactionUpdate(EVIL, "failed", error=EVIL, summary=[text]),
        v1.SubagentUpdate(EVIL, title=EVIL, description=EVIL),
        v1.SessionMessage(EVIL, sender_session_id=EVIL, content=[text]),
        Unknown(EVIL, {"sessionUpdate": EVIL}),
        v1.SessionInfoUpdate(title=EVIL),
    ]


@pytest.mark.parametrize("size", [(80, 24), (160, 50)])
async def test_every_kind_of_update_is_harmless_on_the_screen(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        transcript = app.query_one(Transcript)
        for update in poisoned():
            fold(app.conversation.state, update)
            app.conversation.watched.note(update, 1.0)
        await pilot.press("ctrl+t")
        await painted(app, pilot)
        height = transcript.layout_of.height
        assert height > 30
        found = transcript.layout_of.lines(0, height, app.conversation.state)
        for line in found:
            strip = strip_of(line, size[0])
            assert strip.text.isprintable()
            assert strip.cell_length == size[0]
            assert all(segment.style is None or segment.style.link is None for segment in strip)
        assert all(line.isprintable() for line in grid(app))


def test_controls_that_reach_a_cell_are_dropped_there() -> None:
    assert strip_of(((EVIL, "bold"), ("x\ny", "")), 20).text.isprintable()


@pytest.mark.parametrize(
    "text", ["👩\u200d🚀 x", "❤\ufe0f", "⚠\ufe0f\u200d🔥", "👍🏽!", "1\ufe0f\u20e3", "🇩🇪", "e\u0301", "界"]
)
def test_signs_whose_width_terminals_disagree_about_are_drawn_apart(text: str) -> None:
    drawn = strip_of(((text, ""),), 20).text.rstrip(" ")
    assert cell_len(drawn) == cells(drawn) == sum(cell_len(letter) for letter in drawn)


def test_a_program_that_draws_a_screen_is_emulated_at_most_ten_times_a_second() -> None:
    clock = [0.0]
    terminals = EmulatedTerminals(lambda: clock[0])
    assert terminals(ShownTerminal("a", output="lines\r50%\x1b[31m")) is None
    output = "\x1b[2J\x1b[1;1Htop\x1b[3;5H\x1b[32mgreen\x1b[0m\x1b]0;title\x07"
    rows = terminals(ShownTerminal("t", output=output, total=len(output)))
    assert rows is not None
    assert ["".join(text for text, _ in row).rstrip() for row in rows] == ["top", "", "    green"]
    assert rows[2][-1] == ("green", "sgr:32")
    more = f"{output}\x1b[1;1HTOP"
    again = terminals(ShownTerminal("t", output=more, total=len(more)))
    assert again == rows
    assert terminals.is_behind
    clock[0] = 0.2
    later = terminals(ShownTerminal("t", output=more, total=len(more)))
    assert later is not None
    assert later[0][0][0].startswith("TOP")


@pytest.mark.parametrize(
    "odd",
    [
        "\x1b[?4m",
        "\x1b[1;2;3A",
        "\x1b[?5;7H",
        "\x1b[9K\x1b[9J",
        "\x1b[?2;3r",
        "\x1b[>4;2m",
        "\x1b[38;2;1m\x1b[48;5;999m",
    ],
)
def test_a_sequence_that_the_emulator_does_not_know_is_ignored(odd: str) -> None:
    output = f"\x1b[2J\x1b[1;1H{odd}\x1b[2;3Hafter"  # vim asks its terminal with the first one
    rows = EmulatedTerminals()(ShownTerminal("t", output=output, total=len(output)))
    assert rows is not None
    assert any("after" in text for row in rows for text, _ in row)


async def test_images_are_opened_by_a_key_from_a_folder_of_the_user_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    started: list[list[str]] = []
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(subprocess, "Popen", lambda words, **options: started.append(words))
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.delenv("SSH_TTY", raising=False)
    data = base64.b64encode(b"picture").decode()
    async with shown(monkeypatch) as (app, pilot):
        content = [v1.Content(v1.ImageContent(data, "image/png")), v1.Content(v1.ImageContent(data, "text/x-sh"))]
        fold(app.conversation.state, call("1", "draw", content=content))
        await painted(app, pilot)
        assert started == []
        await pilot.press("tab", "o")
        assert any("opened " in line for line in await painted(app, pilot))
    check_files(started)


def check_files(started: list[list[str]]) -> None:
    [[_, path]] = started
    assert Path(path).read_bytes() == b"picture"
    assert path.endswith(".png"), "another kind could be a program"
    assert stat.S_IMODE(Path(path).parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(path).stat().st_mode) == 0o600


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_every_row_of_the_conversation_shows_a_line_when_there_are_more(
    monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    async with shown(monkeypatch, size) as (app, pilot):
        transcript = app.query_one(Transcript)
        for number in range(60):
            fold(app.conversation.state, call(str(number), f"call {number} " + "with a long title " * 10))
            await painted(app, pilot)
        lines = grid(app)[1 : 1 + transcript.size.height]
        assert transcript.size.height == size[1] - 5
        assert all(line.startswith("▸ ✔ other   call") for line in lines)
        assert "call 59" in lines[-1]


async def test_what_is_typed_in_the_conversation_and_means_nothing_there_goes_into_the_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with shown(monkeypatch) as (app, pilot):
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("hello")))
        await painted(app, pilot)
        await pilot.press("a", "tab")
        await pilot.pause()
        assert app.query_one(Transcript).has_focus
        await pilot.press("w", "h", "y", "question_mark")
        await pilot.pause()
        assert app.query_one(PromptInput).text == "awhy?", "y is a key of the conversation, and here a letter"
