"""What goes wrong inside of the client itself is seen, and holds nothing up."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

pytest.importorskip("textual")

from dragoman.host.local.start import NoHost
from dragoman.text.colour import Painter
from dragoman.tui import full
from dragoman.tui.conversation import HostedConversation
from dragoman.tui.lines.client import LineClient
from dragoman.tui.local_host import host_connection
from dragoman.tui.plain import PlainTerminal
from dragoman.tui.screen.app import TerminalApp
from dragoman.tui.screen.conversation import highlighting
from dragoman.tui.screen.conversation.highlighting import Highlighter
from tests.tui.here import SCRIPTED, UserHere
from tests.tui.screens_kit import Nowhere, shown


async def test_a_client_of_lines_ends_when_its_conversation_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run(self: HostedConversation) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(HostedConversation, "run", run)
    client = LineClient(Nowhere(), PlainTerminal(Painter(False)), None)
    reading: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(10):
        with pytest.raises(ZeroDivisionError):
            await client.run(reading)
    assert reading.cancelled(), "the terminal is given back"


async def test_an_error_outside_of_every_task_is_a_line_in_inline_mode_and_holds_nothing_up(user: UserHere) -> None:
    async with user.host_here(), user.inline(**SCRIPTED) as client:
        await client.until("Enter send")
        error = ZeroDivisionError("a defect")
        asyncio.get_running_loop().call_exception_handler({"message": "lost", "exception": error})
        await client.until("note: an error in this program, which goes on: lost: ZeroDivisionError('a")
        client.type("say it goes on\r")
        await client.until("│ it goes on")


async def test_a_note_of_the_thread_that_looks_for_the_host_comes_on_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    noted: list[tuple[str, int]] = []

    def reach(note: Any) -> str:
        note("waiting for the host")
        raise NoHost("there is none")

    monkeypatch.setattr(host_connection, "_reach", reach)
    conversation = HostedConversation(Nowhere(), LineClient(Nowhere(), PlainTerminal(Painter(False)), None))
    monkeypatch.setattr(conversation, "note", lambda text: noted.append((text, threading.get_ident())))
    with pytest.raises(NoHost):
        await host_connection.HostLink(conversation).__aenter__()
    await asyncio.sleep(0)
    assert noted == [("waiting for the host", threading.get_ident())]


def test_a_lexer_that_fails_costs_the_colours_of_one_text(monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    real = highlighting.colour_code

    def colour(name: str, text: str) -> Any:
        if text == "bad":
            raise RecursionError
        return real(name, text)

    monkeypatch.setattr(highlighting, "colour_code", colour)
    highlighter = Highlighter(done.set)
    assert highlighter("a.py", "bad") is None
    assert highlighter("a.py", "x = 1") is None
    assert done.wait(20)
    assert highlighter("a.py", "x = 1") is not None
    highlighter.close()


def test_leaving_does_not_wait_for_a_lexer_that_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, end = threading.Event(), threading.Event()

    def colour(name: str, text: str) -> Any:
        begun.set()
        end.wait(20)

    monkeypatch.setattr(highlighting, "colour_code", colour)
    monkeypatch.setattr(highlighting, "_END_SECONDS", 0.01)
    highlighter = Highlighter(lambda: None)
    assert highlighter("a.py", "x") is None
    assert begun.wait(20)
    highlighter.close()
    assert not end.is_set()
    end.set()


def test_a_screen_that_failed_has_the_exit_code_of_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full, "_warm", lambda: None)
    monkeypatch.setattr(TerminalApp, "run", lambda self, **options: setattr(self, "_return_code", 1))
    assert full.run(Nowhere(), None, None) == 1
    monkeypatch.setattr(TerminalApp, "run", lambda self, **options: None)
    assert full.run(Nowhere(), None, None) == 0


async def test_a_file_that_cannot_be_read_is_not_a_defect_of_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail() -> None:
        raise PermissionError(13, "Permission denied", "/root/a")

    async with shown(monkeypatch) as (app, pilot):
        app.start(fail())
        await pilot.pause()
        [text] = [text for _, text in app.notes]
        assert text == "[Errno 13] Permission denied: '/root/a'"
