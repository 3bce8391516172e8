"""The table of command lines is complete."""

from __future__ import annotations

from tests.cli.command_lines import LINES, missing


def test_every_command_and_every_action_has_a_line() -> None:
    assert missing() == [], "add a line to tests/cli/command_lines.py"


def test_no_line_is_there_twice() -> None:
    assert len({line.id for line in LINES}) == len(LINES)
