"""Nothing a peer wrote acts on the terminal it is shown on."""

from __future__ import annotations

import io
import re
import time
from contextlib import redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.cli.main import main
from dragoman.text.terminal import cells, clip, duration, fit, one_line, plain, size
from dragoman.trace import TraceWriter
from dragoman.trace.inspect.screen import pretty
from tests.trace.talk import Talk, started, text

ACTING = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\U000e0000-\U000e007f]"
)

CORPUS = {
    "colour": "\x1b[31mred\x1b[0m",
    "clipboard": "\x1b]52;c;ZWNobyBwd25lZA==\x07done",
    "hyperlink": "\x1b]8;;http://evil.example\x1b\\click\x1b]8;;\x1b\\",
    "title": "\x1b]0;pwned\x07x",
    "title by ST": "\x1b]2;pwned\x9cx",
    "unterminated OSC": "before\x1b]0;never ends",
    "cursor report": "\x1b[6n",
    "clear screen": "\x1b[2J\x1b[H",
    "private mode": "\x1b[?1049h",
    "device control": "\x1bP+q544e\x1b\\x",
    "application": "\x1b_Gf=100;AAAA\x1b\\x",
    "privacy": "\x1b^secret\x1b\\x",
    "start of string": "\x1bXsecret\x1b\\x",
    "8-bit CSI": "\x9b31mred",
    "8-bit OSC": "\x9d0;pwned\x07x",
    "charset": "\x1b(0lqk",
    "reset": "\x1bc",
    "backspaces": "allow\b\b\b\b\bdeny",
    "carriage return": "harmless\rrm -rf /",
    "bell": "\a\a",
    "bidi": "user\u202etxt.exe",
    "isolate": "\u2066abc\u2069",
    "tags": "a\U000e0041\U000e0042b",
    "lone surrogate": "\ud800x",
    "escape at the end": "x\x1b",
    "nested": "\x1b\x1b[31m\x1b]0;\x1b[2Jx\x07",
    "line separator": "a\u2028b",
}


@pytest.mark.parametrize("name", CORPUS)
def test_text_of_a_peer_loses_what_acts(name: str) -> None:
    for made in (plain(CORPUS[name]), one_line(CORPUS[name])):
        assert not ACTING.search(made)
    assert "\n" not in one_line(CORPUS[name])


@pytest.mark.parametrize(
    ("name", "left"),
    [
        ("colour", "red"),
        ("clipboard", "done"),
        ("hyperlink", "click"),
        ("unterminated OSC", "before0;never ends"),
        ("device control", "x"),
        ("8-bit OSC", "x"),
        ("carriage return", "harmless\nrm -rf /"),
        ("bidi", "usertxt.exe"),
        ("line separator", "a\nb"),
    ],
)
def test_what_is_left_is_the_text(name: str, left: str) -> None:
    assert plain(CORPUS[name]) == left


@given(st.text(alphabet=st.sampled_from("\x1b\x9b\x9d\x90]P[0;31m\x07\\x9c \n\taé日\u202e\ud800")))
def test_no_mix_of_pieces_acts(mixed: str) -> None:
    assert not ACTING.search(plain(mixed))
    assert not ACTING.search(one_line(mixed))


@pytest.mark.parametrize("piece", ["\x1b]", "\x9d", "\x1bP\x9b", "\x1b["])
def test_many_beginnings_without_an_end_take_no_time(piece: str) -> None:
    start = time.perf_counter()
    plain(piece * 200_000)
    assert time.perf_counter() - start < 5


def every_place(evil: str) -> Talk:
    """The text wherever a peer can put one."""
    talk = Talk()
    talk.hello(authMethods=[{"id": evil, "name": evil}])
    talk.open(evil, modes={"currentModeId": evil, "availableModes": []})
    prompt = talk.prompt(evil, text(evil))
    for half in (evil[: len(evil) // 2], evil[len(evil) // 2 :]):
        talk.say(half, session=evil)
    talk.update("tool_call", evil, toolCallId=evil, title=evil, kind=evil, status=evil, locations=[{"path": evil}])
    talk.update(evil, evil, **{evil: evil})
    talk.update("plan", evil, entries=[{"content": evil, "priority": evil, "status": evil}])
    talk.update("available_commands_update", evil, availableCommands=[{"name": evil, "description": evil}])
    talk.update("session_info_update", evil, title=evil)
    talk.reply(
        talk.permission(evil, evil, [{"optionId": evil, "name": evil, "kind": evil}]), {"outcome": {"outcome": evil}}
    )
    talk.tell(evil, {evil: evil}, by="a2c")
    talk.fail(prompt, -32603, evil)
    talk.fail(evil, -32603, evil)
    talk.frame("a2c", evil.replace("\n", "").encode(errors="replace"))
    talk.stderr(evil.encode(errors="replace").decode())
    return talk


def shown(path: Path, *words: str) -> str:
    out = io.StringIO()
    with redirect_stdout(out):
        assert main(["inspect", str(path), *words]) == 0
    return out.getvalue()


def recorded(talk: Talk, path: Path) -> Path:
    from dragoman.trace.entry import Frame, Stderr

    writer = TraceWriter(path, command=["agent"])
    for entry in talk.entries:
        if isinstance(entry, Frame):
            writer.frame(entry.dir, entry.data)
        elif isinstance(entry, Stderr):
            writer.stderr(entry.text)
    writer.close()
    return path


VIEWS = [[], ["--all"], ["--state"], ["--stats"], ["--findings"]]


@pytest.mark.parametrize("name", [name for name in CORPUS if name != "lone surrogate"])
def test_no_view_lets_anything_through(name: str, tmp_path: Path) -> None:
    talk = every_place(CORPUS[name])
    path = recorded(talk, tmp_path / "evil.jsonl")
    views = [*VIEWS, *(["--message", str(number + 1)] for number in range(len(talk.entries)))]
    for words in views:
        printed = shown(path, *words)
        assert not ACTING.search(printed), words
        assert printed


def test_message_in_full_shows_escapes_instead_of_dropping_them() -> None:
    data = '{"a":"\u202e\x9b31m","b":"\\u001b[0m"}'.encode()
    made = pretty(data)
    assert "\\u202e\\u009b31m" in made
    assert "\\u001b[0m" in made
    assert not ACTING.search(made)


def test_terminal_without_colour_gets_no_escape_at_all(tmp_path: Path) -> None:
    assert "\x1b" not in shown(recorded(started(), tmp_path / "a.jsonl"))


@pytest.mark.parametrize(
    ("said", "width"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("👍", 2), ("ﬁ", 1), ("", 0), ("\u200b", 0)]
)
def test_width_is_counted_in_columns(said: str, width: int) -> None:
    assert cells(said) == width


@given(st.text(), st.integers(1, 30))
def test_cut_text_never_takes_more_room_than_there_is(said: str, width: int) -> None:
    assert cells(clip(one_line(said), width)) <= width
    assert cells(fit(one_line(said), width)) == width


def test_sizes_and_spans_fit_their_columns() -> None:
    shown_sizes = [size(each) for each in (0, 999, 1000, 99_949, 99_951, 999_499, 999_500, 10**9, 10**13)]
    assert shown_sizes == ["0", "999", "1.0k", "99.9k", "100k", "999k", "1.0M", "1.0G", "10000G"]
    spans = [duration(each) for each in (0.0, 0.0004, 0.0123, 0.9994, 1, 99.9, 100, 3599, 3600 * 5 + 120)]
    assert spans == ["0.0ms", "0.4ms", "12ms", "999ms", "1.0s", "99.9s", "1m40s", "59m59s", "5h02m"]
