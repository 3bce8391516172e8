"""The output of a command as lines: colours may stay, nothing else that acts does."""

from __future__ import annotations

import pytest

from dragoman.text.output_lines import OutputLines


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"plain\n", ["plain"]),
        (b"no end", ["no end"]),
        (b"one\r\ntwo\r\r\n", ["one", "two"]),
        (b" 10%\r 50%\r100%\n", ["100%"]),
        (b"\x1b[32mok\x1b[0m\n", ["\x1b[32mok\x1b[0m\x1b[0m"]),
        (b"\x1b[1;31mred\nstill\x1b[m not\n", ["\x1b[1;31mred\x1b[0m", "\x1b[1;31mstill\x1b[m not\x1b[0m"]),
        (b"\x1b[2J\x1b[Ha\x1b[6n\x1b[?25l\x1b[1Ab\n", ["ab"]),
        (b"\x1b]0;t\x07a\x1b]52;c;eA==\x1b\\b\x1b]8;;http://e/\x07c\n", ["abc"]),
        (b"\x1bP1$r\x1b\\a\x1b_x\x1b\\b\x1bX\x1b\\c\x1b^\x1b\\\n", ["abc"]),
        (b"\x1b]0;unfinished\n", []),
        (b"\xc2\x9b31mx\xc2\x9d0;t\xc2\x9cy\n", ["\x1b[31mxy\x1b[0m"]),
        (b"\x1b[>4;1mx\x1b[38:2:1:2:3my\n", ["x\x1b[38:2:1:2:3my\x1b[0m"]),
        (b"a\x08\x00\x07b\x0ec\n", ["abc"]),
        (b"\xff\xfe \xe2\x82\xac\n", ["\ufffd\ufffd €"]),
        ("a\u202eb\u2066c\n".encode(), ["abc"]),
        (b"tab\there\n", ["tab\there"]),
        (b"\x1b(Bx\x1b=\x1bMy\n", ["xy"]),
    ],
)
def test_of_a_commands_output_colours_may_stay_and_nothing_else_that_acts(data: bytes, lines: list[str]) -> None:
    for step in (len(data), 1, 3):
        output = OutputLines(True)
        found = [line for at in range(0, len(data), step) for line in output.feed(data[at : at + step])]
        assert [*found, *output.finish()] == lines, step


def test_output_without_colour_has_none_and_a_line_without_end_is_shown_in_parts() -> None:
    output = OutputLines(False)
    assert output.feed(b"\x1b[31mred\x1b[0m\n") == ["red"]
    parts = [*output.feed(b"x" * 3000), *output.feed(b"x" * 3000), *output.feed(b"x" * 3000), *output.finish()]
    assert "".join(parts) == "x" * 9000
    assert len(parts) > 1
    assert output.feed(b"\x1b]0;" + b"y" * 100_000) == []
    assert output.feed(b"\x07after\n") == ["after"]
