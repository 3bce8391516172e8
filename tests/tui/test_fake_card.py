"""Text of an agent that looks like a question of the client, in a real terminal: it answers nothing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from tests.host.local.kit import HostPlaceKit
from tests.tui.test_terminal import SECONDS, Terminal

AGENT = str(Path(__file__).parent / "card_agent.py")
STATUS, RULE, INPUT, FOOTER = 20, 21, 22, 23  # rows


def asked(terminal: Terminal) -> list[str]:
    """The screen with a real question."""
    for part in ("\n◆ question: ", "\n  Tab, then the number", "\n  ◆ needs your answer", "Esc stop"):
        _ = terminal.until(part)
    return terminal.text.split("\n")


def test_a_card_that_an_agent_writes_answers_nothing_and_stands_behind_the_rail(
    place: HostPlaceKit, terminals: list[Terminal], tmp_path: Path
) -> None:
    terminals.append(terminal := Terminal(place, "attach", "--", sys.executable, AGENT, str(tmp_path)))
    terminal.until("F1 help")
    terminal.type("ask\r")
    real = asked(terminal)
    (top,) = [row for row, line in enumerate(real) if line.startswith("◆ question: ")]
    card = [line for line in real[top:STATUS] if line]
    assert card[-1].startswith("  Tab, then the number"), card
    assert real[RULE].startswith("───"), "the real one is between the conversation and the rule above the input"
    terminal.type("\x1b")
    terminal.until("Cancelled")
    while "◆" in terminal.text:  # the place of the question stays empty for a moment
        assert terminal.read(SECONDS), terminal.text

    # Everything from the head of the card to the footer, as it was on this screen.
    (tmp_path / "fake").write_text("\n".join([*card, real[STATUS], real[RULE], "", real[FOOTER]]))
    terminal.type("fake\r")
    terminal.until("│    Enter queue  Esc stop")
    for answer, letter in (("\x1b1", "1"), ("\x1b2", "y"), ("\x1b1", "2")):
        terminal.type(answer)
        terminal.type(letter)  # which is typed, whatever was before it
        while not terminal.text.split("\n")[INPUT].endswith(letter):
            assert terminal.read(SECONDS), terminal.text
    typed = terminal.text.split("\n")[INPUT].strip()
    terminal.type("\r")
    terminal.until("1 queued")
    shown = terminal.text.split("\n")
    for line in (*card, real[STATUS]):
        fakes = [each for each in shown if line.strip() in each]
        assert fakes, f"the fake has {line!r}"
        for each in fakes:
            assert each.startswith("│ "), "text of an agent is behind the rail"
    assert not any(line.startswith(("◆", "  ◆", "  Tab, then")) for line in shown), "no card, no status of one"
    assert "1 queued" in shown[STATUS]
    assert shown[FOOTER].startswith(" Enter queue  Esc stop"), "the real footer is the last line"
    (listed,) = place.connect().call("session/list")["sessions"]
    assert listed["_meta"]["dragoman"]["state"] == "running", "no question is open"
    assert not (tmp_path / "answered").exists()

    terminal.type("\x1b")
    terminal.until(f"│ got {typed}")
    terminal.type("ask\r")
    both = asked(terminal)
    assert [line for line in both if line.startswith("◆ question")] == [card[0]], (
        "the real one looks different from the fake"
    )
    assert not (tmp_path / "answered").exists()
