"""A key typed where the user is: full screen, inline and plain, in a real terminal with a provider on this machine."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("textual")
pytest.importorskip("pyte")

from textual.pilot import Pilot
from textual.widgets import Input, OptionList

from dragoman.builtin.models.providers import PROVIDERS
from dragoman.tui.screen.questions.key_entry import KeyEntry, ProviderChoice
from tests.builtin.providers.server import VARIABLES
from tests.builtin.test_typed_key import KEY, Answers, serving
from tests.host.local.kit import HostPlaceKit
from tests.tui.here import ScreenHere, UserHere
from tests.tui.test_terminal import Terminal

WRONG = "sk-ant-wrong-0123456789"


@pytest.fixture
def provider(place: HostPlaceKit) -> Iterator[Answers]:
    """Anthropic on this machine, and an environment without keys."""
    for name in VARIABLES:
        place.environment.pop(name, None)
    with serving(Answers(200)) as server:
        place.environment["ANTHROPIC_BASE_URL"] = server.url
        yield server


def stored(home: Path) -> dict[str, str]:
    path = home / "dragoman" / "config" / "credentials.json"
    if not path.exists():
        return {}
    return {id: entry["key"] for id, entry in json.loads(path.read_text())["keys"].items()}


def leaks(home: Path, *keys: str) -> list[Path]:
    """Files that have a key, but the one of the keys: drafts, histories, logs, recordings, databases."""
    written = [path for path in home.rglob("*") if path.is_file() and path.name != "credentials.json"]
    return [path for path in written if any(key.encode() in path.read_bytes() for key in keys)]


@pytest.mark.parametrize("form", ["full", "--inline", "--plain"])
def test_a_key_is_typed_checked_and_stored_where_the_user_is(
    form: str, place: HostPlaceKit, terminals: list[Terminal], provider: Answers
) -> None:
    words = () if form == "full" else (form,)
    terminals.append(terminal := Terminal(place, "attach", "-a", "dragoman", *words))
    if form == "full":
        terminal.until("[g] log in")
        terminal.type("\t")
        terminal.until("type a key")
        terminal.type("g")
        terminal.until("1: Anthropic API key (you type the key)")
        terminal.until("4: API key of another provider")
        terminal.until("one moment")  # the card before said it too: that a key counts
        terminal.until("type a key")
        assert "dragoman login" not in terminal.text
        terminal.type("1")
        terminal.until("API key of Anthropic (it is not shown)")
        terminal.type(f"{WRONG}\r")
        terminal.until("nothing was stored: Anthropic refused the key")
        terminal.type(f"{KEY}\r")
    else:
        terminal.until("/1: log in")
        terminal.type("/1\r")
        terminal.until("1: Anthropic API key (you type the key)")
        terminal.type("1\r")
        terminal.until("API key of Anthropic (it is not shown):")
        terminal.type(f"{WRONG}\r")
        terminal.until("Anthropic refused the key")
        terminal.until("/login tries again")
        assert stored(place.home) == {}
        terminal.type("/login\r")
        terminal.until("answer with a number")
        terminal.type("1\r")
        terminal.until_written(rb"(?s)(\(it is not shown\): .*){2}")
        terminal.type(f"{KEY}\r")
    terminal.until("note: session" if form == "--plain" else "Claude")
    assert stored(place.home) == {"anthropic": KEY}
    assert WRONG.encode() not in terminal.raw
    assert KEY.encode() not in terminal.raw
    terminal.kill()
    assert leaks(place.home, KEY, WRONG) == []


async def test_a_key_that_cannot_be_checked_is_stored_only_by_a_second_enter_that_was_in_sight(
    user: UserHere, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:1")
    async with user.host_here(), user.screen(agent="scripted") as client:
        results: list[object] = []
        entry = KeyEntry(PROVIDERS["anthropic"])
        entry.clock = user.clock
        _ = client.app.push_screen(entry, results.append)
        await until(client, lambda: entry.is_mounted and entry.query(Input))
        client.type(f"{KEY}\r")
        await until(client, lambda: "Enter: store it unchecked" in client.text)
        assert "•" * len(KEY) in client.text
        assert "could not be checked" in client.text
        client.type("\r")  # before the question was in sight for a moment
        client.clock.let_pass()
        client.type("x\r")  # another key is checked again
        await until(client, lambda: entry._unchecked == f"{KEY}x")
        assert stored(user.home) == {}
        client.clock.let_pass()
        client.type("\r")
        await until(client, lambda: results)
        assert results == [True]
        assert stored(user.home) == {"anthropic": f"{KEY}x"}
        assert KEY not in client.text
        assert str(entry.sentence).startswith("the key of Anthropic is stored in ")
        choice = ProviderChoice()
        _ = client.app.push_screen(choice, results.append)
        await until(client, lambda: choice.is_mounted and choice.query(OptionList).first().option_count == 7)
        assert "more: 20 others" in client.text
        client.type("mistr\r")
        await until(client, lambda: len(results) == 2)
        assert results[1] is PROVIDERS["mistral"]


async def until(client: ScreenHere, is_true: Callable[[], object]) -> None:
    """Wait for a screen above the first one, which does not announce what it draws."""
    async with asyncio.timeout(60):
        while not is_true():
            await Pilot(client.app).pause()
