"""Screens above the first one: each is left once, and alone."""

from __future__ import annotations

import gc

import pytest

pytest.importorskip("textual")

from dragoman.tui.screen.parts import Choice
from tests.tui.screens_kit import shown


async def test_a_screen_that_is_closed_twice_takes_no_other_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    async with shown(monkeypatch) as (app, pilot):
        results: list[int | None] = []
        first, second = Choice("first", ["a"]), Choice("second", ["b"])
        _ = app.push_screen(first, results.append)
        _ = app.push_screen(second, results.append)
        await pilot.pause()
        _ = second.dismiss(0)
        _ = second.dismiss(None)
        await pilot.pause()
        assert app.screen is first
        assert results == [0]


async def test_a_screen_below_another_is_left_when_that_one_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """As the form of an agent that takes it back while the user reads the help."""
    async with shown(monkeypatch) as (app, pilot):
        results: list[int | None] = []
        below, above = Choice("below", ["a"]), Choice("above", ["b"])
        _ = app.push_screen(below, results.append)
        _ = app.push_screen(above, results.append)
        await pilot.pause()
        _ = below.dismiss(7)
        await pilot.pause()
        assert app.screen is above
        await pilot.press("escape")
        await pilot.pause()
        assert len(app.screen_stack) == 1
        assert results == [None, 7]


async def test_collections_that_were_paused_for_the_first_frame_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    gc.disable()
    try:
        async with shown(monkeypatch) as (_, pilot):
            await pilot.pause()
            assert gc.isenabled()
    finally:
        gc.enable()
