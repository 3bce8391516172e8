"""No command lets text of an agent or a file act on the terminal it is shown on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal
from tests.text.hostile import ACTING, EVERYTHING
from tests.trace.talk import Talk
from tests.trace.test_inspect_plain import every_place, recorded

__all__ = ["place"]

HABIT = "writes-text-everywhere"
MARK = "harmless"  # a word of the text that is shown: without it nothing was tested


def shown(place: Place, verb: str, *words: str, odd: str | None = HABIT) -> str:
    """What the command writes to a terminal, both streams; nothing of it may act."""
    place.environment |= {"NO_COLOR": "1", "ODD_TEXT": EVERYTHING}
    with at_terminal(place, verb, *words, odd=odd) as terminal:
        terminal.wait()
    text = terminal.text.replace("\r\n", "\n")
    found = ACTING.search(text)
    assert found is None, text[max(0, found.start() - 200) :][:400]
    return text


@pytest.mark.parametrize("form", ["text", "json", "events", "raw"])
@pytest.mark.parametrize("how", ["--verbose", "--quiet"])
def test_exec(place: Place, form: str, how: str) -> None:
    assert MARK in shown(place, "exec", "--output", form, how, "--deny", "other", "hello")


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("sessions", ("list",)),
        ("sessions", ("list", "--json")),
        ("sessions", ("delete", "x")),
        ("login", ("--list",)),
        ("login", ("--list", "--json")),
        ("login", ()),
        ("agents", ("doctor",)),
        ("agents", ("doctor", "--json")),
    ],
)
def test_commands_that_ask_an_agent(place: Place, verb: str, words: tuple[str, ...]) -> None:
    assert MARK in shown(place, verb, *words)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("agents", ("list",)),
        ("agents", ("list", "--json")),
        ("agents", ("show", "a")),
        ("rules", ("list",)),
        ("rules", ("list", "--json")),
        ("exec", ("-a", "a", "hello")),
    ],
)
def test_commands_that_read_files(place: Place, verb: str, words: tuple[str, ...]) -> None:
    text = EVERYTHING.replace("\0", "")
    agent = {"command": f"/bin/{text}", "args": [text], "env": {"NAME": text}}
    own = {"agent_servers": {"a": agent}, "rules": {"deny": [f"edit:{text}"]}}
    shipped = {"agent_servers": {"b": agent}, "rules": {"deny": [f"edit:{text}"]}, text: text}
    for folder, settings in ((place.home / "dragoman/config", own), (place.project / ".dragoman", shipped)):
        folder.mkdir(parents=True)
        (folder / "settings.json").write_text(json.dumps(settings))
    assert MARK in shown(place, verb, *words, odd=None)


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        ("inspect", ("FILE",)),
        ("inspect", ("--json", "FILE")),
        ("inspect", ("--state", "FILE")),
        ("check", ("trace", "FILE")),
        ("check", ("trace", "--json", "FILE")),
    ],
)
def test_commands_that_read_a_recording(place: Place, tmp_path: Path, verb: str, words: tuple[str, ...]) -> None:
    file = recorded(every_place(EVERYTHING), tmp_path / "evil.jsonl")
    given = [str(file) if word == "FILE" else word for word in words]
    assert MARK in shown(place, verb, *given, odd=None)


def test_replay(place: Place, tmp_path: Path) -> None:
    talk = Talk()
    talk.hello(authMethods=[{"id": "\u202eharmless\x9b31m", "name": "\x1b]0;owned\x07"}])
    file = recorded(talk, tmp_path / "evil.jsonl")
    assert MARK in shown(place, "replay", str(file), "--as", "client", odd="has-no-login")
