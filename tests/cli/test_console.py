"""The two streams: who gets colour, and what tables look like."""

from __future__ import annotations

import gc
import io
import sys
from pathlib import Path

import pytest

from dragoman.cli import masked_streams
from dragoman.cli.console import paint, uses_colour, write_table
from dragoman.cli.masked_streams import SafeText
from dragoman.text.colour import BOLD


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def _plain_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("_plain_environment")
class TestColour:
    def test_a_terminal_gets_it(self) -> None:
        assert paint("x", BOLD, Terminal()) == "\x1b[1mx\x1b[0m"

    def test_a_file_does_not(self) -> None:
        assert paint("x", BOLD, io.StringIO()) == "x"

    def test_no_color_forbids_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "1")
        assert not uses_colour(Terminal())

    def test_an_empty_no_color_does_not_count(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("NO_COLOR", "")
        assert uses_colour(Terminal())

    def test_a_dumb_terminal_does_not_get_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        assert not uses_colour(Terminal())


def test_columns_line_up_and_lines_have_no_trailing_blanks(capsys: pytest.CaptureFixture[str]) -> None:
    write_table(("NAME", "KIND"), [("session/new", "request"), ("x", "")])
    assert capsys.readouterr().out == "NAME         KIND\nsession/new  request\nx\n"


@pytest.mark.parametrize(("colour", "shown"), [("", "\x1b[31ma\x1b[0mb\n"), ("1", "ab\n")])
def test_the_stream_removes_what_acts_from_all_that_is_printed(
    colour: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class TerminalBytes(io.BytesIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setenv("NO_COLOR", colour)
    monkeypatch.setenv("TERM", "xterm")
    stream = SafeText(below := TerminalBytes(), encoding="utf-8")
    assert stream.write("\x1b[31ma\x1b[0m\x1b]0;title\x07") == 20
    print("b\u202e", file=stream)
    stream.flush()
    assert below.getvalue().decode() == shown


def test_a_stream_that_is_masked_later_stays_open_and_safe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as file:
        monkeypatch.setattr(sys, "stdout", file)
        monkeypatch.setattr(sys, "stderr", None)
        masked_streams.protect_streams()
        sys.stdout.write("a\x9b31m\n")
        masked_streams.mask_streams()
        gc.collect()
        sys.stdout.writelines(["b\x1b[2J\n"])
        masked_streams.finish()
    assert (tmp_path / "out").read_text() == "a\nb\n"
