"""What the terminal client may cost: ratios within one run, and bounds that are far from what is measured."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

import pytest

pytest.importorskip("textual")

from textual.strip import Strip

from benchmarks import terminal
from dragoman.schema import v1
from dragoman.state import fold
from dragoman.tui.screen.conversation.transcript import Transcript
from tests.tui.test_screen import painted, shown


def test_the_first_frame_imports_nothing_that_it_does_not_need() -> None:
    assert terminal.taken("first_frame")["modules"] == []


def assert_ratio(most: float, bare: Callable[[], float], whole: Callable[[], float], *, rounds: int) -> None:
    """One thing costs at most so many times another. Both are measured in turns, and compared within each: they had the
    same machine then. One that is never quiet gets seven times as many turns: what is too slow stays so."""
    runs: list[tuple[float, float]] = []
    for _ in range(7):
        runs += [(bare(), whole()) for _ in range(rounds)]
        if median(cost / less for less, cost in runs) <= most:
            return
    pytest.fail(f"more than {most} times: {runs}")


@pytest.mark.alone
def test_the_first_frame_costs_at_most_1_6_times_the_import_of_textual() -> None:
    assert_ratio(
        1.6, lambda: terminal.taken("import_textual")["cpu"], lambda: terminal.taken("first_frame")["cpu"], rounds=3
    )


@pytest.mark.soak
def test_keys_and_updates_take_less_than_50_ms_after_10000_updates() -> None:
    found = terminal.taken("interaction")
    assert max(found["type_ms"], found["scroll_ms"], found["update_ms"]) < 50, found
    assert found["open_ms"] < 1_000, found


def test_an_answer_on_the_screen_costs_at_most_15_times_plain_mode() -> None:
    def screen() -> float:
        found = terminal.taken("streamed_screen")
        assert found["draws"] >= terminal.PAINTS, "every piece was drawn"
        return float(found["whole"])

    assert_ratio(15, lambda: terminal.taken("streamed_plain")["whole"], screen, rounds=1)


@pytest.mark.soak
def test_memory_stays_below_80_mb_after_10000_updates_and_100_mb_of_output() -> None:
    assert terminal.taken("memory")["peak_mb"] < 80


async def test_nothing_is_painted_when_nothing_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        transcript = app.query_one(Transcript)
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent("text")))
        await painted(app, pilot)
        drawn: list[int] = []
        render = transcript.render_line

        def counted(y: int) -> Strip:
            drawn.append(y)
            return render(y)

        monkeypatch.setattr(transcript, "render_line", counted)
        app.changed()  # of something that is not in sight
        app._paint()
        await pilot.pause()
        assert drawn == []
        fold(app.conversation.state, v1.AgentMessageChunk(v1.TextContent(" more")))
        await painted(app, pilot)
        assert drawn
        assert transcript.unseen == 0
