"""Tests see no more of a program's output than they waited for, however it comes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.arriving import ArrivingText

TESTS = Path(__file__).parents[1]
OUTPUT = "name: 日本\r\nkey:\r\n> done\r\n".encode()
# The kits that read a terminal, and show no more of it than a test waited for.
READERS = {
    "arriving.py",
    "cli/prompt_kit.py",
    "cli/terminal_kit.py",
    "interop/agents/installed_agent.py",
    "process/screen.py",
    "project/test_arriving.py",
    "transports/test_fd.py",  # reads pipes, and a terminal with the program's own reader
    "tui/test_terminal.py",
    "tui/test_start.py",  # reads single questions that the program under test writes at once
}


@pytest.mark.parametrize("size", [1, 2, 5, 100])
def test_text_behind_the_words_that_were_waited_for_is_not_seen(size: int) -> None:
    arriving = ArrivingText()
    seen = []
    for start in range(0, len(OUTPUT), size):
        arriving.add(OUTPUT[start : start + size])
        if arriving.show_until("日"):
            seen.append(arriving.text)
    assert seen == ["name: 日"], "the rest came in the same piece, or later"
    assert not arriving.show_until("name"), "words count behind those that were waited for last"
    assert arriving.show_until("\n")
    assert arriving.text == "name: 日本\n"
    arriving.show_all()
    assert arriving.text == "name: 日本\nkey:\n> done\n"


def test_a_terminal_is_read_by_a_kit() -> None:
    """A test that reads one itself sees pieces whose size is chance."""
    readers = set()
    for file in TESTS.rglob("*.py"):
        source = file.read_text()
        if re.search(r"\b(pty\.fork|(pty|os)\.openpty)\(", source) and "os.read(" in source:
            readers.add(str(file.relative_to(TESTS)))
    assert readers <= READERS
