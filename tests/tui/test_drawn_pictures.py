"""Pictures on the full screen: drawn from a thread, within limits, and only where the terminal can."""

from __future__ import annotations

import re
import threading
from time import monotonic
from typing import Any

import pytest

pytest.importorskip("textual")
pytest.importorskip("PIL")

from PIL import Image

from dragoman.schema import v1
from dragoman.settings.file import UiMembers
from dragoman.state import fold
from dragoman.tui.screen.choices.settings_screen import use_settings
from dragoman.tui.screen.conversation.pictures import shown
from dragoman.tui.screen.conversation.pictures.decoding import half_pixels
from dragoman.tui.screen.conversation.pictures.shown import PLACEHOLDER, PictureDrawing, ShownPictures
from dragoman.tui.screen.conversation.transcript import Transcript
from dragoman.tui.screen.input.prompt_input import PromptInput
from dragoman.tui.screen.start import ScreenStart
from dragoman.tui.terminal.terminal_facts import TerminalAnswers
from dragoman.view.rails import ASCII, UNICODE, Glyphs
from dragoman.view.rails.pictures import PictureRow
from tests.tui.drawn_pictures import SECONDS, chart, encoded, stored, stripes, until_drawn, use_terminal
from tests.tui.grids import check_grid, grid
from tests.tui.opened import opened, painted
from tests.tui.test_picture_cells import WHOLE


def image(data: str, uri: str | None = None) -> v1.ImageContent:
    return v1.ImageContent(data, "image/png", uri=uri)


def answer(data: str) -> v1.AgentMessageChunk:
    return v1.AgentMessageChunk(image(data))


async def test_a_prompt_an_answer_and_a_tool_call_show_their_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    async with opened(monkeypatch) as (app, pilot):
        state = app.conversation.state
        state.begin_turn([v1.TextContent("upside down, please"), image(stored(stripes(24, 2)))])
        fold(state, answer(stored(stripes(40, 4).rotate(180))))
        content = [v1.Content(image(stored(chart()), "file:///home/user/project/load.png"))]
        fold(state, v1.AgentMessageChunk(v1.TextContent("Then I drew the load of the last ten hours:")))
        fold(state, v1.ToolCall("1", "load.png", kind="read", status="completed", content=content))
        state.end_turn("end_turn")
        app.query_one(PromptInput).focus()
        await painted(app, pilot)
        height = app.query_one(Transcript).layout_of.height
        for text in ("▀" * 24, "▀" * 40, f"│    {'▀' * 60}"):
            await until_drawn(app, pilot, text)
        assert app.query_one(Transcript).layout_of.height == height, "nothing moves when a picture is there"
        check_grid("pictures", app, has_colours=True)


async def test_a_picture_that_fails_leaves_its_line_and_the_rest_stays_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_terminal(monkeypatch)
    async with opened(monkeypatch) as (app, pilot):
        broken = WHOLE[: len(WHOLE) // 8 * 4]
        fold(app.conversation.state, answer(broken))
        fold(app.conversation.state, v1.ToolCall("1", "after", status="completed"))
        await painted(app, pilot)
        transcript = app.query_one(Transcript)
        end = monotonic() + SECONDS
        while transcript.layout_of.height > 2:
            assert monotonic() < end, grid(app)
            await pilot.pause()
        lines = await until_drawn(app, pilot, "after")
        assert lines[1].startswith("│ [image 60x60 png")
        assert lines[1].endswith(" bytes]"), "there are no keys for a picture that is not there"
        assert lines[2].startswith("▸ ✔ other   after")


async def test_enter_draws_a_picture_larger_and_again_smaller(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    async with opened(monkeypatch, (100, 60)) as (app, pilot):
        fold(app.conversation.state, answer(encoded(stripes(200, 200))))
        lines = await until_drawn(app, pilot, "▀" * 32)
        assert sum("▀" in line for line in lines) == 16
        await pilot.press("tab", "enter")
        lines = await until_drawn(app, pilot, "▀" * 80)
        assert sum("▀" in line for line in lines) == 40
        await pilot.press("enter")
        assert sum("▀" in line for line in await until_drawn(app, pilot, "larger")) == 16


@pytest.mark.parametrize(
    ("variables", "setting", "glyphs"),
    [
        ({"NO_COLOR": "1"}, "blocks", UNICODE),
        ({"COLORTERM": ""}, "auto", UNICODE),
        ({"COLORTERM": "", "TERM": "xterm-16color"}, "blocks", UNICODE),
        ({"SSH_CONNECTION": "1 2 3 4"}, "auto", UNICODE),
        ({"TMUX": "/tmp/x"}, "auto", UNICODE),
        ({}, "off", UNICODE),
        ({}, "blocks", ASCII),
    ],
)
async def test_elsewhere_there_is_only_the_line(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], setting: str, glyphs: Glyphs
) -> None:
    use_terminal(monkeypatch, **variables)
    start = ScreenStart(ui=UiMembers(pictures=setting))
    async with opened(monkeypatch, start=start, glyphs=glyphs) as (app, pilot):
        fold(app.conversation.state, answer(encoded(stripes(40, 40))))
        await painted(app, pilot)
        assert app.query_one(Transcript).layout_of.height == 1
        assert grid(app)[1].startswith(f"{glyphs.agent} [image 40x40 png, ")
        assert grid(app)[1].endswith(" bytes]")


async def test_without_pillow_there_is_the_line_and_who_asked_for_pictures_learns_why(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    use_terminal(monkeypatch)
    monkeypatch.setattr(shown, "find_spec", lambda name: None)
    async with opened(monkeypatch, start=ScreenStart(ui=UiMembers(pictures="blocks"))) as (app, pilot):
        fold(app.conversation.state, answer(encoded(stripes(40, 40))))
        await painted(app, pilot)
        assert app.query_one(Transcript).layout_of.height == 1
        await until_drawn(app, pilot, "pictures need Pillow")


async def test_the_setting_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    async with opened(monkeypatch) as (app, pilot):
        fold(app.conversation.state, answer(encoded(stripes(40, 40))))
        await until_drawn(app, pilot, "▀")
        use_settings(app, UiMembers(pictures="off"))
        await painted(app, pilot)
        assert app.query_one(Transcript).layout_of.height == 1
        use_settings(app, UiMembers())
        await until_drawn(app, pilot, "▀")


async def test_keys_are_taken_while_a_picture_is_decoded(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch)
    goes_on, threads = threading.Event(), []
    decode = half_pixels

    def slow(*words: Any) -> bytes:
        threads.append(threading.current_thread())
        assert goes_on.wait(SECONDS)
        return decode(*words)

    monkeypatch.setattr(shown, "half_pixels", slow)
    async with opened(monkeypatch) as (app, pilot):
        fold(app.conversation.state, answer(encoded(stripes(40, 40))))
        await painted(app, pilot)
        await pilot.press(*"typed")
        await painted(app, pilot)
        assert app.query_one(PromptInput).text == "typed"
        assert threads
        assert threading.main_thread() not in threads
        assert not any("▀" in line for line in grid(app))
        assert sum(line == "│" for line in grid(app)) >= 15, "its place is kept"
        goes_on.set()
        await until_drawn(app, pilot, "▀" * 32)


# What is kept


class Kept:
    """Pictures by their position, without a screen."""

    def __init__(self, drawing: PictureDrawing, *data: str) -> None:
        self.written: list[str] = []
        self.is_outside = False
        self._ready = threading.Semaphore(0)
        self.pictures = ShownPictures(
            drawing, lambda position, number: data[position], self._write, self._ready.release
        )

    def _write(self, text: str) -> bool:
        self.written.append(text)
        return not self.is_outside

    def draw(self, position: int, columns: int = 8, rows: int = 4) -> Any:
        """The first row of a picture, when it is there."""
        place = PictureRow(position, 0, columns, rows, 0)
        assert self.pictures.row(place) is None
        assert self._ready.acquire(timeout=SECONDS)
        self.pictures.take()
        return self.pictures.row(place)

    def is_kept(self, position: int) -> bool:
        return self.pictures.row(PictureRow(position, 0, 8, 4, 0)) is not None


SQUARES = [encoded(Image.new("RGB", (8, 8), (number, 0, 0))) for number in range(6)]


def test_only_so_many_cells_are_kept_those_that_were_seen_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "KEPT_CELLS", 3 * 32)
    kept = Kept(PictureDrawing("blocks"), *SQUARES)
    for position in range(3):
        assert kept.draw(position) is not None
    assert kept.is_kept(0)
    assert kept.draw(3) is not None
    assert [kept.is_kept(position) for position in (0, 2, 3)] == [True, True, True]
    assert kept.draw(1) is not None, "what was dropped is decoded again"
    kept.pictures.close()


def test_the_same_image_is_decoded_once_for_each_size() -> None:
    kept = Kept(PictureDrawing("blocks"), SQUARES[0], "".join(list(SQUARES[0])))
    assert kept.draw(0) is not None
    assert kept.is_kept(1)
    assert len(kept.draw(0, 4, 2)) == 1
    kept.pictures.close()


def test_a_terminal_gets_each_image_once_and_loses_it_when_it_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "KEPT_PICTURES", 2)
    kept = Kept(PictureDrawing("sharp"), *SQUARES)
    for position in range(2):
        [cell] = kept.draw(position)
        assert cell.text.count(PLACEHOLDER) == 8
    sent = [re.findall(r"a=T,.*?i=(\d+)", text) for text in kept.written]
    assert len(set(map(tuple, sent))) == 2
    assert kept.is_kept(0)
    assert len(kept.written) == 2, "it is transmitted once"
    kept.draw(2)
    assert f"a=d,d=I,i={sent[1][0]}," in kept.written[-1]
    kept.pictures.forget()  # the terminal was left
    kept.is_outside = True
    assert kept.draw(0) is None, "nothing is shown that the terminal did not get"
    kept.is_outside = False
    kept.draw(3)
    kept.pictures.close()
    assert kept.written[-1].startswith("\x1b_Ga=d,d=I,i=")


async def test_sharp_pictures_are_placeholders_and_are_deleted_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    use_terminal(monkeypatch, TERM="xterm-kitty")
    written: list[str] = []
    start = ScreenStart(answers=TerminalAnswers(has_graphics=True))
    async with opened(monkeypatch, start=start) as (app, pilot):
        monkeypatch.setattr(app, "write_terminal", written.append)
        fold(app.conversation.state, answer(encoded(stripes(40, 40))))
        await until_drawn(app, pilot, PLACEHOLDER)
        texts = [strip.text for strip in app.screen._compositor.render_strips()]
        assert [text.count(PLACEHOLDER) for text in texts if PLACEHOLDER in text] == [32] * 16
        app.app_resume_signal.publish(app)
        end = monotonic() + SECONDS
        while sum("a=T" in text for text in written) < 2:
            assert monotonic() < end, written
            await pilot.pause()
        await until_drawn(app, pilot, PLACEHOLDER)
    graphics = [text for text in written if text.startswith("\x1b_G")]
    assert [text[3:6] for text in graphics] == ["a=T", "a=T", "a=d"], "again after another program had the terminal"
