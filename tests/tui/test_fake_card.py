"""Text of an agent that looks like a question of the client: it answers nothing."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

pytest.importorskip("textual")

from tests.tui.here import ScreenHere, UserHere

AGENT = str(Path(__file__).parent / "card_agent.py")
STATUS, RULE, INPUT, FOOTER = 20, 21, 22, 23  # rows


async def asked(client: ScreenHere) -> list[str]:
    """The screen with a real question."""
    for part in ("\n  ◆ needs your answer", "\n◆ question: "):
        await client.until(part)
    client.clock.let_pass()  # from here on keys count
    for part in ("\n  press y, n or 1-2 to answer", "Esc stop"):
        await client.until(part)
    return client.text.split("\n")


async def test_a_card_that_an_agent_writes_answers_nothing_and_stands_behind_the_rail(
    user: UserHere, tmp_path: Path
) -> None:
    command = (sys.executable, AGENT, str(tmp_path))
    async with user.host_here(), user.screen(command=command) as client:
        await client.until("F1 help")
        client.type("ask\r")
        real = await asked(client)
        (top,) = [row for row, line in enumerate(real) if line.startswith("◆ question: ")]
        card = [line for line in real[top:STATUS] if line]
        assert card[-1].startswith("  press y, n or 1-2 to answer"), card
        assert real[RULE].startswith("───"), "the real one is between the conversation and the rule above the input"
        client.type("\x1b")
        await client.until("Cancelled")
        client.clock.let_pass()
        await client.until_gone("◆")  # the place of the question stays empty for a moment

        # Everything from the head of the card to the footer, as it was on this screen.
        (tmp_path / "fake").write_text("\n".join([*card, real[STATUS], real[RULE], "", real[FOOTER]]))
        client.type("fake\r")
        await client.until("│    Enter queue  Esc stop")
        for answer, letter in (("\x1b1", "1"), ("\x1b2", "y"), ("\x1b1", "2")):
            client.type(answer)
            client.type(letter)  # which is typed, whatever was before it
            await client.wait_until(lambda: client.text.split("\n")[INPUT].endswith(letter), lambda: client.text)  # noqa: B023
        typed = client.text.split("\n")[INPUT].strip()
        client.type("\r")
        await client.until("1 queued")
        shown = client.text.split("\n")
        for line in (*card, real[STATUS]):
            fakes = [each for each in shown if line.strip() in each]
            assert fakes, f"the fake has {line!r}"
            for each in fakes:
                assert each.startswith("│ "), "text of an agent is behind the rail"
        assert not any(line.startswith(("◆", "  ◆", "  press y")) for line in shown), "no card, no status of one"
        assert "1 queued" in shown[STATUS]
        assert shown[FOOTER].startswith(" Enter queue  Esc stop"), "the real footer is the last line"
        other = await asyncio.to_thread(user.connect)
        (listed,) = (await asyncio.to_thread(other.call, "session/list"))["sessions"]
        assert listed["_meta"]["dragoman"]["state"] == "running", "no question is open"
        assert not (tmp_path / "answered").exists()

        client.type("\x1b")
        await client.until("back in the input")
        client.type("\r")
        await client.until(f"│ got {typed}")
        client.type("ask\r")
        both = await asked(client)
        assert [line for line in both if line.startswith("◆ question")] == [card[0]], (
            "the real one looks different from the fake"
        )
        assert not (tmp_path / "answered").exists()
        other.close()
