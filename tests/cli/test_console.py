"""The two streams: who gets colour, and what tables look like."""

from __future__ import annotations

import io

import pytest

from dragoman.cli.console import paint, uses_colour, write_table
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
