"""`dragoman sessions show` and `export`: one session, on the terminal or as a document."""

from __future__ import annotations

import os
import shutil
import sys
from typing import TYPE_CHECKING, Final

from dragoman.cli import exits
from dragoman.cli.console import json_text, uses_colour, write_note
from dragoman.cli.sessions.history import read_history
from dragoman.cli.sessions.known import Scope, document
from dragoman.text.colour import BOLD, DIM, Painter

if TYPE_CHECKING:
    from dragoman.cli.command import CliCall
    from dragoman.cli.sessions.history import SessionHistory

_WIDTH_WITHOUT_TERMINAL: Final = 100
_WIDEST: Final = 120  # longer lines of text are hard to read
_ENDINGS: Final = {".md": "md", ".markdown": "md", ".html": "html", ".htm": "html", ".json": "json"}


def show_session(call: CliCall) -> int:
    import asyncio

    history = asyncio.run(read_history(Scope(call), call.given.id))
    if call.given.json:
        sys.stdout.write(json_text(_json(history)))
        return exits.OK
    from dragoman.text.terminal import one_line
    from dragoman.view.lines import lines_of

    paint = Painter(uses_colour(sys.stdout))
    is_terminal = sys.stdout.isatty()
    width = min(_WIDEST, shutil.get_terminal_size().columns) if is_terminal else _WIDTH_WITHOUT_TERMINAL
    lines = [paint(one_line(history.title), BOLD)]
    lines += [paint(f"{name}: {one_line(value)}", DIM) for name, value in history.facts() if value]
    lines += ["", *lines_of(history.blocks(), width, paint, is_full=call.given.full)]
    sys.stdout.writelines(f"{line}\n" for line in lines)
    return exits.OK


def export_session(call: CliCall) -> int:
    import asyncio

    given = call.given
    form = given.format or _ENDINGS.get(os.path.splitext(given.o or "")[1].lower(), "md")
    text = _document(asyncio.run(read_history(Scope(call), given.id)), form)
    if given.o is None:
        if sys.stdout.isatty():
            from dragoman.text.terminal import plain

            text = plain(text)
        sys.stdout.write(text)
        return exits.OK
    # A conversation is private: only its owner may read the file.
    with open(given.o, "w", encoding="utf-8", opener=lambda path, flags: os.open(path, flags, 0o600)) as file:
        file.write(text)
    write_note(f"wrote {given.o}")
    return exits.OK


def _document(history: SessionHistory, form: str) -> str:
    if form == "html":
        from dragoman.view.html import page_of

        return page_of(history.blocks(), history.title, history.facts())
    if form == "json":
        return _json(history).decode() + "\n"
    from dragoman.view.markdown import to_markdown

    return to_markdown(history.blocks(), history.title, history.facts())


def _json(history: SessionHistory) -> bytes:
    import msgspec

    from dragoman.text.secrets import known_keys

    whole = {"schema": "dragoman.session/1", **document(history.session), "blocks": history.blocks()}
    return known_keys.mask_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=2))
