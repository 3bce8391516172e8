"""No command lets text of an agent, a file or its own arguments act on the terminal it is shown on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dragoman.text.terminal import REDRAW
from tests.cli.command_lines import LINES, CommandLine, first_of_each, prepare
from tests.cli.exec_kit import Place, place
from tests.cli.terminal_kit import at_terminal
from tests.text.hostile import ACTING, EVERYTHING
from tests.trace.talk import Talk
from tests.trace.test_inspect_plain import recorded

__all__ = ["place"]

MARK = "harmless"  # a word of the text: what is shown of it is shown without what acts
# Of these a part without the mark is shown, or none.
SILENT = (
    "completion",
    "sessions rename",
    "replay FILE",
    "logout",
    "inspect --findings",
    "rules explain execute",
    "check agent",
)


def assert_harmless(text: str) -> None:
    found = ACTING.search(text)
    assert found is None, text[max(0, found.start() - 200) :][:400]


def printed_alike(line: CommandLine) -> tuple[str, ...]:
    """What decides how the text of a command line is printed: one of each is run every time, make soak has all."""
    return line.verb, line.source, line.stdout


@pytest.mark.parametrize(
    "line",
    first_of_each([line for line in LINES if not line.is_interactive], printed_alike),
    ids=lambda line: line.id,
)
def test_nothing_acts_on_a_terminal(place: Place, line: CommandLine) -> None:
    verb, words = prepare(place, line, EVERYTHING)
    place.environment["NO_COLOR"] = "1"
    with at_terminal(place, verb, *words, odd=line.habit or None) as terminal:
        terminal.wait()
    text = terminal.text.replace("\r\n", "\n").replace(REDRAW, "\n")
    assert_harmless(text)
    if not line.id.startswith(SILENT) and "--html" not in line.words:
        assert MARK in text, text


@pytest.mark.parametrize("line", first_of_each(LINES, lambda line: line.verb), ids=lambda line: line.id)
def test_what_is_printed_to_a_pipe_is_harmless_too(place: Place, line: CommandLine) -> None:
    """A log that is read later on a terminal is as dangerous; what is data goes through as it is."""
    verb, words = prepare(place, line, EVERYTHING)
    done = place.run(*words, verb=verb, odd=line.habit or None)
    assert_harmless(done.err)
    if line.stdout != "data":
        assert_harmless(done.out)


HIDDEN = "a\u200bb\u2060c\ufeffd\u2028e\u202ef\u2066g\u061ch\u0085i\x7fj"


@pytest.mark.parametrize("words", [("--output", "json"), ("--output", "events"), ("--progress", "json")])
def test_json_on_a_pipe_shows_what_is_hidden_and_keeps_its_value(words: tuple[str, ...], place: Place) -> None:
    done = place.run(HIDDEN, *words, odd="plain")
    assert done.code == 0, done.err
    found = done.err if "--progress" in words else done.out
    assert not set(HIDDEN) & set(found) - set(HIDDEN) & set("abcdefghij")
    values = [json.loads(found)] if words[-1] == "json" and "--output" in words else map(json.loads, found.splitlines())
    assert HIDDEN in [text for value in values for text in (value.get("text"), value.get("result", {}).get("text"))]


def test_a_file_name_that_is_not_utf8_is_escaped_in_json(place: Place) -> None:
    done = place.run("explain", "--json", "execute", "--", "cat \udcff", verb="rules")
    assert done.code == 0, done.err
    assert done.out.isascii()
    json.loads(done.out)


def test_replay(place: Place, tmp_path: Path) -> None:
    talk = Talk()
    talk.hello(authMethods=[{"id": "\u202eharmless\x9b31m", "name": "\x1b]0;owned\x07"}])
    file = recorded(talk, tmp_path / "evil.jsonl")
    place.environment["NO_COLOR"] = "1"
    with at_terminal(place, "replay", str(file), "--as", "client", odd="has-no-login") as terminal:
        terminal.wait()
    assert MARK in terminal.text
    assert_harmless(terminal.text.replace("\r\n", "\n"))
