"""Nothing a peer wrote acts on the terminal it is shown on."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path

import pytest

from dragoman.cli.main import main
from dragoman.trace import TraceWriter
from dragoman.trace.inspect.screen import pretty
from tests.text.hostile import ACTING, CORPUS
from tests.trace.talk import Talk, started, text


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
    talk.notify(evil, {evil: evil}, by="a2c")
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
