"""Output of commands as lines: what a terminal would show, and nothing that acts on one."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.schema import v1
from dragoman.state import SessionState, fold
from dragoman.view.appended import TableWords
from dragoman.view.image_size import image_size
from dragoman.view.terminal_lines import needs_screen, output_lines
from dragoman.view.watched import WatchedSession


@pytest.mark.parametrize(
    ("output", "lines"),
    [
        ("a\nb", [[("a", "")], [("b", "")]]),
        ("10%\r50%\r100%", [[("100%", "")]]),
        ("long line\rshort\x1b[K", [[("short", "")]]),
        ("abc\x08\x08X", [[("aXc", "")]]),
        ("\x1b[1;31mred\x1b[0m.", [[("red", "sgr:1;31"), (".", "")]]),
        ("\x1b[31mover\nlines\x1b[39m", [[("over", "sgr:31")], [("lines", "sgr:31")]]),
        ("\x1b[38;2;1;2;3mx\x1b[48;5;9my", [[("x", "sgr:38;2;1;2;3"), ("y", "sgr:38;2;1;2;3;48;5;9")]]),
        ("\x1b[8mhidden", [[("hidden", "")]]),
        ("\x1b]8;;https://real/\x1b\\https://shown/\x1b]8;;\x1b\\", [[("https://shown/ (https://real/)", "")]]),
        ("\x1b]0;title\x07\x1bPdcs\x1b\\\x1b[?1049h\x1b[6nx", [[("x", "")]]),
        ("\x1b]0;no end", [[("0;no end", "")]]),
        ("windows\r\nlines\r\n", [[("windows", "")], [("lines", "")], []]),
    ],
)
def test_output_is_shown_as_a_terminal_shows_it(output: str, lines: object) -> None:
    assert output_lines(output) == lines


@given(st.text(st.sampled_from("ab\r\n\x08\x1b\x9b[]0;8m31KHJGCD?\x07\\\x90\x9c\u202e漢"), max_size=200))
def test_no_output_acts_on_the_terminal(output: str) -> None:
    for line in output_lines(output):
        for text, style in line:
            assert text.replace("\t", " ").isprintable()
            assert style == "" or style.startswith("sgr:")


@pytest.mark.parametrize(
    ("output", "expected"),
    [("\x1b[31mred\x1b[0m\r50%", False), ("\x1b[2;3Hx", True), ("\x1b[?1049h", True), ("\x1b[2A", True), ("H", False)],
)
def test_a_screen_is_needed_only_where_the_cursor_moves_between_lines(output: str, expected: bool) -> None:
    assert needs_screen(output) is expected


WEBP = b"RIFF\x00\x00\x00\x00WEBPVP8X" + bytes(8) + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08\x01\xe0\x02\x80\x03" + bytes(20)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x89PNG\r\n\x1a\n" + bytes(8) + (640).to_bytes(4, "big") + (480).to_bytes(4, "big"), (640, 480)),
        (b"GIF89a" + (640).to_bytes(2, "little") + (480).to_bytes(2, "little"), (640, 480)),
        (WEBP, (640, 480)),
        (JPEG, (640, 480)),
        (b"\xff\xd8\xff\xe0\xff\xff", None),
        (b"\xff\xd8" + b"\xff" * 50, None),
        (b"", None),
        (b"not an image", None),
    ],
)
def test_the_size_of_an_image_is_read_from_its_beginning(data: bytes, expected: object) -> None:
    assert image_size(base64.b64encode(data).decode()) == expected


def test_what_is_not_base64_has_no_size() -> None:
    assert image_size("\u20ac" * 40) is None


def test_a_watched_call_has_its_duration_and_the_end_of_its_output() -> None:
    state, watched = SessionState(), WatchedSession()
    call = v1.ToolCall("1", "run", kind="execute", status="in_progress", content=[v1.Terminal("t")])
    fold(state, call)
    watched.note(call, 10.0)
    for number in range(3_000):
        meta = {"terminal_output": {"terminal_id": "t", "data": f"{number:099}\n"}}
        watched.note(v1.ToolCallUpdate("1", meta=meta), 11.0)
    shown = watched.terminals["t"]
    assert shown.output is not None
    assert len(shown.output) <= 64 * 1024
    assert shown.output.endswith(f"{2_999:099}\n")
    assert (shown.is_cut, shown.total) == (True, 300_000)
    watched.now = 12.0
    assert watched.seconds("1") == 2.0
    watched.note(v1.ToolCallUpdate("1", status="completed"), 13.5)
    watched.now = 99.0
    assert watched.seconds("1") == 3.5
    assert watched.take_changed() == {"1"}
    assert watched.take_changed() == set()


def test_tables_are_words_and_other_lines_stay() -> None:
    words = TableWords()
    given = ["text", "| a | b |", "|---|:-:|", "| 1 | x\\|y |", "| 2 | z |", "", "| no table", "end"]
    found = [line for each in given for line in words.take(each)]
    assert found == ["text", "a: 1", "b: x|y", "", "a: 2", "b: z", "", "| no table", "end"]
